"""Let requests wait or arrive in part, and check that other clients are still answered."""

from __future__ import annotations

import gc
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from golden_cases import BY_NAME
from serving import Client, fetch_request

import kafkafmt
from kafkafmt import protocol
from kafkafmt.protocol import ErrorCode
from kafkafmt.server import fetch
from kafkafmt.server.memory import ELEMENT_BYTES, FRAME_MEMORY, MOST_OBJECTS, OBJECT_MEMORY, SHARE

Start = Callable[..., kafkafmt.server.Server]
CODECS = BY_NAME["kafka-4.3.1/codecs"]
TOPIC = "codec-none"
FOREVER = 2**31 - 1
FRAME_BYTES = 2 << 20
CONNECTIONS = FRAME_MEMORY // FRAME_BYTES
UNKNOWN = 5000


@pytest.fixture
def server(started: Start) -> kafkafmt.server.Server:
    return started([str(root) for root in CODECS.roots])


def frame(body: Any, version: int) -> bytes:
    return b"".join(map(bytes, protocol.write_request(protocol.make_request(body, version, 1, "test"))))


@contextmanager
def connections(port: int, data: bytes, count: int) -> Iterator[list[socket.socket]]:
    """Open connections that send `data`."""
    with ExitStack() as stack:
        found = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 30)) for _ in range(count)]
        for connection in found:
            connection.sendall(data)
        yield found


def assert_large_requests_are_answered(port: int) -> None:
    make = protocol.MetadataRequest
    names = [make.MetadataRequestTopic(name=f"missing-{i}") for i in range(200)]
    for _ in range(3):
        with Client(port, timeout=10) as client:
            assert len(client.ask(make(topics=names, allow_auto_topic_creation=False), 8).topics) == 200


def waits_at_the_end(port: int, forgotten: int) -> bytes:
    """Return a large Fetch request that waits for new batches."""
    with Client(port) as client:
        end = client.offset(TOPIC, 0, -1).offset
    numbers = protocol.FetchRequest.ForgottenTopic(topic="x", partitions=[0] * forgotten)
    limits = {"max_wait_ms": FOREVER, "min_bytes": FOREVER}
    return frame(fetch_request({(TOPIC, 0): end}, 12, forgotten=[numbers], **limits), 12)


def test_waiting_fetch_requests_reserve_no_memory(server: kafkafmt.server.Server) -> None:
    data = waits_at_the_end(server.port, MOST_OBJECTS - 10)
    count = OBJECT_MEMORY // ((MOST_OBJECTS - 10) * ELEMENT_BYTES) + 1
    with connections(server.port, data, count) as waiting:
        assert_large_requests_are_answered(server.port)
        waiting[-1].settimeout(0.5)
        with pytest.raises(TimeoutError):
            waiting[-1].recv(1)


def closed_when_full(server: kafkafmt.server.Server) -> list[str]:
    return [message for message in list(server.messages) if "the memory for requests is full" in message]


@pytest.mark.parametrize("sent", [0, 5000, FRAME_BYTES - 1])
def test_incomplete_requests_do_not_block_other_clients(server: kafkafmt.server.Server, sent: int) -> None:
    data = FRAME_BYTES.to_bytes(4, "big") + bytes(sent)
    with connections(server.port, data, CONNECTIONS + 4):
        assert_large_requests_are_answered(server.port)
        deadline = time.monotonic() + 60
        while sent == FRAME_BYTES - 1 and not closed_when_full(server) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert_large_requests_are_answered(server.port)
    assert (len(closed_when_full(server)) > 0) == (sent == FRAME_BYTES - 1)


