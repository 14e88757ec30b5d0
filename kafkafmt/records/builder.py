"""Building batches: records one at a time, many at a time, or as columns, into the bytes that brokers and logs hold.

A `BatchBuilder` checks what a batch of its format can carry, and leaves the records to the core's RecordBuffer. The
rules are those of Kafka's MemoryRecordsBuilder; each has a name, the `rule` of the InvalidError.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from threading import RLock
from typing import TYPE_CHECKING, Any, Unpack

from .._backend import core
from ..arguments import fitting, integer
from ..constants import (
    CODEC_LZ4,
    CODEC_NAMES,
    CODEC_NONE,
    CODEC_ZSTD,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    ENTRY_OVERHEAD,
    LOG_APPEND_TIME_BIT,
    MAGIC_V0,
    MAGIC_V2,
    MAX_BATCH_LENGTH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
)
from ..errors import InvalidError, TooLargeError
from ..sharing import shared
from .columns import Columns
from .lz4v0 import with_wrong_checksum
from .signatures import AppendRecord, BatchOptions, BuilderOptions, ExtendRecords, RecordLike

if TYPE_CHECKING:
    from ..codecs import Compressor

DEFAULT_BATCH_BYTES = 16384
"""What a Kafka producer's batch.size is unless one says otherwise."""
_AT_ONCE = 1024


def codec_id(codec: str | int) -> int:
    """A codec by its name, as compression.type has it, or by its number."""
    names: dict[Any, int] = {name: i for i, name in enumerate(CODEC_NAMES)} | {i: i for i in range(len(CODEC_NAMES))}
    if isinstance(codec, bool) or codec not in names:
        raise ValueError(f"there is no codec {codec!r}; there are {', '.join(CODEC_NAMES)}")
    return names[codec]


def format_number(magic: int) -> int:
    """A record format, checked."""
    if isinstance(magic, bool) or not hasattr(magic, "__index__") or magic not in (0, 1, 2):
        raise ValueError(f"magic is {magic!r}; it can be 0, 1 or 2")
    return int(magic)


