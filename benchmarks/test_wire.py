"""Measure the wire protocol.

A Fetch response of 1 MB is read into columns. The peer, aiokafka, reads it into records. Messages
with 10,000 partitions (Metadata) and 1,000 partitions (OffsetCommit) are read and written. The
peers are kafka-python and kio.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from typing import Any

import inputs
import kafka.protocol.consumer
import kafka.protocol.metadata
import kio.schema.metadata.v12.response
import kio.schema.offset_commit.v8.request
import kio.serial
import pytest
import readers
from aiokafka.protocol.fetch import FetchResponse_v11
from aiokafka.record.memory_records import MemoryRecords

from kafkafmt import protocol, records
from kafkafmt.types import RecordColumns

FETCHED = 1 << 20
TIMES = 16
"""Number of times that a call reads a frame. Like a frame that was just received, it is in the CPU cache."""
FETCH_VERSION = 11
"""The newest version that aiokafka supports."""


def fetch_frame(letter: str) -> bytes:
    """Return a Fetch response for one partition, with about 1 MB of complete batches."""
    data = memoryview(inputs.make(letter))
    taken = data[: protocol.batches_end(data[:FETCHED]).bytes_used]
    response = protocol.FetchResponse
    part = response.PartitionData(high_watermark=1 << 40, records=taken)
    topic = response.FetchableTopicResponse(topic="orders", partitions=[part])
    return b"".join(protocol.write_response(protocol.make_response(response(responses=[topic]), FETCH_VERSION, 7)))


def ours_to_columns(frame: bytes) -> Callable[[], int]:
    columns = RecordColumns(readers.ROWS, readers.FIELDS)

    def read() -> int:
        count = 0
        for _ in range(TIMES):
            response = protocol.read_response(frame, api_key=1, api_version=FETCH_VERSION)
            for chunk in records.read_chunks(response.responses[0].partitions[0].records, columns):
                count += chunk.columns.rows
        return count

    return read


def aiokafka_to_records(frame: bytes) -> Callable[[], int]:
    """Read like aiokafka's connection and fetcher. CRCs are checked, as in its consumer by default."""

    def read() -> int:
        count = 0
        for _ in range(TIMES):
            response = FetchResponse_v11.decode(io.BytesIO(frame[8:]))  # size and correlation id were read before
            for _, partitions in response.topics:
                for *_, data in partitions:
                    batches = MemoryRecords(data)
                    while batches.has_next():
                        batch = batches.next_batch()
                        assert batch.validate_crc()
                        for record in batch:
                            record.offset  # noqa: B018
                            record.timestamp  # noqa: B018
                            record.key  # noqa: B018
                            record.value  # noqa: B018
            count += record.offset + 1
        return count

    return read


@pytest.mark.benchmark(group="Fetch response of 1 MB to columns", timer=time.process_time)
@pytest.mark.parametrize("letter", ["a", "c"])
def test_fetch(compare: Callable[..., object], letter: str) -> None:
    frame = fetch_frame(letter)
    compare(letter, ours_to_columns(frame), "aiokafka", aiokafka_to_records(frame), rounds=31)


def metadata() -> tuple[Any, int, int]:
    """Return a response with 10,000 partitions in 100 topics, its version and its number of elements."""
    m = protocol.MetadataResponse
    brokers = [
        m.MetadataResponseBroker(node_id=i, host=f"broker-{i}.example.org", port=9092, rack=f"rack-{i % 3}")
        for i in range(12)
    ]
    topics = []
    for t in range(100):
        nodes = [[(t + p + r) % 12 for r in range(3)] for p in range(100)]
        parts = [
            m.MetadataResponsePartition(partition_index=p, leader_id=n[0], leader_epoch=5, replica_nodes=n, isr_nodes=n)
            for p, n in enumerate(nodes)
        ]
        topics.append(m.MetadataResponseTopic(name=f"topic-{t}", partitions=parts))
    return m(brokers=brokers, cluster_id="cluster", controller_id=1, topics=topics), 12, 10_000


