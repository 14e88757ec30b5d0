"""Building: records into a growing buffer, batch behind batch, with places kept free for what is known only at the end."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Sequence
from operator import index
from threading import RLock
from typing import Any, NamedTuple

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
    LEGACY_ATTRIBUTES_AT,
    LEGACY_CRC_AT,
    LOG_APPEND_TIME_BIT,
    MAGIC_AT,
    MAGIC_V0,
    MAGIC_V1,
    MAGIC_V2,
    MAX_BATCH_LENGTH,
    MAX_OFFSET,
    MIN_LENGTHS,
    MIXED_OFFSETS,
    NO_TIMESTAMP,
)
from ..errors import InvalidError, KafkaFormatError, TooLargeError
from ..types import Buffer, HeaderSpans, IntArray, Spans
from .batch import HEADER, INT32, INT64, UINT32
from .crc import crc32, crc32c
from .objects import Record
from .varint import natural, view_of
from .walk import as_int64

MAX_SIZE = MAX_BATCH_LENGTH + ENTRY_OVERHEAD
MAX_INT32 = 2**31 - 1
MESSAGE_START = struct.Struct(">qiIbb")

Headers = Iterable[tuple[str | Buffer, Buffer | None]] | None


class Broken(Exception):
    """A record against a rule: its number in BUILD_FAULTS."""


class Fields(NamedTuple):
    """A record to place, of exact types."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Sequence[tuple[bytes, bytes | None]]
    offset: int | None


def varint(n: int) -> bytes:
    """A zigzag varint of up to 64 bits."""
    raw = (n << 1) ^ (n >> 63)
    if raw < 0x80:
        return bytes((raw,))
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def long_sized(data: bytes | None) -> bytes:
    return INT32.pack(-1) if data is None else INT32.pack(len(data)) + data


def plain_bytes(o: Any, name: str) -> bytes | None:
    if o is None or type(o) is bytes:
        return o
    try:
        return bytes(memoryview(o))
    except TypeError:
        raise TypeError(f"{name} must be bytes-like or None, not {type(o).__name__}") from None


def int64(n: Any, name: str) -> int:
    """An integer of the caller's that Kafka holds in 64 bits."""
    try:
        number = index(n)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(n).__name__}") from None
    if not -(2**63) <= number < 2**63:
        raise OverflowError(f"{name} {number} does not fit into 64 bits")
    return number


def header_key(key: Any) -> bytes:
    plain = key.encode() if isinstance(key, str) else plain_bytes(key, "header key")
    if plain is None:
        raise TypeError("header key must be str or bytes-like, not None")
    return plain


def fields(key: Any, value: Any, timestamp: Any, headers: Any, offset: Any) -> Fields:
    if isinstance(headers, dict):
        headers = headers.items()
    return Fields(
        plain_bytes(key, "key"),
        plain_bytes(value, "value"),
        int64(timestamp, "timestamp"),
        [(header_key(k), plain_bytes(v, "header value")) for k, v in headers or ()],
        None if offset is None else int64(offset, "offset"),
    )


def span_of(view: memoryview, spans: Spans, i: int) -> bytes | None:
    position, length = int(spans.positions[i]), int(spans.lengths[i])
    if length < 0:
        return None
    if position < 0 or length > len(view) - position:
        raise IndexError
    return bytes(view[position : position + length])


class Column:
    """Spans of one buffer, read row by row."""

    def __init__(self, spans: Spans | None, rows: int) -> None:
        self.spans = spans
        if spans is not None:
            self.view = view_of(spans.buffer)
            need_rows(spans.positions, rows)
            need_rows(spans.lengths, rows)

    def __getitem__(self, i: int) -> bytes | None:
        return None if self.spans is None else span_of(self.view, self.spans, i)


def need_rows(array: Any, rows: int) -> None:
    if array is not None and len(array) < rows:
        raise ValueError(f"an array of at least {rows} items is needed, this one has {len(array)}")


FROM_RECORD, NEXT = 1, 2


