"""Send malformed requests and many requests, and check that the server still responds and uses little memory."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from golden_cases import BY_NAME
from serving import Client, fetch_request

import kafkafmt
from kafkafmt import LogDirectory, protocol
from kafkafmt.server import ServerLimits

Start = Callable[..., kafkafmt.server.Server]
CODECS = BY_NAME["kafka-4.3.1/codecs"]
TOPIC = "codec-none"


@pytest.fixture
def server(started: Start) -> kafkafmt.server.Server:
    return started([str(root) for root in CODECS.roots])


def frame(body: Any, version: int) -> bytes:
    return b"".join(map(bytes, protocol.write_request(protocol.make_request(body, version, 1, "test"))))


def answers(server: kafkafmt.server.Server) -> bool:
    """Return whether the server responds to a new client."""
    with Client(server.port) as client:
        return bool(client.ask(protocol.MetadataRequest(topics=None), 12).topics)


HOSTILE = {
    "negative size": struct.pack(">i", -5),
    "zero size": struct.pack(">i", 0),
    "size above the limit": struct.pack(">i", 2**31 - 1),
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "tls hello": bytes.fromhex("16030100c8010000c40303") + bytes(100),
    "only ones": struct.pack(">i", 100) + b"\xff" * 100,
    "too short header": struct.pack(">ih", 2, 3),
    "fetch without a version": struct.pack(">ihb", 3, 1, 0),
    "unknown api": struct.pack(">ihhih", 10, 999, 0, 1, -1),
    "unknown version": struct.pack(">ihhih", 10, 3, 99, 1, -1),
    "negative version": struct.pack(">ihhih", 10, 1, -1, 1, -1),
    "huge array": struct.pack(">ihhihi", 14, 3, 1, 1, -1, 2**31 - 1),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_malformed_request_closes_only_its_connection(server: kafkafmt.server.Server, data: bytes) -> None:
    with Client(server.port) as other, Client(server.port) as client:
        client.socket.sendall(data)
        assert client.closed()
        assert other.fetch(TOPIC, 0, 0).records
    lines = [line for line in server.messages if "connection closed" in line]
    assert len(lines) == 1, server.messages


def test_server_survives_truncated_requests(server: kafkafmt.server.Server) -> None:
    whole = frame(fetch_request({(TOPIC, 0): 0}, 12), 12)
    for size in range(1, len(whole)):
        with Client(server.port) as client:
            client.socket.sendall(whole[:size])
            client.socket.shutdown(socket.SHUT_WR)
            assert client.closed()
    assert answers(server)


def test_server_survives_mutated_requests(server: kafkafmt.server.Server) -> None:
    chance = Random(5)
    sample = [
        frame(fetch_request({(TOPIC, 0): 0}, 12), 12),
        frame(protocol.MetadataRequest(topics=None), 9),
        frame(fetch_request({(TOPIC, 0): 0}, 4), 4),
    ]
    for _ in range(150):
        data = bytearray(chance.choice(sample))
        for _ in range(chance.randrange(1, 5)):
            data[chance.randrange(4, len(data))] = chance.randrange(256)
        with Client(server.port, timeout=0.05) as client:
            client.socket.sendall(data)
            try:
                client.socket.recv(100)
            except (TimeoutError, ConnectionError):
                continue
    assert answers(server)
    assert not [line for line in server.messages if "failed: " in line and "Error" in line]


def test_failing_connection_is_reported_with_its_reason(server: kafkafmt.server.Server) -> None:
    with Client(server.port) as client:
        client.socket.sendall(struct.pack(">i", 2**30))
        assert client.closed()
    assert "the size field of a request is 1073741824" in server.messages[-1]


def test_idle_connections_do_not_disturb_others(started: Start) -> None:
    server = started([str(root) for root in CODECS.roots], limits=ServerLimits(max_connections=1010))
    before = resident()
    clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(1000)]
    try:
        assert answers(server)
        deadline = time.monotonic() + 10
        while server.connection_count < 1000 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert server.connection_count >= 1000
        assert resident() - before < 40 << 20
    finally:
        for client in clients:
            client.close()


def test_connections_above_the_limit_are_closed(started: Start) -> None:
    server = started([str(root) for root in CODECS.roots], limits=ServerLimits(max_connections=2))
    with Client(server.port) as one, Client(server.port) as two:
        for client in (one, two):
            assert client.offset(TOPIC, 0, -2).offset == 0
        with Client(server.port) as three:
            assert three.closed()


def test_idle_connection_is_closed(started: Start) -> None:
    server = started([str(root) for root in CODECS.roots], limits=ServerLimits(idle_timeout=0.2))
    with Client(server.port) as client:
        assert client.closed()
    assert "no request for 0.2 seconds" in server.messages[-1]


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Return a log directory with 64 MiB of records."""
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer("t")
        value = os.urandom(1 << 16)
        for i in range(64):
            writer.append([(None, value, i)] * 16)
    return tmp_path


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.filterwarnings("ignore::kafkafmt.StrayPartitionWarning")
def test_clients_that_do_not_read_responses_use_little_memory(started: Start, large: Path) -> None:
    server = started(large, limits=ServerLimits(write_timeout=60))
    wanted: Any = fetch_request({("t", 0): 0}, 12, partition_max_bytes=50 << 20)
    with Client(server.port) as client:
        client.ask(wanted, 12)
    before = resident()
    clients = []
    for _ in range(30):
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect(("127.0.0.1", server.port))
        for _ in range(20):  # the server reads the second request only after it has written the first response
            raw.sendall(frame(wanted, 12))
        clients.append(raw)
    try:
        time.sleep(0.5)
        assert resident() - before < 60 << 20
        assert answers(server)
    finally:
        for raw in clients:
            raw.close()


