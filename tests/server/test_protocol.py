"""Send requests in every version of each API, and check the responses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from golden_cases import BY_NAME, LEGACY
from serving import API_VERSIONS, FETCH, LIST_OFFSETS, METADATA, Client, fetch_request

import kafkafmt
from kafkafmt import LogDirectory, protocol
from kafkafmt.protocol import ErrorCode
from kafkafmt.protocol.apis import api
from kafkafmt.server.catalog import Topic
from kafkafmt.server.refusals import MESSAGE

Start = Callable[..., kafkafmt.server.Server]
CODECS = BY_NAME["kafka-4.3.1/codecs"]
TRANSACTIONS = BY_NAME["kafka-4.3.1/transactions"]
MIXED = next(c for c in LEGACY if c.name == "0.10.2.2-mixed")
TOPIC = "codec-none"


@pytest.fixture(scope="module")
def server() -> Iterator[kafkafmt.server.Server]:
    with kafkafmt.serve([str(root) for root in CODECS.roots]) as server:
        yield server


@pytest.fixture
def client(server: kafkafmt.server.Server) -> Iterator[Client]:
    with Client(server.port) as client:
        yield client


def versions(key: int, first: int = 0, last: int | None = None) -> range:
    known = api(key)
    assert known is not None
    return range(first, (known.versions.last if last is None else last) + 1)


def metadata(client: Client, version: int = 12) -> Any:
    return client.ask(protocol.MetadataRequest(topics=None if version else []), version)


def topic_id(client: Client, topic: str = TOPIC) -> UUID:
    found: UUID = next(t.topic_id for t in metadata(client).topics if t.name == topic)
    return found


@pytest.mark.parametrize("version", versions(API_VERSIONS, last=4))
def test_api_versions_lists_every_api(client: Client, version: int) -> None:
    body = protocol.ApiVersionsRequest()
    if version >= 3:
        body.client_software_name, body.client_software_version = "test", "1"
    found = client.ask(body, version)
    assert not found.error_code
    ranges = {k.api_key: (k.min_version, k.max_version) for k in found.api_keys}
    assert ranges[FETCH] == (0, 18)
    assert {0, METADATA, LIST_OFFSETS, 22, 23, 60} < set(ranges)


@pytest.mark.parametrize("version", [5, 6, 32767])
def test_unsupported_api_versions_request_gets_a_version_0_response(client: Client, version: int) -> None:
    """`kafkafmt.protocol` supports version 5, but not the higher versions. The server supports neither."""
    body = protocol.ApiVersionsRequest(client_software_name="franz-go", client_software_version="1")
    request = b"".join(map(bytes, protocol.write_request(protocol.make_request(body, 5, 1, "a"))))
    client.socket.sendall(request[:6] + version.to_bytes(2, "big") + request[8:])
    size = int.from_bytes(client.read(4), "big")
    frame = size.to_bytes(4, "big") + client.read(size)
    found: Any = protocol.read_response(frame, api_key=API_VERSIONS, api_version=0).body
    assert found.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(k.api_key, k.min_version, k.max_version) for k in found.api_keys] == [(API_VERSIONS, 0, 4)]


@pytest.mark.parametrize("version", versions(METADATA))
def test_metadata_lists_topics(client: Client, server: kafkafmt.server.Server, version: int) -> None:
    found = metadata(client, version)
    assert [(b.node_id, b.host, b.port) for b in found.brokers] == [(1, "127.0.0.1", server.port)]
    assert [t.name for t in found.topics] == server.topics
    for topic in found.topics:
        assert [(p.partition_index, p.leader_id, p.isr_nodes) for p in topic.partitions] == [(0, 1, [1])]
        assert version < 10 or topic.topic_id.int


@pytest.mark.parametrize("version", versions(METADATA))
def test_metadata_reports_unknown_topics(client: Client, version: int) -> None:
    topics = [protocol.MetadataRequest.MetadataRequestTopic(name=name) for name in (TOPIC, "missing")]
    found = client.ask(protocol.MetadataRequest(topics=topics), version)
    assert [(t.name, t.error_code) for t in found.topics] == [
        (TOPIC, 0),
        ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize("version", versions(METADATA))
@pytest.mark.parametrize("name", ["a b", "", "..", "ä", "a" * 250])
def test_metadata_reports_invalid_topic_names(client: Client, version: int, name: str) -> None:
    """A client requests an unknown topic again and again, but reports an invalid name to its user."""
    topics = [protocol.MetadataRequest.MetadataRequestTopic(name=name)]
    (found,) = client.ask(protocol.MetadataRequest(topics=topics), version).topics
    assert (found.name, found.error_code) == (name, ErrorCode.INVALID_TOPIC_EXCEPTION)


def test_topic_with_an_unusual_name_is_served(started: Start, tmp_path: Path) -> None:
    with LogDirectory(tmp_path) as directory:
        directory.writer("t", 0).append([(b"k", b"v", 1)])
    (tmp_path / "t-0").rename(tmp_path / "a b-0")
    topics = [protocol.MetadataRequest.MetadataRequestTopic(name="a b")]
    with Client(started(tmp_path).port) as client:
        assert [t.error_code for t in client.ask(protocol.MetadataRequest(topics=topics), 12).topics] == [0]
        assert [r.value for r in client.read_all("a b", 0)] == [b"v"]


def test_unknown_topic_ids_are_looked_up_in_constant_time(started: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request can contain thousands of unknown topic ids."""
    catalog = started([str(root) for root in CODECS.roots]).catalog
    assert catalog.topic_by_id(catalog.topics[0].topic_id) is catalog.topics[0]
    read: list[Topic] = []
    monkeypatch.setattr(Topic, "topic_id", property(lambda topic: read.append(topic)))
    assert [catalog.topic_by_id(UUID(int=i)) for i in range(10)] == [None] * 10
    assert not read


