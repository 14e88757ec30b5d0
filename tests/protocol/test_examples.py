"""Test examples/wire.py and examples/record_proxy.py with a real broker and Java clients."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import java_tools
import pytest
from command import kafkafmt
from kafka_broker import Broker

from kafkafmt import protocol

TESTS = Path(__file__).resolve().parents[1]
pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are installed"),
]
EXAMPLES = TESTS.parent / "examples"


@pytest.fixture
def proxy(broker: Broker, tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """Yield the port and the output directory of the proxy."""
    folder = tmp_path / "recorded"
    command: list[str | Path] = [sys.executable, EXAMPLES / "record_proxy.py", "0", broker.bootstrap, folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        listening = re.fullmatch(r"listening on 127.0.0.1:(\d+)\n", process.stdout.readline())
        assert listening is not None
        yield int(listening[1]), folder
        process.kill()


def wire(*arguments: int | str) -> str:
    done = subprocess.run([sys.executable, EXAMPLES / "wire.py", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_wire_example_lists_produces_and_fetches(broker: Broker) -> None:
    broker.produce(
        "topic=orders partitions=2 codec=zstd count=500 value=200",
        "topic=tx id=first count=4 end=abort",
        "topic=tx id=first count=3 end=commit",
    )
    assert {"orders-0", "orders-1", "tx-0"} <= {line.split()[0] for line in wire(broker.bootstrap, "list").splitlines()}
    assert wire(broker.bootstrap, "produce", "orders", 1, "one", "zwei") == "orders-1: 2 records from offset 250 on\n"
    assert wire(broker.bootstrap, "fetch", "orders", 1, 250) == "250 None b'one'\n251 None b'zwei'\n"
    assert len(wire(broker.bootstrap, "fetch", "orders", 0).splitlines()) == 250
    assert [line.split()[0] for line in wire(broker.bootstrap, "fetch", "tx", 0).splitlines()] == [
        "5",
        "6",
        "7",
    ]  # offsets 4 and 8 are markers


def test_frames_of_java_clients_and_a_broker_are_read_completely(
    broker: Broker, proxy: tuple[int, Path], tmp_path: Path
) -> None:
    port, folder = proxy
    address = f"127.0.0.1:{port}"
    broker.java(
        "Produce.java",
        address,
        stdin="topic=through codec=lz4 count=50 value=20\ntopic=through id=second count=5 end=commit",
    )
    assert len(broker.java("Consume.java", address, "read_committed", "through").splitlines()) == 55
    used = set()
    for requests in sorted(folder.glob("*.requests")):
        responses = requests.with_suffix(".responses")
        done = kafkafmt("decode", "--requests", requests, "--responses", responses, "--format", "json", "--records")
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        assert done.returncode == 0, [row for row in rows if "error" in row]
        used |= {row["api"] for row in rows}
        check_written_back(requests.read_bytes(), responses.read_bytes())
    assert {
        "ApiVersions",
        "Metadata",
        "Produce",
        "Fetch",
        "InitProducerId",
        "EndTxn",
        "CreateTopics",
        "FindCoordinator",
    } <= used


def check_written_back(requests: bytes, responses: bytes) -> None:
    correlation = protocol.Correlation()
    for frame in protocol.FrameSplitter().feed(requests):
        request = protocol.read_request(frame)
        assert b"".join(protocol.write_request(request)) == frame
        correlation.sent(request)
    for frame in protocol.FrameSplitter().feed(responses):
        assert b"".join(protocol.write_response(correlation.read_response(frame))) == frame
