"""Check that record data is a view of its frame, and is written without a copy."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from decoding import required
from wire_golden import VERSIONS, frames

import kafkafmt
from kafkafmt import protocol
from kafkafmt.constants import CONTROL_ABORT, CONTROL_COMMIT
from kafkafmt.protocol.record_data import RecordData
from kafkafmt.protocol.requests import Response
from kafkafmt.records import build_marker
from kafkafmt.types import Buffer


def fetched(
    records: list[Buffer], aborted: list[tuple[int, int]] | None = None, version: int = 11
) -> tuple[Response[Any], bytes]:
    """Return a Fetch response with one partition, and its frame."""
    response = protocol.FetchResponse
    listed = (
        None if aborted is None else [response.AbortedTransaction(producer_id=p, first_offset=o) for p, o in aborted]
    )
    part = response.PartitionData(partition_index=3, records=records, aborted_transactions=listed)
    topic = response.FetchableTopicResponse(topic="orders", partitions=[part])
    frame = b"".join(protocol.write_response(protocol.make_response(response(responses=[topic]), version, 5)))
    return protocol.read_response(frame, api_key=1, api_version=version), frame


def offsets(data: RecordData, **selection: Any) -> list[int]:
    return [r.offset for r in kafkafmt.read_records(data.records, aborted=data.aborted, **selection)]


@pytest.mark.parametrize("version", VERSIONS)
def test_records_in_recorded_frames_are_read(package: ModuleType, version: str) -> None:
    """A truncated batch at the end of the record data is not an error."""
    cut = seen = left_out = 0
    for golden in frames(version):
        entry = golden.entry
        if entry["api"] == "Produce" and entry["direction"] == "request":
            body = protocol.read_request(golden.frame).body
        elif entry["api"] == "Fetch" and entry["direction"] == "response":
            body = protocol.read_response(golden.frame, api_key=1, api_version=entry["api_version"]).body
        else:
            continue
        for data in protocol.record_data(body):
            assert data.topic == "wire"
            assert isinstance(data.records, memoryview)
            assert data.records.obj is golden.frame
            end = protocol.batches_end(data.records)
            whole = list(kafkafmt.read_records(data.records[: end.bytes_used]))
            assert list(kafkafmt.read_records(data.records)) == whole
            cut += end.bytes_used < len(data.records)
            left_out += len(whole) - len(offsets(data))
            seen += len(whole)
            if whole and entry["api"] == "Fetch":
                assert required(end.next_offset) > whole[-1].offset
                assert list(kafkafmt.read_records(data.records, start=whole[-1].offset)) == whole[-1:]
    assert seen > 60
    assert cut or version in ("1.1.1", "2.8.2")
    assert left_out or version != "2.8.2"


def test_mixed_formats_and_a_truncated_batch_are_read() -> None:
    batches: list[Any] = [
        kafkafmt.build_batch([(b"k", b"0", -1), (b"k", b"1", -1)], magic=0, base_offset=10, codec="gzip"),
        kafkafmt.build_batch([(b"k", b"2", 5), (b"k", b"3", 6)], magic=1, base_offset=12),
        kafkafmt.build_batch([(b"k", b"4", 7), (b"k", b"5", 8)], base_offset=14, codec="lz4"),
        kafkafmt.build_batch([(b"k", b"6", 9)], base_offset=16)[:-1],
    ]
    response, frame = fetched(batches)
    (part,) = response.topics[0].partitions
    assert part.records.obj is frame
    assert protocol.batches_end(part.records) == (sum(map(len, batches[:3])), 16)
    table = kafkafmt.to_arrow(part.records, start=13, incomplete="ignore")
    assert table["offset"].to_pylist() == [13, 14, 15]
    assert table["value"].to_pylist() == [b"3", b"4", b"5"]
    assert [r.value for r in kafkafmt.read_records(part.records)] == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert protocol.batches_end(batches[3]) == (0, None)


def test_aborted_transactions_of_the_response_are_omitted() -> None:
    def batch(producer: int, offset: int) -> bytes:
        return kafkafmt.build_batch(
            [(None, b"x", 1), (None, b"y", 1)],
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
            base_offset=offset,
        )

    def marker(producer: int, offset: int, type_: int) -> bytes:
        return build_marker(commit=type_ == 1, producer_id=producer, producer_epoch=0, base_offset=offset, timestamp=1)

    stream: list[Buffer] = [
        batch(1, 0),
        batch(2, 2),
        marker(1, 4, CONTROL_ABORT),
        batch(1, 5),
        marker(2, 7, CONTROL_COMMIT),
        marker(1, 8, CONTROL_COMMIT),
    ]
    (data,) = protocol.record_data(fetched(stream, aborted=[(1, 0)])[0].body)
    assert (data.topic, data.partition, data.aborted) == ("orders", 3, [(1, 0)])
    assert offsets(data) == [2, 3, 5, 6]
    table = kafkafmt.to_arrow(data.records, start=3, aborted=data.aborted, topic=data.topic, partition=data.partition)
    assert table.select(["offset", "topic", "partition"]).to_pylist()[0] == {
        "offset": 3,
        "topic": "orders",
        "partition": 3,
    }
    assert table["offset"].to_pylist() == [3, 5, 6]
    (everything,) = protocol.record_data(fetched(stream)[0].body)
    assert everything.aborted is None
    assert offsets(everything) == [0, 1, 2, 3, 5, 6]


def test_produce_request_is_written_without_a_copy_of_its_batches(package: ModuleType) -> None:
    batches: list[Any] = [kafkafmt.build_batch([(None, bytes(100_000), 1)]) for _ in range(3)]
    request = protocol.ProduceRequest
    parts = [
        request.PartitionProduceData(index=0, records=batches[0]),
        request.PartitionProduceData(index=1, records=batches[1:]),
        request.PartitionProduceData(index=2, records=None),
    ]
    body = request(acks=1, timeout_ms=1, topic_data=[request.TopicProduceData(name="orders", partition_data=parts)])
    buffers = protocol.write_request(protocol.make_request(body, 9, 1, "me"))
    assert [b.obj for b in buffers if isinstance(b, memoryview)] == batches
    read = protocol.read_request(b"".join(buffers))
    assert [d.partition for d in protocol.record_data(read.body)] == [0, 1]
    assert [bytes(d.records) for d in protocol.record_data(read.body)] == [batches[0], batches[1] + batches[2]]
    shown = protocol.to_json(body, 9)["topicData"][0]["partitionData"]
    assert shown[1] == {"index": 1, "recordsSizeInBytes": len(batches[1]) + len(batches[2])}


def test_other_messages_have_no_record_data() -> None:
    assert list(protocol.record_data(protocol.MetadataResponse())) == []
    assert list(protocol.record_data(protocol.ProduceResponse())) == []
    assert list(protocol.record_data(protocol.FetchRequest())) == []


def test_record_data_of_a_share_fetch_response_is_read() -> None:
    response = protocol.ShareFetchResponse
    part = response.PartitionData(partition_index=1, records=kafkafmt.build_batch([(None, b"x", 1)]))
    body = response(responses=[response.ShareFetchableTopicResponse(partitions=[part])])
    (data,) = protocol.record_data(body)
    assert (data.topic, data.partition, offsets(data)) == ("", 1, [0])
