"""Define types for arguments, such as records to encode and the options of `LogValidator`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, Union

from .._backend import core
from ..constants import Codec
from ..types import Buffer

Headers: TypeAlias = Iterable[tuple[str | Buffer, Buffer | None]] | dict[str, Any] | dict[bytes, Any] | None
"""Headers of a record to encode, as (name, value) pairs or as a dict."""
RecordLike: TypeAlias = Union[
    "core.Record[bytes | memoryview]",
    tuple[Buffer | None, Buffer | None],
    tuple[Buffer | None, Buffer | None, int],
    tuple[Buffer | None, Buffer | None, int, Headers],
    tuple[Buffer | None, Buffer | None, int, Headers, int | None],
]
"""A record to encode: a `Record`, or a tuple (key, value, timestamp in ms, headers, offset)."""


class BatchOptions(TypedDict, total=False):
    """Keyword arguments of `BatchBuilder`, except `max_bytes`."""

    magic: int
    codec: Codec | int
    level: int | None
    base_offset: int | None
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool
    control: bool
    leader_epoch: int
    log_append_time: int | None
    delete_horizon: int | None


class BuilderOptions(BatchOptions, total=False):
    """Keyword arguments of `BatchBuilder`."""

    max_bytes: int | None


class ValidatorOptions(TypedDict, total=False):
    """Keyword arguments of `LogValidator`."""

    codec: Codec | Literal["producer"] | int
    level: int | None
    magic: int
    timestamp_type: str
    now_ms: int | None
    before_max_ms: int
    after_max_ms: int
    compacted: bool
    leader_epoch: int
    max_message_bytes: int | None
    origin: str
    check_records: bool
    max_batch_bytes: int


class BufferSelection(TypedDict, total=False):
    """Keyword arguments of `read_records` that select records."""

    start: int | None
    end: int | None
    control: bool
    aborted: Iterable[tuple[int, int]] | None
    check_crc: bool
    max_batch_bytes: int


class AppendRecord(Protocol):
    """Signature of the methods `BatchBuilder.append` and `BatchBuilder.has_room_for`."""

    def __call__(
        self,
        key: Buffer | None,
        value: Buffer | None,
        timestamp: int = -1,
        headers: Headers = (),
        offset: int | None = None,
    ) -> bool:
        """Append a record, or only check its size. Return whether the record fits into the batch."""


class ExtendRecords(Protocol):
    def __call__(self, records: Sequence[RecordLike], start: int = 0) -> int:
        """Append records, beginning at index `start`. Return the index of the first record that does not fit."""
