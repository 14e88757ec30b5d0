"""Test executors that see other files than the driver. The export fails and names the host and the path."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import time
from pathlib import Path

import blind
import pytest
from blind import VIEWS, segments_of
from building import GZIP, batch, compress, message, record, split
from exporting import RunExport, expected_rows, read_with_pyarrow, rows_of
from golden_cases import case, same_rows
from pyspark import cloudpickle
from standalone import can_unshare, standalone_cluster, without

import kafkafmt
from kafkafmt.exporting import TaskOSError
from kafkafmt.exporting.bundles import Bundle
from kafkafmt.exporting.delivered import TaskPlan, check_damage, check_missing, plan_in_task, transactions_in_task
from kafkafmt.exporting.tasks import BundleResult, TaskSettings, write_bundle
from kafkafmt.log import PartitionDir, PartitionLog, UnavailableSegmentError, discover
from kafkafmt.log.damage.plan import ReadLimits
from kafkafmt.spark.source.same_log import up_to_content
from kafkafmt.spark.source.splits import alone

GOLDEN = case("segments")
TOPIC = "segments-time"
LIMITS = ReadLimits(1 << 27, 1 << 23)
cloudpickle.register_pickle_by_value(blind)  # type: ignore[no-untyped-call]  # Spark's workers do not find the module


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a partition with 200 records in several segments."""
    return Path(shutil.copytree(GOLDEN.partition_dir(TOPIC, 0), tmp_path / "log" / f"{TOPIC}-0"))


def in_tasks(folder: Path) -> list[PartitionDir]:
    """Return the directory that each planning task receives, pickled as Spark sends it."""
    (directory,) = discover([folder.parent]).partitions
    tasks: list[PartitionDir] = pickle.loads(pickle.dumps([alone(directory, s) for s in directory.segments]))
    return tasks


@pytest.mark.parametrize("view", [name for name in VIEWS if name != "blank one"])
def test_planning_task_raises_if_it_sees_another_directory(folder: Path, view: str) -> None:
    tasks = in_tasks(folder)
    VIEWS[view](folder)
    with pytest.raises(UnavailableSegmentError, match=r"on host"):
        [plan_in_task(task, LIMITS) for task in tasks]


def test_task_that_finds_transactions_raises_if_a_segment_is_truncated(folder: Path) -> None:
    (directory,) = pickle.loads(pickle.dumps(discover([folder.parent]).partitions))
    VIEWS["shorten one"](folder)
    with pytest.raises(UnavailableSegmentError, match=r"bytes on this host, but \d+ bytes on the driver"):
        transactions_in_task(directory, LIMITS)


