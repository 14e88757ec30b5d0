"""Check segments of which the disk cannot read some sectors."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bad_sectors import FILLER, SECTOR, BadSectors, overwritten
from golden_cases import GOLDEN
from writing import some

import kafkafmt
from kafkafmt.log import DamagedLogError, PartitionLog, discover
from kafkafmt.log.damage.plan import DEFAULT_LIMITS
from kafkafmt.log.inspecting.dump_api import dump
from kafkafmt.log.inspecting.dump_items import DumpedBatch, Problem
from kafkafmt.log.reading.follow import Follower
from kafkafmt.log.reading.record_selection import Selection
from kafkafmt.log.storage.file_view import FileView
from kafkafmt.typing import Codec

LOGS = sorted(
    {path.parent for path in GOLDEN.glob("*/*/log/**/*.log") if path.stat().st_size > 2 * SECTOR}, key=lambda p: str(p)
)
UNREADABLE = "unreadable_sectors"


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> BadSectors:
    return BadSectors(monkeypatch)


def segments_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.log") if path.stat().st_size)


def written(folder: Path, batches: int = 40, size: int = 700, codec: Codec = "none") -> Path:
    """Write a partition with one batch of ten records for each append, and return its only segment."""
    with kafkafmt.LogDirectory(folder) as log:
        writer = log.writer("t", 0)
        for i in range(batches):
            records = [(k, os.urandom(size), at) for k, _, at in some(10, at=1_700_000_000_000 + 10 * i)]
            writer.append(records, codec=codec)
    (path,) = segments_of(folder / "t-0")
    return path


def records_of(folder: Path, **options: Any) -> list[Any]:
    (partition,) = list(kafkafmt.open(folder))
    return [(r.offset, r.timestamp, r.key, r.value) for r in partition.records(on_error="skip", **options)]


def spans_of(folder: Path) -> list[tuple[Any, ...]]:
    (report,) = kafkafmt.verify(folder).partitions
    return [(d.file, d.position, d.length, d.first_offset, d.last_offset) for d in report.damaged]


def chosen_sectors(folder: Path, seed: str) -> Iterator[tuple[Path, list[int]]]:
    choice = random.Random(seed)
    for path in segments_of(folder):
        sectors = range(-(-path.stat().st_size // SECTOR))
        if len(sectors) > 2:
            yield path, sorted(choice.sample(sectors, min(len(sectors) - 1, choice.randint(1, 3))))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("source", LOGS, ids=lambda p: str(p.relative_to(GOLDEN)))
@pytest.mark.slow
def test_log_is_read_as_if_unreadable_sectors_contained_filler(
    disk: BadSectors, tmp_path: Path, source: Path, seed: int
) -> None:
    folder, other, zeroed = (Path(shutil.copytree(source, tmp_path / kind / source.name)) for kind in "abc")
    whole = records_of(folder)
    for path, sectors in chosen_sectors(folder, f"{source.name} {seed}"):
        disk.add(path, sectors)
        overwritten(other / path.name, sectors)
        overwritten(zeroed / path.name, sectors, bytes(SECTOR))
    found, spans = records_of(folder), spans_of(folder)
    assert (found, spans) == (records_of(other), spans_of(other))
    assert records_of(folder, start=5) == records_of(other, start=5)
    assert set(map(repr, found)) <= set(map(repr, records_of(zeroed))) | set(map(repr, whole))
    assert set(map(repr, found)) <= set(map(repr, whole))
    (report,) = kafkafmt.verify(folder).partitions
    assert UNREADABLE in {d.code for d in report.damaged}
    for path, sectors in chosen_sectors(folder, f"{source.name} {seed}"):
        named = [d for d in report.damaged if d.file == path.name and d.code == UNREADABLE]
        for sector in sectors:
            assert any(d.position < (sector + 1) * SECTOR and sector * SECTOR < d.position + d.length for d in named), (
                path,
                sector,
            )
    salvaged = kafkafmt.salvage(folder, tmp_path / "salvaged")
    assert salvaged.exit_code == 1
    assert records_of(tmp_path / "salvaged") == found


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_only_batches_in_unreadable_sectors_are_lost(disk: BadSectors, tmp_path: Path, codec: Codec) -> None:
    path = written(tmp_path / "log", batches=200, codec=codec)
    log = PartitionLog(discover([tmp_path / "log"]).partitions[0])
    batches = [
        (int(r["position"]) + p.position, int(r["size"]), int(r["base_offset"]))
        for p in log.parts(0, 1 << 60, None)
        for r in p.table
    ]
    sectors = [1, 2, 5, -(-path.stat().st_size // SECTOR) - 1]
    disk.add(path, sectors)
    kept = [
        base for at, size, base in batches if not any(at < (s + 1) * SECTOR and s * SECTOR < at + size for s in sectors)
    ]
    assert [r[0] for r in records_of(tmp_path / "log")] == [base + i for base in kept for i in range(10)]


def test_error_names_path_and_position_after_the_records_before_it(disk: BadSectors, tmp_path: Path) -> None:
    path = written(tmp_path / "log")
    disk.add(path, [10])
    (partition,) = list(kafkafmt.open(tmp_path / "log"))
    seen: list[int] = []
    with pytest.raises(DamagedLogError) as caught:
        seen.extend(record.offset for record in partition.records())
    assert seen
    assert seen == list(range(len(seen)))
    assert caught.value.code == UNREADABLE
    assert f"{path}: the disk cannot read bytes 40960 to 45055; offsets {len(seen)} to " in caught.value.message
    assert caught.value.position is not None
    assert caught.value.position <= 40960 < caught.value.resume


@pytest.mark.parametrize("content", ["records", "zeros"])
def test_unreadable_end_of_file_is_not_an_unfinished_tail(disk: BadSectors, tmp_path: Path, content: str) -> None:
    path = written(tmp_path / "log")
    if content == "zeros":
        end = path.stat().st_size
        with path.open("r+b") as file:
            file.truncate(end + 10 * SECTOR)
    last = -(-path.stat().st_size // SECTOR) - 1
    disk.add(path, [last])
    report = kafkafmt.verify(tmp_path / "log")
    (partition,) = report.partitions
    assert report.exit_code == 1
    assert [d.code for d in partition.damaged] == [UNREADABLE]
    assert "unfinished_tail" not in {f.code for f in partition.findings}


@pytest.mark.parametrize("code", [errno.EIO, errno.EUCLEAN, errno.EBADMSG, errno.ENODATA])
def test_each_error_of_a_disk_is_damage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int) -> None:
    path = written(tmp_path / "log")
    BadSectors(monkeypatch, code).add(path, [3])
    report = kafkafmt.verify(tmp_path / "log")
    assert not report.unreadable
    assert [d.code for d in report.partitions[0].damaged] == [UNREADABLE]


def test_other_errors_are_not_treated_as_damage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = written(tmp_path / "log")
    BadSectors(monkeypatch, errno.EACCES).add(path, [3])
    assert len(kafkafmt.verify(tmp_path / "log").unreadable) == 1


def test_failed_disk_makes_a_partition_unreadable_after_few_reads(disk: BadSectors, tmp_path: Path) -> None:
    path = written(tmp_path / "log", batches=400)
    assert path.stat().st_size > 2 << 20
    disk.add(path, range(1 << 10))
    report = kafkafmt.verify(tmp_path / "log")
    (unreadable,) = report.unreadable
    assert "Input/output error in 256 sectors of 4096 bytes" in unreadable.error
    assert not report.partitions
    assert report.exit_code == 3
    assert disk.failed.total() <= 1024


def test_many_single_unreadable_sectors_end_reading(disk: BadSectors, tmp_path: Path) -> None:
    path = written(tmp_path / "log", batches=1300)
    disk.add(path, range(0, path.stat().st_size // SECTOR, 2))
    report = kafkafmt.verify(tmp_path / "log")
    assert "Input/output error in 1025 sectors" in report.unreadable[0].error


def test_partition_is_unreadable_if_no_segment_can_be_read(disk: BadSectors, tmp_path: Path) -> None:
    path = written(tmp_path / "log", batches=1)
    disk.add(path, range(10))
    report = kafkafmt.verify(tmp_path / "log")
    assert [u.error for u in report.unreadable] == [f"{path}: Input/output error"]


def test_one_unreadable_segment_does_not_affect_the_others(disk: BadSectors, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN / "kafka-4.3.1" / "segments" / "log" / "segments-time-0", tmp_path / "t-0"))
    segments = segments_of(folder)
    whole = records_of(folder)
    disk.add(segments[1], range(1000))
    report = kafkafmt.verify(folder)
    assert not report.unreadable
    first, following = (int(s.name[:20]) for s in segments[1:3])
    assert spans_of(folder) == [(segments[1].name, 0, segments[1].stat().st_size, first, following - 1)]
    assert records_of(folder) == [r for r in whole if not first <= r[0] < following]


def test_known_unreadable_sector_is_not_read_again_by_the_same_file(disk: BadSectors, tmp_path: Path) -> None:
    path = written(tmp_path / "log")
    disk.add(path, [3])
    with FileView(path, fill_unreadable=True) as view:
        for _ in range(3):
            assert view.read(3 * SECTOR - 10, SECTOR + 20)[10:-10] == FILLER
        assert view.unreadable == [(3 * SECTOR, 4 * SECTOR)]
    assert disk.failed.total() <= 2


def test_reads_for_writing_raise(disk: BadSectors, tmp_path: Path) -> None:
    path = written(tmp_path / "log")
    (tmp_path / "log" / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (tmp_path / "log" / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    size = path.stat().st_size
    disk.add(path, [3])
    with pytest.raises(OSError, match="Input/output error"), kafkafmt.LogDirectory(tmp_path / "log") as log:
        log.writer("t", 0).append(some(1))
    assert path.stat().st_size == size


def test_dump_reports_unreadable_sectors_and_prints_no_filler(disk: BadSectors, tmp_path: Path) -> None:
    path = written(tmp_path / "log")
    disk.add(path, [3])
    (file,) = dump([path], deep=True)
    items = list(file)
    assert [i.code for i in items if isinstance(i, Problem) and i.kind == "damage"] == [UNREADABLE]
    assert all(i.is_valid for i in items if isinstance(i, DumpedBatch))


def test_statistics_of_a_segment_with_unreadable_headers_use_its_plan(disk: BadSectors, tmp_path: Path) -> None:
    path = written(tmp_path / "log", batches=60)
    disk.add(path, [3])
    readable = len(records_of(tmp_path / "log"))
    (topic,) = kafkafmt.stats(tmp_path / "log").topics
    assert topic.content.records == readable


def test_equal_copies_with_the_same_unreadable_sector_are_not_called_equal(disk: BadSectors, tmp_path: Path) -> None:
    a, b = written(tmp_path / "a"), written(tmp_path / "b")
    b.write_bytes(a.read_bytes())
    for path in (a, b):
        disk.add(path, [3])
    assert kafkafmt.diff(tmp_path / "a", tmp_path / "b").exit_code == 1


def test_follower_reports_an_unreadable_end_of_the_log(disk: BadSectors, tmp_path: Path) -> None:
    path = written(tmp_path / "log")
    disk.add(path, [path.stat().st_size // SECTOR])
    told: list[str] = []
    (directory,) = discover([tmp_path / "log"]).partitions
    follower = Follower(directory, [directory.path], Selection(None, None), DEFAULT_LIMITS, tell=told.append)
    assert [r.offset for r in follower.records()] == list(range(390))
    follower.check(always=True)
    (message,) = told
    assert f"{path}: the disk cannot read bytes " in message
    assert message.endswith("offsets 390 to the end cannot be read")
