"""Test executors, drivers and disks that fail during an export, and logs that change.

The result is always one of two: a complete output, or an error and no output. The next run removes
what a killed run left.
"""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path, PurePath
from typing import Any

import pytest
from blind import segments_of
from exporting import RunExport, assert_no_leftovers, expected_rows, read_with_pyarrow, rows_of
from golden_cases import Rows, same_rows
from scenarios import CLUSTER, GOLDEN, assert_complete, attempts, leftovers, run, start
from standalone import can_unshare, standalone_cluster, without

from kafkafmt.exporting import TaskOSError
from kafkafmt.exporting.bundles import Bundle
from kafkafmt.exporting.staging import StagedFiles
from kafkafmt.exporting.tasks import BundleResult, TaskSettings, write_bundle

TOPIC = "segments-time"
PATIENT = {
    "spark.task.maxFailures": "100",
    "spark.stage.maxConsecutiveAttempts": "100",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.executor.maxNumFailures": "1000",
}
"""Settings with which Spark repeats tasks and starts executors again as often as the tests kill them."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a partition with 200 records in several segments."""
    return Path(shutil.copytree(GOLDEN.partition_dir(TOPIC, 0), tmp_path / "log" / f"{TOPIC}-0"))


def records_from(offset: int) -> Rows:
    """Return the records of the partition from an offset on."""
    return {at: row for at, row in expected_rows(GOLDEN).items() if at[:2] == (TOPIC, 0) and at[2] >= offset}


def entries(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"log", "spark", "notes", "blockmgr"}


def test_read_error_after_planning_ends_the_export(run_export: RunExport, folder: Path, tmp_path: Path) -> None:
    broken = segments_of(folder)[1]
    place, code = str(broken), errno.EIO

    def write_from_a_broken_disk(bundle: Bundle, settings: TaskSettings) -> BundleResult:
        import os
        from unittest.mock import patch

        real = os.preadv

        def read(handle: int, buffers: Any, position: int) -> int:
            if os.readlink(f"/proc/self/fd/{handle}") == place:
                raise OSError(code, os.strerror(code))
            return real(handle, buffers, position)

        with patch.object(os, "preadv", read):
            return write_bundle(bundle, settings)

    with pytest.raises(
        TaskOSError, match=rf"^{broken}: Input/output error, the disk cannot read bytes 0 to \d+ \(on host \S+\)$"
    ):
        run_export([folder.parent], write=write_from_a_broken_disk, split_bytes=2000)
    assert entries(tmp_path) == set()


@pytest.mark.parametrize("moment", ["create", "write", "close"])
def test_write_error_ends_the_export(run_export: RunExport, folder: Path, tmp_path: Path, moment: str) -> None:
    def write_to_a_full_disk(bundle: Bundle, settings: TaskSettings) -> BundleResult:
        import errno
        import os
        from unittest.mock import patch

        class Full:
            """A file on a disk that becomes full."""

            closed = False

            def __init__(self, name: str) -> None:
                self.name = name
                self.file = open(name, "wb")

            def fail(self) -> None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.name)

            def write(self, data: Any) -> int:
                if moment == "write":
                    self.fail()
                return self.file.write(data)

            def tell(self) -> int:
                return self.file.tell()

            def flush(self) -> None:
                pass

            def close(self) -> None:
                self.file.close()
                if moment == "close":
                    self.fail()

        def create(files: StagedFiles, target: PurePath) -> tuple[str, Full]:
            file = Full(str(files.directory / target.name))
            if moment == "create":
                file.fail()
            return target.name, file

        with patch.object(StagedFiles, "create", create):
            return write_bundle(bundle, settings)

    output = tmp_path / "full"
    with pytest.raises(TaskOSError, match=rf"^{re.escape(str(output))}: No space left on device \(on host \S+\)$"):
        run_export([folder.parent], write=write_to_a_full_disk, output=output)
    assert entries(tmp_path) == set()


def test_output_that_an_executor_does_not_see_names_path_and_host(
    run_export: RunExport, folder: Path, tmp_path: Path
) -> None:
    def write_elsewhere(bundle: Bundle, settings: TaskSettings) -> BundleResult:
        from dataclasses import replace
        from pathlib import Path

        return write_bundle(bundle, replace(settings, attempts=StagedFiles(Path("/not/there"))))

    message = (
        r"^/not/there: the output directory is missing on this host; every executor must see it .*\(on host \S+\)$"
    )
    with pytest.raises(TaskOSError, match=message):
        run_export([folder.parent], write=write_elsewhere)
    assert entries(tmp_path) == set()