@pytest.mark.filterwarnings("ignore::kafkafmt.StrayPartitionWarning")
def test_client_that_stops_reading_is_disconnected(started: Start, large: Path) -> None:
    server = started(large, limits=ServerLimits(write_timeout=0.3))
    with Client(server.port) as client:
        client.send(fetch_request({("t", 0): 0}, 12, partition_max_bytes=50 << 20), 12)
        deadline = time.monotonic() + 10
        while not server.messages and time.monotonic() < deadline:
            time.sleep(0.05)
    assert "the client read nothing for 0.3 seconds" in server.messages[-1]


def test_closed_server_leaves_no_threads_and_open_files() -> None:
    def open_files() -> Iterator[str]:
        for name in os.listdir("/proc/self/fd"):
            try:
                yield os.readlink(f"/proc/self/fd/{name}")
            except FileNotFoundError:
                continue

    paths = [str(root) for root in CODECS.roots]
    for _ in range(2):
        with kafkafmt.serve(paths) as server, Client(server.port) as client:
            client.read_all(TOPIC, 0)
    assert not [name for name in open_files() if "codecs" in name]
    assert not [t.name for t in threading.enumerate() if t.name.startswith("kafkafmt-serve")]


def test_large_requests_before_authentication_are_refused(started: Start, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("alice:{PLAIN}secret\n")
    server = started([str(root) for root in CODECS.roots], users=users)
    authenticate = protocol.SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret")
    make = protocol.MetadataRequest
    large = make(topics=[make.MetadataRequestTopic(name="x" * 1000 + str(i)) for i in range(100)])
    strangers = [Client(server.port) for _ in range(40)]
    try:
        for stranger in strangers:
            stranger.socket.sendall(struct.pack(">ihhi", ServerLimits().max_frame_bytes, 18, 3, 1))
        with Client(server.port, timeout=10) as client:
            assert client.ask(protocol.SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
            assert client.ask(authenticate, 2).error_code == 0
            assert len(client.ask(large, 12).topics) == 100
        assert all(stranger.closed() for stranger in strangers)
        assert sum("to 16384 before authentication" in line for line in server.messages) == len(strangers)
    finally:
        for stranger in strangers:
            stranger.socket.close()
