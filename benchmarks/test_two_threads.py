"""Measure commands in two threads, compared with the same commands in one thread.

The topic has two partitions with one segment each, or one partition with 8 segments. Both have the
same 512 MiB of records, before compression. Wall-clock time is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import inputs
import pytest
import report
from conftest import put

import kafkafmt
from kafkafmt.exporting import ExportOptions
from kafkafmt.exporting.job import Export
from kafkafmt.exporting.local_engine import LocalEngine
from kafkafmt.log import discover
from kafkafmt.records import assign_offsets

ROUNDS = 7
SEGMENT = 64 << 20
SHAPES = {"two partitions": (2, 4), "one partition of 8 segments": (1, 8)}


def write_topic(root: Path, codec: str, shape: str) -> Path:
    partitions, segments = SHAPES[shape]
    data = bytearray(inputs.make("a", codec, SEGMENT))
    for partition in range(partitions):
        (folder := root / f"t-{partition}").mkdir(parents=True)
        pieces, offset = [], 0
        for _ in range(segments):
            name = f"{offset:020}.log"
            offset = assign_offsets(data, offset)
            pieces.append((name, bytes(data)))
        if partitions > 1:  # one segment
            pieces = [(pieces[0][0], b"".join(content for _, content in pieces))]
        for name, content in pieces:
            (folder / name).write_bytes(content)
    return root


def verify(root: Path, threads: int, _: Path) -> int:
    return sum(p.records_recovered for p in kafkafmt.verify(root, threads=threads).partitions)


def stats(root: Path, threads: int, _: Path) -> int:
    return sum(t.content.records or 0 for t in kafkafmt.stats(root, deep=True, threads=threads).topics)


def export(root: Path, threads: int, out: Path) -> int:
    found = discover([root])
    options = ExportOptions((root,), out, overwrite=True)
    return Export(found, found.partitions, options).run(LocalEngine(threads)).written.records


CASES = [
    ("verify", verify, "lz4"),
    ("verify", verify, "zstd"),
    ("stats --deep", stats, "lz4"),
    ("export --engine local", export, "zstd"),
]


@pytest.mark.parametrize("shape", list(SHAPES))
@pytest.mark.parametrize(("name", "command", "codec"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_two_threads(
    benchmark: Any, tmp_path: Path, name: str, command: Callable[[Path, int, Path], int], codec: str, shape: str
) -> None:
    benchmark.group = "two threads"
    root, out = write_topic(tmp_path / "logs", codec, shape), tmp_path / "out"
    records = command(root, 1, out)
    assert command(root, 2, out) == records
    one: list[float] = []

    def with_one() -> None:
        started = time.perf_counter()
        command(root, 1, out)
        one.append(time.perf_counter() - started)

    benchmark.pedantic(lambda: command(root, 2, out), setup=with_one, rounds=ROUNDS, iterations=1)
    two = benchmark.stats.stats.data
    low, ratio, high = report.quartiles([a / b for a, b in zip(one, two, strict=True)])
    ours, peer = (report.quartiles([records / s / 1e6 for s in seconds])[1] for seconds in (two, one))
    case = f"{name}, {codec}, {shape}"
    put(benchmark, report.Row("two threads", case, ours, "one thread", peer, "M records/s", ratio, low, high))
