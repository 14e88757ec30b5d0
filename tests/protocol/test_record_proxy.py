"""Test that examples/record_proxy.py forwards and records all bytes between a client and a server."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kafkafmt import protocol

pytestmark = pytest.mark.slow

PROXY = Path(__file__).resolve().parents[2] / "examples" / "record_proxy.py"


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def exact(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += connection.recv(size - len(data)) or pytest.fail("the connection was closed")
    return data


@dataclass
class Proxy:
    """A running proxy that writes to `folder`, and the sockets of its client and its server."""

    folder: Path
    client: socket.socket
    server: socket.socket

    def exchange(self, request: bytes, answer: bytes) -> tuple[bytes, bytes]:
        """Send a request and its response through the proxy, and return the bytes that arrive."""
        self.client.sendall(request)
        arrived = exact(self.server, len(request))
        self.server.sendall(answer)
        return arrived, exact(self.client, len(answer))

    def recorded(self, name: str) -> bytes:
        """Return the bytes that the proxy has recorded."""
        return (self.folder / f"1.{name}").read_bytes()


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with subprocess.Popen(
            [sys.executable, PROXY, "0", address, tmp_path], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            listening = re.fullmatch(r"listening on 127.0.0.1:(\d+)\n", process.stdout.readline())
            assert listening is not None
            port = int(listening[1])
            drain = threading.Thread(target=process.stdout.read, daemon=True)
            drain.start()
            with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
                broker, _ = server.accept()
                broker.settimeout(20)
                with broker:
                    yield Proxy(tmp_path, client, broker)
            process.kill()
            drain.join(20)


def test_proxy_forwards_unknown_frames_unchanged(proxy: Proxy) -> None:
    cases = (
        # ApiVersions v6 with a response in version 0
        ("0012 0006 00000001 0001 78 00 0102", "00000001 0023 00000001 0012 0000 0004"),
        ("0003 0063 00000002 0001 78 00 0102", "00000002 00 0102"),  # Metadata v99
        ("03e7 0001 00000003 0001 78 0102", "00000003 0102"),  # API 999
        # bytes after the request, and a response that matches no request
        ("0003 000d 00000004 0001 78 00 00000000 010000", "00000005 ffff"),
        ("0003 000c 00000006 ffff 00 ffffffffff", "00000006 00 ffffffffff"),  # damaged
        ("0003", "00"),  # too short for a header
    )
    requests = answers = b""
    for pair in cases:
        request, answer = (framed(bytes.fromhex(text)) for text in pair)
        assert proxy.exchange(request, answer) == (request, answer)
        requests, answers = requests + request, answers + answer
    assert (proxy.recorded("requests"), proxy.recorded("responses")) == (requests, answers)


def test_proxy_changes_addresses_after_unknown_frames(proxy: Proxy) -> None:
    proxy.exchange(
        framed(bytes.fromhex("0003 0063 00000002 0001 78 00 0102")), framed(bytes.fromhex("00000002 00 0102"))
    )
    request = b"".join(protocol.write_request(protocol.make_request(protocol.MetadataRequest(), 9, 3)))
    broker = protocol.MetadataResponse.MetadataResponseBroker(node_id=1, host="otherhost", port=9)
    answer = b"".join(
        protocol.write_response(protocol.make_response(protocol.MetadataResponse(brokers=[broker]), 9, 3))
    )
    _, received = proxy.exchange(request, answer)
    assert b"127.0.0.1" in received
    assert b"otherhost" not in received


@pytest.mark.parametrize("name", ["Produce", "Fetch", "ShareFetch", "ShareAcknowledge"])
def test_proxy_changes_the_addresses_of_new_leaders(proxy: Proxy, name: str) -> None:
    """Clients connect to these addresses if their leader epoch is outdated, for example after a restart of the broker."""
    make: Any = protocol.message_class(name, "response")
    version = make.API.versions.last
    body: Any = protocol.message_class(name, "request")()
    if name == "Produce":
        body.acks = 1
    request = protocol.make_request(body, version, 3)
    node = make.NodeEndpoint(node_id=1, host="otherhost", port=9)
    answer = protocol.make_response(make(node_endpoints=[node]), version, 3)
    proxy.client.sendall(b"".join(protocol.write_request(request)))
    exact(proxy.server, 4)
    proxy.server.sendall(b"".join(protocol.write_response(answer)))
    size = exact(proxy.client, 4)
    received = size + exact(proxy.client, int.from_bytes(size, "big"))
    read: Any = protocol.read_response(received, api_key=name, api_version=version).body
    [found] = read.node_endpoints
    assert (found.node_id, found.host) == (1, "127.0.0.1")
    assert found.port == proxy.client.getpeername()[1]


def test_proxy_accepts_the_next_client_if_the_broker_was_unreachable(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        broker = closed.getsockname()
    with subprocess.Popen(
        [sys.executable, PROXY, "0", f"127.0.0.1:{broker[1]}", tmp_path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            assert client.recv(1) == b""
        assert f"1: cannot connect to 127.0.0.1:{broker[1]}" in process.stderr.readline()
        with (
            socket.create_server(broker) as server,
            socket.create_connection(("127.0.0.1", port), timeout=20) as client,
        ):
            connected, _ = server.accept()
            with connected:
                client.sendall(b"\0\0\0\1x")
                assert exact(connected, 5) == b"\0\0\0\1x"
            process.kill()
