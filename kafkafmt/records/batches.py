"""Batches and messages as objects: what their fields say, as slices of the buffer, nothing copied and nothing decompressed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, overload

import numpy as np

from .._backend import core
from ..constants import (
    CODEC_MASK,
    CODEC_NAMES,
    CODEC_NONE,
    CONTROL_BIT,
    CRC_START,
    DEFAULT_MAX_BATCH_BYTES,
    DELETE_HORIZON_BIT,
    LEGACY_KEY_AT,
    LOG_APPEND_TIME_BIT,
    MAGIC_AT,
    MAGIC_V0,
    MAGIC_V2,
    MAX_SEQUENCE,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_NONE,
    TRANSACTIONAL_BIT,
)
from ..errors import StructureError
from ..sharing import shared
from ..types import Buffer, byte_view
from .reader import iter_tables
from .stream import read_records


def _as_int32(n: int) -> int:
    """Return the low 32 bits of a number as a signed one, as Java's int arithmetic does."""
    return (n + 2**31) % 2**32 - 2**31


@shared
def iter_batches(buffer: Buffer, *, check_crc: bool = True) -> Iterator[Batch]:
    """Every batch, wrapper and plain message of a buffer. One that the end cuts off is a normal end; what is wrong raises its error."""
    for table in iter_tables(buffer, check_crc=check_crc):
        for i in range(len(table)):
            yield Batch(buffer, table[i : i + 1].copy())


class Batch:
    """A record batch, or of formats 0 and 1 a message, which may be a wrapper.

    Fields that its format does not have are -1 (leader_epoch, producer_id, producer_epoch, base_sequence; timestamps of format 0).
    """

    def __init__(self, buffer: Buffer, row: np.ndarray) -> None:
        self._buffer, self._table, self._row = byte_view(buffer), row, row[0]

    def __repr__(self) -> str:
        kind = "batch" if self.magic == MAGIC_V2 else "wrapper" if self.is_compressed else "message"
        count = "" if self.count is None else f", {self.count} records"
        return f"<{kind} of format {self.magic} at {self.position}: last offset {self.last_offset}{count}, {self.codec}, {self.size} bytes>"

    def _int(self, name: str) -> int:
        return int(self._row[name])

    @property
    def position(self) -> int:
        """Where it begins in the buffer."""
        return self._int("position")

    @property
    def size(self) -> int:
        """Its bytes, offset and size field included."""
        return self._int("size")

    @property
    def magic(self) -> int:
        return self._int("magic")

    @property
    def attributes(self) -> int:
        return self._int("attributes")

    @property
    def codec(self) -> str:
        """none, gzip, snappy, lz4, zstd, or a number that Kafka does not know."""
        number = self.attributes & CODEC_MASK
        return CODEC_NAMES[number] if number < len(CODEC_NAMES) else str(number)

    @property
    def is_compressed(self) -> bool:
        return self.attributes & CODEC_MASK != CODEC_NONE

    @property
    def timestamp_type(self) -> int:
        """0 CreateTime, 1 LogAppendTime, -1 none."""
        return TIMESTAMP_TYPE_NONE if self.magic == MAGIC_V0 else int(self.attributes & LOG_APPEND_TIME_BIT != 0)

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def base_offset(self) -> int:
        """Return the offset of the first record. A wrapper message is decompressed to find it."""
        if self.count is not None:
            return self._int("base_offset")
        first = next(self.records(), None)
        if first is None:
            raise StructureError("message set of a wrapper is empty", self.position, self._int("base_offset"))
        return int(first.offset)

    @property
    def last_offset(self) -> int:
        return self._int("base_offset") + self._int("last_offset_delta")

    @property
    def count(self) -> int | None:
        """Records as the header has it; a wrapper's does not say."""
        return None if self._int("count") < 0 and self.magic < MAGIC_V2 else self._int("count")

    @property
    def base_timestamp(self) -> int:
        """That the records' timestamps count from; with a delete horizon, that."""
        return self._int("base_timestamp")

    @property
    def max_timestamp(self) -> int:
        return self._int("max_timestamp")

    @property
    def delete_horizon(self) -> int | None:
        """When tombstones and markers may be removed, None where it is not set."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def leader_epoch(self) -> int:
        return self._int("leader_epoch")

    @property
    def producer_id(self) -> int:
        return self._int("producer_id")

    @property
    def producer_epoch(self) -> int:
        return self._int("producer_epoch")

    @property
    def base_sequence(self) -> int:
        return self._int("base_sequence")

    @property
    def last_sequence(self) -> int:
        """Return the sequence number of the last offset, or -1 if the base sequence is -1.

        As Kafka's ``DefaultRecordBatch.lastSequence``, which looks at neither the producer id nor the count, and wraps to 0 after
        2**31 - 1. The int32 arithmetic is Java's, also if a field of a corrupted batch is negative.
        """
        base, delta = self.base_sequence, self._int("last_offset_delta")
        if base == NO_SEQUENCE:
            return NO_SEQUENCE
        wraps = base > _as_int32(MAX_SEQUENCE - delta)
        return _as_int32(delta - (MAX_SEQUENCE - base) - 1 if wraps else base + delta)

    @property
    def crc(self) -> int:
        """The checksum as it stands: CRC-32C, in formats 0 and 1 CRC-32."""
        return self._int("crc")

    @property
    def computed_crc(self) -> int:
        """The checksum as its bytes give it."""
        if self.magic == MAGIC_V2:
            crc: int = core.crc32c(self.data, 0, CRC_START)
        else:
            crc = core.crc32(self.data, 0, MAGIC_AT)
        return crc

    @property
    def is_valid(self) -> bool:
        return self.crc == self.computed_crc

    @property
    def data(self) -> memoryview:
        """All of it."""
        return self._buffer[self.position : self.position + self.size]

    @property
    def payload(self) -> memoryview:
        """Of format 2 the records, compressed or not; of a message its value (b"" for null), in a wrapper the compressed set."""
        if self.magic == MAGIC_V2:
            return self._buffer[self._int("payload_position") : self.position + self.size]
        return self._field(1)[1] or memoryview(b"")

    @property
    def key(self) -> memoryview | None:
        """Of a message of formats 0 and 1; None for null, and in format 2, where records have the keys."""
        return None if self.magic == MAGIC_V2 else self._field(0)[1]

    @property
    def key_size(self) -> int:
        """Of a message of formats 0 and 1; -1 for null, and in format 2."""
        return -1 if self.magic == MAGIC_V2 else self._field(0)[0]

    @property
    def payload_size(self) -> int:
        """Bytes of the payload; -1 for a message's null value."""
        return len(self.payload) if self.magic == MAGIC_V2 else self._field(1)[0]

    def _field(self, index: int) -> tuple[int, memoryview | None]:
        """A message's key or value, cut to where the message ends."""
        data, at, size, field = self.data, LEGACY_KEY_AT[self.magic], -1, None
        for _ in range(index + 1):
            size = int.from_bytes(data[at : at + 4], "big", signed=True)
            at += 4
            field = data[at : at + size] if size >= 0 else None
            at += max(size, 0)
        return size, field

    @overload
    def records(
        self, *, views: Literal[False] = False, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    ) -> Iterator[core.Record]: ...

    @overload
    def records(
        self, *, views: bool, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    ) -> Iterator[core.Record[bytes | memoryview]]: ...

    def records(
        self, *, views: bool = False, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    ) -> Iterator[core.Record[bytes | memoryview]]:
        """Its records as Record objects, of a control batch the control records."""
        return read_records(self.data, control=True, check_crc=False, views=views, max_batch_bytes=max_batch_bytes)