def test_tasks_raise_if_the_last_segment_ends_earlier_at_the_border_of_a_batch(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    path, batches = tmp_path / "t-0" / f"{0:020}.log", [batch([record(0)], base_offset=i) for i in range(4)]
    path.write_bytes(b"".join(batches))
    (directory,) = pickle.loads(pickle.dumps(discover([tmp_path]).partitions))
    path.write_bytes(b"".join(batches[:2]))
    for work in (
        lambda: plan_in_task(alone(directory, directory.segments[0]), LIMITS),
        lambda: transactions_in_task(directory, LIMITS),
    ):
        with pytest.raises(UnavailableSegmentError, match=r"bytes on this host, but \d+ bytes on the driver"):
            work()


@pytest.mark.parametrize("kept", [0, 2])
@pytest.mark.parametrize("size", [0, 1000, 1 << 20])
def test_tasks_raise_if_the_last_segment_has_zeros_instead_of_batches(tmp_path: Path, size: int, kept: int) -> None:
    """The file is empty, or it is a copy that was made when fewer batches were in the preallocated space."""
    (tmp_path / "t-0").mkdir()
    path, batches = tmp_path / "t-0" / f"{0:020}.log", [batch([record(0)], base_offset=i) for i in range(4)]
    path.write_bytes(b"".join(batches))
    (directory,) = pickle.loads(pickle.dumps([up_to_content(d) for d in discover([tmp_path]).partitions]))
    path.write_bytes(b"".join(batches[:kept]).ljust(size, b"\0"))
    for work in (
        lambda: plan_in_task(alone(directory, directory.segments[0]), LIMITS),
        lambda: transactions_in_task(directory, LIMITS),
    ):
        with pytest.raises(UnavailableSegmentError, match=r"bytes on this host, but \d+ bytes on the driver"):
            work()


def test_tasks_accept_a_last_segment_without_its_preallocated_space(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    path, data = tmp_path / "t-0" / f"{0:020}.log", batch([record(0)])
    path.write_bytes(data)
    os.truncate(path, 1 << 20)
    (directory,) = pickle.loads(pickle.dumps([up_to_content(d) for d in discover([tmp_path]).partitions]))
    os.truncate(path, len(data))
    assert isinstance(plan_in_task(alone(directory, directory.segments[0]), LIMITS), TaskPlan)
    assert transactions_in_task(directory, LIMITS).last_stable_offset == 1


def test_tasks_accept_a_segment_that_the_log_cleaner_has_replaced(folder: Path) -> None:
    (folder.parent / "cleaner-offset-checkpoint").write_text(f"0\n1\n{TOPIC} 0 9\n")
    (directory,) = pickle.loads(pickle.dumps(discover([folder.parent]).partitions))
    path = segments_of(folder)[1]
    first, *_ = split(path.read_bytes())
    assert len(first) < path.stat().st_size
    path.with_suffix(".cleaned").write_bytes(first)
    path.with_suffix(".cleaned").replace(path)
    assert transactions_in_task(directory, LIMITS).doubts == []
    assert isinstance(plan_in_task(alone(directory, directory.segments[1]), LIMITS), TaskPlan)


def test_driver_raises_if_it_still_sees_a_segment_missing_in_a_task(folder: Path) -> None:
    (directory,) = discover([folder.parent]).partitions
    with pytest.raises(UnavailableSegmentError, match="exists on the driver, but not on host elsewhere"):
        check_missing(PartitionLog(directory), directory.segments[0], "elsewhere")


def test_planning_task_reports_what_retention_removed(folder: Path) -> None:
    tasks = in_tasks(folder)
    messages: list[str] = []
    log = PartitionLog(discover([folder.parent]).partitions[0], tell=messages.append)
    segments_of(folder)[0].unlink()
    host = plan_in_task(tasks[0], LIMITS)
    assert isinstance(host, str)
    check_missing(log, tasks[0].segments[0], host)
    assert "retention" in messages[0]


def test_driver_raises_if_a_task_found_damage_in_a_valid_batch(folder: Path) -> None:
    segment = discover([folder.parent]).partitions[0].segments[1]
    path = segment.path
    valid = path.read_bytes()
    path.write_bytes(bytes(len(valid)))
    plan = plan_in_task(in_tasks(folder)[1], LIMITS)
    assert not isinstance(plan, str)
    check_damage(plan)  # the driver sees the same bytes
    path.write_bytes(valid)
    with pytest.raises(UnavailableSegmentError, match="another file on the task's host"):
        check_damage(plan)


def test_driver_raises_if_it_reads_other_damage_than_the_task(folder: Path) -> None:
    path = discover([folder.parent]).partitions[0].segments[1].path
    valid = path.read_bytes()
    path.write_bytes(bytes(len(valid)))
    plan = plan_in_task(in_tasks(folder)[1], LIMITS)
    assert not isinstance(plan, str)
    path.write_bytes(bytes([0xFF]) * len(valid))
    with pytest.raises(UnavailableSegmentError, match="another file on the task's host"):
        check_damage(plan)


def contradicting_messages() -> bytes:
    """Return a wrapper message whose offset contradicts its inner message, and a plain message."""
    wrapper = message(1, None, compress(GZIP, message(1, None, b"v", offset=3)), offset=1, attributes=GZIP)
    return wrapper + message(1, None, b"v", offset=5)


DAMAGE_WITH_A_VALID_CRC = {
    "negative last offset delta": batch([record(0)], last_offset_delta=-1),
    "contradicting offset": batch([record(0)], base_offset=900),
    "too large": batch([record(0, value=bytes(5000))], codec=GZIP),
    "wrapper": contradicting_messages(),
}


@pytest.mark.parametrize("name", DAMAGE_WITH_A_VALID_CRC)
def test_damage_with_a_valid_crc_is_no_difference_between_hosts(tmp_path: Path, name: str) -> None:
    parts = batch([record(0)]), DAMAGE_WITH_A_VALID_CRC[name], batch([record(0)], base_offset=7)
    (tmp_path / "in" / "t-0").mkdir(parents=True)
    (tmp_path / "in" / "t-0" / f"{0:020}.log").write_bytes(b"".join(parts))
    (task,) = in_tasks(tmp_path / "in" / "t-0")
    plan = plan_in_task(task, ReadLimits(1000, 1 << 23))
    assert not isinstance(plan, str)
    check_damage(plan)
    report = kafkafmt.export(tmp_path / "in", tmp_path / "out", engine="local", max_batch_bytes=1000)
    assert [d.position for d in report.partitions[0].quarantined.damaged] == [len(parts[0])]


def leftovers(folder: Path) -> list[str]:
    return [p.name for p in folder.iterdir() if p.name.startswith((".", "out"))]


@pytest.mark.parametrize("view", [view for view in VIEWS if view != "blank one"])
def test_export_fails_if_a_task_sees_another_directory(
    run_export: RunExport, folder: Path, tmp_path: Path, view: str
) -> None:
    change_view, first, changed = VIEWS[view], tmp_path / "first", tmp_path / "changed"

    def write_after_change(bundle: Bundle, settings: TaskSettings) -> BundleResult:
        try:
            first.mkdir()
        except FileExistsError:  # another task has changed what this worker sees, or is changing it
            deadline = time.monotonic() + 60
            while not changed.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
        else:
            change_view(folder)
            changed.touch()
        return write_bundle(bundle, settings)

    with pytest.raises(TaskOSError, match=rf"{folder}/\d+\.log: .*\(on host"):
        run_export([folder.parent], write=write_after_change, split_bytes=2000)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("committed", [False, True])
def test_export_fails_if_only_a_task_sees_retention(
    run_export: RunExport, folder: Path, tmp_path: Path, committed: bool
) -> None:
    """A task sees the log without its oldest segment. Later, the driver still sees this segment."""
    first, kept = segments_of(folder)[0], tmp_path / "kept"

    def write_after_change(bundle: Bundle, settings: TaskSettings) -> BundleResult:
        if first.exists():
            first.rename(kept)
        try:
            return write_bundle(bundle, settings)
        finally:
            kept.rename(first)

    with pytest.raises(OSError, match=rf"{first}: the file exists on the driver, but not on host"):
        run_export(
            [folder.parent], write=write_after_change, isolation="read_committed" if committed else "read_uncommitted"
        )
    assert leftovers(tmp_path) == []


def test_export_fails_if_a_task_delivers_fewer_or_more_records(
    run_export: RunExport, folder: Path, tmp_path: Path
) -> None:
    for difference in (-1, 1):

        def write_with_wrong_count(
            bundle: Bundle, settings: TaskSettings, difference: int = difference
        ) -> BundleResult:
            result = write_bundle(bundle, settings)
            result.manifests[0].rows += difference
            return result

        with pytest.raises(
            OSError,
            match=rf"{TOPIC}-0, from offset 0: a task on host .* delivered {200 + difference} records, but the plan contains 200",
        ):
            run_export([folder.parent], write=write_with_wrong_count)
        assert leftovers(tmp_path) == []


def test_counts_of_the_report_add_up_for_ranges_and_damage(run_export: RunExport) -> None:
    committed = {"isolation": "read_committed", "internal": True}
    for golden, options in ((GOLDEN, {"offsets": "7:93"}), (case("torn"), {}), (case("transactions"), committed)):
        report, _ = run_export(golden.roots, overwrite=True, **options)
        for part in report["partitions"]:
            lost = part["read"]["records"] - part["written"]["records"] - part["skipped"]["records"]
            assert (
                0
                <= lost
                <= sum(
                    d["last_offset"] - d["first_offset"] + 1 for d in part["quarantined"]["damaged"] if d["last_offset"]
                )
            )


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.full)])
@pytest.mark.slow
def test_export_requires_one_executor_that_sees_the_log(tmp_path: Path, folder: Path, workers: int) -> None:
    """If only one of two workers cannot see the log, the other repeats its tasks.

    If no worker sees the log, the export fails and names a host.
    """
    if not can_unshare():
        pytest.skip("needs a separate mount namespace")
    out = tmp_path / "out"
    settings = {"spark.driver.host": "127.0.0.1", "spark.executor.cores": "1", "spark.executor.memory": "512m"}
    settings |= {"spark.task.maxFailures": "4", "spark.excludeOnFailure.enabled": "true"}
    with standalone_cluster(
        tmp_path / "spark", ["127.0.0.1", "127.0.0.2"], [without(folder.parent)] * workers
    ) as master:
        command = [
            sys.executable,
            "-m",
            "kafkafmt",
            "export",
            str(folder.parent),
            "--output",
            str(out),
            "--master",
            master,
        ]
        command += [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=300)
    if workers == 1:
        assert done.returncode == 0, done.stderr
        expected = {at: row for at, row in expected_rows(GOLDEN).items() if at[:2] == (TOPIC, 0)}
        same_rows(rows_of(read_with_pyarrow(out / "data")), expected)
    else:
        assert done.returncode == 3, done.stderr
        assert "(on host" in done.stderr
        assert f"{folder}/" in done.stderr
        assert leftovers(tmp_path) == []
