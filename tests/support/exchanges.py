"""Send requests to a broker in each version that it supports, and check the responses.

    python tests/support/exchanges.py HOST:PORT > FILE        prints each request and its response as a line of JSON

The requests are ApiVersions and the six that clients need most: Metadata, Produce, Fetch,
ListOffsets, OffsetCommit and OffsetFetch. Each response is compared with the state that the
previous requests have caused.
"""

from __future__ import annotations

import base64
import json
import socket
import sys
import time
import uuid
from typing import Any

from api_lookup import api_of

import kafkafmt
from kafkafmt import protocol
from kafkafmt.types import view_of

TOPIC, GROUP, PARTITION, CLIENT = "wire-exchanges", "wire-group", 0, "kafkafmt"
TRIES = 100


class Connection:
    """A connection to a broker. `frames` contains all requests and responses."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=20)
        self.splitter = protocol.FrameSplitter()
        self.correlation = protocol.Correlation()
        self.frames: list[tuple[bytes, bytes]] = []
        self.last = 0

    def ask(self, body: Any, version: int) -> Any:
        """Send a request, return its response, and store the frames of both."""
        self.last += 1
        request = protocol.make_request(body, version, self.last, CLIENT)
        self.correlation.sent(request)
        frame = b"".join(protocol.write_request(request))
        self.socket.sendall(frame)
        while True:
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionError(f"the broker closed the connection after {type(body).__name__} version {version}")
            for answer in self.splitter.feed(data):
                self.frames.append((frame, bytes(answer)))
                return self.correlation.read_response(answer)


def versions_of(ranges: dict[int, tuple[int, int]], key: int) -> range:
    """Return the versions that both sides support. Since 4.0, brokers announce Produce 0 but require version 3."""
    low, high = ranges[key]
    low = 3 if key == 0 and ranges[1][0] == 4 else low
    return range(low, min(high, api_of(key).versions.last) + 1)


def converse(address: tuple[str, int]) -> Connection:
    link = Connection(address)
    ranges = {a.api_key: (a.min_version, a.max_version) for a in link.ask(protocol.ApiVersionsRequest(), 0).api_keys}
    for version in versions_of(ranges, 18):
        body = protocol.ApiVersionsRequest(client_software_name=CLIENT, client_software_version="1.0")
        answer = link.ask(body, version)
        assert (answer.api_version, answer.error_code) == (version, 0)
        assert {a.api_key for a in answer.api_keys} == set(ranges)

    create = versions_of(ranges, 19)[-1]
    topic = protocol.CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    made = link.ask(protocol.CreateTopicsRequest(topics=[topic], timeout_ms=10000), create)
    assert made.topics[0].error_code in (0, protocol.ErrorCode.TOPIC_ALREADY_EXISTS), made
    topic_id = metadata(link, versions_of(ranges, 3))
    offsets = produce(link, versions_of(ranges, 0), topic_id)
    fetch(link, versions_of(ranges, 1), topic_id, offsets)
    list_offsets(link, versions_of(ranges, 2), len(offsets))
    coordinate(link, versions_of(ranges, 10))
    committed = commit(link, versions_of(ranges, 8), topic_id)
    fetch_committed(link, versions_of(ranges, 9), topic_id, committed)
    return link


def metadata(link: Connection, versions: range) -> uuid.UUID:
    """Return the id of the topic. Brokers without topic ids return zeros."""
    topic_id = uuid.UUID(int=0)
    for version in versions:
        for _ in range(TRIES):
            body = protocol.MetadataRequest(topics=[protocol.MetadataRequest.MetadataRequestTopic(name=TOPIC)])
            (topic,) = link.ask(body, version).topics
            if topic.error_code == 0 and all(p.error_code == 0 for p in topic.partitions):
                break
            link.frames.pop()
            time.sleep(0.1)
        assert (topic.error_code, topic.name, len(topic.partitions)) == (0, TOPIC, 1)
        topic_id = topic.topic_id
    return topic_id


def produce(link: Connection, versions: range, topic_id: uuid.UUID) -> list[bytes]:
    """Produce a batch in each version, and return the values by offset."""
    values: list[bytes] = []
    for version in versions:
        value = f"value of version {version}".encode()
        magic = {0: 0, 1: 0, 2: 1}.get(version, 2)
        batch = kafkafmt.build_batch([(b"key", value, 1_700_000_000_000 if magic else -1)], magic=magic)
        request = protocol.ProduceRequest
        part = request.PartitionProduceData(index=PARTITION, records=batch)
        body = request(
            acks=-1,
            timeout_ms=10000,
            topic_data=[request.TopicProduceData(name=TOPIC, topic_id=topic_id, partition_data=[part])],
        )
        (answer,) = link.ask(body, version).responses[0].partition_responses
        assert (answer.error_code, answer.base_offset) == (0, len(values)), (version, answer)
        values.append(value)
    return values


def fetch(link: Connection, versions: range, topic_id: uuid.UUID, values: list[bytes]) -> None:
    for version in versions:
        request = protocol.FetchRequest
        part = request.FetchPartition(partition=PARTITION, fetch_offset=1, partition_max_bytes=1 << 20)
        topic = request.FetchTopic(topic=TOPIC, topic_id=topic_id, partitions=[part])
        (data,) = protocol.record_data(link.ask(request(max_wait_ms=500, min_bytes=1, topics=[topic]), version).body)
        assert (data.topic, data.topic_id) == ((TOPIC, uuid.UUID(int=0)) if version < 13 else ("", topic_id))
        records = kafkafmt.read_records(data.records, start=1, aborted=data.aborted)
        assert [(r.offset, r.key, r.value) for r in records] == [(i, b"key", v) for i, v in enumerate(values) if i], (
            version
        )
        # when a broker converts to an older format, it adds an incomplete batch
        end = protocol.batches_end(data.records)
        assert (end.next_offset, end.bytes_used == len(view_of(data.records)) or version < 4) == (len(values), True)


def list_offsets(link: Connection, versions: range, end: int) -> None:
    for version in versions:
        for timestamp, expected in ((-1, end), (-2, 0)):
            request = protocol.ListOffsetsRequest
            part = request.ListOffsetsPartition(partition_index=PARTITION, timestamp=timestamp)
            body = request(replica_id=-1, topics=[request.ListOffsetsTopic(name=TOPIC, partitions=[part])])
            (answer,) = link.ask(body, version).topics[0].partitions
            assert (answer.error_code, answer.old_style_offsets[0] if version == 0 else answer.offset) == (0, expected)


def coordinate(link: Connection, versions: range) -> None:
    """Wait until the group's coordinator is available."""
    for version in versions:
        for _ in range(TRIES):
            answer = link.ask(
                protocol.FindCoordinatorRequest(**({"coordinator_keys": [GROUP]} if version >= 4 else {"key": GROUP})),
                version,
            )
            error = answer.coordinators[0].error_code if version >= 4 else answer.error_code
            if error == 0:
                break
            link.frames.pop()
            time.sleep(0.1)
        assert error == 0


