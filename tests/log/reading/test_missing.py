"""Test files that are removed while a log is read.

If retention removed a file, a message is reported. Otherwise, an error names the path.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from building import batch, record

import kafkafmt
from kafkafmt.log import PartitionLog, UnavailableSegmentError, discover
from kafkafmt.log.damage.plan import SegmentPlan, plan_view
from kafkafmt.log.reading import planned_log
from kafkafmt.log.reading.follow import Follower
from kafkafmt.log.reading.lookups import find_timestamp
from kafkafmt.log.verifying.verify_api import verify_partition

BASES = (0, 5, 10, 15)


def name_of(base: int) -> str:
    return f"{base:020}.log"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a partition with four segments of five records."""
    path = tmp_path / "data" / "t-0"
    path.mkdir(parents=True)
    for base in BASES:
        (path / name_of(base)).write_bytes(batch([record(i) for i in range(5)], base_offset=base, base_timestamp=base))
    return path


def delete(*bases: int) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for base in bases:
            (folder / name_of(base)).unlink()

    return change


def delete_all_and_roll(folder: Path) -> None:
    delete(*BASES)(folder)
    (folder / name_of(20)).write_bytes(b"")


def move_checkpoint_and_delete(folder: Path) -> None:
    (folder.parent / "log-start-offset-checkpoint").write_text("0\n1\nt 0 12\n")
    delete(5)(folder)


def move_away(folder: Path) -> None:
    folder.rename(folder.with_name("moved-0"))


def move_parent(folder: Path) -> None:
    folder.parent.rename(folder.parent.with_name("elsewhere"))


def replace_by_a_file(folder: Path) -> None:
    move_away(folder)
    folder.write_bytes(b"")


def replace_by_another_directory(folder: Path) -> None:
    move_away(folder)
    shutil.copytree(folder.with_name("moved-0"), folder)
    delete(0)(folder)


def empty(folder: Path) -> None:
    delete(*BASES)(folder)


def break_link(folder: Path) -> None:
    (folder / name_of(0)).unlink()
    (folder / name_of(0)).symlink_to("/nowhere/at/all")


RETENTION = {
    "the oldest": (delete(0), range(5, 20)),
    "two": (delete(0, 5), range(10, 20)),
    "all but the last": (delete(0, 5, 10), range(15, 20)),
    "all, after a roll": (delete_all_and_roll, range(0)),
    "below the checkpoint": (move_checkpoint_and_delete, [*range(5), *range(10, 20)]),
}
OTHER = {
    "the middle": (delete(5), 5),
    "the last": (delete(15), 15),
    "the oldest and one in the middle": (delete(0, 10), 10),
    "moved": (move_away, 0),
    "parent moved": (move_parent, 0),
    "a file": (replace_by_a_file, 0),
    "another directory": (replace_by_another_directory, 0),
    "emptied": (empty, 0),
    "broken link": (break_link, 0),
}


def with_records(log: kafkafmt.Log) -> list[int]:
    return [r.offset for r in log["t", 0]]


def with_arrow(log: kafkafmt.Log) -> list[int]:
    offsets: list[int] = log["t", 0].to_arrow(["offset"]).column("offset").to_pylist()
    return offsets


def after_planning(log: kafkafmt.Log) -> list[int]:
    """Plan all segments before reading, so that reading finds that a file is missing."""
    return [r.offset for r in log["t", 0].log.records()]


@pytest.mark.parametrize("read", [with_records, with_arrow])
@pytest.mark.parametrize("cause", RETENTION)
def test_segment_that_retention_removed_is_reported(folder: Path, cause: str, read: Callable[[Any], list[int]]) -> None:
    change, left = RETENTION[cause]
    log = kafkafmt.open(folder.parent)
    change(folder)
    assert read(log) == list(left)
    assert log.messages
    assert all(m.endswith("deleted by retention before it was read") for m in log.messages)


@pytest.mark.parametrize("read", [with_records, with_arrow, after_planning])
@pytest.mark.parametrize("cause", OTHER)
def test_segment_missing_for_another_reason_raises(folder: Path, cause: str, read: Callable[[Any], list[int]]) -> None:
    change, base = OTHER[cause]
    log = kafkafmt.open(folder.parent)
    if read is after_planning:
        for segment in log["t", 0].log.segments:
            log["t", 0].log.plan(segment)
    change(folder)
    with pytest.raises(OSError, match="t-0") as caught:
        read(log)
    assert caught.value.filename == str(folder / name_of(base))


@pytest.mark.parametrize("cause", OTHER)
def test_lookup_by_time_raises_if_a_segment_is_missing(folder: Path, cause: str) -> None:
    log = PartitionLog(discover([folder.parent]).partitions[0])
    OTHER[cause][0](folder)
    with pytest.raises(OSError, match="t-0"):
        find_timestamp(log, 10**6)


@pytest.mark.parametrize("cause", ["moved", "the middle", "emptied"])
def test_sending_batches_raises_if_a_segment_is_missing(folder: Path, tmp_path: Path, cause: str) -> None:
    log = kafkafmt.open(folder.parent)
    OTHER[cause][0](folder)
    with (tmp_path / "sent").open("wb") as file, pytest.raises(UnavailableSegmentError, match="t-0"):
        log["t", 0].send(file)


def test_lookup_by_time_skips_a_segment_that_retention_removed(folder: Path) -> None:
    messages: list[str] = []
    log = PartitionLog(discover([folder.parent]).partitions[0], tell=messages.append)
    delete(0)(folder)
    place = find_timestamp(log, 0)
    assert place is not None
    assert place.offset == 5
    assert messages


