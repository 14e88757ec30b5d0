"""`kafkafmt cat -f`: a process that goes on."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from building import batch, record
from command import kafkafmt

PATIENCE = 20.0


def some(base: int, n: int = 2) -> bytes:
    return batch([record(i, i, value=b"value %d" % (base + i)) for i in range(n)], base_offset=base)


class Following:
    """`cat -f` under way; lines(n) waits for as many, errors() for a line on stderr."""

    def __init__(self, *arguments: Any) -> None:
        command = [sys.executable, "-m", "kafkafmt", "cat", "-f", *map(str, arguments), "--format", "json"]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        )

    def _line(self, stream: Any) -> str:
        deadline = time.monotonic() + PATIENCE
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([stream], [], [], max(deadline - time.monotonic(), 0))
            assert ready, f"nothing came within {PATIENCE} s"
            more = os.read(stream.fileno(), 1)
            assert more, "the command ended"
            line += more
        return line.decode()

    def lines(self, n: int) -> list[tuple[str, int, int]]:
        rows = [json.loads(self._line(self.process.stdout)) for _ in range(n)]
        return [(r["topic"], r["partition"], r["offset"]) for r in rows]

    def error(self) -> str:
        return self._line(self.process.stderr)

    def end(self, how: int = signal.SIGINT) -> int:
        self.process.send_signal(how)
        return self.process.wait(PATIENCE)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(some(0))
    return tmp_path


@pytest.fixture
def follow() -> Iterator[Any]:
    started = []

    def start(*arguments: Any) -> Following:
        started.append(Following(*arguments))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()


def test_what_comes_is_printed_at_once(root: Path, follow: Any) -> None:
    running = follow(root)
    assert running.lines(2) == [("t", 0, 0), ("t", 0, 1)]
    with (root / "t-0" / f"{0:020}.log").open("ab") as file:
        file.write(some(2))
    assert running.lines(2) == [("t", 0, 2), ("t", 0, 3)]
    (root / "t-0" / f"{4:020}.log").write_bytes(some(4))
    (root / "t-1").mkdir()
    (root / "t-1" / f"{0:020}.log").write_bytes(some(0))
    assert running.lines(4) == [("t", 0, 4), ("t", 0, 5), ("t", 1, 0), ("t", 1, 1)]
    assert "t-1: new" in running.error()
    (root / "t-0" / f"{4:020}.log").write_bytes(some(4, 1))
    assert "truncated, from offset 6 to 5" in running.error()
    assert running.end() == 130


def test_from_the_end_up_to_a_limit(root: Path, follow: Any) -> None:
    running = follow(root, "-o", "-0:", "-n", 3)
    time.sleep(1.5)  # it begins with what is appended after its start
    with (root / "t-0" / f"{0:020}.log").open("ab") as file:
        file.write(some(2, 4))
    assert running.lines(3) == [("t", 0, 2), ("t", 0, 3), ("t", 0, 4)]
    assert running.process.wait(PATIENCE) == 0


def test_a_closed_pipe_ends_it(root: Path, follow: Any) -> None:
    running = follow(root)
    running.lines(2)
    running.process.stdout.close()
    with (root / "t-0" / f"{0:020}.log").open("ab") as file:
        file.write(some(2))
    assert running.process.wait(PATIENCE) == 0
    assert running.process.stderr.read() == b""


def test_follow_ends_when_the_pipe_is_closed(root: Path, follow: Any) -> None:
    running = follow(root)
    running.lines(2)
    with pytest.raises(subprocess.TimeoutExpired):
        running.process.wait(1.0)
    running.process.stdout.close()
    assert running.process.wait(PATIENCE) == 0
    assert running.process.stderr.read() == b""


def test_a_socket_is_watched_too_and_a_file_is_not(root: Path) -> None:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "kafkafmt", "cat", "-f", str(root)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    with ours, theirs, (root / "printed").open("wb") as file:
        to_file = subprocess.Popen(command, stdout=file, env=environment)
        to_socket = subprocess.Popen(command, stdout=theirs, env=environment)
        try:
            theirs.close()
            ours.settimeout(PATIENCE)
            assert ours.recv(1)
            ours.close()
            assert to_socket.wait(PATIENCE) == 0
            deadline = time.monotonic() + PATIENCE
            while (root / "printed").read_bytes().count(b"\n") < 2 and time.monotonic() < deadline:
                time.sleep(0.1)
            assert (root / "printed").read_bytes().count(b"\n") == 2
            assert to_file.poll() is None
        finally:
            to_socket.kill()
            to_file.kill()
            to_socket.wait()
            to_file.wait()


def test_it_has_no_end(root: Path) -> None:
    done = kafkafmt("cat", "-f", root, "-o", ":5")
    assert (done.returncode, done.stdout) == (2, "")
