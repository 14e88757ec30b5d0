"""Test that the data source and the export report damage at the end of a log at read_committed."""

from __future__ import annotations

import itertools
import struct
from pathlib import Path

import pytest
from salvaging import abort, corrupt, data, partition
from source_rows import offsets, read

import kafkafmt


@pytest.fixture(params=["last batches", "last segment"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    root = tmp_path / "log"
    if request.param == "last batches":
        partition(root, data(0), data(1), corrupt(data(2)))
    else:
        partition(root, data(0), data(1))
        partition(root, corrupt(data(2)), base=2)
    return root


@pytest.mark.parametrize("split_bytes", ["1", "100000"])
def test_failfast_reports_damage_at_the_log_end_at_read_committed(log: Path, split_bytes: str) -> None:
    options = {"kafka.isolation.level": "read_committed", "splitBytes": split_bytes}
    assert offsets(read(log, mode="PERMISSIVE", **options)) == {("t", 0): [0, 1]}
    with pytest.raises(kafkafmt.DamagedLogError):
        read(log, mode="FAILFAST", **options)


def test_export_quarantines_damage_at_the_log_end_at_read_committed(log: Path, tmp_path: Path) -> None:
    report = kafkafmt.export(log, tmp_path / "out", engine="local", isolation="read_committed")
    assert (report.ok, report.written.records, report.quarantined.spans) == (False, 2, 1)
    (found,) = report.partitions[0].quarantined.damaged
    assert found == kafkafmt.verify(log).partitions[0].damaged[0]


def committed_by_spark(root: Path, split_bytes: int) -> list[int]:
    options = {"kafka.isolation.level": "read_committed", "splitBytes": str(split_bytes)}
    return offsets(read(root, mode="PERMISSIVE", **options))["t", 0]


def committed(root: Path) -> list[int]:
    records = kafkafmt.open(root)["t", 0].records(isolation="read_committed", on_error="skip")
    return [record.offset for record in records]


def index(root: Path, batches: list[bytes]) -> None:
    """Write an offset index with an entry for each batch except the first. Each batch has one offset."""
    positions = itertools.accumulate(map(len, batches[:-1]))
    entries = b"".join(struct.pack(">ii", i, position) for i, position in enumerate(positions, 1))
    (root / "t-0" / f"{0:020}.index").write_bytes(entries)


@pytest.mark.parametrize("split_bytes", [1, 1000, 100_000])
def test_batches_that_a_plan_omits_are_not_delivered_as_committed(tmp_path: Path, split_bytes: int) -> None:
    """A plan omits valid batches between two damaged places, so the outcomes of their transactions are not known."""
    batches = [data(0), data(1), data(2), data(3), data(4, 7), abort(5), data(6), data(7), data(8)]
    damaged = list(batches)
    damaged[1] = damaged[1][:61] + bytes(len(damaged[1]) - 61)
    damaged[2] = bytes(20) + damaged[2][20:]
    damaged[7] = bytes(20) + damaged[7][20:]
    partition(tmp_path, *damaged)
    index(tmp_path, batches)
    assert committed(tmp_path) == [0, 8]
    assert committed_by_spark(tmp_path, split_bytes) == [0, 8]


def test_transactions_of_the_whole_log_are_kept_if_a_start_is_damaged(tmp_path: Path) -> None:
    """Copied batches at the start of the segment have offsets after the last stable offset."""
    batches = [data(0), data(1), data(2, 7), abort(3), data(4), data(5), data(6, 7), data(7, 7)]
    partition(tmp_path, batches[6], batches[7], *batches[2:])
    index(tmp_path, batches)
    for split_bytes in (1, 200, 100_000):
        assert committed_by_spark(tmp_path, split_bytes) == committed(tmp_path) == [4, 5]