def test_metadata_finds_topics_by_id(client: Client) -> None:
    known, unknown = topic_id(client), UUID(int=5)
    topics = [protocol.MetadataRequest.MetadataRequestTopic(name=None, topic_id=i) for i in (known, unknown)]
    found = client.ask(protocol.MetadataRequest(topics=topics), 12)
    assert [(t.name, t.topic_id, t.error_code) for t in found.topics] == [
        (TOPIC, known, 0),
        (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


@pytest.mark.parametrize("version", versions(60))
def test_describe_cluster_names_the_server(client: Client, server: kafkafmt.server.Server, version: int) -> None:
    found = client.ask(protocol.DescribeClusterRequest(), version)
    assert [(b.broker_id, b.host, b.port) for b in found.brokers] == [(1, "127.0.0.1", server.port)]
    assert len(found.cluster_id) == 22


@pytest.mark.parametrize("version", versions(FETCH, 4))
def test_fetch_returns_stored_bytes(client: Client, version: int) -> None:
    stored = (CODECS.partition_dir(TOPIC, 0) / "00000000000000000000.log").read_bytes()
    name: str | UUID = topic_id(client) if version >= 13 else TOPIC
    data = client.fetch(name, 0, 0, version, partition_max_bytes=len(stored))
    assert bytes(data.records) == stored
    assert data.high_watermark == CODECS.offsets()[TOPIC, 0]["highWatermark"]


@pytest.mark.parametrize("version", range(4))
def test_old_fetch_versions_get_old_formats(client: Client, version: int) -> None:
    data = client.fetch(TOPIC, 0, 0, version, max_bytes=1 << 20)
    magics = {batch.magic for batch in kafkafmt.iter_batches(bytes(data.records))}
    assert magics == {0 if version < 2 else 1}


@pytest.mark.parametrize("version", [0, 2, 4, 12])
def test_old_formats_are_converted_for_new_versions(started: Start, version: int) -> None:
    log = kafkafmt.open([str(root) for root in MIXED.roots])
    server = started(log)
    with Client(server.port) as client:
        for partition in log.partitions:
            data = client.fetch(partition.topic, partition.partition, 0, version)
            magics = {batch.magic for batch in kafkafmt.iter_batches(bytes(data.records))}
            assert magics == {2 if version >= 4 else 1 if version >= 2 else 0}


def test_fetch_starts_with_the_batch_that_contains_the_offset(client: Client) -> None:
    stored = (CODECS.partition_dir(TOPIC, 0) / "00000000000000000000.log").read_bytes()
    batches = list(kafkafmt.iter_batches(stored))
    batch = next(b for b in batches if b.last_offset > b.base_offset)
    data = client.fetch(TOPIC, 0, batch.last_offset, partition_max_bytes=1)
    assert bytes(data.records) == stored[batch.position : batch.position + batch.size]


@pytest.mark.parametrize("limit", [1, 100, 1000, 3000, 10_000])
def test_fetch_contains_only_whole_batches(client: Client, limit: int) -> None:
    data = client.fetch(TOPIC, 0, 0, partition_max_bytes=limit)
    batches = list(kafkafmt.iter_batches(bytes(data.records)))
    assert sum(b.size for b in batches) == len(data.records)
    assert len(data.records) <= limit or len(batches) == 1


def test_only_the_first_partition_may_exceed_its_limit(client: Client, server: kafkafmt.server.Server) -> None:
    wanted: dict[tuple[str | UUID, int], int] = {(topic, 0): 0 for topic in server.topics}
    response = client.ask(fetch_request(wanted, 12, max_bytes=1), 12)
    sizes = [len(t.partitions[0].records or b"") for t in response.responses]
    assert sizes[0] > 1
    assert set(sizes[1:]) == {0}


@pytest.mark.parametrize("offset", [-1, 548, 2**62])
def test_fetch_of_an_offset_outside_the_log_is_an_error(client: Client, offset: int) -> None:
    assert client.fetch(TOPIC, 0, offset).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_fetch_of_unknown_partition_is_an_error(client: Client) -> None:
    assert client.fetch(TOPIC, 7, 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.fetch("missing", 0, 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.fetch(UUID(int=5), 0, 0, 13).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert client.fetch(topic_id(client), 7, 0, 13).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_wrong_leader_epoch_is_an_error(client: Client) -> None:
    epoch = metadata(client).topics[0].partitions[0].leader_epoch
    assert client.fetch(TOPIC, 0, 0, current_leader_epoch=epoch).error_code == ErrorCode.NONE
    assert client.fetch(TOPIC, 0, 0, current_leader_epoch=epoch + 1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_fetch_at_the_log_end_waits_for_new_records(client: Client) -> None:
    end = client.offset(TOPIC, 0, -1).offset
    started = time.monotonic()
    data = client.fetch(TOPIC, 0, end, max_wait_ms=300)
    assert not data.records
    assert time.monotonic() - started >= 0.3


@pytest.mark.parametrize("version", versions(LIST_OFFSETS))
def test_list_offsets_returns_offsets_in_every_version(client: Client, version: int) -> None:
    partition = kafkafmt.open([str(root) for root in CODECS.roots])[TOPIC, 0]
    records = list(partition)
    middle = records[len(records) // 2].timestamp
    found = next(r for r in records if r.timestamp >= middle)
    if version == 0:
        assert client.offset(TOPIC, 0, -1, 0).old_style_offsets == [partition.next_offset]
        assert client.offset(TOPIC, 0, -2, 0).old_style_offsets == [0]
        return
    assert client.offset(TOPIC, 0, -1, version).offset == partition.next_offset
    assert client.offset(TOPIC, 0, -2, version).offset == 0
    answer = client.offset(TOPIC, 0, middle, version)
    assert (answer.offset, answer.timestamp) == (found.offset, found.timestamp)


def test_list_offsets_supports_the_special_timestamps(client: Client) -> None:
    records = list(kafkafmt.open([str(root) for root in CODECS.roots])[TOPIC, 0])
    largest = max(records, key=lambda r: (r.timestamp, -r.offset))
    answer = client.offset(TOPIC, 0, -3, 9)
    assert (answer.offset, answer.timestamp) == (largest.offset, largest.timestamp)
    assert client.offset(TOPIC, 0, -4, 9).offset == 0
    assert client.offset(TOPIC, 0, -5, 9).offset == -1


@pytest.mark.parametrize("version", versions(LIST_OFFSETS))
def test_list_offsets_refuses_timestamps_that_its_version_lacks(client: Client, version: int) -> None:
    lowest = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}
    for timestamp in (*lowest, -7, -(2**63)):
        expected = 0 if version >= lowest.get(timestamp, 99) else ErrorCode.UNSUPPORTED_VERSION
        answer = client.offset(TOPIC, 0, timestamp, version)
        assert answer.error_code == expected, timestamp
        assert version == 0 or not expected or answer.offset == -1


@pytest.mark.parametrize("version", versions(23))
def test_end_offset_of_a_leader_epoch_is_returned_in_every_version(client: Client, version: int) -> None:
    make = protocol.OffsetForLeaderEpochRequest
    wanted = [make.OffsetForLeaderPartition(partition=0, leader_epoch=epoch) for epoch in (0, 99)]
    topic = make.OffsetForLeaderTopic(topic=TOPIC, partitions=wanted)
    (found,) = client.ask(make(topics=[topic]), version).topics
    assert [p.error_code for p in found.partitions] == [0, 0]
    assert [p.end_offset for p in found.partitions] == [CODECS.offsets()[TOPIC, 0]["highWatermark"], -1]


def test_fetch_lists_aborted_transactions(started: Start) -> None:
    log = kafkafmt.open([str(root) for root in TRANSACTIONS.roots])
    with Client(started(log).port) as client:
        for partition in log.partitions:
            stable = client.offset(partition.topic, partition.partition, -1, isolation_level=1).offset
            data = client.fetch(partition.topic, partition.partition, 0, isolation_level=1)
            assert data.last_stable_offset == stable == partition.last_stable_offset
            aborted = partition.log.transactions.aborted
            assert {(a.producer_id, a.first_offset) for a in data.aborted_transactions} == {
                (producer, first) for producer, spans in aborted.items() for first, _ in spans if first < stable
            }


@pytest.mark.parametrize("by_id", [False, True])
def test_fetch_session_omits_unchanged_partitions(started: Start, tmp_path: Path, by_id: bool) -> None:
    with LogDirectory(tmp_path) as directory:
        writers = [directory.writer("t", n) for n in range(3)]
        for writer in writers:
            writer.append([(b"k", b"v", 1)])
            writer.flush()
        version = 13 if by_id else 12
        with Client(started(tmp_path).port) as client:
            name: str | UUID = topic_id(client, "t") if by_id else "t"
            first = client.ask(fetch_request({(name, n): 0 for n in range(3)}, version, session_epoch=0), version)
            assert first.session_id
            assert [len(p.records) > 0 for p in first.responses[0].partitions] == [True] * 3
            session = {"session_id": first.session_id}
            moved = fetch_request({(name, n): 1 for n in range(3)}, version, session_epoch=1, **session)
            assert not client.ask(moved, version).responses
            writers[1].append([(b"k", b"new", 2)])
            writers[1].flush()
            request = fetch_request({}, version, session_epoch=2, max_wait_ms=5000, **session)
            (found,) = client.ask(request, version).responses
            assert [(p.partition_index, p.high_watermark) for p in found.partitions] == [(1, 2)]
            assert [r.value for r in kafkafmt.read_records(bytes(found.partitions[0].records))] == [b"new"]
            wrong = client.ask(fetch_request({}, version, session_epoch=9, **session), version)
            assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
            other = client.ask(fetch_request({}, version, session_id=12345, session_epoch=1), version)
            assert other.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("version", [7, 12, 18])
def test_fetch_session_ends_if_the_client_forgets_all_partitions(client: Client, version: int) -> None:
    name: Any = topic_id(client) if version >= 13 else TOPIC
    forgotten = protocol.FetchRequest.ForgottenTopic(
        partitions=[0], **({"topic_id": name} if version >= 13 else {"topic": name})
    )
    first = client.ask(fetch_request({(name, 0): 0}, version, session_epoch=0), version)
    session = {"session_id": first.session_id}
    ended = client.ask(fetch_request({}, version, session_epoch=1, forgotten=[forgotten], **session), version)
    assert (ended.error_code, ended.session_id, ended.responses) == (ErrorCode.NONE, 0, [])
    after = client.ask(fetch_request({(name, 0): 0}, version, session_epoch=2, **session), version)
    assert after.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


REQUESTS: dict[str, Callable[[int], Any]] = {
    "Produce": lambda _: protocol.ProduceRequest(
        acks=1,
        topic_data=[
            protocol.ProduceRequest.TopicProduceData(
                name="t", partition_data=[protocol.ProduceRequest.PartitionProduceData(index=0, records=b"")]
            )
        ],
    ),
    "CreateTopics": lambda _: protocol.CreateTopicsRequest(
        topics=[protocol.CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)]
    ),
    "DeleteTopics": lambda v: (
        protocol.DeleteTopicsRequest(topics=[protocol.DeleteTopicsRequest.DeleteTopicState(name="t")])
        if v >= 6
        else protocol.DeleteTopicsRequest(topic_names=["t"])
    ),
    "DeleteRecords": lambda _: protocol.DeleteRecordsRequest(
        topics=[
            protocol.DeleteRecordsRequest.DeleteRecordsTopic(
                name="t", partitions=[protocol.DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0)]
            )
        ]
    ),
    "InitProducerId": lambda _: protocol.InitProducerIdRequest(transactional_id=None),
    "AddPartitionsToTxn": lambda v: (
        protocol.AddPartitionsToTxnRequest(
            transactions=[
                protocol.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                    transactional_id="x",
                    topics=[protocol.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="t", partitions=[0])],
                )
            ]
        )
        if v >= 4
        else protocol.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_topics=[protocol.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
    ),
    "AddOffsetsToTxn": lambda _: protocol.AddOffsetsToTxnRequest(transactional_id="x"),
    "EndTxn": lambda _: protocol.EndTxnRequest(transactional_id="x"),
    "TxnOffsetCommit": lambda _: protocol.TxnOffsetCommitRequest(
        topics=[
            protocol.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                name="t",
                partitions=[protocol.TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(partition_index=0)],
            )
        ]
    ),
    "CreateAcls": lambda _: protocol.CreateAclsRequest(
        creations=[protocol.CreateAclsRequest.AclCreation(resource_type=2, resource_name="t")]
    ),
    "DeleteAcls": lambda _: protocol.DeleteAclsRequest(
        filters=[protocol.DeleteAclsRequest.DeleteAclsFilter(resource_type_filter=2)]
    ),
    "AlterConfigs": lambda _: protocol.AlterConfigsRequest(
        resources=[protocol.AlterConfigsRequest.AlterConfigsResource(resource_type=2, resource_name="t")]
    ),
    "IncrementalAlterConfigs": lambda _: protocol.IncrementalAlterConfigsRequest(
        resources=[protocol.IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=2, resource_name="t")]
    ),
    "CreatePartitions": lambda _: protocol.CreatePartitionsRequest(
        topics=[protocol.CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=2)]
    ),
    "ElectLeaders": lambda _: protocol.ElectLeadersRequest(
        topic_partitions=[protocol.ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0])]
    ),
    "AlterPartitionReassignments": lambda _: protocol.AlterPartitionReassignmentsRequest(
        topics=[
            protocol.AlterPartitionReassignmentsRequest.ReassignableTopic(
                name="t",
                partitions=[protocol.AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=0)],
            )
        ]
    ),
    "AlterClientQuotas": lambda _: protocol.AlterClientQuotasRequest(
        entries=[
            protocol.AlterClientQuotasRequest.EntryData(
                entity=[protocol.AlterClientQuotasRequest.EntityData(entity_type="user", entity_name="u")]
            )
        ]
    ),
}
NO_PERMISSION = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def error_codes(value: Any) -> Iterator[int]:
    """Yield all error codes in a response, except 0."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name.lower().endswith("errorcode") and item:
                yield item
            else:
                yield from error_codes(item)
    elif isinstance(value, list):
        for item in value:
            yield from error_codes(item)


@pytest.mark.parametrize("name", REQUESTS)
def test_requests_that_write_are_refused_in_every_version(
    client: Client, server: kafkafmt.server.Server, name: str
) -> None:
    key = REQUESTS[name](0).API.key
    for version in versions(key):
        response = client.ask(REQUESTS[name](version), version)
        found = set(error_codes(protocol.to_json(response, version)))
        assert found, version
        assert found <= {ErrorCode.POLICY_VIOLATION, *NO_PERMISSION}
    assert sum(f"{name} refused" in line for line in server.messages) == 1


def test_refused_reassignments_have_a_result_for_each_partition(client: Client) -> None:
    """If a result is missing, Kafka's Admin client reports only that the server returned too few results."""
    response = client.ask(REQUESTS["AlterPartitionReassignments"](0), 0)
    assert response.error_code == ErrorCode.POLICY_VIOLATION
    (topic,) = response.responses
    assert [(p.partition_index, p.error_code, p.error_message) for p in topic.partitions] == [(0, 44, MESSAGE)]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_refused_elections_have_a_message_for_each_partition(client: Client, version: int) -> None:
    """Kafka's Admin client ignores the messages of partitions if the response contains an error code."""
    response = client.ask(REQUESTS["ElectLeaders"](version), version)
    assert response.error_code == 0
    (topic,) = response.replica_election_results
    assert [(p.partition_id, p.error_code, p.error_message) for p in topic.partition_result] == [(0, 44, MESSAGE)]
    response = client.ask(protocol.ElectLeadersRequest(topic_partitions=None), version)
    assert response.error_code == (ErrorCode.POLICY_VIOLATION if version else 0)


def test_produce_without_acks_gets_no_response(client: Client) -> None:
    body = REQUESTS["Produce"](9)
    body.acks = 0
    client.send(body, 9)
    assert metadata(client).topics


@pytest.mark.parametrize("version", range(13))
def test_zstd_is_refused_only_if_the_requested_format_has_no_zstd(started: Start, version: int) -> None:
    """Formats 0 and 1 have no zstd. Kafka's brokers respond with the same error."""
    with Client(started([str(root) for root in CODECS.roots]).port) as client:
        data = client.fetch("codec-zstd", 0, 0, version)
    if version < 4:
        assert data.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert not data.records
    else:
        assert data.error_code == ErrorCode.NONE
        assert len(data.records) > 50_000
