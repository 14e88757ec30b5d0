"""Check `stats`, `diff` and the export in threads with many partitions, segments, batches, keys and differences."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from building import ABORT, TRANSACTIONAL, batch, compress, control_batch, message, mutate, record, simple_batch

import kafkafmt
from kafkafmt.log import PartitionLog

from .growth import grows_linearly, lines_of

NUMBER = itertools.count()


def write(root: Path, segments: list[tuple[int, bytes]], partitions: int = 1) -> Path:
    """Write a new log directory. All partitions have the same segments, as (base offset, bytes)."""
    directory = root / f"{next(NUMBER)}"
    for partition in range(partitions):
        folder = directory / f"t-{partition}"
        folder.mkdir(parents=True)
        for base, data in segments:
            (folder / f"{base:020}.log").write_bytes(data)
    return directory


def produced(offset: int, producer: int, key: bytes = b"k", **fields: Any) -> bytes:
    sequence = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0}
    return batch([record(0, key=key)], base_offset=offset, **{**sequence, **fields})


def keys_and_producers(n: int) -> list[tuple[int, bytes]]:
    return [(0, b"".join(produced(i, i, b"k%d" % i) for i in range(n)))]


def many_segments(n: int) -> list[tuple[int, bytes]]:
    return [(i, produced(i, 7)) for i in range(n)]


def damaged(n: int) -> list[tuple[int, bytes]]:
    parts = [simple_batch([b"v"], i) for i in range(2 * n)]
    return [(0, b"".join(mutate(p, len(p) - 1, b"\xee") if i % 2 else p for i, p in enumerate(parts)))]


def aborted(n: int) -> list[tuple[int, bytes]]:
    pairs = [
        (produced(2 * i, i, flags=TRANSACTIONAL), control_batch(ABORT, base_offset=2 * i + 1, producer_id=i))
        for i in range(n)
    ]
    return [(0, b"".join(part for pair in pairs for part in pair))]


SHAPES = [keys_and_producers, many_segments, damaged, aborted]


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_stats_grow_linearly(shape: Any, deep: bool, tmp_path: Path) -> None:
    def work(n: int) -> Counter[str]:
        log = write(tmp_path, shape(n))
        return lines_of(lambda: kafkafmt.stats(log, deep=deep, threads=1))

    grows_linearly(60, work)


def test_stats_grow_linearly_with_partitions(tmp_path: Path) -> None:
    def work(n: int) -> Counter[str]:
        log = write(tmp_path, many_segments(1), partitions=n)
        return lines_of(lambda: kafkafmt.stats(log, threads=1))

    grows_linearly(20, work)


@pytest.mark.parametrize("shape", SHAPES)
def test_diff_grows_linearly_if_the_segments_have_other_boundaries(shape: Any, tmp_path: Path) -> None:
    """The second copy has the same batches in a single segment."""

    def work(n: int) -> Counter[str]:
        segments = shape(n)
        copies = [write(tmp_path, segments), write(tmp_path, [(0, b"".join(data for _, data in segments) + later(n))])]
        return lines_of(lambda: kafkafmt.diff(*copies, threads=1))

    def later(n: int) -> bytes:
        return simple_batch([b"later"], 2 * n)

    grows_linearly(60, work)


def test_diff_grows_linearly_with_differences(tmp_path: Path) -> None:
    """In every second batch, the records and the leader epoch differ between the copies."""

    def work(n: int) -> Counter[str]:
        copies = [
            write(tmp_path, [(0, b"".join(one(i, value if i % 2 else b"same") for i in range(2 * n)))])
            for value in (b"a", b"bb")
        ]
        return lines_of(lambda: kafkafmt.diff(*copies, threads=1))

    def one(offset: int, value: bytes) -> bytes:
        return simple_batch([value], offset, leader_epoch=len(value))

    grows_linearly(60, work)


def test_diff_grows_linearly_with_damage(tmp_path: Path) -> None:
    """Two of three batches are damaged in the first copy, and one of five in the second copy."""

    def work(n: int) -> Counter[str]:
        batches = [simple_batch([b"value"], i) for i in range(15 * n)]
        damaged = [mutate(b, len(b) - 2, b"?") for b in batches]
        first = b"".join(damaged[i] if i % 3 else b for i, b in enumerate(batches))
        second = b"".join(b if i % 5 else damaged[i] for i, b in enumerate(batches))
        copies = [write(tmp_path, [(0, data)]) for data in (first, second)]
        return lines_of(lambda: kafkafmt.diff(*copies, threads=1))

    grows_linearly(20, work)


@pytest.mark.parametrize("damage", ["offsets", "CRCs"])
def test_diff_reads_the_records_of_many_wrapper_messages_at_once(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a damaged wrapper message, the first offset of the next message is unknown. Records must be compared."""
    passes: list[tuple[int, int]] = []
    parts = PartitionLog.parts

    def counting(self: PartitionLog, start: int, end: int, *arguments: Any, **named: Any) -> Any:
        passes.append((start, end))
        return parts(self, start, end, *arguments, **named)

    monkeypatch.setattr(PartitionLog, "parts", counting)
    messages = [
        message(1, None, compress(1, message(1, None, b"v", offset=0)), offset=i, attributes=1) for i in range(300)
    ]
    changed = [mutate(m, 6, b"\xee") if damage == "offsets" else mutate(m, len(m) - 1, b"?") for m in messages]
    file = [changed[i] if i % 5 == 0 else m for i, m in enumerate(messages)]
    copies = [write(tmp_path, [(0, b"".join(part))]) for part in (messages, file)]
    assert len(kafkafmt.diff(*copies, threads=1).partitions[0].differences) > 50
    assert len(passes) == 4


def test_diff_grows_linearly_with_partitions(tmp_path: Path) -> None:
    def work(n: int) -> Counter[str]:
        copies = [write(tmp_path, many_segments(count), partitions=n) for count in (1, 2)]
        return lines_of(lambda: kafkafmt.diff(*copies, threads=1))

    grows_linearly(20, work)


@pytest.mark.parametrize("shape", SHAPES)
def test_export_in_threads_grows_linearly(shape: Any, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")

    def work(n: int) -> Counter[str]:
        log, out = write(tmp_path, shape(n)), tmp_path / f"out-{next(NUMBER)}"
        return lines_of(lambda: kafkafmt.export(log, out, engine="local"))

    grows_linearly(60, work)


def test_export_in_threads_grows_linearly_with_partitions(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")

    def work(n: int) -> Counter[str]:
        log, out = write(tmp_path, many_segments(1), partitions=n), tmp_path / f"out-{next(NUMBER)}"
        return lines_of(lambda: kafkafmt.export(log, out, engine="local"))

    grows_linearly(10, work)
