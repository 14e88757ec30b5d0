"""Send requests that would need much memory, and check that the server limits it."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from golden_cases import BY_NAME
from serving import Client

import kafkafmt
from kafkafmt import protocol
from kafkafmt.protocol import ErrorCode
from kafkafmt.server import memory
from kafkafmt.server.memory import MOST_OBJECTS, Budget, HeldMemory, count_elements

pytestmark = pytest.mark.slow

Start = Callable[..., kafkafmt.server.Server]
CODECS = BY_NAME["kafka-4.3.1/codecs"]
TOPIC = "codec-none"
CLIENTS = 16
LARGEST_GROWTH = 250 << 20
"""Without the limits, most of the attacks below need from 600 MiB to some gigabytes."""
FRAME_BYTES = 2 << 20
PARTITIONS = 2000


def frame(body: Any, version: int) -> bytes:
    return b"".join(map(bytes, protocol.write_request(protocol.make_request(body, version, 1, "test"))))


def empty_topics(count: int) -> tuple[Any, int]:
    return protocol.FetchRequest(topics=[protocol.FetchRequest.FetchTopic(topic="")] * count, max_wait_ms=2000), 12


def fetched_partitions(count: int) -> tuple[Any, int]:
    make = protocol.FetchRequest
    wanted = [make.FetchPartition(partition=i, partition_max_bytes=1000) for i in range(count)]
    return make(topics=[make.FetchTopic(topic="t", partitions=wanted)], max_wait_ms=2000), 12


def unknown_topics(count: int) -> tuple[Any, int]:
    make = protocol.MetadataRequest
    return make(topics=[make.MetadataRequestTopic(name="")] * count), 8


def repeated_topic(count: int) -> tuple[Any, int]:
    make = protocol.MetadataRequest
    return make(topics=[make.MetadataRequestTopic(name="many")] * count), 8


def repeated_broker(count: int) -> tuple[Any, int]:
    make = protocol.DescribeConfigsRequest
    broker = make.DescribeConfigsResource(resource_type=4, resource_name="0", configuration_keys=None)
    return make(resources=[broker] * count), 4


def repeated_partition(count: int) -> tuple[Any, int]:
    make = protocol.ListOffsetsRequest
    wanted = [make.ListOffsetsPartition(partition_index=0, timestamp=-1)] * count
    return make(replica_id=-1, topics=[make.ListOffsetsTopic(name="many", partitions=wanted)]), 5


def repeated_group(count: int) -> tuple[Any, int]:
    return protocol.DescribeGroupsRequest(groups=["g"] * count), 5


ATTACKS = {
    "empty topics in Fetch": (empty_topics, 3),
    "unknown topics in Metadata": (unknown_topics, 2),
    "repeated topic in Metadata": (repeated_topic, 100),
    "repeated broker in DescribeConfigs": (repeated_broker, 100),
    "partitions in Fetch": (fetched_partitions, 100),
    "repeated partition in ListOffsets": (repeated_partition, 40),
    "repeated group in DescribeGroups": (repeated_group, 3),
}
"""A function that returns a request with a number of elements, and the size of an element in bytes."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log directory with a topic that has many empty partitions."""
    root = tmp_path_factory.mktemp("many")
    for number in range(PARTITIONS):
        folder = root / f"many-{number}"
        folder.mkdir()
        (folder / f"{0:020}.log").touch()
    return root