@pytest.mark.parametrize(("removed", "split_bytes"), [(False, 2000), (True, None)])
def test_truncated_log_ends_the_export(
    run_export: RunExport, folder: Path, tmp_path: Path, removed: bool, split_bytes: int | None
) -> None:
    """The log is truncated as by a broker that becomes the follower of a new leader."""
    first, finished = tmp_path / "notes", tmp_path / "log" / "finished"

    def write_after_truncation(bundle: Bundle, settings: TaskSettings) -> BundleResult:
        import os
        import time

        try:
            first.mkdir()
        except FileExistsError:
            while not finished.exists():
                time.sleep(0.01)
        else:
            last = max(folder.glob("*.log"))
            if removed:
                last.unlink()
            else:
                os.truncate(last, last.stat().st_size // 2)
            finished.touch()
        return write_bundle(bundle, settings)

    with pytest.raises(OSError, match=rf"{folder}/\d+\.log: "):
        run_export([folder.parent], write=write_after_truncation, split_bytes=split_bytes)
    assert entries(tmp_path) == set()


@pytest.mark.full  # test_task_that_dies_is_repeated covers a lost worker by default
@pytest.mark.parametrize("fault", ["kill executor", "eio"])
def test_export_survives_a_failure_of_one_attempt(tmp_path: Path, fault: str) -> None:
    """With "eio", no task fails. It cannot confirm unreadable sectors, so a second job plans the segments."""
    report = run(tmp_path, master=CLUSTER, fault=fault)
    repeated = {attempt for n, attempt, *_ in attempts(tmp_path) if n == 1} >= {0, 1}
    planned = "planning segments" in {step["step"] for step in report["steps"]}
    assert (repeated, planned) == ((False, True) if fault == "eio" else (True, False))
    assert report["ok"]
    assert report["written"]["records"] == len(GOLDEN.expected())
    assert_complete(tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("workers", [1, 2])
def test_cluster_with_executors_that_do_not_see_the_output(tmp_path: Path, folder: Path, workers: int) -> None:
    """If one of two workers does not see OUT, its tasks are repeated on the other worker.

    If no worker sees OUT, the export fails, and the error contains the path and the host.
    """
    if not can_unshare():
        pytest.skip("needs a separate mount namespace")
    place = tmp_path / "exports"
    place.mkdir()
    settings = {"spark.driver.host": "127.0.0.1", "spark.executor.cores": "1", "spark.executor.memory": "512m"}
    settings |= {"spark.excludeOnFailure.enabled": "true"}
    hosts = ["127.0.0.1", "127.0.0.2"]
    with standalone_cluster(tmp_path / "spark", hosts, [without(place)] * workers) as master:
        command = [sys.executable, "-m", "kafkafmt", "export", str(folder.parent), "--output", str(place / "out")]
        command += ["--master", master]
        command += [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=300)
    if workers == 1:
        assert done.returncode == 0, done.stderr
        same_rows(rows_of(read_with_pyarrow(place / "out" / "data")), records_from(0))
    else:
        assert done.returncode == 3, done.stderr
        assert "the output directory is missing on this host" in done.stderr
        assert f"{place}/" in done.stderr
        assert "(on host" in done.stderr
        assert list(place.iterdir()) == []


def processes_below(pid: int) -> dict[int, str]:
    """Return the command lines of the descendants of a process, by process id."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [(int(p), int(parent), words) for p, parent, words in (line.split(None, 2) for line in listed.splitlines())]
    family, found = {pid}, {}
    for _ in range(8):  # no process is deeper
        for child, parent, words in rows:
            if parent in family and child not in family:
                family.add(child)
                found[child] = words
    return found


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4))
def test_random_kills_of_workers_and_executors_cost_nothing(tmp_path: Path, seed: int) -> None:
    random_source, killed = random.Random(seed), 0
    process = start(tmp_path, master=CLUSTER, fault="drag", split_bytes=8000, conf=PATIENT)
    try:
        while process.poll() is None:
            time.sleep(random_source.uniform(0.2, 2))
            victims = [
                pid
                for pid, words in processes_below(process.pid).items()
                if "pyspark.daemon" in words or "CoarseGrainedExecutorBackend" in words
            ]
            if victims and killed < 12:
                kill(random_source.choice(victims))
                killed += 1
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0, err[-2000:]
    assert killed >= 3
    assert json.loads(out.splitlines()[-1])["written"]["records"] == len(GOLDEN.expected())
    assert_complete(tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3))
def test_driver_killed_at_random_moments_never_leaves_a_partial_output(tmp_path: Path, seed: int) -> None:
    random_source, out = random.Random(seed), tmp_path / "out"
    for _ in range(4):
        process = start(tmp_path, fault="drag", overwrite=True)
        time.sleep(random_source.uniform(2, 14))
        process.kill()
        process.communicate(timeout=300)
        assert len(leftovers(tmp_path)) <= 1
        if out.exists():
            same_rows(rows_of(read_with_pyarrow(out / "data")), expected_rows(GOLDEN))
            assert (out / "_SUCCESS").exists()
    run(tmp_path, overwrite=True)
    assert_complete(tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4))
def test_retention_during_an_export_removes_only_expired_records(tmp_path: Path, folder: Path, seed: int) -> None:
    random_source = random.Random(seed)
    segments = segments_of(folder)
    process = start(tmp_path, paths=[str(folder.parent)], fault="drag", split_bytes=2000)
    while process.poll() is None:
        time.sleep(random_source.uniform(0.1, 0.6))
        left = segments_of(folder)
        if len(left) > 2 and (tmp_path / "notes").exists():
            left[0].unlink()
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err[-2000:]
    assert_no_leftovers(tmp_path / "out")
    rows = rows_of(read_with_pyarrow(tmp_path / "out" / "data"))
    start_offset = int(segments_of(folder)[0].stem)
    assert rows.keys() >= records_from(start_offset).keys()
    same_rows(rows, {at: row for at, row in records_from(0).items() if at in rows})
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    gone = {int(path.stem) for path in segments} - {int(path.stem) for path in segments_of(folder)}
    lost = min((at[2] for at in records_from(0) if at not in rows), default=None)
    assert lost is None or any(message for message in report["skipped"]["messages"] if "retention" in message)
    assert gone
