"""Run the command `kafkafmt serve` in a separate process."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command import inside
from golden_cases import BY_NAME
from serving import Client

import kafkafmt
from kafkafmt import protocol

CODECS = BY_NAME["kafka-4.3.1/codecs"]
ROOT = str(CODECS.roots[0])


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "kafkafmt", "serve", *args]


@contextmanager
def running(*args: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command(*args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stderr.close()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_command_prints_its_address_and_stops_on_a_signal(number: signal.Signals) -> None:
    with running(ROOT, "--listen", "127.0.0.1:0", "--format", "json") as process:
        ready = json.loads(first_line(process))
        assert ready == {"ready": True, "host": "127.0.0.1", "port": ready["port"]}
        with Client(ready["port"]) as client:
            assert client.fetch("codec-none", 0, 0).records
            process.send_signal(number)
            _, messages = process.communicate(timeout=20)
    assert process.returncode == 0
    assert messages == "kafkafmt: stopped\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_repeated_signals_do_not_change_the_exit_code(number: signal.Signals) -> None:
    with running(ROOT, "--listen", "127.0.0.1:0") as process:
        assert first_line(process).startswith("serving")
        while process.poll() is None:
            process.send_signal(number)
            time.sleep(0.01)
        _, messages = process.communicate(timeout=20)
    assert process.returncode == 0
    assert messages == "kafkafmt: stopped\n"


def test_late_second_signal_ends_a_server_that_does_not_stop(tmp_path: Path) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import asyncio, sys\n"
        "import kafkafmt\n"
        "from kafkafmt.cli.main import run\n"
        "from kafkafmt.server.service import Server\n"
        "async def close(self):\n"
        "    print('closing', flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "Server.close = close\n"
        "run()\n"
    )
    arguments = [sys.executable, str(slow), "serve", ROOT, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert first_line(process).startswith("serving")
        process.send_signal(signal.SIGTERM)
        assert first_line(process) == "closing\n"
        process.send_signal(signal.SIGTERM)
        time.sleep(2.2)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 128 + signal.SIGTERM


def test_ready_line_names_the_address() -> None:
    with running(ROOT, "--listen", ":0", "--advertise", "example.org:1234") as process:
        line = first_line(process)
        found = re.fullmatch(r"serving 7 partitions of 7 topics on 127\.0\.0\.1:(\d+)\n", line)
        assert found, line
        with Client(int(found[1])) as client:
            (broker,) = client.ask(protocol.MetadataRequest(topics=[]), 12).brokers
            assert (broker.host, broker.port) == ("example.org", 1234)


WRONG = {
    "0.0.0.0:0": (["--listen", "0.0.0.0:0"], 2, "0.0.0.0 is not a loopback address"),
    "no port": (
        ["--listen", "localhost"],
        2,
        "'localhost' is not a valid address: write HOST:PORT, such as 127.0.0.1:9092",
    ),
    "long host": (["--listen", f"{'a' * 64}:0", "--insecure"], 2, f"'{'a' * 64}' is not a valid host name"),
    "empty label": (["--listen", ":0", "--advertise", "a..b:1"], 2, "'a..b' is not a valid host name"),
    "advertised port": (
        ["--listen", ":0", "--advertise", "a:0"],
        2,
        "clients cannot connect to port 0; specify the port that they connect to",
    ),
    "topic": (["--listen", ":0", "-t", "codec-nine"], 2, "no topic matches 'codec-nine'"),
    "at": (["--listen", ":0", "--at", "5:6"], 2, "'5:6' is not a valid bound"),
    "users": (["--listen", ":0", "--users", "/dev/null"], 3, "/dev/null contains no user"),
    "key": (["--listen", ":0", "--tls-key", "/dev/null"], 2, "--tls-key requires --tls-cert"),
}


@pytest.mark.parametrize(("options", "code", "message"), WRONG.values(), ids=WRONG)
def test_invalid_options_are_errors(options: list[str], code: int, message: str) -> None:
    done = inside("serve", ROOT, *options)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("port", [0, 65536])
def test_advertised_port_must_be_valid(port: int) -> None:
    with pytest.raises(ValueError, match=f"the port in advertise is {port}; it must be at"):
        kafkafmt.serve(ROOT, advertise=("example.org", port))


def test_clients_are_answered_if_messages_cannot_be_written() -> None:
    """The reader of a pipe can end before the server, and the disk with the log file of a server can be full."""
    topic = protocol.CreateTopicsRequest.CreatableTopic(name="new", num_partitions=1, replication_factor=1)
    with open("/dev/full", "w") as full:
        process = subprocess.Popen(command(ROOT, "--listen", ":0"), stdout=subprocess.PIPE, stderr=full, text=True)
        try:
            with Client(int(first_line(process).rpartition(":")[2])) as client:
                refused = client.ask(protocol.CreateTopicsRequest(topics=[topic]), 5)
                assert refused.topics[0].error_code == protocol.ErrorCode.POLICY_VIOLATION
                assert client.fetch("codec-none", 0, 0).records
            process.terminate()
            process.communicate(timeout=20)
        finally:
            process.kill()
            process.wait()
    assert process.returncode >= 0


def test_used_port_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = inside("serve", ROOT, "--listen", f":{port}")
    assert done.returncode == 3
    assert "address already in use" in done.stderr
    assert done.stderr.count("\n") == 1


def test_empty_directory_is_an_error(tmp_path: Path) -> None:
    done = inside("serve", tmp_path)
    assert done.returncode == 3
    assert "no Kafka log found" in done.stderr
