"""Test tasks and drivers that fail. No record is lost or exported twice, and no partial output is left."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from scenarios import CLUSTER, GOLDEN, assert_complete, attempts, leftovers, run, run_killed, start
from standalone import SPECULATION, standalone_cluster

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("master", "fault", "conf"),
    [
        ("local[2,4]", "crash", {}),
        pytest.param(CLUSTER, "crash", {}, marks=pytest.mark.full),
        pytest.param("local[2,4]", "error", {}, marks=pytest.mark.full),
        pytest.param(CLUSTER, "error", {}, marks=pytest.mark.full),
    ],
)
def test_task_that_dies_is_repeated(tmp_path: Path, master: str, fault: str, conf: dict[str, str]) -> None:
    report = run(tmp_path, master=master, fault=fault, conf=conf)
    found_attempts = attempts(tmp_path)
    assert {n for n, attempt, _, _ in found_attempts if attempt} >= {n for n, _, _, _ in found_attempts if n % 3 == 1}
    assert len({parent for *_, parent in found_attempts}) >= (2 if master == CLUSTER else 1)
    assert report["written"]["records"] == len(GOLDEN.expected())
    assert report["written"]["files"] == len({n for n, *_ in found_attempts}) > 5
    assert_complete(tmp_path)


@pytest.mark.full  # starts a cluster
def test_slow_attempt_adds_no_file_after_its_repetition_succeeded(tmp_path: Path) -> None:
    """A second attempt of a slow task succeeds. The first attempt still writes when the export ends.

    Spark runs a second attempt only on another host. Therefore, the workers have the hosts
    127.0.0.1 and 127.0.0.2.
    """
    with standalone_cluster(tmp_path / "spark", ["127.0.0.1", "127.0.0.2"]) as master:
        report = run(tmp_path, master=master, fault="slow", conf=SPECULATION)
    assert {attempt for n, attempt, *_ in attempts(tmp_path) if n == 1} == {0, 1}
    assert len({parent for *_, parent in attempts(tmp_path)}) == 2
    assert report["written"]["records"] == len(GOLDEN.expected())
    assert_complete(tmp_path)


@pytest.mark.full  # starts four JVMs
def test_killed_driver_leaves_no_partial_output(tmp_path: Path) -> None:
    for fault in ("die at exporting", "die at placing"):
        run_killed(tmp_path, fault)
        assert not (tmp_path / "out").exists()
        assert len(leftovers(tmp_path)) == 1  # only its own staging directory is left; the previous one was removed
    run(tmp_path)
    assert_complete(tmp_path)
    before = {p: p.stat().st_mtime_ns for p in sorted((tmp_path / "out").rglob("*"))}
    run_killed(tmp_path, "die at publishing", overwrite=True)
    assert {p: p.stat().st_mtime_ns for p in sorted((tmp_path / "out").rglob("*"))} == before


@pytest.mark.full
@pytest.mark.parametrize("fault", ["die at planning", "die at publishing"])
def test_driver_killed_at_other_moments_leaves_no_output(tmp_path: Path, fault: str) -> None:
    run_killed(tmp_path, fault)
    assert not (tmp_path / "out").exists()
    assert len(leftovers(tmp_path)) == 1
    run(tmp_path)
    assert_complete(tmp_path)


def test_interrupted_export_leaves_neither_files_nor_processes(tmp_path: Path) -> None:
    """After the export, there are no temporary files and no processes."""
    process = start(tmp_path, fault="hang")
    assert process.stderr is not None
    for line in process.stderr:
        if "hanging" in line:
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode != 0, err
    assert not (tmp_path / "out").exists()
    assert [p.name for p in tmp_path.iterdir() if ".kafkafmt-" in p.name] == []
    deadline = time.monotonic() + 120
    while alive(str(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert alive(str(tmp_path)) == []


def alive(text: str) -> list[str]:
    """Return the processes whose command line contains a word."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int(folder.name) != os.getpid() and text in (folder / "cmdline").read_text():
                found.append(folder.name)
        except OSError:
            pass
    return found
