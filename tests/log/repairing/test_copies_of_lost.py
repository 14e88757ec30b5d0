"""Test that copies of logs with lost offsets verify without damage, and that each command names the loss."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from golden_cases import CASES, GOLDEN, LEGACY, Case
from salvaging import abort, corrupt, data, partition

import kafkafmt
from kafkafmt.log.formats.checkpoints import read_offset_checkpoint

SEGMENTS = GOLDEN / "kafka-4.3.1" / "segments" / "log"
CLEANER = "cleaner-offset-checkpoint"
TOPIC = "segments-time"


def problems(path: Path) -> list[str]:
    found = kafkafmt.verify(path)
    assert not found.unreadable
    return [d.code for p in found.partitions for d in p.damaged] + [
        f.code for p in found.partitions for f in p.findings if f.code.startswith("missing")
    ]


def without_segment(folder: Path) -> Path:
    shutil.copytree(SEGMENTS, folder)
    for path in (folder / f"{TOPIC}-0").glob(f"{9:020}.*"):
        path.unlink()
    return folder


def without_end(folder: Path) -> Path:
    shutil.copytree(SEGMENTS, folder)
    last = max((folder / f"{TOPIC}-0").glob("*.log"))
    last.write_bytes(last.read_bytes()[:-10])
    return folder


@pytest.mark.parametrize(("damage", "code"), [(without_segment, "missing_segment"), (without_end, "missing_end")])
def test_salvage_and_rewrite_name_the_loss_and_their_copies_have_none(
    damage: object, code: str, tmp_path: Path
) -> None:
    assert callable(damage)
    source = damage(tmp_path / "in")
    report = kafkafmt.salvage(source, tmp_path / "salvaged", topics=TOPIC)
    assert (report.exit_code, [d.code for d in report.partitions[0].source.damaged]) == (1, [code])
    with pytest.raises(kafkafmt.DamagedLogError):
        kafkafmt.rewrite(source, tmp_path / "rewritten", topics=TOPIC, codec="zstd")
    kafkafmt.rewrite(source, tmp_path / "rewritten", topics=TOPIC, codec="zstd", on_error="skip")
    merged = kafkafmt.salvage([source, shutil.copytree(source, tmp_path / "in2")], tmp_path / "merged",
                              topics=TOPIC, replicas="merge")  # fmt: skip
    assert (merged.exit_code, len(merged.partitions[0].source.damaged)) == (1, 1)
    for copy in ("salvaged", "rewritten", "merged"):
        assert problems(tmp_path / copy) == []
        assert len(list(kafkafmt.open(tmp_path / copy)[TOPIC, 0])) in (191, 199)


def test_merge_fills_a_missing_segment(tmp_path: Path) -> None:
    """Also if the replica is a salvaged copy, whose missing offsets are no loss."""
    source = without_segment(tmp_path / "in")
    kafkafmt.salvage(source, tmp_path / "salvaged", topics=TOPIC)
    for replica in (source, tmp_path / "salvaged"):
        merged = kafkafmt.salvage([replica, SEGMENTS], tmp_path / "out", topics=TOPIC, replicas="merge")
        assert merged.exit_code == 0
        assert len(list(kafkafmt.open(tmp_path / "out")[TOPIC, 0])) == 200
        shutil.rmtree(tmp_path / "out")


def test_only_a_copy_with_gaps_gets_a_cleaner_entry(tmp_path: Path) -> None:
    kafkafmt.salvage(SEGMENTS, tmp_path / "whole")
    kafkafmt.salvage(without_segment(tmp_path / "in"), tmp_path / "out")
    entries = [read_offset_checkpoint((tmp_path / name / CLEANER).read_text(), CLEANER) for name in ("whole", "out")]
    assert entries == [{}, {(TOPIC, 0): 0}]


def test_entry_for_gaps_does_not_hide_that_a_marker_is_lost(tmp_path: Path) -> None:
    """The lost segment contains the abort marker of the first transaction. A later transaction was committed."""
    partition(tmp_path / "in", data(0, 7))
    partition(tmp_path / "in", corrupt(abort(1)), base=1)
    partition(tmp_path / "in", data(2, 7), base=2)
    kafkafmt.salvage(tmp_path / "in", tmp_path / "out")
    assert problems(tmp_path / "out") == []
    (copy,) = kafkafmt.open(tmp_path / "out").partitions
    assert 0 not in [r.offset for r in copy.records(isolation="read_committed")]


@pytest.mark.parametrize("golden", [*CASES, *LEGACY], ids=str)
def test_salvaged_golden_logs_lose_nothing(golden: Case, tmp_path: Path) -> None:
    for i, root in enumerate(golden.roots):
        kafkafmt.salvage(root, tmp_path / str(i))
        assert problems(tmp_path / str(i)) == []


def test_made_logs_lose_nothing(tmp_path: Path) -> None:
    rows = pa.table({"key": [f"k{i}" for i in range(100)], "value": [f"v{i}" for i in range(100)]})
    kafkafmt.make(rows, tmp_path / "made", topic="t", partitions=2, segment_bytes=1000, batch_bytes=200)
    assert problems(tmp_path / "made") == []