def _offset_of(record: Record) -> int | None:
    """Return the offset of a Record, or None if its offset field was not read (-1)."""
    return None if record.offset == -1 else record.offset


def _origin_of(record: Any) -> int:
    """Where a record's offset comes from; 0 for a tuple with an offset, and for what is no record."""
    if type(record) is tuple:
        return NEXT if len(record) < 5 or record[4] is None else 0
    if type(record) is Record:
        return NEXT if record.offset == -1 else FROM_RECORD
    return 0


class RecordBuffer:
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
            raise ValueError(f"magic is {magic}; it can be 0, 1 or 2")
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
        self._lock = RLock()  # as the native core, which appends while it holds the GIL
        self._data = bytearray()
        self._ends: list[int] = []
        self.closed_size = 0
        self._begin()

    def _begin(self) -> None:
        """A batch behind what is closed: with a place for its header, or for all that stands before a wrapper's value."""
        self._data += bytes(self._head)
        self.count = 0
        self.max_timestamp = NO_TIMESTAMP
        self._base_timestamp = self._delete_horizon if self._attributes & DELETE_HORIZON_BIT else NO_TIMESTAMP

    @property
    def size(self) -> int:
        return len(self._data) - self.closed_size

    def _encode(self, record: Fields) -> tuple[bytes, int, int]:
        """A record's bytes, its offset, and the base offset that the batch has with it."""
        offset = self.next_offset if record.offset is None else record.offset
        if offset < self.next_offset or offset == MAX_OFFSET:
            raise Broken(BUILD_OFFSET)
        if record.timestamp < NO_TIMESTAMP:
            raise Broken(BUILD_TIMESTAMP)
        base = self.base_offset if self.count or self._base_given else offset
        if self._magic != MAGIC_V2:
            return self._message(record, offset, base), offset, base
        if offset - base > MAX_INT32:
            raise Broken(BUILD_DELTA)
        first = self._base_timestamp if self.count or self._attributes & DELETE_HORIZON_BIT else record.timestamp
        parts = [
            b"\0",
            varint(as_int64(record.timestamp - first)),
            varint(offset - base),
            sized(record.key),
            sized(record.value),
        ]
        parts.append(varint(len(record.headers)))
        for key, value in record.headers:
            parts += sized(key), sized(value)
        body = b"".join(parts)
        return varint(len(body)) + body, offset, base

    def _message(self, record: Fields, offset: int, base: int) -> bytes:
        if record.headers:
            raise Broken(BUILD_NO_HEADERS)
        if self._magic == MAGIC_V0 and record.timestamp != NO_TIMESTAMP:
            raise Broken(BUILD_NO_TIMESTAMP)
        stamped = self._attributes & LOG_APPEND_TIME_BIT
        timestamp = self._append_time if stamped and not self._wrapped else record.timestamp
        when = INT64.pack(timestamp) if self._magic else b""
        body = bytes((self._magic, stamped)) + when + long_sized(record.key) + long_sized(record.value)
        inner = offset - base if self._wrapped and self._magic == MAGIC_V1 else offset
        return INT64.pack(inner) + INT32.pack(len(body) + 4) + UINT32.pack(crc32(body)) + body

    def _place(self, record: Fields, dry: bool = False) -> bool:
        """Add a record; False where it does not fit. `dry` only tells what would become of it."""
        encoded, offset, base = self._encode(record)
        if len(encoded) > self._max_size - self.size:
            if self.count:
                return False
            if len(encoded) > MAX_SIZE - self.size:
                raise Broken(BUILD_TOO_LARGE)
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

    def _error(self, broken: Broken, record: Fields) -> KafkaFormatError:
        code = broken.args[0]
        rule, text = BUILD_FAULTS[code]
        offset = self.next_offset if record.offset is None else record.offset
        text = text.format(offset=offset, next=self.next_offset, timestamp=record.timestamp, magic=self._magic)
        base = self.base_offset if self.count else None
        if code == BUILD_TOO_LARGE:
            return TooLargeError(text, self.size, base)
        return InvalidError(text, self.size, base, rule=rule)

    def _take(self, record: Fields, dry: bool = False) -> bool:
        try:
            with self._lock:
                return self._place(record, dry)
        except Broken as broken:
            raise self._error(broken, record) from None

    def append(
        self, key: Any, value: Any, timestamp: int = -1, headers: Headers = (), offset: int | None = None
    ) -> bool:
        return self._take(fields(key, value, timestamp, headers, offset))

    def has_room_for(
        self, key: Any, value: Any, timestamp: int = -1, headers: Headers = (), offset: int | None = None
    ) -> bool:
        return self._take(fields(key, value, timestamp, headers, offset), dry=True)

    def extend(self, records: Sequence[Any], start: int = 0) -> int:
        i = natural(start)
        if type(records) is not list and type(records) is not tuple:
            raise TypeError(f"a list or tuple of records is needed, not {type(records).__name__}")
        origins = _origin_of(records[i - 1]) if 0 < i <= len(records) else 0
        while i < len(records):  # which may grow or shrink in between
            record = records[i]
            origins |= _origin_of(record)
            if origins == FROM_RECORD | NEXT:
                raise ValueError(MIXED_OFFSETS)
            if type(record) is tuple:
                if not 2 <= len(record) <= 5:
                    raise ValueError(
                        f"a record is (key, value[, timestamp[, headers[, offset]]]), this tuple has {len(record)} items"
                    )
                taken = self.append(*record)
            elif type(record) is Record:
                taken = self.append(record.key, record.value, record.timestamp, record.headers, _offset_of(record))
            else:
                raise TypeError(f"a record is a tuple or a Record, not {type(record).__name__}")
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
            raise ValueError(f"rows {first} to {last} are none")
        if many and self._attributes & CODEC_MASK:
            raise ValueError("batches that are compressed are closed one by one")
        i = first
        while i < last:
            try:
                pairs = self._header_pairs(headers, i)
                record = Fields(
                    columns[0][i],
                    columns[1][i],
                    NO_TIMESTAMP if timestamps is None else int(timestamps[i]),
                    [(key or b"", value) for key, value in pairs],
                    None if offsets is None else int(offsets[i]),
                )
            except IndexError:
                raise ValueError(
                    f"row {i}: a span does not lie in its buffer, or headers are not among those given"
                ) from None
            if any(key is None for key, _ in pairs):
                raise self._error(Broken(BUILD_HEADER_KEY), record)
            if self._take(record):
                i += 1
            elif many:
                self.close()
            else:
                break
        return i

    def _header_pairs(self, headers: HeaderSpans | None, i: int) -> list[tuple[bytes | None, bytes | None]]:
        if headers is None:
            return []
        first, count = int(headers.starts[i]), int(headers.counts[i])
        total = min(len(headers.keys.lengths), len(headers.values.lengths))
        if count and (count < 0 or first < 0 or count > total - first):
            raise IndexError
        keys, values = view_of(headers.keys.buffer), view_of(headers.values.buffer)
        pairs: list[tuple[bytes | None, bytes | None]] = []
        for h in range(first, first + count):
            pairs.append((span_of(keys, headers.keys, h), span_of(values, headers.values, h)))
            if pairs[-1][0] is None:  # the first fault counts: what follows a null key is not looked at
                break
        return pairs

    def records(self) -> bytes:
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
        if last < reached or last == MAX_OFFSET or (self._magic == MAGIC_V2 and last - self.base_offset > MAX_INT32):
            raise ValueError(f"last_offset is {last}, but offsets have reached {reached}, from {self.base_offset} on")
        if (compressed is None) != (not self._attributes & CODEC_MASK):
            raise ValueError("compressed records are needed for a codec, and only for one")
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
            self.base_sequence = (self.base_sequence + last - self.base_offset + 1) & MAX_INT32
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
            INT64.pack_into(data, p + LEGACY_ATTRIBUTES_AT + 1, self._stamp())
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
