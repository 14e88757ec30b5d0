"""Test `kafkafmt cat -f`, which follows a log until it is stopped."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from building import batch, record
from command import kafkafmt

import kafkafmt as kafkafmt_package

PATIENCE = 120.0
"""Longest time to wait for an expected event, in seconds."""


def some(base: int, n: int = 2) -> bytes:
    return batch([record(i, i, value=b"value %d" % (base + i)) for i in range(n)], base_offset=base)


class Following:
    """Run `cat -f`. `lines(n)` waits for n lines on stdout, and `error()` waits for a line on stderr."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "kafkafmt", "cat", "-f", *map(str, arguments), "--format", "json"]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.stdout, self.stderr = self.process.stdout, self.process.stderr

    def _line(self, stream: IO[bytes]) -> str:
        deadline = time.monotonic() + PATIENCE
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([stream], [], [], max(deadline - time.monotonic(), 0))
            assert ready, f"no output arrived within {PATIENCE} s"
            more = os.read(stream.fileno(), 1)
            assert more, "the command ended"
            line += more
        return line.decode()

    def rows(self, n: int) -> list[dict[str, Any]]:
        return [json.loads(self._line(self.stdout)) for _ in range(n)]

    def lines(self, n: int) -> list[tuple[str, int, int]]:
        return [(r["topic"], r["partition"], r["offset"]) for r in self.rows(n)]

    def error(self) -> str:
        return self._line(self.stderr)

    def end(self, signal_number: int = signal.SIGINT) -> int:
        self.process.send_signal(signal_number)
        return self.process.wait(PATIENCE)


Follow = Callable[..., Following]


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(some(0))
    return tmp_path


@pytest.fixture
def follow() -> Iterator[Follow]:
    started: list[Following] = []

    def start(*arguments: object) -> Following:
        started.append(Following(*arguments))
        return started[-1]

    yield start
    for following in started:
        following.process.kill()
        following.process.communicate()


def test_appended_records_and_changes_are_printed_at_once(log_directory: Path, follow: Follow) -> None:
    running = follow(log_directory)
    assert running.lines(2) == [("t", 0, 0), ("t", 0, 1)]
    with (log_directory / "t-0" / f"{0:020}.log").open("ab") as file:
        file.write(some(2))
    assert running.lines(2) == [("t", 0, 2), ("t", 0, 3)]
    (log_directory / "t-0" / f"{4:020}.log").write_bytes(some(4))
    (log_directory / "t-1").mkdir()
    (log_directory / "t-1" / f"{0:020}.log").write_bytes(some(0))
    assert running.lines(4) == [("t", 0, 4), ("t", 0, 5), ("t", 1, 0), ("t", 1, 1)]
    assert "t-1: new" in running.error()
    (log_directory / "t-0" / f"{4:020}.log").write_bytes(some(4, 1))
    assert "truncated: it ended at offset 6, and now ends at 5" in running.error()
    assert running.end() == 130


def test_follow_from_the_end_prints_appended_records_up_to_the_limit(log_directory: Path, follow: Follow) -> None:
    """The test appends batches until the command ends.

    Therefore, it does not depend on when the command starts to read.
    """
    running = follow(log_directory, "-o", "-0:", "-n", 3)
    end = 2
    deadline = time.monotonic() + PATIENCE
    while running.process.poll() is None and time.monotonic() < deadline:
        with (log_directory / "t-0" / f"{0:020}.log").open("ab") as file:
            file.write(some(end))
        end += 2
        time.sleep(0.05)
    assert running.process.wait(PATIENCE) == 0
    printed = running.lines(3)
    first = printed[0][2]
    assert 2 <= first < end
    assert printed == [("t", 0, first), ("t", 0, first + 1), ("t", 0, first + 2)]


def test_follow_ends_at_the_next_record_if_the_pipe_is_closed(log_directory: Path, follow: Follow) -> None:
    running = follow(log_directory)
    running.lines(2)
    running.stdout.close()
    with (log_directory / "t-0" / f"{0:020}.log").open("ab") as file:
        file.write(some(2))
    assert running.process.wait(PATIENCE) == 0
    assert running.stderr.read() == b""


def test_follow_ends_without_a_record_if_the_pipe_is_closed(log_directory: Path, follow: Follow) -> None:
    running = follow(log_directory)
    running.lines(2)
    with pytest.raises(subprocess.TimeoutExpired):
        running.process.wait(1.0)
    running.stdout.close()
    assert running.process.wait(PATIENCE) == 0
    assert running.stderr.read() == b""


def test_closed_socket_ends_follow_and_a_file_does_not(log_directory: Path) -> None:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "kafkafmt", "cat", "-f", str(log_directory)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    with ours, theirs, (log_directory / "printed").open("wb") as file:
        to_file = subprocess.Popen(command, stdout=file, env=environment)
        to_socket = subprocess.Popen(command, stdout=theirs.fileno(), env=environment)
        try:
            theirs.close()
            ours.settimeout(PATIENCE)
            assert ours.recv(1)
            ours.close()
            assert to_socket.wait(PATIENCE) == 0
            deadline = time.monotonic() + PATIENCE
            while (log_directory / "printed").read_bytes().count(b"\n") < 2 and time.monotonic() < deadline:
                time.sleep(0.1)
            assert (log_directory / "printed").read_bytes().count(b"\n") == 2
            assert to_file.poll() is None
        finally:
            to_socket.kill()
            to_file.kill()
            to_socket.wait()
            to_file.wait()


def test_follow_with_an_end_offset_is_wrong_usage(log_directory: Path) -> None:
    done = kafkafmt("cat", "-f", log_directory, "-o", ":5")
    assert (done.returncode, done.stdout) == (2, "")


def test_decoded_values_and_schemas_that_arrive_later(tmp_path: Path, follow: Follow) -> None:
    def schema(number: int, fields: list[str]) -> tuple[bytes, bytes, int]:
        text = json.dumps({"type": "record", "name": "O", "fields": [{"name": n, "type": "int"} for n in fields]})
        key = {"keytype": "SCHEMA", "subject": "t-value", "version": number, "magic": 1}
        value = {"subject": "t-value", "version": number, "id": number, "schema": text, "deleted": False}
        return json.dumps(key).encode(), json.dumps(value).encode(), 1000

    with kafkafmt_package.LogDirectory(tmp_path / "log") as directory:
        schemas, values = directory.writer("_schemas", 0), directory.writer("t", 0)
        schemas.append([schema(1, ["a"])])
        values.append([(b"k", b"\0\0\0\0\1\x02", 1000)])
        schemas.flush()
        values.flush()
        following = follow(tmp_path / "log", "-t", "t", "--decode")
        assert following.rows(1)[0]["value"] == {"a": 1}
        schemas.append([schema(2, ["a", "b"])])
        schemas.flush()
        values.append([(b"k", b"\0\0\0\0\2\x02\x04", 1000), (b"k", b"\0\0\0\0\3\x02", 1000)])
        values.flush()
        known, unknown = following.rows(2)
        assert known["value"] == {"a": 1, "b": 2}
        assert unknown["value_error"]["error"] == "unknown_schema"
