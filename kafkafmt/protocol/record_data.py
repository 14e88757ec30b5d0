"""Find the record data in messages, without copying it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, cast
from uuid import UUID

from ..records import iter_tables
from ..support.sharing import shared
from ..types import Buffer, last_offsets
from . import apis
from .message_classes import REQUEST, RESPONSE, Message, UnknownBody

if TYPE_CHECKING:
    from ._classes import FetchResponse, ProduceRequest, ShareFetchResponse


class RecordData(NamedTuple):
    """The record data of one partition in a message, as input for `read_records` or `to_arrow`.

    Attributes
    ----------
    topic : str
        Name of the topic. It is empty if the message contains only the topic's id.
    topic_id : UUID
        Id of the topic. It is the zero UUID if the message contains only the name of the topic.
    partition : int
    records : bytes-like
        Record batches. If the message was read from a frame, this is a view of the frame. The last batch of a
        Fetch response is usually incomplete, so pass ``incomplete="ignore"`` to `to_arrow`.
    aborted : list of (int, int), optional
        Producer id and first offset of each aborted transaction in a Fetch response. Pass this list
        to `read_records` or `to_arrow` as the argument `aborted`. The value is None if the
        isolation level of the request was not read_committed.
    """

    topic: str
    topic_id: UUID
    partition: int
    records: Buffer
    aborted: list[tuple[int, int]] | None = None


class BatchesEnd(NamedTuple):
    """End of the last complete batch in record data.

    If a Fetch response reaches its size limit, the broker truncates the last batch. The truncated
    batch is not counted.

    Attributes
    ----------
    bytes_used : int
        Total size of the complete batches, in bytes.
    next_offset : int, optional
        Offset after the last complete batch. None if there is no complete batch.
    """

    bytes_used: int
    next_offset: int | None


@shared
def record_data(body: Message | UnknownBody) -> Iterator[RecordData]:
    """Yield the record data of each partition, in the order in which the message contains the partitions.

    Parameters
    ----------
    body : Message or UnknownBody
        A Produce request, a Fetch response or a ShareFetch response. Other messages, and an
        `UnknownBody`, yield nothing.

    Yields
    ------
    RecordData
        One object for each partition whose records are not null.
    """
    if isinstance(body, UnknownBody):
        return
    key, kind = body.API.key, body.KIND
    if key == apis.PRODUCE and kind == REQUEST:
        for produced in cast("ProduceRequest", body).topic_data:
            for data in produced.partition_data:
                if data.records is not None:
                    yield RecordData(produced.name, produced.topic_id, data.index, cast(Buffer, data.records))
    elif key == apis.FETCH and kind == RESPONSE:
        for topic in cast("FetchResponse", body).responses:
            for part in topic.partitions:
                if part.records is not None:
                    listed = part.aborted_transactions
                    aborted = None if listed is None else [(a.producer_id, a.first_offset) for a in listed]
                    yield RecordData(
                        topic.topic, topic.topic_id, part.partition_index, cast(Buffer, part.records), aborted
                    )
    elif key == apis.SHARE_FETCH and kind == RESPONSE:
        for shared_topic in cast("ShareFetchResponse", body).responses:
            for shared_part in shared_topic.partitions:
                if shared_part.records is not None:
                    yield RecordData(
                        "", shared_topic.topic_id, shared_part.partition_index, cast(Buffer, shared_part.records)
                    )


def batches_end(records: Buffer) -> BatchesEnd:
    """Find the end of the last complete batch in record data.

    Parameters
    ----------
    records : bytes-like
        Record data, such as `RecordData.records`. Only the headers of its batches are read, and
        CRCs are not checked.
    """
    end = BatchesEnd(0, None)
    for table in iter_tables(records, check_crc=False):
        last = table[-1]
        end = BatchesEnd(int(last["position"]) + int(last["size"]), int(last_offsets(table[-1:])[0]) + 1)
    return end