@contextmanager
def served(directory: Path) -> Iterator[tuple[int, int]]:
    """Run `kafkafmt serve`, and yield its port and its process id."""
    command = [sys.executable, "-m", "kafkafmt", "serve", str(directory), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline().rpartition(":")[2]), process.pid
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def peak_memory(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10


def send_all(port: int, data: bytes, finished: list[bool]) -> None:
    """Send a request, and wait until the server answers it or closes the connection."""
    with socket.create_connection(("127.0.0.1", port), 60) as client:
        try:
            client.sendall(data)
            client.recv(1)
        except ConnectionError:
            pass
        finished.append(True)


@pytest.mark.parametrize("attack", ATTACKS)
def test_requests_with_many_elements_need_limited_memory(attack: str, directory: Path) -> None:
    make, size = ATTACKS[attack]
    data = frame(*make((FRAME_BYTES - 200) // size))
    assert len(data) <= FRAME_BYTES + 4
    with served(directory) as (port, pid):
        with Client(port) as client:
            client.ask(protocol.MetadataRequest(topics=None), 12)
        before, finished = peak_memory(pid), list[bool]()
        threads = [Thread(target=send_all, args=(port, data, finished)) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(finished) == CLIENTS
        assert peak_memory(pid) - before < LARGEST_GROWTH
        with Client(port) as client:
            assert client.ask(protocol.MetadataRequest(topics=None), 12).topics


def test_clients_that_do_not_read_large_responses_need_limited_memory(directory: Path) -> None:
    data = frame(protocol.MetadataRequest(topics=None), 9) * 20
    with served(directory) as (port, pid):
        with Client(port) as client:
            client.ask(protocol.MetadataRequest(topics=None), 12)
        before, clients = peak_memory(pid), []
        try:
            for _ in range(300):
                raw = socket.socket()
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                raw.connect(("127.0.0.1", port))
                raw.sendall(data)
                clients.append(raw)
            with Client(port, timeout=60) as client:
                assert client.ask(protocol.MetadataRequest(topics=None), 12).topics
            assert peak_memory(pid) - before < LARGEST_GROWTH
        finally:
            for raw in clients:
                raw.close()


def test_request_with_too_many_elements_closes_its_connection(started: Start) -> None:
    server = started([str(root) for root in CODECS.roots])
    make = protocol.OffsetFetchRequest
    numbers = make.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0] * (MOST_OBJECTS + 1))
    for data in (frame(*empty_topics(MOST_OBJECTS)), frame(make(group_id="g", topics=[numbers]), 5)):
        with Client(server.port) as client:
            client.socket.sendall(data)
            assert client.closed()
    assert len(server.messages) == 2
    assert f"more than {MOST_OBJECTS} array elements" in server.messages[0]
    assert f"a request contains {MOST_OBJECTS + 2} array elements; the limit is" in server.messages[1]


def test_request_with_many_partitions_is_answered(started: Start) -> None:
    server = started([str(root) for root in CODECS.roots])
    body, version = fetched_partitions(50_000)
    body.topics[0].topic = TOPIC
    with Client(server.port) as client:
        (topic,) = client.ask(body, version).responses
    assert len(topic.partitions) == 50_000
    assert topic.partitions[0].records


def test_repeated_parts_of_a_request_are_answered_once(started: Start) -> None:
    server = started([str(root) for root in CODECS.roots])
    metadata, configs, offsets = protocol.MetadataRequest, protocol.DescribeConfigsRequest, protocol.OffsetFetchRequest
    resource = configs.DescribeConfigsResource(resource_type=2, resource_name=TOPIC, configuration_keys=None)
    group = offsets.OffsetFetchRequestGroup(group_id="g", topics=None)
    producers = protocol.DescribeProducersRequest
    epochs = protocol.OffsetForLeaderEpochRequest
    epoch = epochs.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    with Client(server.port) as client:
        assert len(client.ask(metadata(topics=[metadata.MetadataRequestTopic(name=TOPIC)] * 9), 8).topics) == 1
        assert len(client.ask(configs(resources=[resource] * 9), 4).results) == 1
        assert len(client.ask(offsets(groups=[group] * 9), 8).groups) == 1
        assert len(client.ask(protocol.DescribeGroupsRequest(groups=["g"] * 9), 5).groups) == 1
        assert len(client.ask(protocol.ConsumerGroupDescribeRequest(group_ids=["g"] * 9), 0).groups) == 1
        found = client.ask(protocol.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"] * 9), 4)
        assert len(found.coordinators) == 1
        ids = protocol.DescribeTransactionsRequest(transactional_ids=["x"] * 9)
        assert len(client.ask(ids, 0).transaction_states) == 1
        topic: Any = producers.TopicRequest(name=TOPIC, partition_indexes=[0] * 9)
        (described,) = client.ask(producers(topics=[topic] * 9), 0).topics
        assert len(described.partitions) == 1
        topic = epochs.OffsetForLeaderTopic(topic=TOPIC, partitions=[epoch] * 9)
        (ended,) = client.ask(epochs(topics=[topic] * 9), 4).topics
        assert len(ended.partitions) == 1


def test_repeated_partition_in_list_offsets_is_an_invalid_request(started: Start) -> None:
    server = started([str(root) for root in CODECS.roots])
    make = protocol.ListOffsetsRequest
    wanted = [make.ListOffsetsPartition(partition_index=n, timestamp=-2) for n in (0, 1, 1)]
    with Client(server.port) as client:
        body = make(replica_id=-1, topics=[make.ListOffsetsTopic(name=TOPIC, partitions=wanted)])
        (topic,) = client.ask(body, 7).topics
    errors = [(p.partition_index, p.error_code) for p in topic.partitions]
    assert errors[0] == (0, ErrorCode.NONE)
    assert errors[1:] == [(1, ErrorCode.INVALID_REQUEST)] * 2


def test_elements_of_all_levels_are_counted() -> None:
    fetch = protocol.FetchRequest
    topic = fetch.FetchTopic(topic="t", partitions=[fetch.FetchPartition(), fetch.FetchPartition()])
    forgotten = fetch.ForgottenTopic(topic="t", partitions=[1, 2, 3])
    body = fetch(topics=[topic, topic], forgotten_topics_data=[forgotten])
    assert count_elements(body) == 2 + 4 + 1 + 3
    body.unknown_tagged_fields = ((7, b""), (8, b""))
    assert count_elements(body) == 12
    assert count_elements(protocol.MetadataRequest(topics=None)) == 0


def test_budget_reserves_at_most_its_capacity() -> None:
    async def use() -> list[str]:
        budget, events = Budget(10), list[str]()

        async def hold(name: str, size: int, seconds: float) -> None:
            async with budget.reserved(size):
                events.append(f"+{name}")
                await asyncio.sleep(seconds)
                events.append(f"-{name}")

        tasks = [asyncio.create_task(hold(*args)) for args in (("a", 6, 0.05), ("b", 6, 0), ("c", 4, 0), ("d", 99, 0))]
        await asyncio.sleep(0.01)
        assert not budget.has(6)
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert budget.has(10)
        assert budget.has(99)
        return events

    assert asyncio.run(use()) == ["+a", "+c", "-c", "-a", "+d", "-d"]


def test_wait_for_the_slowest_client_ends_if_unread_responses_fill_the_memory() -> None:
    async def use() -> list[str]:
        unread, ended = HeldMemory(100), list[str]()

        async def wait(name: str, size: int) -> None:
            try:
                async with asyncio.timeout(60) as limit:
                    with unread.held(limit, size):
                        await asyncio.sleep(60)
            except TimeoutError:
                ended.append(name)

        tasks = []
        for name, size in (("a", 40), ("b", 40), ("c", 10), ("d", 30), ("e", 500)):
            tasks.append(asyncio.create_task(wait(name, size)))
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return ended

    assert asyncio.run(use()) == ["a", "b", "c", "d"]


def test_client_is_disconnected_if_unread_responses_fill_the_memory(
    started: Start, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "UNREAD_MEMORY", 200_000)
    server = started(directory)
    data = frame(protocol.MetadataRequest(topics=None), 9) * 100
    clients = []
    try:
        for _ in range(10):
            raw = socket.socket()
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.connect(("127.0.0.1", server.port))
            raw.sendall(data)
            clients.append(raw)
        deadline = time.monotonic() + 120  # building the responses takes long on a loaded machine
        while len(server.messages) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert "and the memory for unread responses is full" in server.messages[-1]
        with Client(server.port) as client:
            assert client.ask(protocol.MetadataRequest(topics=None), 12).topics
    finally:
        for raw in clients:
            raw.close()
