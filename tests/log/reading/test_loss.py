"""Test that lost offsets are damage, and that nothing else is called lost."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from building import COMMIT, control_batch, simple_batch
from golden_cases import CASES, GOLDEN, LEGACY, Case, case
from metadata_logs import MetadataLog, record, uuid

import kafkafmt
from kafkafmt.log import DamagedLogError, PartitionLog, discover
from kafkafmt.log.damage import topic_configs
from kafkafmt.log.formats.checkpoints import offset_checkpoint_text

LOSSES = ("missing_segment", "missing_end", "missing_start")
Range = tuple[str, int | None, int | None]
SEGMENTS = GOLDEN / "kafka-4.3.1" / "segments" / "log"


def lost(path: Path) -> list[Range]:
    return [
        (d.code, d.first_offset, d.last_offset)
        for p in kafkafmt.verify(path).partitions
        for d in p.damaged
        if d.code in LOSSES
    ]


def suspected(path: Path) -> list[str]:
    return [f.code for p in kafkafmt.verify(path).partitions for f in p.findings if f.code in LOSSES]


def five(first: int, count: int = 5) -> bytes:
    return simple_batch([b"v%d" % (first + i) for i in range(count)], first)


def write(folder: Path, *segments: tuple[int, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for base, data in segments:
        (folder / f"{base:020}.log").write_bytes(data)
    return folder


def gap(root: Path) -> Path:
    """Write a log without the segment of the offsets 5 to 9."""
    return write(root / "t-0", (0, five(0)), (10, five(10)), (15, five(15)))


def mark(root: Path, name: str, offset: int, topic: str = "t") -> None:
    (root / name).write_text(offset_checkpoint_text({(topic, 0): offset}))


RECOVERY, HIGH, START, CLEANER = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    shutil.copytree(SEGMENTS, tmp_path / "log")
    return tmp_path / "log"


def test_missing_segment_is_damage_for_every_reader(copied: Path) -> None:
    for path in (copied / "segments-time-0").glob(f"{9:020}.*"):
        path.unlink()
    log = kafkafmt.open(copied)
    partition = log["segments-time", 0]
    report = kafkafmt.verify(log, topics="segments-time")
    assert (report.exit_code, report.ok) == (1, False)
    (damage,) = report.partitions[0].damaged
    assert (damage.file, damage.position, damage.length) == (f"{18:020}.log", 0, 0)
    assert (damage.code, damage.first_offset, damage.last_offset) == ("missing_segment", 9, 17)
    assert damage.records is None
    assert "salvage --replicas merge" in damage.message
    assert report.partitions[0].records is None
    records = partition.records()
    assert [next(records).offset for _ in range(9)] == list(range(9))
    with pytest.raises(DamagedLogError, match="offsets 9 to 17"):
        next(records)
    with pytest.raises(DamagedLogError):
        partition.to_arrow()
    assert partition.to_arrow(on_error="skip").num_rows == 191
    assert [d.code for d in partition.damaged] == ["missing_segment"]
    with pytest.raises(DamagedLogError):
        list(partition.find(key="k"))
    with pytest.raises(DamagedLogError):
        kafkafmt.scan_polars(copied / "segments-time-0").collect()
    stats = kafkafmt.stats(copied, topics="segments-time")
    assert (stats.exit_code, stats.topics[0].content.damaged) == (1, 1)
    assert kafkafmt.stats(copied, topics="segments-time", deep=True).exit_code == 1


@pytest.mark.parametrize(
    ("start", "end", "reported"),
    [(0, 5, False), (0, 6, True), (9, 12, True), (10, None, False), (7, 8, True), (12, 14, False)],
)
def test_only_selected_lost_offsets_are_reported(start: int, end: int | None, reported: bool, tmp_path: Path) -> None:
    gap(tmp_path)
    partition = kafkafmt.open(tmp_path)["t", 0]
    list(partition.records(start=start, end=end, on_error="skip"))
    assert [d.code for d in partition.damaged] == ["missing_segment"] * reported


def test_gap_after_the_log_was_listed_is_no_loss_if_a_segment_fills_it(tmp_path: Path) -> None:
    """A broker created or replaced segments while the directory was listed."""
    folder = gap(tmp_path)
    (directory,) = discover([tmp_path]).partitions
    write(folder, (5, five(5)))
    assert len(list(PartitionLog(directory).records())) == 15
    (folder / f"{5:020}.log").rename(folder / f"{5:020}.log.swap")
    assert len(list(PartitionLog(directory).records())) == 15


def test_segments_that_retention_deletes_meanwhile_are_not_lost(tmp_path: Path) -> None:
    folder = gap(tmp_path)
    (directory,) = discover([tmp_path]).partitions
    (folder / f"{0:020}.log").unlink()
    messages: list[str] = []
    log = PartitionLog(directory, tell=messages.append)
    assert [r.offset for r in log.records()] == list(range(10, 20))
    assert len(messages) == 1


def test_offsets_below_a_later_log_start_are_not_lost(tmp_path: Path) -> None:
    gap(tmp_path)
    (directory,) = discover([tmp_path]).partitions
    mark(tmp_path, START, 10)
    assert len(list(PartitionLog(directory).records())) == 15
    assert lost(tmp_path) == []
    mark(tmp_path, START, 7)
    assert lost(tmp_path) == [("missing_segment", 7, 9)]


SIGNS: dict[str, Callable[[Path], object]] = {
    "cleaner checkpoint": lambda root: mark(root, CLEANER, 0),
    "a batch with fewer records": lambda root: write(root / "t-0", (15, simple_batch([b"v"], 15, last_offset_delta=4))),
    "a gap between batches": lambda root: write(root / "t-0", (15, five(15) + five(22))),
    "cleanup.policy": lambda root: metadata(root, "compact,delete"),
}
NO_SIGNS: dict[str, Callable[[Path], object]] = {
    "cleaner checkpoint of another log": lambda root: mark(root, CLEANER, 0, "other"),
    "a batch with more records": lambda root: write(
        root / "t-0", (15, simple_batch([b"v"] * 5, 15, last_offset_delta=0))
    ),
    "cleanup.policy": lambda root: metadata(root, "delete"),
    "policy of a deleted topic": lambda root: metadata(root, "compact", removed=True),
}


def metadata(root: Path, policy: str, removed: bool = False) -> None:
    number = uuid(7)
    records = [
        record("TopicRecord", name="t", topic_id=number),
        record("ConfigRecord", resource_type=2, resource_name="t", name="cleanup.policy", value=policy),
    ]
    if removed:
        records.append(record("RemoveTopicRecord", topic_id=number))
    MetadataLog(root).append(*records)


@pytest.mark.parametrize("sign", SIGNS)
def test_compacted_log_loses_nothing(sign: str, tmp_path: Path) -> None:
    gap(tmp_path)
    SIGNS[sign](tmp_path)
    assert lost(tmp_path) == []
    list(kafkafmt.open(tmp_path)["t", 0])


@pytest.mark.parametrize("sign", NO_SIGNS)
def test_log_without_a_sign_of_compaction_loses_a_segment(sign: str, tmp_path: Path) -> None:
    gap(tmp_path)
    NO_SIGNS[sign](tmp_path)
    assert ("missing_segment", 5, 9) in lost(tmp_path)


def test_metadata_log_of_another_log_directory_is_used(tmp_path: Path) -> None:
    gap(tmp_path / "one")
    (tmp_path / "two").mkdir()
    metadata(tmp_path / "two", "compact")
    assert lost(tmp_path / "one") == [("missing_segment", 5, 9)]
    assert kafkafmt.verify([tmp_path / "one", tmp_path / "two"]).exit_code == 0


def test_metadata_log_is_read_only_after_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata(tmp_path, "compact")
    write(tmp_path / "t-0", (0, five(0)), (5, five(5)))
    read: list[Path] = []

    def configs_in(folder: Path) -> topic_configs.Configs:
        read.append(folder)
        return {}

    monkeypatch.setattr(topic_configs, "_configs_in", configs_in)
    list(kafkafmt.open(tmp_path)["t", 0])
    kafkafmt.verify(tmp_path)
    assert read == []
    write(tmp_path / "t-0", (20, five(20)))
    assert lost(tmp_path) == [("missing_segment", 10, 19)]
    assert read


def test_end_below_the_recovery_point_is_damage(copied: Path) -> None:
    last = max((copied / "segments-size-0").glob("*.log"))
    os.truncate(last, last.stat().st_size - 123)
    assert lost(copied) == [("missing_end", 1490, 1499)]
    partition = kafkafmt.open(copied)["segments-size", 0]
    with pytest.raises(DamagedLogError, match="its recovery point is 1500"):
        list(partition)
    assert len(list(partition.records(on_error="skip"))) == 1490
    assert len(list(partition.records(end=1490))) == 1490
    assert kafkafmt.stats(copied).exit_code == 1


@pytest.mark.parametrize("clean", [True, False])
def test_end_below_the_high_watermark_is_damage_after_a_clean_shutdown(clean: bool, tmp_path: Path) -> None:
    write(tmp_path / "t-0", (0, five(0)))
    mark(tmp_path, HIGH, 9)
    if clean:
        (tmp_path / ".kafka_cleanshutdown").touch()
    assert lost(tmp_path) == ([("missing_end", 5, 8)] if clean else [])
    assert suspected(tmp_path) == ([] if clean else ["missing_end"])
    assert len(list(kafkafmt.open(tmp_path)["t", 0].records(on_error="skip"))) == 5


def test_end_covered_by_damage_is_not_lost_again(tmp_path: Path) -> None:
    damaged = bytearray(five(5))
    damaged[70] ^= 1
    write(tmp_path / "t-0", (0, five(0) + damaged + b"garbage that is no batch"))
    mark(tmp_path, RECOVERY, 10)
    report = kafkafmt.verify(tmp_path).partitions[0]
    assert report.damaged
    assert not any(d.code in LOSSES for d in report.damaged)


@pytest.mark.parametrize("other", [(), ("partition.metadata",)])
def test_directory_without_segments_has_lost_its_records(other: tuple[str, ...], tmp_path: Path) -> None:
    write(tmp_path / "u-0", (0, five(0)))
    folder = write(tmp_path / "t-0")
    for name in other:
        (folder / name).write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    assert lost(tmp_path) == []
    mark(tmp_path, HIGH, 20)
    assert lost(tmp_path) == []
    (tmp_path / ".kafka_cleanshutdown").touch()
    assert lost(tmp_path) == [("missing_end", 0, 19)]
    mark(tmp_path, START, 5)
    assert lost(tmp_path) == lost(folder) == [("missing_end", 5, 19)]
    with pytest.raises(DamagedLogError):
        kafkafmt.open(tmp_path)["t", 0].to_arrow()
    folder.rename(tmp_path / "t-0.0123456789abcdef0123456789abcdef-delete")
    assert lost(tmp_path) == []  # a line without a directory means nothing


def test_missing_start_is_a_finding(copied: Path) -> None:
    for path in (copied / "segments-time-0").glob(f"{0:020}.*"):
        path.unlink()
    assert (lost(copied), suspected(copied)) == ([], ["missing_start"])
    (copied / "segments-time-0" / f"{0:020}.log.deleted").touch()  # a broker truncates the epochs a little later
    assert suspected(copied) == []


def test_other_directories_and_single_files_are_not_judged(tmp_path: Path) -> None:
    folder = gap(tmp_path)
    mark(tmp_path, RECOVERY, 99)
    assert len(lost(folder)) == 2
    for path in folder.glob("*.log"):
        assert lost(path) == []
    assert [d.code for d in kafkafmt.verify(list(folder.glob("*.log"))).partitions[0].damaged] == []
    for state in ("delete", "stray", "future"):
        moved = folder.rename(tmp_path / f"t-0.0123456789abcdef0123456789abcdef-{state}")
        assert lost(moved) == []
        folder = moved.rename(tmp_path / "t-0")


def test_metadata_log_is_not_judged_by_checkpoints(tmp_path: Path) -> None:
    metadata(tmp_path, "delete")
    mark(tmp_path, RECOVERY, 99, "__cluster_metadata")
    assert lost(tmp_path) == []


def test_marker_in_a_missing_segment_is_not_ignored_because_of_a_policy(tmp_path: Path) -> None:
    """Only traces of compaction show that no marker is missing. A policy does not."""

    def data(offset: int) -> bytes:
        return simple_batch([b"v"], offset, producer_id=7, producer_epoch=0, attributes=16)

    marker = control_batch(COMMIT, base_offset=11, producer_id=7)
    write(tmp_path / "t-0", (0, data(0)), (10, data(10) + marker))
    metadata(tmp_path, "compact")
    partition = kafkafmt.open(tmp_path)["t", 0]
    assert [r.offset for r in partition.records(isolation="read_committed", on_error="skip")] == [10]


@pytest.mark.parametrize("golden", [*CASES, *LEGACY], ids=str)
def test_golden_logs_lose_nothing(golden: Case, tmp_path: Path) -> None:
    """Also if a partition directory is copied alone, without its cleaner checkpoint."""
    for root in golden.roots:
        assert lost(root) == []
        assert golden.torn or suspected(root) == []
        for folder in sorted(p for p in root.iterdir() if any(p.glob("*.log"))):
            copy = shutil.copytree(folder, tmp_path / folder.name)
            for path in (copy, tmp_path, *copy.glob("*.log")):
                for partition in kafkafmt.verify(path).partitions:
                    codes = {d.code for d in partition.damaged} | {f.code for f in partition.findings}
                    assert codes.isdisjoint(LOSSES)
            shutil.rmtree(copy)


def test_offsets_in_remote_storage_are_named(tmp_path: Path) -> None:
    root = Path(case("tiered").roots[0])
    (report,) = kafkafmt.verify(root, topics="tiered").partitions
    assert report.remote == (0, 415)
    (row,) = kafkafmt.describe(root, topics="tiered").to_dict()["partitions"]
    assert row["remote"] == {"first_offset": 0, "last_offset": 415}
    text = "tiered-0: offsets 0 to 415 are in remote storage, which is not read"
    for result in (kafkafmt.verify(root), kafkafmt.describe(root), kafkafmt.stats(root)):
        assert text in result.messages
    copy = shutil.copytree(root, tmp_path / "log")
    (copy / START).unlink()
    assert (kafkafmt.verify(copy, topics="tiered").partitions[0].remote, suspected(copy)) == ((0, 415), [])
