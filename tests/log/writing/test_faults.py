"""Test disk errors at every change of a file, errors while reading, and concurrent changes."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from building import batch, record
from command import kafkafmt
from faults import Crash, Disk, eio
from golden_cases import case
from reports import verify_partition
from salvaging import rows_in, salvage_all
from selecting import interval
from writing import FIRST, problems

from kafkafmt.log import Damage, LogDirectory, LogWriter, PartitionLog, UnavailableSegmentError, discover

SETTINGS: dict[str, Any] = {"segment_bytes": 700, "index_interval_bytes": 100}

MARKER = bytes(6)
"""Value of the record in a transaction marker."""


class Model:
    """Stores the values that the log may contain before and after the current step."""

    def __init__(self) -> None:
        self.values: dict[int, set[bytes]] = {}
        self.starts = self.ends = (0, 0)

    def settle(self, start: int, end: int) -> None:
        self.starts, self.ends = (start, start), (end, end)
        self.values = {o: v for o, v in self.values.items() if o < end}

    def check(self, writer: LogWriter) -> None:
        """Check the offsets of a writer that was opened after the error, and the records of a reader."""
        assert min(self.starts) <= writer.log_start_offset <= max(self.starts)
        assert min(self.ends) <= writer.next_offset <= max(self.ends)
        log = PartitionLog(discover([writer.path]).partitions[0])
        found = list(log.records(interval(log, control=True)))
        assert [r.offset for r in found] == list(range(writer.log_start_offset, writer.next_offset))
        assert all(r.value in self.values[r.offset] for r in found)


def steps(model: Model) -> list[Callable[[LogWriter], None]]:
    """Return steps that use each operation that changes files."""
    version = [0]

    def append(n: int, **options: Any) -> Callable[[LogWriter], None]:
        def step(writer: LogWriter) -> None:
            first, version[0] = writer.next_offset, version[0] + 1
            values = [b"%d:%d" % (version[0], i) + b"." * 40 for i in range(n)]
            model.ends = (first, first + n)
            for i, value in enumerate(values):
                model.values.setdefault(first + i, set()).add(value)
            writer.append([(None, v, FIRST + first + i) for i, v in enumerate(values)], max_bytes=400, **options)

        return step

    def truncate_last(n: int) -> Callable[[LogWriter], None]:
        def step(writer: LogWriter) -> None:
            model.ends = (max(writer.next_offset - n - 6, writer.segments[0]), writer.next_offset)
            model.starts = (min(writer.log_start_offset, model.ends[0]), writer.log_start_offset)
            writer.truncate_to(max(writer.next_offset - n, 0))

        return step

    def delete(n: int) -> Callable[[LogWriter], None]:
        def step(writer: LogWriter) -> None:
            start = max(writer.next_offset - n, writer.log_start_offset)
            model.starts = (writer.log_start_offset, start)
            writer.delete_before(start)

        return step

    def retain(writer: LogWriter) -> None:
        model.starts = (writer.log_start_offset, writer.next_offset)
        writer.enforce_retention(FIRST + 10**9)

    def append_transactional(sequence: int) -> Callable[[LogWriter], None]:
        return append(2, producer_id=1, producer_epoch=0, base_sequence=sequence, transactional=True)

    def end(writer: LogWriter) -> None:
        model.ends = (writer.next_offset, writer.next_offset + 1)
        model.values.setdefault(writer.next_offset, set()).add(MARKER)
        writer.end_transaction(1, 0, commit=False)

    flush: Callable[[LogWriter], None] = LogWriter.flush
    return [
        append(3),
        append_transactional(0),
        append(9),
        flush,
        append(20),
        end,
        truncate_last(5),
        append(4),
        delete(12),
        append(15),
        retain,
        append(3),
        truncate_last(2),
    ]


def run_steps(folder: Path, model: Model, on_error: Callable[[LogWriter, OSError], None] | None = None) -> None:
    """Run all steps. In the middle, the directory is closed and opened again."""
    plan = steps(model)
    for part in (plan[:7], plan[7:]):
        with LogDirectory(folder, **SETTINGS) as directory:
            writer = directory.writer("t")
            for step in part:
                try:
                    step(writer)
                except OSError as error:
                    if on_error is None:
                        raise
                    on_error(writer, error)
                if not writer.in_doubt:
                    model.settle(writer.log_start_offset, writer.next_offset)


def number_of_changes(disk: Disk, folder: Path) -> int:
    before = disk.changes
    model = Model()
    run_steps(folder, model)
    with LogDirectory(folder) as directory:
        model.check(directory.writer("t"))
    assert problems(folder) == []
    return disk.changes - before


EVERY = [pytest.param(1, marks=pytest.mark.full, id="every"), pytest.param(25, id="every 25th")]


@pytest.mark.parametrize("step", EVERY)
@pytest.mark.parametrize("how", ["crash", "torn"])
def test_log_recovers_from_a_crash_at_every_change_of_a_file(
    how: str, step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the directory is opened again, the log is as before or after the interrupted step, without findings."""
    disk = Disk(monkeypatch)
    total = number_of_changes(disk, tmp_path / "whole")
    assert total > 200
    for at in range(1 if how == "crash" else 5, total, step):
        folder, copy, model = tmp_path / "log", tmp_path / "copy", Model()
        disk.strike(at, how)
        try:
            run_steps(folder, model)
        except Crash:
            pass
        disk.heal()
        folder.mkdir(exist_ok=True)
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".lock"))
        with LogDirectory(copy, **SETTINGS) as directory:
            model.check(directory.writer("t"))
        assert problems(copy) == [], at
        shutil.rmtree(folder)
        shutil.rmtree(copy)


