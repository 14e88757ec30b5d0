"""Define the parts of a Fetch request that the server uses, and read them from a frame."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct, error
from typing import Any, NamedTuple

FIRST_PLAIN_VERSION = 15
"""Lowest version whose requests `read_plain` reads. They contain topic ids, and no replica id."""

TopicKey = str | bytes
"""Name of a topic, or the 16 bytes of its id."""

_START = Struct(">ih")
"""Correlation id, and length of the client id."""
_LIMITS = Struct(">xiiibiiB")
"""The tagged fields of the header, the fields of the request before its topics, and the length of the array of topics."""
_TOPIC = Struct(">16sB")
"""Topic id, and length of the array of partitions."""
_PARTITION = Struct(">iiqiqiB")
"""The fields of a partition, and its number of tagged fields."""
_START_AT = 8
"""Position of the correlation id in a frame."""
_CLIENT_ID_AT = 14
_LONG_LENGTH = 0x80
"""The first byte of a length is less than this value if the length has only one byte."""
_PLAIN_END = b"\1\1\0"
"""No forgotten topics, an empty rack id, and no tagged fields."""


class PartitionRequest(NamedTuple):
    """What a client requests from one partition. ``FetchRequest.FetchTopic.FetchPartition`` has the same attributes."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    partition_max_bytes: int


@dataclass(slots=True)
class WantedFetch:
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[tuple[TopicKey, list[PartitionRequest]]]
    forgotten: list[tuple[TopicKey, list[int]]]  # partitions that leave the fetch session


def wanted_fetch(request: Any, by_id: bool) -> WantedFetch:
    """Convert a FetchRequest. `by_id` is True if the request names topics by their ids."""
    return WantedFetch(
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
        [
            (
                topic.topic_id.bytes if by_id else topic.topic,
                [
                    PartitionRequest(p.partition, p.current_leader_epoch, p.fetch_offset, p.partition_max_bytes)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ],
        [(t.topic_id.bytes if by_id else t.topic, list(t.partitions)) for t in request.forgotten_topics_data],
    )


def read_plain(frame: bytes) -> tuple[int, str | None, WantedFetch] | None:
    """Read a usual request without creating message objects. Return None if it is unusual or damaged."""
    # The version must be FIRST_PLAIN_VERSION or higher, and the caller has checked the size field.
    # A request is unusual if it has other fields, long arrays, or a client id that is not ASCII.
    try:
        correlation_id, length = _START.unpack_from(frame, _START_AT)
        at = _CLIENT_ID_AT + max(length, 0)
        max_wait_ms, min_bytes, max_bytes, isolation, session_id, epoch, topic_count = _LIMITS.unpack_from(frame, at)
        if frame[at] or not 0 < topic_count < _LONG_LENGTH:
            return None
        at += _LIMITS.size
        topics: list[tuple[TopicKey, list[PartitionRequest]]] = []
        for _ in range(topic_count - 1):
            topic_id, count = _TOPIC.unpack_from(frame, at)
            if not 0 < count < _LONG_LENGTH:
                return None
            at += _TOPIC.size
            partitions: list[PartitionRequest] = []
            for _ in range(count - 1):
                number, leader_epoch, offset, _, _, room, tags = _PARTITION.unpack_from(frame, at)
                if tags:
                    return None
                at += _PARTITION.size
                partitions.append(PartitionRequest(number, leader_epoch, offset, room))
            topics.append((topic_id, partitions))
            if frame[at]:
                return None
            at += 1
    except (error, IndexError):
        return None
    name = frame[_CLIENT_ID_AT : _CLIENT_ID_AT + max(length, 0)]
    if frame[at:] != _PLAIN_END or length < -1 or not name.isascii():
        return None
    client_id = None if length < 0 else name.decode()
    wanted = WantedFetch(max_wait_ms, min_bytes, max_bytes, isolation, session_id, epoch, topics, [])
    return correlation_id, client_id, wanted
