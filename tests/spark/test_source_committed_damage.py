"""Test that the data source and the export report damage at the end of a log at read_committed."""

from __future__ import annotations

from pathlib import Path

import pytest
from salvaging import corrupt, data, partition
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
