"""Fuzz the server: valid, random and mutated requests of every API that it answers."""

from __future__ import annotations

import socket
import struct
from functools import cache
from random import Random
from typing import Any
from uuid import UUID

from golden_cases import BY_NAME
from random_messages import random_message
from serving import Client

import kafkafmt
from kafkafmt import protocol
from kafkafmt.protocol import Request
from kafkafmt.protocol.apis import API_VERSIONS

from .case import Case
from .outcome import Failed, attempt_raw, check, same
from .target import target
from .targets_protocol import COUNTS, mutate_frame

LOGS = ("kafka-4.3.1/codecs", "kafka-4.3.1/transactions", "kafka-4.3.1/internal", "kafka-4.3.1/torn")
NAMES = ("g", "classic-static", "consumer", "range", "alice", "")
PATIENCE = 0.3
"""Seconds to wait for a response. A response may be delayed, for example until a group is rebalanced."""


@cache
def answered() -> tuple[tuple[int, int], ...]:
    """Return the API key and the version of all requests that the server answers."""
    with kafkafmt.serve(roots(LOGS[0])) as server, Client(server.port) as client:
        ranges = client.ask(protocol.ApiVersionsRequest(), 0).api_keys
    return tuple((r.api_key, version) for r in ranges for version in range(r.min_version, r.max_version + 1))


@cache
def topics(name: str) -> tuple[tuple[str, UUID], ...]:
    """Return the names and ids of the topics in a log directory."""
    with kafkafmt.serve(roots(name), internal=True) as server, Client(server.port) as client:
        return tuple((t.name, t.topic_id) for t in client.ask(protocol.MetadataRequest(topics=None), 12).topics)


def roots(name: str) -> list[str]:
    return [str(root) for root in BY_NAME[name].roots]


def request_body(chance: Random, key: int, version: int, name: str) -> Any:
    """Return a request with random values, most of which exist in the log directory."""
    body = random_message(chance, protocol.message_class(key, "request"), version)
    _fill(chance, body, version, topics(name))
    return body


def _fill(chance: Random, body: Any, version: int, served: tuple[tuple[str, UUID], ...]) -> None:
    for f in body.SCHEMA.fields:
        value = getattr(body, f.name)
        if value is None or version not in f.versions or chance.random() < 0.1:
            continue
        if f.struct is not None:
            for part in value if f.array else [value]:
                _fill(chance, part, version, served)
        elif f.array:
            setattr(body, f.name, [_known_value(chance, f, one, served) for one in value])
        else:
            setattr(body, f.name, _known_value(chance, f, value, served))


def _known_value(chance: Random, f: Any, value: Any, served: tuple[tuple[str, UUID], ...]) -> Any:
    topic, topic_id = chance.choice(served)
    if f.type == "uuid":
        return topic_id
    if f.type == "string":
        return chance.choice((topic, *NAMES)) if "group" not in f.name else chance.choice(NAMES)
    if f.name in ("max_wait_ms", "session_timeout_ms", "rebalance_timeout_ms"):
        return chance.choice((0, 10))
    if "partition" in f.name or "epoch" in f.name or "offset" in f.name:
        return chance.choice((-2, -1, 0, 1, 3))
    return value


def server_case(chance: Random) -> Case:
    name = chance.choice(LOGS)
    frames = []
    for number in range(chance.randrange(1, 6)):
        key, version = chance.choice((*answered(), (API_VERSIONS, 5)))
        made = protocol.make_request(request_body(chance, key, version, name), version, number, "fuzz")
        frame = b"".join(map(bytes, protocol.write_request(made)))
        frames.append(mutate_frame(chance, frame) if chance.random() < 0.4 else frame)
    if chance.random() < 0.1:
        frames.append(struct.pack(">i", 100) + chance.choice(COUNTS))
    blobs = {f"frame-{number}": frame for number, frame in enumerate(frames)}
    return Case({"log": name, "internal": chance.random() < 0.5}, blobs)


@target("server", server_case, quick=40, compared=False)
def server(case: Case) -> Any:
    """Check that each response can be read, and that only malformed requests close their connection."""
    with kafkafmt.serve(roots(case.params["log"]), internal=case.params["internal"]) as running:
        with Client(running.port, timeout=PATIENCE) as client:
            for frame in case.blobs.values():
                if not _answer_is_valid(client, frame):
                    break
        with Client(running.port) as other:
            check(bool(other.ask(protocol.ApiVersionsRequest(), 0).api_keys), "a new client gets no answer")
        broken = [line for line in running.messages if "the API with key" in line and " failed: " in line]
        check(not broken, "\n".join(broken))


def _answer_is_valid(client: Client, frame: bytes) -> bool:
    """Send a frame, and check the response. Return whether the connection is still usable."""
    request = attempt_raw(protocol.read_request, frame)
    try:
        client.socket.sendall(frame)
        if isinstance(request, Failed) or not isinstance(request, Request):
            client.socket.shutdown(socket.SHUT_WR)
        size = client.read(4)
        answer = size + client.read(int.from_bytes(size, "big"))
    except (ConnectionError, TimeoutError):
        return False
    if isinstance(request, Failed):
        return False
    header = request.header
    version = header.api_version
    if header.api_key == API_VERSIONS and (header.api_key, version) not in answered():
        version = 0  # KIP-511
    response = protocol.read_response(answer, api_key=header.api_key, api_version=version)
    same(response.header.correlation_id, header.correlation_id, "the correlation id of the response")
    same(bytes(response.trailing), b"", "the bytes after the response")
    return True
