"""Communicate with a broker, using `kafkafmt.protocol` and a socket. This is not a complete client.

    python examples/wire.py HOST:PORT list                              topics, partitions, offsets
    python examples/wire.py HOST:PORT produce TOPIC PARTITION VALUE…
    python examples/wire.py HOST:PORT fetch TOPIC PARTITION [OFFSET]

Each request is sent in the newest version that this script and the broker support.
"""

from __future__ import annotations

import itertools
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

import kafkafmt
from kafkafmt import protocol

BUFFERS_AT_ONCE = 512  # most systems accept about 1,000 buffers per call


class Connection:
    """A connection to one broker, with only one open request at a time."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), timeout=30)
        self.splitter = protocol.FrameSplitter()
        self.frames: Iterator[memoryview] = iter(())
        self.numbers = itertools.count()
        answer = self.ask(protocol.ApiVersionsRequest(), 0)
        self.newest = {a.api_key: a.max_version for a in answer.api_keys}

    def ask(self, body: Any, version: int | None = None) -> Any:
        if version is None:
            version = min(self.newest[body.API.key], body.API.versions.last)
        request = protocol.make_request(body, version, next(self.numbers), "examples/wire.py")
        self.send(protocol.write_request(request))
        return protocol.read_response(self.receive(), api_key=request.api_key, api_version=version)

    def send(self, buffers: list[Any]) -> None:
        """Send all buffers without joining them."""
        buffers = [memoryview(b) for b in buffers]
        while buffers:
            sent = self.socket.sendmsg(buffers[:BUFFERS_AT_ONCE])
            while buffers and sent >= len(buffers[0]):
                sent -= len(buffers.pop(0))
            if sent:
                buffers[0] = buffers[0][sent:]

    def receive(self) -> memoryview:
        while True:
            for frame in self.frames:
                return frame
            data = self.socket.recv(1 << 20)
            if not data:
                raise SystemExit("the broker closed the connection")
            self.frames = self.splitter.feed(data)


def connect(address: str) -> Connection:
    host, _, port = address.rpartition(":")
    return Connection(host, int(port))


def check_error(code: int, what: str) -> None:
    error = protocol.ErrorCode(code)
    if error:
        raise SystemExit(f"{what}: {error.name}, {error.message}")


def leader_of(link: Connection, topic: str, partition: int) -> tuple[Connection, Any]:
    """Return a connection to the leader of a partition, and the id of its topic."""
    request = protocol.MetadataRequest
    answer = link.ask(request(topics=[request.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False))
    (found,) = answer.topics
    check_error(found.error_code, topic)
    part = next((p for p in found.partitions if p.partition_index == partition), None)
    if part is None:
        raise SystemExit(f"{topic} has no partition {partition}")
    check_error(part.error_code, f"{topic}-{partition}")
    broker = next(b for b in answer.brokers if b.node_id == part.leader_id)
    return Connection(broker.host, broker.port), found.topic_id


def show_topics(link: Connection) -> None:
    request = protocol.ListOffsetsRequest
    for topic in sorted(link.ask(protocol.MetadataRequest(topics=None)).topics, key=lambda t: t.name):
        for part in sorted(topic.partitions, key=lambda p: p.partition_index):
            leader, _ = leader_of(link, topic.name, part.partition_index)
            ends = []
            for timestamp in (-2, -1):  # earliest, latest
                asked = request.ListOffsetsPartition(partition_index=part.partition_index, timestamp=timestamp)
                answer = leader.ask(
                    request(replica_id=-1, topics=[request.ListOffsetsTopic(name=topic.name, partitions=[asked])])
                )
                ends.append(answer.topics[0].partitions[0].offset)
            leader.socket.close()
            print(f"{topic.name}-{part.partition_index}  leader {part.leader_id}  offsets {ends[0]} to {ends[1]}")


def produce(link: Connection, topic: str, partition: int, values: list[str]) -> None:
    leader, topic_id = leader_of(link, topic, partition)
    batch = kafkafmt.build_batch([(None, value.encode(), int(time.time() * 1000)) for value in values])
    request = protocol.ProduceRequest
    part = request.PartitionProduceData(index=partition, records=batch)
    data = request.TopicProduceData(name=topic, topic_id=topic_id, partition_data=[part])
    (answer,) = leader.ask(request(acks=-1, timeout_ms=30_000, topic_data=[data])).responses[0].partition_responses
    check_error(answer.error_code, f"{topic}-{partition}")
    print(f"{topic}-{partition}: {len(values)} records from offset {answer.base_offset} on")


def fetch(link: Connection, topic: str, partition: int, offset: int) -> None:
    """Print all records from an offset to the end, with isolation level read_committed."""
    leader, topic_id = leader_of(link, topic, partition)
    request = protocol.FetchRequest
    while True:
        part = request.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        wanted = request.FetchTopic(topic=topic, topic_id=topic_id, partitions=[part])
        answer = leader.ask(request(max_wait_ms=500, min_bytes=1, isolation_level=1, topics=[wanted]))
        check_error(answer.error_code, "fetch")
        check_error(answer.responses[0].partitions[0].error_code, f"{topic}-{partition}")
        end = None
        for data in protocol.record_data(answer.body):
            for record in kafkafmt.read_records(data.records, start=offset, aborted=data.aborted):
                print(record.offset, record.key, record.value)
            end = protocol.batches_end(data.records).next_offset
        if end is None:  # there are no more records below the last stable offset
            return
        offset = end


def main() -> None:
    match sys.argv[1:]:
        case [address, "list"]:
            show_topics(connect(address))
        case [address, "produce", topic, partition, *values] if values:
            produce(connect(address), topic, int(partition), values)
        case [address, "fetch", topic, partition, *offset] if len(offset) < 2:
            fetch(connect(address), topic, int(partition), int(offset[0]) if offset else 0)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
