"""Read batches whose records are complete, although the end of their compressed data is odd."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._backend import core
from ..constants import (
    CODEC_LZ4,
    CODEC_MASK,
    CODEC_NONE,
    MAGIC_V0,
    MAGIC_V2,
)
from ..errors import KafkaFormatError, TooLargeError
from ..types import BATCH_DTYPE, BatchTable, Buffer, RecordColumns, byte_view
from .lz4v0 import with_right_checksum

if TYPE_CHECKING:
    from ..codecs.odd_ends import Prefix


class OddEnd(NamedTuple):
    """A batch whose records are complete, although its compressed data is odd."""

    position: int
    """Position of the batch in the buffer."""
    oddity: str
    """Description of what is odd."""
    java_reads: bool
    """Whether Kafka's Java code reads the batch to its end."""


def complete_prefix(payload: memoryview, row: Any, limit: int) -> Prefix | None:
    """Decompress data that a `Decompressor` has refused. Return None unless all records of its batch are complete."""
    # This module is imported only when necessary, because it imports the compression packages.
    from ..codecs.odd_ends import decompress_prefix

    codec = int(row["attributes"]) & CODEC_MASK
    if row["magic"] == MAGIC_V0 and codec == CODEC_LZ4:
        payload = memoryview(with_right_checksum(payload))
    try:
        prefix = decompress_prefix(codec, payload, limit)
    except TooLargeError:
        return None
    if prefix is None:
        return None
    table = np.array([row], BATCH_DTYPE)
    table["payload_position"], table["payload_size"] = 0, len(prefix.data)
    # The core checks a complete batch before it stores the first record.
    error = core.decode_records(prefix.data, table, RecordColumns(1, ("offset",)))
    return prefix if error is None else None


def decompressed(payload: memoryview, row: Any, limit: int) -> bytes:
    """Decompress the records of a batch, also if the data has an odd end. Raise KafkaFormatError if that fails."""
    try:
        return _decompressed(int(row["attributes"]) & CODEC_MASK, payload, limit)
    except KafkaFormatError:
        prefix = complete_prefix(payload, row, limit)
        if prefix is None:
            raise
        return prefix.data


def first_records(buffer: Buffer, row: Any, limit: int) -> tuple[bytes, BatchTable] | None:
    """Return the records of a damaged batch that can be decoded, and their table, or None if there are none."""
    # In the table, the records are a complete batch. `row` is the header in `buffer`. Messages of
    # formats 0 and 1 are not divided.
    start, size, codec = int(row["payload_position"]), int(row["payload_size"]), int(row["attributes"]) & CODEC_MASK
    payload = byte_view(buffer)[start : start + size]
    if row["magic"] != MAGIC_V2:
        return None
    data = bytes(payload) if codec == CODEC_NONE else _beginning(codec, payload, limit)
    ends = _record_ends(data, int(row["count"]))
    table = np.array([row], BATCH_DTYPE)
    table["attributes"] &= ~CODEC_MASK
    table["payload_position"] = 0

    def fails(count: int) -> bool:
        table["count"], table["payload_size"] = count, ends[count - 1]
        return core.decode_records(data, table, RecordColumns(1, ("offset",))) is not None

    count = bisect_left(range(1, len(ends) + 1), True, key=fails)
    if count == 0:
        return None
    table["count"], table["payload_size"] = count, ends[count - 1]
    return data, table


def _decompressed(codec: int, payload: memoryview, limit: int) -> bytes:
    from ..codecs.decompressor import Arena, Decompressor

    arena = Arena(1 << 16)
    size = Decompressor(limit).decompress(codec, payload, arena)
    return arena.view[:size].tobytes()


def _beginning(codec: int, payload: memoryview, limit: int) -> bytes:
    """Return as much of the decompressed data as possible."""
    from ..codecs.odd_ends import decompress_prefix

    try:
        return _decompressed(codec, payload, limit)
    except TooLargeError:
        return b""
    except KafkaFormatError:
        prefix = decompress_prefix(codec, payload, limit)
        return b"" if prefix is None else prefix.data


def _record_ends(data: bytes, count: int) -> list[int]:
    """Return the positions after up to `count` records, according to their lengths."""
    ends: list[int] = []
    position = 0
    while len(ends) < count and position < len(data):
        try:
            length, position = core.read_varint(data, position)
        except KafkaFormatError:
            break
        position += length
        if length < 0 or position > len(data):
            break
        ends.append(position)
    return ends