class BatchBuilder:
    """Build batch after batch: append until there is no more room; `finish` returns the bytes and begins the next batch.

        append(key, value, timestamp=-1, headers=(), offset=None) → whether there was room for the record
        extend(records, start=0) → the position of the first record of a list or tuple that found no room
        has_room_for(…) → what append would return, or raise

    A record is a tuple ``(key, value[, timestamp[, headers[, offset]]])`` or a `Record`. Timestamps are milliseconds, -1 for none.

    Offsets of records:

    - A tuple of five items with an offset, and a Record, keep their offset. Gaps stay: leaving a record out moves no other one.
    - A tuple without an offset, or with None, gets the next one; so does a Record with offset -1, a field that was not read.
    - Offsets must rise. One that is not above those before it, or below `base_offset`, raises InvalidError ("offset_order").
    - `extend` raises ValueError if some records are Records that keep their offsets, and others get the next one.

    Offsets go on from batch to batch; so do sequence numbers. Several threads may use one builder; `finish` raises RuntimeError if
    another thread appends while the records are compressed.

    magic: the format, 2, 1 or 0. codec, level: as in compression.type and compression.zstd.level. max_bytes: what a finished
    batch has at the most (with a codec: what it would have if nothing could be compressed), but for a batch of one
    record, which is taken whatever its size, as by Kafka's producer. base_offset: of the first batch; None: its first
    record's. producer_id, producer_epoch, base_sequence, transactional, control, leader_epoch: of the batch header.
    log_append_time: makes the batch's timestamp type LogAppendTime. delete_horizon: when its tombstones may go.

    Of formats 0 and 1 a batch is a wrapper message, or without a codec so many messages. InvalidError for what a format cannot
    carry, and for records against the rules; its `rule` is the rule's name.
    """

    append: AppendRecord
    extend: ExtendRecords
    has_room_for: AppendRecord

    magic: int

    def __init__(
        self,
        *,
        magic: int = MAGIC_V2,
        codec: str | int = CODEC_NONE,
        level: int | None = None,
        max_bytes: int | None = None,
        base_offset: int | None = None,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
        control: bool = False,
        leader_epoch: int = -1,
        log_append_time: int | None = None,
        delete_horizon: int | None = None,
    ) -> None:
        number = codec_id(codec)
        magic = format_number(magic)
        for name, value, size in (
            ("producer_id", producer_id, 64), ("producer_epoch", producer_epoch, 16), ("base_sequence", base_sequence, 32),
            ("leader_epoch", leader_epoch, 32), ("base_offset", base_offset or 0, 64),
        ):  # fmt: skip
            fitting(name, value, size)
        if magic in (0, 1):
            _check_format(magic, number, producer_id, transactional, control, log_append_time, delete_horizon)
        _check_producer(producer_id, producer_epoch, base_sequence, transactional, control)
        for name, time in (("log_append_time", log_append_time), ("delete_horizon", delete_horizon)):
            if time is not None and fitting(name, time, 64) < 0:
                raise InvalidError(f"{name} is {time}, which is negative", rule="timestamp")
        self.magic, self.codec = magic, CODEC_NAMES[number]
        self._compressor = _compressor(number, level)
        self._finishing = RLock()  # a compressor's context is for one thread at a time
        attributes = number
        for bit, given in (
            (LOG_APPEND_TIME_BIT, log_append_time is not None),
            (TRANSACTIONAL_BIT, transactional),
            (CONTROL_BIT, control),
            (DELETE_HORIZON_BIT, delete_horizon is not None),
        ):
            attributes |= bit if given else 0
        self._records = core.RecordBuffer(
            magic,
            attributes,
            None if max_bytes is None else self._uncompressed(max_bytes),
            base_offset,
            leader_epoch,
            producer_id,
            producer_epoch,
            base_sequence,
            NO_TIMESTAMP if log_append_time is None else log_append_time,
            NO_TIMESTAMP if delete_horizon is None else delete_horizon,
        )
        # the core's own methods: a call of Python's in between would cost as much again
        self.append, self.extend, self.has_room_for = (
            self._records.append,
            self._records.extend,
            self._records.has_room_for,
        )

    def __repr__(self) -> str:
        return f"<kafkafmt.BatchBuilder: format {self.magic}, {self.codec}, {self.count} records, {self.size} bytes>"

    def _uncompressed(self, max_bytes: int) -> int:
        """The size before compression that never becomes more than `max_bytes`."""
        integer("max_bytes", max_bytes, 1, "a number of bytes")
        if self._compressor is None:
            return min(max_bytes, MAX_BATCH_LENGTH + ENTRY_OVERHEAD)
        low, high = 0, min(max_bytes, MAX_BATCH_LENGTH)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._compressor.max_size(middle) <= max_bytes else (low, middle - 1)
        return low

    @property
    def count(self) -> int:
        """Records of the batch under way."""
        return self._records.count

    @property
    def size(self) -> int:
        """Bytes of the batch under way before compression: without a codec, what `finish` will give."""
        return self._records.size

    @property
    def max_size(self) -> int:
        """What `finish` will give at the most."""
        return self.size if self._compressor is None else self._compressor.max_size(self.size)

    @property
    def next_offset(self) -> int:
        """The offset that a record gets unless it brings one."""
        return self._records.next_offset

    def append_columns(self, columns: Columns, start: int = 0, stop: int | None = None) -> int:
        """Rows of `columns_of(…)` from `start` on, as long as there is room; the first row that found none."""
        end = columns.rows if stop is None else min(stop, columns.rows)
        return self._records.append_columns(*columns[1:], start, end)

    def append_many(self, columns: Columns, start: int = 0) -> tuple[int, list[bytes]]:
        """The same through one batch after the other: the row to go on with, and the batches that are finished."""
        if self._compressor is not None:
            taken = self.append_columns(columns, start)
            return taken, [self.finish()] if taken < columns.rows else []
        with self._finishing:
            taken = self._records.append_columns(*columns[1:], start, min(columns.rows, start + _AT_ONCE), True)
            return taken, self._records.take_batches()

    def finish(self, last_offset: int | None = None) -> bytes:
        """The batch under way as bytes, b"" if it has no record; the next one begins.

        `last_offset` is the batch's last, where records at its end are missing on purpose.
        """
        with self._finishing:
            records = self._records
            if self._compressor is None:
                records.close(None, last_offset)
            elif count := records.count:
                payload: bytes | memoryview = self._compressor.compress(records.records())
                if self.codec == CODEC_NAMES[CODEC_LZ4] and self.magic == MAGIC_V0:
                    payload = with_wrong_checksum(memoryview(payload))
                records.close(payload, last_offset, count)
            return records.take_closed()


def _compressor(codec: int, level: int | None) -> Compressor | None:
    if codec == CODEC_NONE:
        if level is not None:
            raise ValueError("there is no level without a codec")
        return None
    from ..codecs import Compressor  # whoever compresses nothing needs none of its packages

    return Compressor(codec, level)


