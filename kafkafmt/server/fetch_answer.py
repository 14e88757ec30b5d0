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
    """The answer for one partition of a Fetch request. Unknown offsets are -1."""

    wanted: FetchedPartition
    served: ServedPartition | None  # None: the partition does not exist
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = UNKNOWN_OFFSET
    last_stable_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    aborted: list[tuple[int, int]] | None = None  # producer id and first offset; None: read_uncommitted
    spans: list[Span] | None = None  # batches that are sent from a file
    data: bytes = b""  # batches that are not sent from a file
    size: int = 0  # number of bytes of the batches
    next_offset: int = UNKNOWN_OFFSET  # the offset that the client will request next, if known
    changes: int = 0  # `ServedPartition.changes` before the partition was read

    @property
    def offsets(self) -> tuple[int, int, int]:
        """High watermark, last stable offset and log start offset."""
        return self.high_watermark, self.last_stable_offset, self.log_start_offset


@dataclass(slots=True)
class FetchAnswers:
    """The answer to a Fetch request. `FetchFrames` converts it to a response."""

    session_id: int = 0  # 0: no session
    topics: Mapping[TopicKey, Sequence[Answer]] = field(default_factory=dict)  # by the name or the id of the topic
    error: ErrorCode = ErrorCode.NONE  # error of the whole request
