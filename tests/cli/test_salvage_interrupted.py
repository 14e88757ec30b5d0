"""A salvage that is interrupted, killed or fails: nothing that it leaves looks complete."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from building import batch, record
from command import kafkafmt

import kafkafmt as kafkafmt_package

WORK = ".kafkafmt-salvage"
PARTITIONS = 12
SLOW = """
import os, sys, time
def slowly(real):
    def call(*args, **options):
        time.sleep(0.05)
        return real(*args, **options)
    return call
os.fsync = slowly(lambda _: None)
os.rename = slowly(os.rename)
from kafkafmt.cli.main import run
run()
"""
"""The command, so slow that a signal reaches it at the moment that a test waits for."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "in"
    for i in range(PARTITIONS):
        (root / f"t-{i}").mkdir(parents=True)
        (root / f"t-{i}" / f"{0:020}.log").write_bytes(batch([record(0, value=b"x" * 100)]))
    (root / "meta.properties").write_text("version=1\ncluster.id=kafkafmtTestCluster000\nnode.id=1\n")
    return root


def start(source: Path, output: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", SLOW, "salvage", str(source), "--output", str(output), "-j", "2"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


MOMENTS: dict[str, Callable[[Path], bool]] = {
    "at the beginning": lambda out: (out / WORK).exists(),
    "while partitions are copied": lambda out: len(list((out / WORK).glob("t-*"))) > PARTITIONS // 2,
    "while checkpoints are written": lambda out: (out / WORK / "recovery-point-offset-checkpoint").exists(),
}
LATE: dict[str, Callable[[Path], bool]] = MOMENTS | {
    "while everything is moved to its place": lambda out: (out / "t-1").exists()
}


@pytest.mark.parametrize("moment", LATE)
@pytest.mark.parametrize("exists", [False, True])
def test_interrupt_leaves_nothing_and_prints_one_line(moment: str, exists: bool, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    if exists:
        out.mkdir()
    process = start(source, out)
    wait_for(lambda: LATE[moment](out), process)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stdout == ""
    assert stderr == f"kafkafmt: interrupted: nothing was left in {out}\n"
    assert (list(out.iterdir()) == []) if exists else not out.exists()
    assert kafkafmt("salvage", source, "--output", out).returncode == 0


@pytest.mark.parametrize("moment", LATE)
def test_killed_salvage_leaves_no_directory_that_looks_complete(moment: str, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start(source, out)
    wait_for(lambda: LATE[moment](out), process)
    process.kill()
    process.communicate(timeout=60)
    for command in ("ls", "verify", "cat"):
        done = kafkafmt(command, out)
        assert done.returncode == 3, done.stdout
        assert "incomplete, because a salvage was interrupted" in done.stderr
    with pytest.raises(OSError, match="incomplete"):
        kafkafmt_package.LogDirectory(out)
    assert not (out / "meta.properties").exists()
    again = kafkafmt("salvage", source, "--output", out)
    if moment in MOMENTS:
        assert again.returncode == 0, again.stderr
        assert json.loads(kafkafmt("verify", out, "--format", "json").stdout)["ok"]
    else:
        assert again.returncode == 2
        assert "delete the directory and salvage again" in again.stderr


def test_second_salvage_into_the_same_directory_is_refused(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start(source, out)
    wait_for(lambda: MOMENTS["while partitions are copied"](out), process)
    second = kafkafmt("salvage", source, "--output", out)
    assert second.returncode == 3
    assert "another process is salvaging into it" in second.stderr
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert (out / "meta.properties").exists()
    assert not (out / WORK).exists()


def run_with(source: Path, output: Path, patch: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process that has executed `patch` before."""
    argv = [sys.executable, "-c", patch + SLOW, "salvage", str(source), "--output", str(output), *flags]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(argv, capture_output=True, text=True, env=environment, check=False)


FAILING_PARTITION = """
import errno, os
from kafkafmt.log.auditing import salvage_copy as copying
real = copying.read_through
def failing(view, *args, **options):
    if "t-3" in str(view.path):
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(view.path))
    return real(view, *args, **options)
copying.read_through = failing
"""
FULL_DISK = """
import errno, os
from kafkafmt.log.format import files
real_write, calls = files.write_new, []
def full(*args):
    calls.append(1)
    if len(calls) > 20:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return real_write(*args)
files.write_new = full
"""


def test_partition_that_fails_costs_no_other_one(source: Path, tmp_path: Path) -> None:
    done = run_with(source, tmp_path / "out", FAILING_PARTITION, "--format", "json")
    assert done.returncode == 3
    assert [(u["topic"], u["partition"]) for u in json.loads(done.stdout)["unreadable"]] == [("t", 3)]
    assert sorted(p.name for p in (tmp_path / "out").glob("t-*")) == sorted(
        f"t-{i}" for i in range(PARTITIONS) if i != 3
    )
    assert (tmp_path / "out" / "meta.properties").exists()


def test_segment_that_is_a_link_to_itself_costs_no_other_one(source: Path, tmp_path: Path) -> None:
    broken = source / "t-3" / f"{0:020}.log"
    broken.unlink()
    broken.symlink_to(broken)
    done = kafkafmt("salvage", source, "--output", tmp_path / "out", "--format", "json")
    assert done.returncode == 3
    assert str(broken) in [u["path"] for u in json.loads(done.stdout)["unreadable"]]


def test_full_disk_ends_the_command_and_leaves_nothing(source: Path, tmp_path: Path) -> None:
    done = run_with(source, tmp_path / "out", FULL_DISK)
    assert done.returncode == 3
    assert done.stderr == "kafkafmt: No space left on device\n"
    assert not (tmp_path / "out").exists()
