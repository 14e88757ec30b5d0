"""Check that searches in several threads return and report exactly what a search in one thread does."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import damaged_logs
import pytest
import transactional_logs
from building import LZ4, batch, record
from command import inside
from golden_cases import CASES, Case

import kafkafmt
from kafkafmt.log.finding import find
from kafkafmt.log.reading import pieces, single_pass

SEARCHES: list[dict[str, Any]] = [
    {"on_error": "skip", "control": True},
    {"value_regex": "[0-4]"},
    {"value_regex": "[05]", "on_error": "skip", "isolation": "read_committed"},
    {"key_regex": "1", "on_error": "skip", "limit": 7},
    {"value_json": {"a": 1}, "on_error": "skip", "partial": True, "below_log_start": True},
    {"value_json": {"a": 1}, "limit": 3},
    {"limit": 25, "on_error": "skip"},
    {"limit": 0},
]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Divide even small segments into many pieces. Check that all threads end."""
    monkeypatch.setattr(find, "STORED_BYTES", 1)
    monkeypatch.setattr(find, "FOUND_BYTES", 1000)
    monkeypatch.setattr(single_pass, "RANGE_BYTES", 700)
    monkeypatch.setattr(pieces, "SMALL_BYTES", -1)
    yield
    assert not [t for t in threading.enumerate() if t.name.startswith("kafkafmt-reader")]


def outcome(roots: list[Path], threads: int, search: dict[str, Any]) -> list[object]:
    """Return the records of each topic and partition, the errors, the reported damage and the messages."""
    log = kafkafmt.open(*roots, replicas="longest")
    results: list[object] = []
    for topic in (log[name] for name in log.topics):
        rows: list[object] = []
        try:
            rows.extend((p.partition, r) for p, r in topic.find(threads=threads, **search))
        except (kafkafmt.KafkaFormatError, OSError) as error:
            rows.append((type(error), str(error)))
        results += [rows, topic.damaged]
        for p in topic.partitions:
            rows = []
            try:
                rows.extend(p.find(threads=threads, **search))
            except (kafkafmt.KafkaFormatError, OSError) as error:
                rows.append((type(error), str(error)))
            results += [rows, p.damaged]
    return [*results, log.messages]


def check(roots: list[Path], searches: list[dict[str, Any]] = SEARCHES) -> None:
    for search in searches:
        expected = outcome(roots, 1, search)
        assert outcome(roots, 2, search) == expected, search
        assert outcome(roots, 5, search) == expected, search


@pytest.mark.parametrize("case", CASES, ids=str)
def test_threads_do_not_change_what_is_found_in_golden_logs(case: Case) -> None:
    check(case.roots, SEARCHES[2:4])


@pytest.mark.parametrize("seed", range(4))
def test_threads_do_not_change_records_or_damage_of_damaged_logs(seed: int, tmp_path: Path) -> None:
    root = tmp_path / "logs"
    damaged_logs.write_damaged_directory(root, Random(seed))
    check([root])


@pytest.mark.parametrize("seed", range(2))
def test_threads_do_not_change_records_of_transactional_logs(seed: int, tmp_path: Path) -> None:
    chance = Random(seed)
    partition = transactional_logs.write_transactions(tmp_path, chance)
    check([tmp_path])
    transactional_logs.damage(partition, chance)
    check([tmp_path])


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Return a partition directory with three segments and offset indexes with an entry for each batch."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    for base in (0, 400, 800):
        data, index = b"", b""
        for first in range(base, base + 400, 4):
            if data:
                index += (first + 3 - base).to_bytes(4, "big") + len(data).to_bytes(4, "big")
            records = [record(i, value=b"value %d" % (first + i)) for i in range(4)]
            data += batch(records, base_offset=first, codec=LZ4)
        (folder / f"{base:020}.log").write_bytes(data)
        (folder / f"{base:020}.index").write_bytes(index)
    return folder


@pytest.mark.parametrize("limit", [1, 37, 500, 1200])
def test_damage_after_the_limit_is_not_reported(limit: int, partition: Path) -> None:
    for segment in partition.glob("*.log"):
        content = bytearray(segment.read_bytes())
        for at in range(300, len(content), len(content) // 7):
            content[at] ^= 4
        segment.write_bytes(content)
    check([partition.parent], [{"on_error": "skip", "limit": limit, "value_regex": regex} for regex in ("", "7$")])


def test_idle_search_reads_a_bounded_number_of_pieces(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads do not search the whole log while the caller does not ask for records."""
    made: list[int] = []
    decoded = pieces.PartitionPieces._decoded

    def counted(*arguments: Any) -> Iterator[Any]:
        made.append(1)
        yield from decoded(*arguments)

    monkeypatch.setattr(pieces.PartitionPieces, "_decoded", counted)
    found = iter(kafkafmt.open(partition)["t", 0].find(value_regex="value 1$", threads=2))
    assert next(found).offset == 1
    threading.Event().wait(0.2)
    assert len(made) < 10
    assert list(found) == []
    assert len(made) > 20


@pytest.mark.parametrize(
    "arguments",
    [
        ["--grep", "[05]", "--on-error", "skip"],
        ["--grep", "[05]"],
        ["--grep", "7", "--on-error", "skip", "--limit", "40", "--format", "%p %o %s\\n"],
        ["--value-json", "a=1", "--on-error", "skip"],
        ["--on-error", "skip", "--partial", "--format", "json"],
    ],
)
def test_threads_do_not_change_the_output_of_cat(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "logs"
    damaged_logs.write_damaged_directory(root, Random(1))
    outputs = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(os, "cpu_count", lambda threads=threads: threads)
        done = inside("cat", root, *arguments)
        outputs.append((done.returncode, done.stdout, done.stderr))
    assert outputs[1] == outputs[0]
    assert outputs[2] == outputs[0]
