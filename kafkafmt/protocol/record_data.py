"""Find the record data inside messages, without copying it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, cast
from uuid import UUID

from ..records import iter_tables
from ..sharing import shared
from ..types import Buffer, last_offsets
from . import apis
from .message_classes import REQUEST, RESPONSE, Message, UnknownBody

if TYPE_CHECKING:
    from ._classes import FetchResponse, ProduceRequest, ShareFetchResponse


class RecordData(NamedTuple):
    """Record data of one partition of a message, as input for `read_records` or `to_arrow`.

    Attributes
    ----------
    topic : str
        Name of the topic. It is empty if the message names the topic by its id only.
    topic_id : UUID
        Id of the topic. It is zero if the message names the topic by its name only.
    partition : int
    records : bytes-like
        Record batches. A view of the frame, if the message was read from one.
    aborted : list of (int, int), optional
        Producer id and first offset of each aborted transaction in a Fetch response. `read_records`
        and `to_arrow` take this list as their argument `aborted`. None if the request did not ask
        for read_committed.
    """

    topic: str
    topic_id: UUID
    partition: int
    records: Buffer
    aborted: list[tuple[int, int]] | None = None


class BatchesEnd(NamedTuple):
    """The end of the complete batches in some record data.

    The bytes after this end are the start of another batch: a broker truncates the last batch if
    the response is full.

    Attributes
    ----------
    bytes_used : int
        Size of the complete batches, in bytes.
    next_offset : int, optional
        The offset after the last one of these batches. None if there is no complete batch.
    """

    bytes_used: int
    next_offset: int | None


@shared
def record_data(body: Message | UnknownBody) -> Iterator[RecordData]:
    """Yield the record data of each partition in a message, in the order of the message.

    Parameters
    ----------
    body : Message or UnknownBody
        A Produce request, a Fetch response or a ShareFetch response. Other messages, and an
        `UnknownBody`, yield nothing.

    Yields
    ------
    RecordData
        A partition whose records are null is skipped.
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
    """Return where the complete batches of some record data end.

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
