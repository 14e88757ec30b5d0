"""Test that commands report a full disk with the path of the output, and leave no partial output."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kafkafmt

ROOT = Path(__file__).parents[2]
COMMANDS = {
    "make": ("--from", "rows.csv", "-t", "t", "--output", "out"),
    "salvage": ("log", "--output", "out"),
    "rewrite": ("log", "--compact", "--output", "out"),
    "export": ("log", "--engine", "local", "--compression", "none", "--output", "out"),
    "stats": ("log", "--plot", "out.svg"),
}
PACKAGES = {"make": "pyarrow", "export": "pyarrow", "stats": "matplotlib"}


@pytest.mark.filterwarnings("ignore::kafkafmt.StrayPartitionWarning")
@pytest.mark.parametrize("command", COMMANDS)
def test_full_disk_is_reported_with_the_output(command: str, tmp_path: Path) -> None:
    """`ulimit -f` limits the size of files, because a test cannot fill a disk."""
    if command in PACKAGES:
        pytest.importorskip(PACKAGES[command])
    with kafkafmt.LogDirectory(tmp_path / "log") as directory:
        directory.writer("t").append([(b"k%d" % n, os.urandom(1000), n) for n in range(100)])
    (tmp_path / "rows.csv").write_text("value\n" + ("x" * 1000 + "\n") * 100)
    before = sorted(tmp_path.iterdir())
    done = subprocess.run(
        [
            "sh",
            "-c",
            'ulimit -f 8; exec "$@"',
            "sh",
            sys.executable,
            "-B",
            "-m",
            "kafkafmt",
            command,
            *COMMANDS[command],
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "MPLCONFIGDIR": str(tmp_path / "log")},
        capture_output=True,
        text=True,
        check=False,
    )
    name = COMMANDS[command][-1]
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1] in {
        f"kafkafmt: {path}: File too large" for path in (name, os.path.join(tmp_path, name))
    }
    assert sorted(tmp_path.iterdir()) == before