@pytest.mark.parametrize("step", EVERY)
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_log_recovers_from_an_error_at_every_change_of_a_file(
    error: int, step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step fails with a disk error.

    Afterwards, the log ends at the writer's end offset, also after it is opened again.
    """
    disk = Disk(monkeypatch)
    total = number_of_changes(disk, tmp_path / "whole")
    for at in range(1 if error == errno.EIO else 5, total, step):
        folder, model = tmp_path / "log", Model()
        disk.strike(at, error)

        def on_error(_: LogWriter, why: OSError) -> None:
            assert why.errno in (error, errno.EIO)

        try:
            run_steps(folder, model, on_error)
        except OSError:  # from opening or closing
            model.ends = (min(model.ends), max(model.ends) + 20)
        disk.heal()
        with LogDirectory(folder, **SETTINGS) as directory:
            writer = directory.writer("t")
            assert writer.next_offset >= min(model.ends), at
            model.starts, model.ends = (0, 10**6), (writer.next_offset, writer.next_offset)
            model.check(writer)
        assert problems(folder) == [], at
        shutil.rmtree(folder)


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
def test_partial_write_on_a_full_disk_is_undone(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk has space again, the writer continues.

    At the end, its files equal the files of a writer whose disk was never full.
    """
    write, full = os.pwrite, [False]

    def pwrite(handle: int, data: Any, position: int) -> int:
        if full[0] and os.readlink(f"/proc/self/fd/{handle}").endswith(suffix):
            write(handle, bytes(data)[: len(data) // 2], position)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(handle, data, position)

    monkeypatch.setattr(os, "pwrite", pwrite)
    failed = 0
    for name in ("whole", "full"):
        with LogDirectory(tmp_path / name, **SETTINGS) as directory:
            writer = directory.writer("t")
            for i in range(60):
                full[0] = name == "full"
                while writer.next_offset == i:
                    try:
                        writer.append([(b"key", b"v" * i, 1000 + i)])
                    except OSError:
                        failed, full[0] = failed + 1, False
                full[0] = False
            assert len(writer.segments) > 5
    assert failed > 20
    for path in sorted((tmp_path / "whole" / "t-0").glob("*.*")):
        assert (tmp_path / "full" / "t-0" / path.name).read_bytes() == path.read_bytes(), path.name


def test_short_writes_and_reads_do_not_change_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    disk.short = True
    model = Model()
    run_steps(tmp_path / "log", model)
    with LogDirectory(tmp_path / "log") as directory:
        model.check(directory.writer("t"))
    source = case("torn").roots[0]
    salvage_all(source, tmp_path / "out")
    short = rows_in(tmp_path / "out"), problems(tmp_path / "out")
    disk.short = False
    assert short == (rows_in(source), [])


def test_read_error_is_raised_with_the_name_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An I/O error is raised as an OSError with the file name. It is not reported as damage."""
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(batch([record(0)]) * 3)
    disk = Disk(monkeypatch)
    disk.on_read = eio
    log = PartitionLog(discover([tmp_path]).partitions[0])
    for attempt in (
        lambda: verify_partition(log),
        lambda: list(log.records()),
        lambda: salvage_all(tmp_path, tmp_path / "out"),
    ):
        with pytest.raises(OSError, match=f"{0:020}.log"):
            attempt()
    disk.on_read = None
    assert len(list(log.records(on_damage=lambda _: None))) == 1


@pytest.mark.parametrize("moment", range(1, 6))
def test_file_that_shrinks_while_it_is_read_is_damage(
    moment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that were already read are delivered, and the rest is damage.

    Salvage reports the change and fails.
    """
    whole = b"".join(batch([record(0, value=b"x" * 5000)], base_offset=i) for i in range(2000))
    (tmp_path / "t-0").mkdir()
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.write_bytes(whole)
    disk = Disk(monkeypatch)
    reads = [0]

    def shrink() -> None:
        reads[0] += 1
        if reads[0] == moment:
            os.truncate(path, len(whole) // 2 + 17)

    disk.on_read = shrink
    log = PartitionLog(discover([tmp_path]).partitions[0])
    damage: list[Damage] = []
    found = [r.offset for r in log.records(on_damage=damage.append)]
    assert found == list(range(len(found)))
    assert len(found) in (1000, 2000) or damage
    path.write_bytes(whole)
    reads[0] = 0
    try:
        salvage_all(tmp_path / "t-0", tmp_path / "out")
    except OSError as error:
        reported = str(error)
    else:
        reported = "fine"
    assert "truncated" in reported or "changed" in reported or problems(tmp_path / "out") == []
    assert (tmp_path / "out" / ".kafka_cleanshutdown").exists() == (reported == "fine")


@pytest.mark.parametrize("name", ["*.index", "*.timeindex", "*.txnindex", "*.snapshot", "leader*", "partition*"])
def test_files_removed_between_listing_and_reading_are_not_damage(name: str, tmp_path: Path) -> None:
    source = case("kafka-4.3.1/transactions").partition_dir("tx", 0)
    copy = shutil.copytree(source, tmp_path / source.name)
    log = PartitionLog(discover([copy]).partitions[0])
    for path in copy.glob(name):
        path.unlink()
    report = verify_partition(log)
    assert report["damaged"] == []
    assert report["records"] > 0


@pytest.mark.parametrize("name", ["*.log", "*"])
def test_removal_of_all_segments_is_an_error(name: str, tmp_path: Path) -> None:
    source = case("kafka-4.3.1/transactions").partition_dir("tx", 0)
    copy = shutil.copytree(source, tmp_path / source.name)
    log = PartitionLog(discover([copy]).partitions[0])
    for path in copy.glob(name):
        path.unlink()
    with pytest.raises(
        UnavailableSegmentError,
        match=r"tx-0/0+\.log: the file is missing, and its directory no longer contains a segment",
    ):
        verify_partition(log)


def test_removed_directory_is_an_error(tmp_path: Path) -> None:
    source = case("kafka-4.3.1/transactions").partition_dir("tx", 0)
    copy = shutil.copytree(source, tmp_path / source.name)
    log = PartitionLog(discover([copy]).partitions[0])
    shutil.rmtree(copy)
    with pytest.raises(UnavailableSegmentError, match=r"tx-0/0+\.log: the file is missing, and so is its directory"):
        verify_partition(log)
    done = kafkafmt("verify", copy, "--format", "json")
    assert (done.returncode, done.stdout) == (3, "")
    assert json.dumps(str(copy))[1:-1] in done.stderr
