"""Test that Ctrl-C ends every command with exit code 130 and without a traceback, even during imports."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from building import GZIP, batch, record

SEGMENT = f"{0:020}.log"


@pytest.fixture(scope="module")
def busy_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log directory with many links to one segment. To verify it takes at least a minute.

    The segment is compressed, so that the time does not depend on the speed of the page cache.
    """
    path = tmp_path_factory.mktemp("log")
    big = path.parent / "segment"
    records = [record(i, value=os.urandom(500).hex().encode()) for i in range(200)]
    big.write_bytes(b"".join(batch(records, base_offset=200 * n, codec=GZIP) for n in range(150)))
    for n in range(1000):
        (path / f"t-{n}").mkdir()
        os.link(big, path / f"t-{n}" / SEGMENT)
    return path


@contextmanager
def started(
    *arguments: object, flags: tuple[str, ...] = (), stdin: int = subprocess.DEVNULL, stdout: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, *flags, "-m", "kafkafmt", *map(str, arguments)]
    with subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def end(process: subprocess.Popen[bytes]) -> bytes:
    """Interrupt the process, and return the rest of its stderr."""
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    stderr = process.stderr.read()
    assert process.wait(120) == 130, stderr
    assert b"Traceback" not in stderr, stderr
    return stderr


MODULES = "kafkafmt._interrupt numpy kafkafmt._backend kafkafmt.log.reading.partition click kafkafmt.cli.main kafkafmt.cli.choosing".split()


@pytest.mark.parametrize("module", MODULES)
def test_interrupt_while_modules_load_is_quiet(busy_directory: Path, module: str) -> None:
    with started("cat", busy_directory / "t-0", "-f", "-o", "-0:", flags=("-X", "importtime")) as process:
        assert process.stderr is not None
        deadline = threading.Timer(120, process.kill)
        deadline.start()
        for line in process.stderr:
            if re.search(rb"\| +" + re.escape(module.encode()) + rb"$", line.rstrip()):
                break
        else:
            pytest.fail(f"the process did not import {module}")
        deadline.cancel()
        rest = end(process)
        assert [line for line in rest.splitlines() if not line.startswith(b"import time:")] == []


@pytest.mark.parametrize("delay", [0.2, 0.6, *(pytest.param(s, marks=pytest.mark.slow) for s in (0.4, 0.8, 1.2, 2.0))])
def test_interrupt_of_verify_is_quiet_and_does_not_wait(busy_directory: Path, delay: float) -> None:
    with started("verify", busy_directory, "-j", "4") as process:
        time.sleep(delay)
        assert end(process) == b""


def wait_until_read(process: subprocess.Popen[bytes]) -> None:
    """Wait until a process has loaded its modules and uses no more CPU time."""
    state = Path(f"/proc/{process.pid}/stat")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        before = state.read_text().split()[13:15]
        time.sleep(0.25)
        if before == state.read_text().split()[13:15] != ["0", "0"]:
            return
    pytest.fail("the process did not become idle")


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_interrupt_of_a_command_that_waits_is_quiet(busy_directory: Path) -> None:
    with started("cat", busy_directory / "t-0", "-f", "-o", "-0:") as process:
        wait_until_read(process)
        assert end(process) == b""
    with started("decode", "--requests", "-", stdin=subprocess.PIPE) as process:
        wait_until_read(process)
        assert end(process) == b""
    with started("cat", busy_directory, stdout=subprocess.PIPE) as process:  # nothing reads its output pipe
        wait_until_read(process)
        assert process.stdout is not None
        assert process.stderr is not None
        drain = threading.Thread(target=process.stdout.read, daemon=True)
        process.send_signal(signal.SIGINT)
        drain.start()
        assert process.stderr.read() == b""
        assert process.wait(120) == 130


def test_interrupts_in_a_row_are_quiet(busy_directory: Path) -> None:
    with started("verify", busy_directory, "-j", "4") as process:
        time.sleep(1)
        for _ in range(20):
            process.send_signal(signal.SIGINT)
            time.sleep(0.005)
        assert end(process) == b""


def test_interrupt_in_a_callback_of_a_weak_reference_ends_the_command() -> None:
    program = """
import sys, weakref
sys.argv = ["kafkafmt"]
from kafkafmt import _interrupt

class Target:
    pass

def interrupt(_):
    raise KeyboardInterrupt

_interrupt.raise_again()
target = Target()
reference = weakref.ref(target, interrupt)
del target
print("still running")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_interrupt_that_a_library_logs_is_quiet() -> None:
    """As py4j does, the program logs the KeyboardInterrupt and raises it again."""
    program = """
import logging, os, signal, sys
sys.argv = ["kafkafmt"]
from kafkafmt import _interrupt

_interrupt.raise_again()
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    logging.exception("KeyboardInterrupt while sending command.")
    print("caught")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"caught\n", b"")


def test_import_in_another_program_keeps_its_handler() -> None:
    program = "import signal, kafkafmt; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_ignored_interrupt_stays_ignored(busy_directory: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", f"trap '' INT; {sys.executable} -m kafkafmt ls {busy_directory / 't-0'} & sleep 0.1; kill -INT $!; wait $!"],
        capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