def test_missing_directory_below_log_start_is_still_an_error(folder: Path) -> None:
    (folder.parent / "log-start-offset-checkpoint").write_text("0\n1\nt 0 20\n")
    log = kafkafmt.open(folder.parent)
    move_away(folder)
    with pytest.raises(UnavailableSegmentError):
        list(log["t", 0].records(below_log_start=True))


def test_file_that_reappears_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, real = kafkafmt.open(folder.parent), os.open

    def refusing_open(path: Any, *rest: Any, **options: Any) -> int:
        if str(path).endswith(name_of(0)):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return real(path, *rest, **options)

    monkeypatch.setattr(os, "open", refusing_open)
    with pytest.raises(UnavailableSegmentError, match="listed but cannot be opened"):
        list(log["t", 0])


def test_link_to_a_missing_segment_is_an_error_of_its_partition(folder: Path) -> None:
    break_link(folder)
    other = folder.with_name("u-0")
    shutil.copytree(folder, other, symlinks=True)
    (other / name_of(0)).unlink()
    log = kafkafmt.open(folder.parent)
    assert [r.offset for r in log["u", 0]] == list(range(5, 20))
    with pytest.raises(UnavailableSegmentError, match="target does not exist"):
        list(log["t", 0])


def test_segment_removed_between_listing_and_stat_is_handled_alike(folder: Path) -> None:
    directory, messages = discover([folder.parent]).partitions[0], list[str]()
    (folder / name_of(0)).unlink()
    assert [s.size > 0 for s in directory.segments] == [s.name != name_of(0) for s in directory.segments]
    log = PartitionLog(directory, tell=messages.append)
    assert [r.offset for r in log.records()] == list(range(5, 20))
    assert [m.rpartition(": ")[2] for m in messages] == ["deleted by retention before it was read"]
    directory = discover([folder.parent]).partitions[0]
    (folder / name_of(10)).unlink()
    assert directory.segments[1].size == 0
    with pytest.raises(UnavailableSegmentError):
        list(PartitionLog(directory).records())


def test_plan_raises_if_the_file_was_replaced(folder: Path) -> None:
    directory = discover([folder.parent]).partitions[0]
    made = PartitionLog(directory)
    plans = [made.plan(s) for s in made.segments]
    path, original = folder / name_of(5), (folder / name_of(5)).read_bytes()
    others = {
        "shorter": original[:-1],
        "empty": b"",
        "zeros": bytes(len(original)),
        "other offsets": batch([record(i) for i in range(5)], base_offset=6, base_timestamp=5),
        "fewer batches": batch([record(0, value=b"v" * 500)], base_offset=5),
    }
    for data in others.values():
        path.write_bytes(data)
        log = PartitionLog(directory)
        for plan in plans:
            log.keep_plan(plan)
        with pytest.raises(UnavailableSegmentError, match=r"has changed since it was planned"):
            list(log.records(on_damage=lambda _: None))
    path.write_bytes(original + original)  # the active segment may have grown
    log = PartitionLog(directory)
    for plan in plans:
        log.keep_plan(plan)
    assert [r.offset for r in log.records()] == list(range(20))


def merge_first_segments(folder: Path) -> None:
    """Merge the first two segments, as the log cleaner does."""
    merged = (folder / name_of(0)).read_bytes() + (folder / name_of(5)).read_bytes()
    (folder / name_of(5)).rename(folder / f"{name_of(5)}.deleted")
    (folder / name_of(0)).write_bytes(merged)


@pytest.mark.parametrize("on_damage", [None, lambda _: None])
def test_segments_that_the_cleaner_merged_after_listing_are_not_damage(folder: Path, on_damage: Any) -> None:
    directory = discover([folder.parent]).partitions[0]
    merge_first_segments(folder)
    with pytest.raises(UnavailableSegmentError, match=rf"{name_of(5)}, no longer exists; .* compacted the log"):
        list(PartitionLog(directory).records(on_damage=on_damage))
    with pytest.raises(UnavailableSegmentError):
        verify_partition(PartitionLog(directory))
    log = PartitionLog(discover([folder.parent]).partitions[0])
    assert [r.offset for r in log.records()] == list(range(20))


def test_damage_is_reported_if_retention_removes_the_segment_and_the_next(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / name_of(0)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    log = PartitionLog(discover([folder.parent]).partitions[0])

    def plan_and_delete(*arguments: Any) -> SegmentPlan:
        plan = plan_view(*arguments)
        delete(0, 5)(folder)
        return plan

    monkeypatch.setattr(planned_log, "plan_view", plan_and_delete)
    assert [damage.code for damage in log.plan(log.segments[0]).damaged] == ["corrupt_checksum"]


def test_damage_is_reported_if_the_next_segment_exists(folder: Path) -> None:
    directory = discover([folder.parent]).partitions[0]
    content = (folder / name_of(0)).read_bytes()
    (folder / name_of(0)).write_bytes(content + (folder / name_of(5)).read_bytes())
    report = verify_partition(PartitionLog(directory))
    assert [d.code for d in report.damaged] + [f.code for f in report.findings] == ["contradicting_offsets"]


def test_follower_raises_if_a_segment_disappears_during_a_check(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = Follower(discover([folder.parent]).partitions[0], [folder])
    assert [r.offset for r in follower.records()] == list(range(20))
    for base in (20, 25):
        (folder / name_of(base)).write_bytes(batch([record(i) for i in range(5)], base_offset=base))
    real, gone = follower._read, folder / name_of(20)

    def reading(segment: Any) -> None:
        gone.unlink(missing_ok=True)
        real(segment)

    monkeypatch.setattr(follower, "_read", reading)
    with pytest.raises(UnavailableSegmentError):
        follower.check()
