"""Record data inside messages: which partitions of a message carry some, as views of its frame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

from ..records import iter_tables
from ..sharing import shared
from ..types import Buffer, last_offsets
from .messages import REQUEST, Message, UnknownBody

PRODUCE, FETCH, SHARE_FETCH = 0, 1, 78


class RecordData(NamedTuple):
    """The record data of one partition of a message, for `read_records` or `to_arrow`.

    Messages of some versions name a topic by its id alone; `topic` is empty then. aborted: the aborted transactions that a
    Fetch response names, as those two take them; None where it names none because read_committed was not asked for.
    """

    topic: str
    topic_id: UUID
    partition: int
    records: Any
    aborted: list[tuple[int, int]] | None = None


class BatchesEnd(NamedTuple):
    """How far the whole batches of some record data reach: in bytes, and up to which offset (exclusive; None: there is no batch).

    What is left behind them is the beginning of a batch: brokers cut it off where a response is full.
    """

    bytes_used: int
    next_offset: int | None


@shared
def record_data(body: Message | UnknownBody) -> Iterator[RecordData]:
    """Yield the record data of a Produce request, a Fetch response or a ShareFetch response, in its order.

    Partitions whose records are null are skipped. Other messages, and an `UnknownBody`, yield nothing.
    """
    if isinstance(body, UnknownBody):
        return
    message: Any = body
    key, kind = message.API.key, message.KIND
    if key == PRODUCE and kind == REQUEST:
        for topic in message.topic_data:
            for part in topic.partition_data:
                if part.records is not None:
                    yield RecordData(topic.name, topic.topic_id, part.index, part.records)
    elif key == FETCH and kind != REQUEST:
        for topic in message.responses:
            for part in topic.partitions:
                if part.records is not None:
                    listed = part.aborted_transactions
                    aborted = None if listed is None else [(a.producer_id, a.first_offset) for a in listed]
                    yield RecordData(topic.topic, topic.topic_id, part.partition_index, part.records, aborted)
    elif key == SHARE_FETCH and kind != REQUEST:
        for topic in message.responses:
            for part in topic.partitions:
                if part.records is not None:
                    yield RecordData("", topic.topic_id, part.partition_index, part.records)


def batches_end(records: Buffer) -> BatchesEnd:
    """Where the whole batches of record data end; reads their headers only."""
    end = BatchesEnd(0, None)
    for table in iter_tables(records, check_crc=False):
        last: Any = table[-1]
        end = BatchesEnd(int(last["position"]) + int(last["size"]), int(last_offsets(table[-1:])[0]) + 1)
    return end
