"""Test that an export reports lost offsets as damage, with Spark's engine and with threads."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from golden_cases import GOLDEN, case

import kafkafmt

SEGMENTS = GOLDEN / "kafka-4.3.1" / "segments" / "log"
TOPIC = "segments-time"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Write a log without the segment of the offsets 9 to 17, and without its last batch."""
    folder = shutil.copytree(SEGMENTS, tmp_path / "in")
    for path in (folder / f"{TOPIC}-0").glob(f"{9:020}.*"):
        path.unlink()
    last = max((folder / f"{TOPIC}-0").glob("*.log"))
    last.write_bytes(last.read_bytes()[:-10])
    return folder


def test_lost_offsets_are_in_the_report_and_in_the_quarantine(source: Path, tmp_path: Path) -> None:
    report = kafkafmt.export(source, tmp_path / "out", topics=TOPIC, engine="local")
    (partition,) = report.partitions
    found = [(d.code, d.length, d.first_offset, d.last_offset) for d in partition.quarantined.damaged]
    assert found == [("missing_segment", 0, 9, 17), ("missing_end", 0, 199, 199)]
    assert (report.ok, partition.written.records) == (False, 190)
    rows = pq.read_table(tmp_path / "out" / "quarantine").to_pylist()
    assert [(r["error"], r["first_offset"], r["last_offset"], r["bytes"]) for r in rows] == [
        ("missing_segment", 9, 17, b""),
        ("missing_end", 199, 199, b""),
    ]


def test_lost_offsets_fail_an_export_that_allows_no_damage(source: Path, tmp_path: Path) -> None:
    with pytest.raises(kafkafmt.DamagedLogError, match="offsets 9 to 17"):
        kafkafmt.export(source, tmp_path / "out", topics=TOPIC, engine="local", on_error="fail")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("start", "end", "codes"), [(0, 9, []), (12, 15, ["missing_segment"]), (18, 199, []), (18, 300, ["missing_end"])]
)
def test_only_selected_lost_offsets_are_reported(
    source: Path, tmp_path: Path, start: int, end: int, codes: list[str]
) -> None:
    report = kafkafmt.export(source, tmp_path / "out", topics=TOPIC, engine="local", start=start, end=end)
    assert [d.code for d in report.partitions[0].quarantined.damaged] == codes


def test_offsets_in_remote_storage_are_named(tmp_path: Path) -> None:
    report = kafkafmt.export(case("tiered").roots, tmp_path / "out", topics="tiered", engine="local")
    assert report.ok
    assert any("tiered-0: offsets 0 to 415 are in remote storage" in line for line in report.skipped.messages)