def offset_commit() -> tuple[Any, int, int]:
    """Return a request with 1,000 partitions in ten topics, its version and its number of elements."""
    o = protocol.OffsetCommitRequest
    topics = [
        o.OffsetCommitRequestTopic(
            name=f"topic-{t}",
            partitions=[
                o.OffsetCommitRequestPartition(
                    partition_index=p, committed_offset=123_456_789 + p, committed_leader_epoch=3
                )
                for p in range(100)
            ],
        )
        for t in range(10)
    ]
    return o(group_id="group", generation_id_or_member_epoch=4, member_id="member-1", topics=topics), 8, 1_000


CASES = {"Metadata, 10,000 partitions": metadata, "OffsetCommit, 1,000 partitions": offset_commit}
KAFKA_PYTHON = {
    "MetadataResponse": kafka.protocol.metadata.MetadataResponse,
    "OffsetCommitRequest": kafka.protocol.consumer.OffsetCommitRequest,
}
KIO = {
    "MetadataResponse": kio.schema.metadata.v12.response.MetadataResponse,
    "OffsetCommitRequest": kio.schema.offset_commit.v8.request.OffsetCommitRequest,
}


def repeated(call: Callable[[], Any], count: int, times: int) -> Callable[[], int]:
    """Return a function that makes several calls, and returns the number of elements handled.

    All calls together take a few milliseconds.
    """

    def run() -> int:
        for _ in range(times):
            call()
        return count * times

    return run


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[str, Any, int, int, bytes]:
    """Return name, message, version, number of elements and bytes of a benchmark.

    The peers read the same message and write the same bytes.
    """
    message, version, count = CASES[request.param]()
    frame = b"".join(write_ours(message, version)())
    return request.param, message, version, count, frame


def write_ours(message: Any, version: int) -> Callable[[], Any]:
    if message.KIND == "request":
        made = protocol.make_request(message, version, 7, "client")
        return lambda: protocol.write_request(made)
    response = protocol.make_response(message, version, 7)
    return lambda: protocol.write_response(response)


def body_of(frame: bytes, message: Any) -> bytes:
    """Return the bytes after the header, because the peers read the header separately."""
    return frame[4 + 8 + 2 + len("client") + 1 :] if message.KIND == "request" else frame[4 + 4 + 1 :]


def peers(message: Any, version: int, body: bytes) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Return two functions for each peer: one that reads the body, and one that writes it."""
    name = type(message).__name__
    python = KAFKA_PYTHON[name]
    theirs = python.decode(body, version=version)
    theirs._header = None  # requests that kafka-python creates have a header, but decoded requests do not
    reader: Callable[[bytes, int], Any] = kio.serial.entity_reader(KIO[name])
    writer: Callable[[io.BytesIO, Any], None] = kio.serial.entity_writer(KIO[name])
    entity, _ = reader(body, 0)

    def write_kio() -> bytes:
        out = io.BytesIO()
        writer(out, entity)
        return out.getvalue()

    found: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "kafka-python": (lambda: python.decode(body, version=version), lambda: theirs.encode(version=version)),
        "kio": (lambda: reader(body, 0), write_kio),
    }
    for peer, (_, write) in found.items():
        assert bytes(write()) == body, f"{peer} writes other bytes"
    return found


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("peer", ["kafka-python", "kio"])
@pytest.mark.parametrize("operation", ["read", "write"])
def test_messages(
    compare: Callable[..., object], benchmark: Any, case: tuple[str, Any, int, int, bytes], peer: str, operation: str
) -> None:
    name, message, version, count, frame = case
    benchmark.group = f"Messages: {operation}"
    their_read, their_write = peers(message, version, body_of(frame, message))[peer]
    times = max(1, 10_000 // count)
    if operation == "write":
        ours, theirs = write_ours(message, version), their_write
    elif message.KIND == "request":
        ours, theirs = (lambda: protocol.read_request(frame)), their_read
    else:
        ours, theirs = (lambda: protocol.read_response(frame, api_key=3, api_version=version)), their_read
    compare(
        name,
        repeated(ours, count, times),
        peer,
        repeated(theirs, count, times),
        rounds=31,
    )
