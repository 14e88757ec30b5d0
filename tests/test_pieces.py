"""Check that several threads, which decode pieces of partitions, return exactly what one thread returns."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import damaged_logs
import numpy as np
import pytest
import transactional_logs
from building import LZ4, batch, record
from golden_cases import CASES, Case

import kafkafmt
from kafkafmt._backend import core
from kafkafmt.arrow import columns
from kafkafmt.log.reading import pieces, single_pass
from kafkafmt.types import BATCH_DTYPE

Readable = kafkafmt.Topic | kafkafmt.Partition
COLUMNS = ["topic", "partition", "offset", "timestampMillis", "timestampType", "key", "value", "headers"]
SELECTIONS: list[dict[str, Any]] = [
    {},
    {"on_error": "skip"},
    {"on_error": "skip", "isolation": "read_committed"},
    {"isolation": "read_committed", "control": True},
    {"on_error": "skip", "start": 7, "end": -3, "below_log_start": True},
    {"on_error": "skip", "partial": True, "control": True},
    {"on_error": "skip", "start_time": 1_600_000_000_000},
    {"limit": 11, "on_error": "skip"},
]


@pytest.fixture(params=[1, 5000], ids=["tiny pieces", "small pieces"])
def small_pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide even small segments into many pieces."""
    monkeypatch.setattr(columns, "TARGET_BYTES", request.param)
    monkeypatch.setattr(single_pass, "RANGE_BYTES", 700)
    monkeypatch.setattr(pieces, "SMALL_BYTES", -1)


@pytest.fixture(autouse=True)
def no_thread_remains() -> Iterator[None]:
    yield
    assert not [t for t in threading.enumerate() if t.name.startswith("kafkafmt-reader")]


def outcome(source: Readable, threads: int, selection: dict[str, Any]) -> tuple[object, ...]:
    """Return the rows, the error that ended the iteration, and the reported damage."""
    rows: list[dict[str, Any]] = []
    error = None
    try:
        for found in source.to_batches(COLUMNS, threads=threads, **selection):
            assert found.num_rows
            rows += found.to_pylist()
    except (kafkafmt.KafkaFormatError, OSError) as raised:
        error = type(raised), str(raised)
    return rows, error, source.damaged


def check_threads(roots: list[Path], selections: list[dict[str, Any]] = SELECTIONS) -> None:
    # The log is opened again for each reader, because a log keeps the plans of its segments.
    log = kafkafmt.open(*roots, replicas="longest")
    first = next(iter(log.partitions))
    for selection in selections:
        keys: list[Any] = [*log.topics, (first.topic, first.partition)]
        expected = kafkafmt.open(*roots, replicas="longest")
        outcomes = [outcome(expected[key], 1, selection) for key in keys]
        for threads in (2, 5):
            again = kafkafmt.open(*roots, replicas="longest")
            assert [outcome(again[key], threads, selection) for key in keys] == outcomes, (threads, selection)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_threads_do_not_change_the_rows_of_golden_logs(case: Case) -> None:
    check_threads(case.roots, SELECTIONS[1:3])


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("seed", range(4))
def test_threads_do_not_change_rows_or_damage_of_damaged_logs(tmp_path: Path, seed: int) -> None:
    root = tmp_path / "logs"
    damaged_logs.write_damaged_directory(root, Random(seed))
    check_threads([root])


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("seed", range(2))
def test_threads_do_not_change_rows_or_damage_of_transactional_logs(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    partition = transactional_logs.write_transactions(tmp_path, chance)
    check_threads([tmp_path])
    transactional_logs.damage(partition, chance)
    check_threads([tmp_path])


@pytest.fixture
def indexed(tmp_path: Path) -> Path:
    """Return a partition directory with three segments and offset indexes with an entry for each batch."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    for base in (0, 400, 800):
        data, index = b"", b""
        for first in range(base, base + 400, 4):
            if data:
                index += (first + 3 - base).to_bytes(4, "big") + len(data).to_bytes(4, "big")
            data += batch([record(i) for i in range(4)], base_offset=first, codec=LZ4)
        (folder / f"{base:020}.log").write_bytes(data)
        (folder / f"{base:020}.index").write_bytes(index)
    return folder


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("index", ["right", "missing", "shifted", "random", "of another segment"])
@pytest.mark.parametrize("damaged", [False, True])
def test_threads_do_not_change_rows_if_the_index_is_wrong(indexed: Path, index: str, damaged: bool) -> None:
    path = indexed / f"{400:020}.index"
    data = bytearray(path.read_bytes())
    if index == "missing":
        path.unlink()
    elif index == "shifted":
        path.write_bytes(data[:4] + data[12:])
    elif index == "random":
        path.write_bytes(Random(5).randbytes(len(data)))
    elif index == "of another segment":
        path.write_bytes(data[: len(data) // 2])
    if damaged:
        segment = indexed / f"{400:020}.log"
        content = bytearray(segment.read_bytes())
        for at in (len(content) // 3, len(content) // 2):
            content[at] ^= 4
        segment.write_bytes(content)
    check_threads([indexed.parent])


@pytest.mark.usefixtures("small_pieces")
def test_batches_whose_records_are_damaged_are_reported_once_and_in_order(indexed: Path) -> None:
    # The CRC of each damaged batch is right, so that only the decoder finds the damage.
    segment = indexed / f"{400:020}.log"
    content = bytearray(segment.read_bytes())
    table = np.zeros(200, BATCH_DTYPE)
    count = core.scan_batches(bytes(content), table).count
    for row in table[:count:7]:
        at, end = int(row["position"]), int(row["position"]) + int(row["size"])
        content[at + 61 : at + 65] = b"none"  # the magic number of LZ4
        content[at + 17 : at + 21] = core.crc32c(bytes(content[at + 21 : end])).to_bytes(4, "big")
    segment.write_bytes(content)
    check_threads([indexed.parent])
    log = kafkafmt.open(indexed)
    rows = log["t"].to_arrow(threads=3, on_error="skip").num_rows
    damaged = log["t", 0].damaged
    assert len(damaged) > 5
    assert [d.first_offset for d in damaged] == sorted(d.first_offset or 0 for d in damaged)
    assert rows + sum(d.records or 0 for d in damaged) == 1200


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("threads", [2, 16])
def test_early_end_stops_all_threads(indexed: Path, threads: int) -> None:
    batches = kafkafmt.open(indexed)["t", 0].to_batches(threads=threads)
    assert next(batches).num_rows
    close = getattr(batches, "close")  # noqa: B009
    close()
    assert list(batches) == []


@pytest.mark.usefixtures("small_pieces")
def test_sixteen_threads_hold_a_bounded_number_of_pieces(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    decoded = pieces.PartitionPieces._decoded

    def counted(*arguments: Any) -> Iterator[Any]:
        made.append(1)
        yield from decoded(*arguments)

    monkeypatch.setattr(pieces.PartitionPieces, "_decoded", counted)
    threads = 16
    for delivered, _ in enumerate(kafkafmt.open(indexed)["t", 0].to_batches(threads=threads), 1):
        threading.Event().wait(0.002)
        assert len(made) - delivered <= 3 * threads
    assert delivered > 4


def test_small_partition_needs_no_threads(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "read_parallel", None)
    assert kafkafmt.open(indexed)["t", 0].to_arrow(threads=4).num_rows == 1200
    assert kafkafmt.open(indexed)["t"].to_arrow().num_rows == 1200
