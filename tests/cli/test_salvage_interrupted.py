"""Test that an interrupted, killed or failed salvage leaves no directory that looks complete."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from building import batch, record
from command import kafkafmt

import kafkafmt as kafkafmt_package

WORK = ".kafkafmt-salvage"
PARTITIONS = 12
PATIENCE = 120
"""Longest time to wait for an expected event, in seconds."""
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
HELD = """
import os, sys, time
from pathlib import Path
out, pattern, count, signs = Path(sys.argv.pop(1)), sys.argv.pop(1), int(sys.argv.pop(1)), Path(sys.argv.pop(1))
def held(real):
    def call(*args, **options):
        while len(list(out.glob(pattern))) >= count and not (signs / "continue").exists():
            open(signs / "held", "w").close()
            time.sleep(0.005)
        return real(*args, **options)
    return call
def creating(real):
    create = held(real)
    return lambda path, flags, *args, **options: (create if flags & os.O_CREAT else real)(path, flags, *args, **options)
os.open = creating(os.open)
os.rename = held(os.rename)
os.fsync = lambda _: None
from kafkafmt.log.storage import syncing
syncing.sync_file_system = held(lambda _: None)
from kafkafmt.cli.main import run
run()
"""
"""Run the command, but stop before a file is created, synced or renamed once the output has `count` files of a pattern.

The process then creates the file `held`, and waits for the file `continue`.
"""

MOMENTS = {
    "at the beginning": (WORK, 1),
    "while partitions are copied": (f"{WORK}/t-*", PARTITIONS // 2 + 1),
    "while checkpoints are written": (f"{WORK}/recovery-point-offset-checkpoint", 1),
    "while the copy is synced": (f"{WORK}/meta.properties", 1),
}
LATE = MOMENTS | {"while partitions are moved to their place": ("t-1", 1)}
"""Moments of a salvage: a pattern of files in the output, and the number of these files."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "in"
    for i in range(PARTITIONS):
        (root / f"t-{i}").mkdir(parents=True)
        (root / f"t-{i}" / f"{0:020}.log").write_bytes(batch([record(0, value=b"x" * 100)]))
    (root / "meta.properties").write_text("version=1\ncluster.id=kafkafmtTestCluster000\nnode.id=1\n")
    return root


class HeldSalvage:
    """A salvage in another process, which stops at a given moment. The constructor waits for this moment."""

    def __init__(self, source: Path, output: Path, moment: str) -> None:
        self.signs = output.with_name("signs")
        self.signs.mkdir()
        pattern, count = LATE[moment]
        argv = [sys.executable, "-c", HELD, str(output), pattern, str(count), str(self.signs)]
        self.process = subprocess.Popen(
            [*argv, "salvage", str(source), "--output", str(output), "-j", "2"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )
        deadline = time.monotonic() + PATIENCE
        while not (self.signs / "held").exists():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def finish(self) -> tuple[str, str]:
        """Let the salvage continue, and return its stdout and stderr."""
        (self.signs / "continue").touch()
        return self.process.communicate(timeout=PATIENCE)


@pytest.mark.parametrize("moment", LATE)
@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.slow
def test_interrupt_leaves_no_output_and_prints_one_line(
    moment: str, exists: bool, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    if exists:
        out.mkdir()
    salvage = HeldSalvage(source, out, moment)
    salvage.process.send_signal(signal.SIGINT)
    stdout, stderr = salvage.finish()
    assert salvage.process.returncode == 130
    assert stdout == ""
    assert stderr == f"kafkafmt: interrupted: {out} contains no salvaged data\n"
    assert (list(out.iterdir()) == []) if exists else not out.exists()
    assert kafkafmt("salvage", source, "--output", out).returncode == 0


@pytest.mark.parametrize("moment", LATE)
@pytest.mark.slow
def test_killed_salvage_leaves_no_directory_that_looks_complete(moment: str, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = HeldSalvage(source, out, moment).process
    process.kill()
    process.communicate(timeout=PATIENCE)
    for command in ("ls", "verify", "cat"):
        done = kafkafmt(command, out)
        assert done.returncode == 3, done.stdout
        assert "incomplete, because the command that writes it was interrupted" in done.stderr
    with pytest.raises(OSError, match="incomplete"):
        kafkafmt_package.LogDirectory(out)
    assert not (out / "meta.properties").exists()
    again = kafkafmt("salvage", source, "--output", out)
    if moment in MOMENTS:
        assert again.returncode == 0, again.stderr
        assert json.loads(kafkafmt("verify", out, "--format", "json").stdout)["ok"]
    else:
        assert again.returncode == 2
        assert "delete the directory and run the command again" in again.stderr


@pytest.mark.slow
def test_second_salvage_into_the_same_directory_is_refused(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    salvage = HeldSalvage(source, out, "while partitions are copied")
    second = kafkafmt("salvage", source, "--output", out)
    assert second.returncode == 3
    assert "another process is salvaging into this directory" in second.stderr
    salvage.finish()
    assert salvage.process.returncode == 0
    assert (out / "meta.properties").exists()
    assert not (out / WORK).exists()


def run_with(source: Path, output: Path, patch: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process that has executed the code `patch` before."""
    run = "from kafkafmt.cli.main import run\nrun()\n"
    argv = [sys.executable, "-c", patch + run, "salvage", str(source), "--output", str(output), *flags]
    return subprocess.run(argv, capture_output=True, text=True, env=ENVIRONMENT, check=False)


FAILING_PARTITION = """
import errno, os
from kafkafmt.log.repairing.salvage_copy import PartitionCopy
real = PartitionCopy._write_indexes
def failing(self, *args):
    if self.source.name == "t-3":
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(self.source))
    return real(self, *args)
PartitionCopy._write_indexes = failing
"""
FULL_DISK = """
import errno, os, sys
import kafkafmt.log.repairing.salvage_api
from kafkafmt.log.storage import local_files
real_write, calls = local_files.write_new, []
def full(*args, **options):
    calls.append(1)
    if len(calls) > 20:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return real_write(*args, **options)
for module in [m for name, m in sys.modules.items() if name.startswith("kafkafmt.")]:
    if vars(module).get("write_new") is real_write:
        module.write_new = full
"""


@pytest.mark.slow
def test_read_error_in_a_partition_does_not_affect_others(source: Path, tmp_path: Path) -> None:
    done = run_with(source, tmp_path / "out", FAILING_PARTITION, "--format", "json")
    assert done.returncode == 3
    assert [(u["topic"], u["partition"]) for u in json.loads(done.stdout)["unreadable"]] == [("t", 3)]
    assert sorted(p.name for p in (tmp_path / "out").glob("t-*")) == sorted(
        f"t-{i}" for i in range(PARTITIONS) if i != 3
    )
    assert (tmp_path / "out" / "meta.properties").exists()


@pytest.mark.slow
def test_segment_that_links_to_itself_does_not_affect_others(source: Path, tmp_path: Path) -> None:
    broken = source / "t-3" / f"{0:020}.log"
    broken.unlink()
    broken.symlink_to(broken)
    done = kafkafmt("salvage", source, "--output", tmp_path / "out", "--format", "json")
    assert done.returncode == 3
    assert str(broken) in [u["path"] for u in json.loads(done.stdout)["unreadable"]]


@pytest.mark.slow
def test_full_disk_ends_the_command_and_leaves_no_output(source: Path, tmp_path: Path) -> None:
    done = run_with(source, tmp_path / "out", FULL_DISK)
    assert done.returncode == 3
    assert done.stderr == f"kafkafmt: {tmp_path / 'out'}: No space left on device\n"
    assert not (tmp_path / "out").exists()
