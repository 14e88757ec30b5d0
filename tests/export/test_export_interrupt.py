"""Test Ctrl-C at any moment of an export. It prints one line, exits with code 130 and leaves no output."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from golden_cases import case

import kafkafmt


def java_runs(process: subprocess.Popen[str], folder: Path) -> bool:
    """Return whether the process has a child that is a starting JVM."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = status.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if name == "java" and int(rest.split()[1]) == process.pid:
            return True
    return False


def spark_works(process: subprocess.Popen[str], folder: Path) -> bool:
    """Return whether the staging directory exists, which means that the first job was submitted."""
    return any(p.name.startswith(".out.kafkafmt-") for p in folder.iterdir())


def session(pid: int) -> list[str]:
    """Return all processes of a session."""
    found = subprocess.run(["ps", "-o", "pid=,args=", "-s", str(pid)], capture_output=True, text=True, check=False)
    return found.stdout.splitlines()


@pytest.mark.parametrize("moment", [java_runs, spark_works])
@pytest.mark.parametrize("delay", [0.0, 1.0])
@pytest.mark.slow
def test_interrupted_export_prints_one_line(
    tmp_path: Path, moment: Callable[[subprocess.Popen[str], Path], bool], delay: float
) -> None:
    interrupt(tmp_path, case("segments").roots[0], moment, delay, [])


@pytest.mark.slow
def test_interrupted_local_export_prints_one_line(tmp_path: Path, large_log: Path) -> None:
    interrupt(tmp_path, large_log, spark_works, 0.2, ["--engine", "local", "--compression-level", "19"])


@pytest.fixture(scope="module")
def large_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log directory whose export at zstd level 19 takes several seconds."""
    path = tmp_path_factory.mktemp("large")
    numbers = random.Random(1)
    with kafkafmt.LogDirectory(path) as directory:
        for partition in range(4):
            writer = directory.writer("t", partition)
            for _ in range(20):
                writer.append([(b"%d" % numbers.randrange(1000), numbers.randbytes(100) * 3) for _ in range(1000)])
    return path


def interrupt(
    tmp_path: Path,
    log: Path,
    moment: Callable[[subprocess.Popen[str], Path], bool],
    delay: float,
    options: list[str],
) -> None:
    """Interrupt an export `delay` seconds after a moment, and check what it printed and left."""
    command = [
        sys.executable,
        "-m",
        "kafkafmt",
        "export",
        str(log),
        "--output",
        str(tmp_path / "out"),
        *options,
    ]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        command,
        env=environment,
        start_new_session=True,
        # processes in the background ignore SIGINT
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 120
        while not moment(process, tmp_path) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGINT)  # like a terminal
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out) == (130, ""), err
        assert err == "kafkafmt: interrupted: nothing was exported\n"
        assert list(tmp_path.iterdir()) == []
        while (left := session(process.pid)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert left == []
    finally:
        if session(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
