"""Record data inside messages: which partitions of a message carry some, as views of its frame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

from .messages import REQUEST, Message

PRODUCE, FETCH, SHARE_FETCH = 0, 1, 78


class RecordData(NamedTuple):
    """The record data of one partition of a message. Messages of some versions name a topic by its id alone."""

    topic: str
    topic_id: UUID
    partition: int
    records: Any


def record_data(body: Message) -> Iterator[RecordData]:
    """What a Produce request, a Fetch or a ShareFetch response carries, in its order; nothing for other messages.

    Partitions whose records are null are left out.
    """
    message: Any = body
    key, kind = message.API.key, message.KIND
    if key == PRODUCE and kind == REQUEST:
        for topic in message.topic_data:
            for part in topic.partition_data:
                if part.records is not None:
                    yield RecordData(topic.name, topic.topic_id, part.index, part.records)
    elif key in (FETCH, SHARE_FETCH) and kind != REQUEST:
        for topic in message.responses:
            for part in topic.partitions:
                if part.records is not None:
                    yield RecordData(topic.topic if key == FETCH else "", topic.topic_id, part.partition_index, part.records)
