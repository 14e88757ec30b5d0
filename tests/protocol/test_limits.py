"""Check the limit for the number of elements of a message. It limits the memory for their objects."""

from __future__ import annotations

import struct
import tracemalloc
from types import ModuleType
from typing import Any

import pytest
from building import ZSTD, batch, record

from kafkafmt import TooLargeError
from kafkafmt._pure import wire, wire_read
from kafkafmt.cli.decode import _records_of
from kafkafmt.constants import MAX_OBJECTS
from kafkafmt.messages import layout_of
from kafkafmt.protocol import message_class, read_request
from kafkafmt.protocol.decode import DecodedFrame


def uvarint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*out, n])


def metadata_request(topics: int, unknown: int = 0) -> bytes:
    """Return a MetadataRequest v9 with empty topic names and empty unknown tagged fields."""
    tags = b"".join(uvarint(100 + i) + b"\0" for i in range(unknown))
    body = (
        struct.pack(">hhihB", 3, 9, 1, -1, 0)
        + uvarint(topics + 1)
        + b"\x01\0" * topics
        + b"\0\0\0"
        + uvarint(unknown)
        + tags
    )
    return struct.pack(">i", len(body)) + body


def test_frame_with_more_elements_than_the_limit_is_too_large() -> None:
    frame = metadata_request(MAX_OBJECTS)
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError, match=r"MetadataRequest\.topics: the message contains more than 8388608"):
            read_request(frame)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20  # elements are counted before they are allocated


@pytest.mark.parametrize(("topics", "unknown"), [(9, 0), (10, 0), (0, 9), (0, 10), (4, 5), (5, 5)])
def test_limit_covers_elements_and_unknown_tags(
    core: ModuleType, monkeypatch: pytest.MonkeyPatch, topics: int, unknown: int
) -> None:
    fits = topics + unknown < 10  # the array also counts
    for module in (core, wire, wire_read):
        monkeypatch.setattr(module, "MAX_OBJECTS", 10, raising=False)
    layout, data = layout_of(message_class("Metadata", "request"), 9, core), metadata_request(topics, unknown)[4 + 11 :]
    for _ in range(2):  # the count starts at 0 for each message
        if fits:
            message, end = layout.read(data)
            assert (len(message.topics), len(message.unknown_tagged_fields), end) == (topics, unknown, len(data))
        else:
            with pytest.raises(TooLargeError, match="more than 10 array elements"):
                layout.read(data)


@pytest.mark.parametrize(("topics", "unknown"), [(9, 0), (10, 0), (0, 9), (0, 10), (4, 5), (5, 5)])
def test_limit_of_objects_can_be_chosen(core: ModuleType, topics: int, unknown: int) -> None:
    layout, data = layout_of(message_class("Metadata", "request"), 9, core), metadata_request(topics, unknown)[4 + 11 :]
    if topics + unknown < 10:  # the array also counts
        message, end = layout.read(data, max_objects=10)
        assert (len(message.topics), len(message.unknown_tagged_fields), end) == (topics, unknown, len(data))
    else:
        with pytest.raises(TooLargeError, match="more than 10 array elements"):
            layout.read(data, max_objects=10)
    layout.read(data)  # the limit applies to one call


def test_read_request_limits_objects_of_header_and_body() -> None:
    assert read_request(metadata_request(8), max_objects=10)
    with pytest.raises(TooLargeError, match="more than 10 array elements"):
        read_request(metadata_request(20), max_objects=10)
    tags = b"".join(uvarint(100 + i) + b"\0" for i in range(20))
    frame = struct.pack(">hhih", 3, 9, 1, -1) + uvarint(20) + tags + b"\x01\0\0\0\0"
    with pytest.raises(TooLargeError, match="RequestHeader's tagged fields"):
        read_request(struct.pack(">i", len(frame)) + frame, max_objects=10)


def test_elements_of_integer_arrays_are_not_counted(core: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (core, wire, wire_read):
        monkeypatch.setattr(module, "MAX_OBJECTS", 10, raising=False)
    fetch: Any = message_class("Fetch", "request")
    layout = layout_of(fetch, 12, core)
    made = fetch(forgotten_topics_data=[fetch.ForgottenTopic(topic="t", partitions=list(range(50)))])
    message, _ = layout.read(b"".join(core.write_messages([layout], [made])))
    assert message == made


def test_large_message_below_the_limit_is_read() -> None:
    request: Any = read_request(metadata_request(100_000, 1000))
    assert (len(request.body.topics), len(request.body.unknown_tagged_fields)) == (100_000, 1000)


def test_records_of_a_frame_are_not_collected() -> None:
    """A few kilobytes contain 200,000 compressed records. Only one record is in memory at a time."""
    data = batch([record(i) for i in range(200_000)], codec=ZSTD)
    produce: Any = message_class("Produce", "request")
    body = produce(
        acks=1,
        timeout_ms=5,
        topic_data=[
            produce.TopicProduceData(name="t", partition_data=[produce.PartitionProduceData(index=0, records=data)])
        ],
    )
    trouble: list[str] = []
    tracemalloc.start()
    try:
        assert sum(1 for _ in _records_of(DecodedFrame("request", 0, 0, message=body), 1 << 27, trouble)) == 200_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert trouble == []
    assert peak < 16 << 20