def _check_format(
    magic: int,
    codec: int,
    producer_id: int,
    transactional: bool,
    control: bool,
    log_append_time: int | None,
    delete_horizon: int | None,
) -> None:
    """What formats 0 and 1 have no place for."""
    for rule, what, given in (
        ("codec_in_format", CODEC_NAMES[codec], codec >= CODEC_ZSTD),
        ("transactional_in_format", "transactions", transactional),
        ("producer_id_in_format", "producer ids", producer_id != NO_PRODUCER_ID),
        ("control_in_format", "control records", control),
        ("delete_horizon_in_format", "delete horizons", delete_horizon is not None),
        ("timestamp_in_format", "timestamps", magic == MAGIC_V0 and log_append_time is not None),
    ):
        if given:
            raise InvalidError(f"format {magic} has no {what}", rule=rule)


def _check_producer(
    producer_id: int, producer_epoch: int, base_sequence: int, transactional: bool, control: bool
) -> None:
    if producer_id < 0:
        if producer_id != NO_PRODUCER_ID:
            raise InvalidError(f"producer id is {producer_id}, which is negative and not -1", rule="producer_id")
        if transactional:
            raise InvalidError("a transactional batch needs a producer id", rule="producer_id")
        return
    if producer_epoch < 0:
        raise InvalidError(f"producer epoch is {producer_epoch} beside a producer id", rule="producer_epoch")
    if base_sequence < 0 and not control:
        raise InvalidError(f"base sequence is {base_sequence} beside a producer id", rule="base_sequence")


def build_batch(records: Iterable[RecordLike], **options: Unpack[BuilderOptions]) -> bytes:
    """Build one batch of all records.

    Parameters
    ----------
    records : iterable of tuple or Record
        Tuples ``(key, value[, timestamp[, headers[, offset]]])``, or Record objects, which keep their offsets; see `BatchBuilder`.
    **options
        Keyword arguments of `BatchBuilder`.

    Returns
    -------
    bytes
        The batch; b"" if there is no record. In formats 0 and 1 a wrapper message, or without a codec the messages.

    Raises
    ------
    InvalidError
        A record breaks a rule of Kafka's, or offsets do not rise.
    TooLargeError
        The records do not fit into one batch.
    TypeError, ValueError
        An argument is wrong, or some records are Records that keep their offsets and others have none.
    """
    builder, given = BatchBuilder(**options), _as_list(records)
    taken = builder.extend(given)
    if taken < len(given):
        raise TooLargeError(f"{len(given)} records do not fit into one batch, but {taken}", builder.size)
    return builder.finish()


@shared
def build_batches(
    records: Iterable[RecordLike], max_bytes: int | None = DEFAULT_BATCH_BYTES, **options: Unpack[BatchOptions]
) -> Iterator[bytes]:
    """Yield batch after batch of records from any iterable, each as full as `max_bytes` lets it be.

    Records and `options` are those of `build_batch`. Several threads may share the iterator.
    """
    builder = BatchBuilder(max_bytes=max_bytes, **options)
    source = iter(records)
    chunks: Iterable[Sequence[RecordLike]] = (
        [records]
        if type(records) is list or type(records) is tuple
        else iter(lambda: list(itertools.islice(source, _AT_ONCE)), [])
    )
    before: list[RecordLike] = []  # the record before a chunk: extend compares with it where offsets come from
    for chunk in chunks:
        given = [*before, *chunk] if before else chunk
        taken = len(before)
        while (taken := builder.extend(given, taken)) < len(given):
            yield builder.finish()
        before = list(given[-1:])
    if builder.count:
        yield builder.finish()


@shared
def build_columns(
    columns: Columns, max_bytes: int | None = DEFAULT_BATCH_BYTES, **options: Unpack[BatchOptions]
) -> Iterator[bytes]:
    """The same for columns: `columns_of(key=…, value=…, timestamp=…, headers=…)`."""
    if not isinstance(columns, Columns):
        raise TypeError(f"columns are what columns_of(…) gives, not {type(columns).__name__}")
    builder = BatchBuilder(max_bytes=max_bytes, **options)
    taken = 0
    while taken < columns.rows:
        taken, batches = builder.append_many(columns, taken)
        yield from batches
    if builder.count:
        yield builder.finish()


def _as_list(records: Iterable[RecordLike]) -> Sequence[RecordLike]:
    return records if type(records) is list or type(records) is tuple else list(records)
