"""Define `RecordBuffer`, which encodes records into a growing buffer, batch by batch.

Space is reserved before the records of the open batch, and is filled when the batch is closed. In
magic 2, the space is for the batch header. In magic 0 and 1 with a codec, the space is for the
fields of the wrapper message that precede its value.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from threading import RLock
from typing import Any

from ..constants import (
    BATCH_HEADER_SIZE,
    BUILD_DELTA,
    BUILD_FAULTS,
    BUILD_HEADER_KEY,
    BUILD_NO_HEADERS,
    BUILD_NO_TIMESTAMP,
    BUILD_OFFSET,
    BUILD_TIMESTAMP,
    BUILD_TOO_LARGE,
    CHANGED_MEANWHILE,
    CODEC_MASK,
    CRC_AT,
    CRC_START,
    DELETE_HORIZON_BIT,
    ENTRY_OVERHEAD,
    LEGACY_CRC_AT,
    LEGACY_TIMESTAMP_AT,
    LOG_APPEND_TIME_BIT,
    MAGIC_AT,
    MAGIC_V0,
    MAGIC_V1,
    MAGIC_V2,
    MAX_BATCH_LENGTH,
    MAX_OFFSET,
    MAX_RELATIVE_OFFSET,
    MAX_SEQUENCE,
    MIN_LENGTHS,
    MIXED_OFFSETS,
    NO_TIMESTAMP,
)
from ..errors import InvalidError, KafkaFormatError, TooLargeError
from ..support.text import offset_range
from ..types import Buffer, HeaderSpans, IntArray, Spans
from .batch import HEADER, INT32, INT64, UINT32
from .crc import crc32, crc32c
from .encode import encode_message, encode_record
from .fields import (
    KEPT_OFFSET,
    NEXT_OFFSET,
    Column,
    Fields,
    Headers,
    header_pairs,
    need_rows,
    offset_of,
    offset_origin,
    to_fields,
)
from .objects import Record
from .varint import natural, view_of
from .walk import as_int64

MAX_SIZE = MAX_BATCH_LENGTH + ENTRY_OVERHEAD
MESSAGE_START = struct.Struct(">qiIbb")


class BrokenRuleError(Exception):
    """Raised if a record breaks a rule. The argument is the index of the rule in BUILD_FAULTS."""


class RecordBuffer:
    """Builds batches in a growing buffer: closed batches, and then one open batch. `_core.pyi` has the contract."""

    def __init__(
        self,
        magic: int = 2,
        attributes: int = 0,
        max_size: int | None = None,
        base_offset: int | None = None,
        leader_epoch: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        append_time: int = -1,
        delete_horizon: int = -1,
    ) -> None:
        if magic not in (MAGIC_V0, MAGIC_V1, MAGIC_V2):
            raise ValueError(f"magic is {magic}; it must be 0, 1 or 2")
        if base_offset is not None and base_offset < 0:
            raise ValueError(f"base_offset is {base_offset}; it cannot be negative")
        self._magic, self._attributes = magic, attributes
        self._max_size = MAX_SIZE if max_size is None else min(natural(max_size), MAX_SIZE)
        self._base_given = base_offset is not None
        self.base_offset = self.next_offset = base_offset or 0
        self._leader_epoch, self.producer_id, self._producer_epoch = leader_epoch, producer_id, producer_epoch
        self.base_sequence, self._append_time, self._delete_horizon = base_sequence, append_time, delete_horizon
        self._wrapped = magic < MAGIC_V2 and attributes & CODEC_MASK != 0
        self._head = (
            BATCH_HEADER_SIZE if magic == MAGIC_V2 else ENTRY_OVERHEAD + MIN_LENGTHS[magic] if self._wrapped else 0
        )
        self.stored = False
        # The native core needs no lock, because it keeps the GIL, or a critical section, during a call.
        self._lock = RLock()
        self._data = bytearray()
        self._ends: list[int] = []
        self.closed_size = 0
        self._begin()

    def _begin(self) -> None:
        """Begin a new batch. Reserve space for its header, or for the fields of a wrapper message before its value."""
        self._data += bytes(self._head)
        self.count = 0
        self.max_timestamp = NO_TIMESTAMP
        self._base_timestamp = self._delete_horizon if self._attributes & DELETE_HORIZON_BIT else NO_TIMESTAMP

    @property
    def size(self) -> int:
        return len(self._data) - self.closed_size

    def _encode(self, record: Fields) -> tuple[bytes, int, int]:
        """Return the encoded record, its offset, and the base offset of its batch."""
        offset = self.next_offset if record.offset is None else record.offset
        if offset < self.next_offset or offset == MAX_OFFSET:
            raise BrokenRuleError(BUILD_OFFSET)
        if record.timestamp < NO_TIMESTAMP and not self.stored:
            raise BrokenRuleError(BUILD_TIMESTAMP)
        base = self.base_offset if self.count or self._base_given else offset
        if self._magic != MAGIC_V2:
            return self._message(record, offset, base), offset, base
        if offset - base > MAX_RELATIVE_OFFSET:
            raise BrokenRuleError(BUILD_DELTA)
        first = self._base_timestamp if self.count or self._attributes & DELETE_HORIZON_BIT else record.timestamp
        return encode_record(record, as_int64(record.timestamp - first), offset - base), offset, base

    def _message(self, record: Fields, offset: int, base: int) -> bytes:
        if record.headers:
            raise BrokenRuleError(BUILD_NO_HEADERS)
        if self._magic == MAGIC_V0 and record.timestamp != NO_TIMESTAMP:
            raise BrokenRuleError(BUILD_NO_TIMESTAMP)
        stamped = self._attributes & LOG_APPEND_TIME_BIT
        timestamp = self._append_time if stamped and not self._wrapped else record.timestamp
        inner = offset - base if self._wrapped and self._magic == MAGIC_V1 else offset
        return encode_message(record, self._magic, stamped, inner, timestamp)

    def _place(self, record: Fields, dry: bool = False) -> bool:
        """Append a record, or if `dry` is True only check whether it fits. Return False if it does not."""
        encoded, offset, base = self._encode(record)
        if len(encoded) > self._max_size - self.size:
            if self.count:
                return False
            if len(encoded) > MAX_SIZE - self.size:
                raise BrokenRuleError(BUILD_TOO_LARGE)
        if dry:
            return True
        self._data += encoded
        if not self.count:
            self.base_offset = base
            if not self._attributes & DELETE_HORIZON_BIT:
                self._base_timestamp = record.timestamp
        self.count += 1
        self.next_offset = offset + 1
        self.max_timestamp = max(self.max_timestamp, record.timestamp)
        return True

    def _error(self, broken: BrokenRuleError, record: Fields) -> KafkaFormatError:
        fault = broken.args[0]
        code, text = BUILD_FAULTS[fault]
        offset = self.next_offset if record.offset is None else record.offset
        text = text.format(offset=offset, next=self.next_offset, timestamp=record.timestamp, magic=self._magic)
        base = self.base_offset if self.count else None
        if fault == BUILD_TOO_LARGE:
            return TooLargeError(text, self.size, base)
        return InvalidError(text, self.size, base, code=code)

    def _take(self, record: Fields, dry: bool = False) -> bool:
        try:
            with self._lock:
                return self._place(record, dry)
        except BrokenRuleError as broken:
            raise self._error(broken, record) from None

    def append(
        self, key: Any, value: Any, timestamp: int = -1, headers: Headers = (), offset: int | None = None
    ) -> bool:
        return self._take(to_fields(key, value, timestamp, headers, offset))

    def has_room_for(
        self, key: Any, value: Any, timestamp: int = -1, headers: Headers = (), offset: int | None = None
    ) -> bool:
        return self._take(to_fields(key, value, timestamp, headers, offset), dry=True)

    def extend(self, records: Sequence[Any], start: int = 0) -> int:
        i = natural(start)
        if type(records) is not list and type(records) is not tuple:
            raise TypeError(f"records must be a list or tuple, not {type(records).__name__}")
        origins = offset_origin(records[i - 1]) if 0 < i <= len(records) else 0
        while i < len(records):  # The list may grow or shrink during the loop.
            record = records[i]
            origins |= offset_origin(record)
            if origins == KEPT_OFFSET | NEXT_OFFSET:
                raise ValueError(MIXED_OFFSETS)
            if type(record) is tuple:
                if not 2 <= len(record) <= 5:
                    raise ValueError(
                        f"a record must be a tuple (key, value[, timestamp[, headers[, offset]]]); this tuple has {len(record)} items"
                    )
                taken = self.append(*record)
            elif type(record) is Record:
                taken = self.append(record.key, record.value, record.timestamp, record.headers, offset_of(record))
            else:
                raise TypeError(f"a record must be a tuple or a Record, not {type(record).__name__}")
            if not taken:
                break
            i += 1
        return i

    def append_columns(
        self,
        keys: Spans | None,
        values: Spans | None,
        timestamps: IntArray | None,
        offsets: IntArray | None,
        headers: HeaderSpans | None,
        start: int,
        stop: int,
        many: bool = False,
    ) -> int:
        first, last = natural(start), natural(stop)
        columns = [Column(keys, last), Column(values, last)]
        for array in (timestamps, offsets, *((headers.starts, headers.counts) if headers else ())):
            need_rows(array, last)
        if last < first:
            raise ValueError(f"stop {last} is below start {first}")
        if many and self._attributes & CODEC_MASK:
            raise ValueError(
                "many=True cannot be combined with a codec, because each compressed batch must be closed separately"
            )
        i = first
        while i < last:
            try:
                pairs = header_pairs(headers, i)
                record = Fields(
                    columns[0][i],
                    columns[1][i],
                    NO_TIMESTAMP if timestamps is None else int(timestamps[i]),
                    [(key or b"", value) for key, value in pairs],
                    None if offsets is None else int(offsets[i]),
                )
            except IndexError:
                raise ValueError(
                    f"row {i}: a span is outside its buffer, or headers are outside their columns"
                ) from None
            if any(key is None for key, _ in pairs):
                raise self._error(BrokenRuleError(BUILD_HEADER_KEY), record)
            if self._take(record):
                i += 1
            elif many:
                self.close()
            else:
                break
        return i

    def records(self) -> bytes:
        with self._lock:  # A bytearray must not be read while another thread enlarges it.
            return bytes(self._data[self.closed_size + self._head :])

    def close(self, compressed: Buffer | None = None, last_offset: int | None = None, count: int | None = None) -> int:
        with self._lock:
            return self._close(compressed, last_offset, count)

    def _close(self, compressed: Buffer | None, last_offset: int | None, count: int | None) -> int:
        if count is not None and self.count != count:
            raise RuntimeError(CHANGED_MEANWHILE)
        if not self.count:
            return 0
        reached = self.next_offset - 1
        last = reached if last_offset is None else last_offset
        if (
            last < reached
            or last == MAX_OFFSET
            or (self._magic == MAGIC_V2 and last - self.base_offset > MAX_RELATIVE_OFFSET)
        ):
            raise ValueError(f"last_offset is {last}, but the batch contains {offset_range(self.base_offset, reached)}")
        if (compressed is None) != (not self._attributes & CODEC_MASK):
            raise ValueError("compressed is required if the attributes contain a codec, and not allowed otherwise")
        if compressed is not None:
            payload = view_of(compressed)
            if len(payload) > MAX_SIZE - self._head:
                raise TooLargeError(
                    f"{len(payload)} compressed bytes do not fit into a batch", self.size, self.base_offset
                )
            self._data[self.closed_size + self._head :] = payload
        size = self.size
        if self._magic == MAGIC_V2:
            self._write_header(last)
        elif self._wrapped:
            self._write_wrapper(last)
        if self.base_sequence >= 0:
            self.base_sequence = (self.base_sequence + last - self.base_offset + 1) & MAX_SEQUENCE
        self.next_offset = last + 1
        self._base_given = False
        self.closed_size = len(self._data)
        self._ends.append(self.closed_size)
        self._begin()
        return size

    def _stamp(self) -> int:
        return self._append_time if self._attributes & LOG_APPEND_TIME_BIT else self.max_timestamp

    def _write_header(self, last: int) -> None:
        data, p, size = self._data, self.closed_size, self.size
        HEADER.pack_into(data, p, self.base_offset, size - ENTRY_OVERHEAD, self._leader_epoch, self._magic, 0, self._attributes,
                         last - self.base_offset, self._base_timestamp, self._stamp(), self.producer_id, self._producer_epoch,
                         self.base_sequence, self.count)  # fmt: skip
        UINT32.pack_into(data, p + CRC_AT, crc32c(data, 0, p + CRC_START, p + size))

    def _write_wrapper(self, last: int) -> None:
        data, p, size = self._data, self.closed_size, self.size
        MESSAGE_START.pack_into(data, p, last, size - ENTRY_OVERHEAD, 0, self._magic, self._attributes)
        if self._magic:
            INT64.pack_into(data, p + LEGACY_TIMESTAMP_AT, self._stamp())
        INT32.pack_into(data, p + self._head - 8, -1)
        INT32.pack_into(data, p + self._head - 4, size - self._head)
        UINT32.pack_into(data, p + LEGACY_CRC_AT, crc32(data, 0, p + MAGIC_AT, p + size))

    def take_closed(self) -> bytes:
        with self._lock:
            closed = bytes(self._data[: self.closed_size])
            del self._data[: self.closed_size]
            self._ends.clear()
            self.closed_size = 0
            return closed

    def take_batches(self) -> list[bytes]:
        with self._lock:
            ends = self._ends.copy()
            closed = self.take_closed()
        return [closed[start:end] for start, end in itertools.pairwise([0, *ends])]
