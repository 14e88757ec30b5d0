"""examples/record_proxy.py between a client and a server made here: it passes on and records whatever they say."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kafkafmt import protocol

PROXY = Path(__file__).resolve().parents[2] / "examples" / "record_proxy.py"


def framed(data):
    return len(data).to_bytes(4, "big") + data


def exact(connection, size):
    data = b""
    while len(data) < size:
        data += connection.recv(size - len(data)) or pytest.fail("the connection was closed")
    return data


@pytest.fixture
def proxy(tmp_path):
    """A function that sends a request through the proxy, has the server answer it, and returns what either side received."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with subprocess.Popen(
            [sys.executable, PROXY, "0", address, tmp_path], stdout=subprocess.PIPE, text=True
        ) as process:
            port = int(re.fullmatch(r"listening on 127.0.0.1:(\d+)\n", process.stdout.readline())[1])
            drain = threading.Thread(target=process.stdout.read, daemon=True)
            drain.start()
            with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
                broker, _ = server.accept()
                broker.settimeout(20)

                def exchange(request, answer):
                    client.sendall(request)
                    arrived = exact(broker, len(request))
                    broker.sendall(answer)
                    return arrived, exact(client, len(answer))

                exchange.said = lambda name: (tmp_path / f"1.{name}").read_bytes()
                with broker:
                    yield exchange
            process.kill()
            drain.join(20)


def test_proxy_passes_on_what_it_does_not_know(proxy):
    cases = (
        (
            "0012 0006 00000001 0001 78 00 0102",
            "00000001 0023 00000001 0012 0000 0004",
        ),  # ApiVersions v6, answered in version 0
        ("0003 0063 00000002 0001 78 00 0102", "00000002 00 0102"),  # Metadata v99
        ("03e7 0001 00000003 0001 78 0102", "00000003 0102"),  # API 999
        (
            "0003 000d 00000004 0001 78 00 00000000 010000",
            "00000005 ffff",
        ),  # bytes after the request; an answer to no request
        ("0003 000c 00000006 ffff 00 ffffffffff", "00000006 00 ffffffffff"),  # damaged
        ("0003", "00"),  # too short for a header
    )
    requests = answers = b""
    for request, answer in cases:
        request, answer = framed(bytes.fromhex(request)), framed(bytes.fromhex(answer))
        assert proxy(request, answer) == (request, answer)
        requests, answers = requests + request, answers + answer
    assert (proxy.said("requests"), proxy.said("responses")) == (requests, answers)


def test_proxy_still_changes_addresses_after_frames_that_it_does_not_know(proxy):
    proxy(framed(bytes.fromhex("0003 0063 00000002 0001 78 00 0102")), framed(bytes.fromhex("00000002 00 0102")))
    request = b"".join(protocol.write_request(protocol.make_request(protocol.MetadataRequest(), 9, 3)))
    broker = protocol.MetadataResponse.MetadataResponseBroker(node_id=1, host="otherhost", port=9)
    answer = b"".join(
        protocol.write_response(protocol.make_response(protocol.MetadataResponse(brokers=[broker]), 9, 3))
    )
    _, received = proxy(request, answer)
    assert b"127.0.0.1" in received
    assert b"otherhost" not in received