def test_one_connection_uses_at_most_an_eighth_of_the_memory(started: Start) -> None:
    limits = kafkafmt.server.ServerLimits(max_frame_bytes=1 << 30)
    server = started([str(root) for root in CODECS.roots], limits=limits)
    with connections(server.port, (FRAME_MEMORY // SHARE + 1).to_bytes(4, "big"), 1) as (connection,):
        assert connection.recv(1) == b""
    assert f"it must be from 1 to {FRAME_MEMORY // SHARE}" in server.messages[-1]
    assert SHARE * MOST_OBJECTS * ELEMENT_BYTES <= OBJECT_MEMORY


def joining(group: str, member: str, padding: int) -> Any:
    make = protocol.JoinGroupRequest
    body = make(group_id=group, session_timeout_ms=30_000, rebalance_timeout_ms=60_000, member_id=member)
    body.protocol_type = "consumer"
    body.protocols = [make.JoinGroupRequestProtocol(name="range", metadata=b"")]
    body.unknown_tagged_fields = ((99, bytes(padding)),)
    return body


def synchronizing(joined: Any, padding: int) -> Any:
    body = protocol.SyncGroupRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
    body.protocol_type, body.protocol_name = "consumer", "range"
    body.unknown_tagged_fields = ((99, bytes(padding)),)
    return body


def new_member(client: Client, padding: int) -> None:
    """Send a JoinGroup request with a new member id."""
    refused = client.ask(joining("g", "", 0), 9)
    assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED
    body = joining("g", refused.member_id, padding)
    client.send(body, 9)


def assert_nothing_held(
    server: kafkafmt.server.Server, kind: type[Any], waiting: Callable[[Any], bool], count: int
) -> None:
    """Wait until `count` members wait. Check that no request of type `kind` is in memory, and that none is reserved."""
    assert server._shared is not None
    assert server._groups is not None
    group: Any = server._groups.coordinator.find("g")
    deadline = time.monotonic() + 20
    while sum(map(waiting, group.members)) < count and time.monotonic() < deadline:
        time.sleep(0.05)
    assert sum(map(waiting, group.members)) == count
    requests = [thing for thing in gc.get_objects() if type(thing) is kind]
    # Objects of other tests may still be in memory. Only requests of this test have large tagged fields.
    assert not [r for r in requests if any(len(data) > FRAME_BYTES // 2 for _, data in r.unknown_tagged_fields)]
    assert server._shared.memory.frames._total == 0
    assert server._shared.memory.objects.has(OBJECT_MEMORY)


def test_waiting_members_of_a_group_keep_no_request_in_memory(server: kafkafmt.server.Server) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(server.port)) for _ in range(5)]
        new_member(clients[0], 0)
        assert not clients[0].receive(11, 9).error_code
        for client in clients[1:]:
            new_member(client, FRAME_BYTES - 1000)
        assert_nothing_held(server, protocol.JoinGroupRequest, lambda member: member.awaits_join, 4)


def test_waiting_sync_requests_are_not_kept_in_memory(server: kafkafmt.server.Server) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(server.port)) for _ in range(3)]
        new_member(clients[0], 0)
        first = clients[0].receive(11, 9)
        for client in clients[1:]:
            new_member(client, 0)
        time.sleep(0.2)
        clients[0].send(joining("g", first.member_id, 0), 9)
        joined = [client.receive(11, 9) for client in clients]
        followers = [(c, j) for c, j in zip(clients, joined, strict=True) if j.member_id != j.leader]
        for client, result in followers:
            client.send(synchronizing(result, FRAME_BYTES - 1000), 5)
        assert_nothing_held(server, protocol.SyncGroupRequest, lambda member: member.respond_to_sync is not None, 2)


def test_wait_of_a_fetch_request_is_limited(server: kafkafmt.server.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "MOST_WAIT", 0.3)
    with Client(server.port, timeout=10) as client:
        end = client.offset(TOPIC, 0, -1).offset
        data = client.fetch(TOPIC, 0, end, max_wait_ms=FOREVER, min_bytes=FOREVER)
    assert data.error_code == 0


def test_fetch_request_is_answered_at_once_if_too_many_partitions_wait(
    server: kafkafmt.server.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "FREE_WAITING", 0)
    monkeypatch.setattr(fetch, "MOST_WAITING", 0)
    with Client(server.port, timeout=10) as client:
        end = client.offset(TOPIC, 0, -1).offset
        data = client.fetch(TOPIC, 0, end, max_wait_ms=FOREVER, min_bytes=FOREVER)
    assert data.error_code == 0


def ask_in_session(client: Client, session_id: int, epoch: int, wanted: dict[Any, int], **fields: Any) -> Any:
    return client.ask(fetch_request(wanted, 12, session_id=session_id, session_epoch=epoch, **fields), 12)


def test_unknown_partitions_of_a_session_are_reported_once(server: kafkafmt.server.Server) -> None:
    wanted = {("missing", number): 0 for number in range(UNKNOWN)}
    with Client(server.port) as client:
        first = ask_in_session(client, 0, 0, wanted)
        assert len(first.responses[0].partitions) == UNKNOWN
        assert {p.error_code for p in first.responses[0].partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert ask_in_session(client, first.session_id, 1, {}).responses == []
        (named,) = ask_in_session(client, first.session_id, 2, {("missing", 7): 1}).responses
        assert [p.partition_index for p in named.partitions] == [7]
        started = time.monotonic()
        assert ask_in_session(client, first.session_id, 3, {}, max_wait_ms=300).responses == []
        assert time.monotonic() - started > 0.2
