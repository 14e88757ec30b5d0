"""Define the answer to a Fetch request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..protocol import ErrorCode
from .checked_batches import Span
from .fetch_request import TopicKey
from .served_partition import ServedPartition
from .sessions import FetchedPartition

UNKNOWN_OFFSET = -1


@dataclass(slots=True)
class Answer:
    """The answer for one partition of a Fetch request.

    Attributes
    ----------
    wanted : FetchedPartition
        The client's request for the partition.
    served : ServedPartition or None
        The partition, or None if it does not exist.
    error : ErrorCode
        The error, or NONE.
    high_watermark, last_stable_offset, log_start_offset : int
        The offsets in the response, or -1.
    aborted : list of (int, int) or None
        Producer id and first offset of each aborted transaction. None if the client reads uncommitted.
    spans : list of Span or None
        Batches that are sent from a file.
    data : bytes
        Batches that are not sent from a file.
    size : int
        Number of bytes of the batches.
    next_offset : int
        The offset that the client will request next, or -1 if it is unknown.
    changes : int
        `ServedPartition.changes` before the partition was read.
    """

    wanted: FetchedPartition
    served: ServedPartition | None
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = UNKNOWN_OFFSET
    last_stable_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    aborted: list[tuple[int, int]] | None = None
    spans: list[Span] | None = None
    data: bytes = b""
    size: int = 0
    next_offset: int = UNKNOWN_OFFSET
    changes: int = 0

    @property
    def offsets(self) -> tuple[int, int, int]:
        """High watermark, last stable offset and log start offset."""
        return self.high_watermark, self.last_stable_offset, self.log_start_offset


@dataclass(slots=True)
class FetchAnswers:
    """The answer to a Fetch request. `FetchFrames` converts it to a response.

    Attributes
    ----------
    session_id : int
        The id of the fetch session, or 0.
    topics : dict of list of Answer
        The answers for the partitions, by the name or the id of the topic.
    error : ErrorCode
        The error of the whole request, or NONE.
    """

    session_id: int = 0
    topics: Mapping[TopicKey, Sequence[Answer]] = field(default_factory=dict)
    error: ErrorCode = ErrorCode.NONE