def commit(link: Connection, versions: range, topic_id: uuid.UUID) -> dict[int, int]:
    """Commit an offset in each version, and return the offsets by version."""
    committed = {}
    for version in versions:
        request = protocol.OffsetCommitRequest
        part = request.OffsetCommitRequestPartition(
            partition_index=PARTITION, committed_offset=100 + version, committed_metadata=f"größe {version}"
        )
        topic = request.OffsetCommitRequestTopic(name=TOPIC, topic_id=topic_id, partitions=[part])
        for _ in range(TRIES):
            (answer,) = link.ask(request(group_id=GROUP, topics=[topic]), version).topics[0].partitions
            if not protocol.ErrorCode(answer.error_code).retriable:
                break
            link.frames.pop()
            time.sleep(0.1)
        assert answer.error_code == 0, (version, answer)
        committed[version] = 100 + version
    return committed


def fetch_committed(link: Connection, versions: range, topic_id: uuid.UUID, committed: dict[int, int]) -> None:
    """Fetch the committed offsets. Version 0 reads offsets in ZooKeeper, which have no metadata."""
    for version in versions:
        request = protocol.OffsetFetchRequest
        if version < 8:
            body = request(
                group_id=GROUP, topics=[request.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[PARTITION])]
            )
        else:
            topic = request.OffsetFetchRequestTopics(name=TOPIC, topic_id=topic_id, partition_indexes=[PARTITION])
            body = request(groups=[request.OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])])
        answer = link.ask(body, version)
        (part,) = (answer.topics if version < 8 else answer.groups[0].topics)[0].partitions
        expected = committed[0] if version == 0 else max(committed.values())
        assert (part.error_code, part.committed_offset) == (0, expected)
        assert part.metadata == ("" if version == 0 else f"größe {expected - 100}")


def main() -> None:
    host, _, port = sys.argv[1].rpartition(":")
    for request, response in converse((host, int(port))).frames:
        print(
            json.dumps(
                {name: base64.b64encode(data).decode() for name, data in (("request", request), ("response", response))}
            )
        )


if __name__ == "__main__":
    main()
