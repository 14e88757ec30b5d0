"""Read batches whose records are complete, although the end of their compressed data is odd."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._backend import core
from ..constants import (
    CODEC_GZIP,
    CODEC_LZ4,
    CODEC_MASK,
    CODEC_NONE,
    CODEC_SNAPPY,
    CODEC_ZSTD,
    MAGIC_V0,
    MAGIC_V2,
    MAX_OFFSET,
)
from ..errors import KafkaFormatError, TooLargeError
from ..types import BATCH_DTYPE, BatchTable, Buffer, IntArray, RecordColumns, byte_view
from ..zstd_frames import header_size
from .lz4v0 import with_right_checksum

if TYPE_CHECKING:
    from ..odd_codec_ends import Prefix

_LZ4_SMALLEST = 7
"""Smallest size of the header of an lz4 frame, in bytes."""
_LZ4_INDEPENDENT, _LZ4_BLOCK_CHECKSUM, _LZ4_CONTENT_SIZE, _LZ4_CONTENT_CHECKSUM, _LZ4_DICTIONARY = 32, 16, 8, 4, 1
_LZ4_RESERVED = 0x02 | _LZ4_DICTIONARY
"""Bits that must be 0 in Kafka."""
_LZ4_STORED = 0x80000000
"""Bit in the size of an lz4 block that is not compressed."""
_ZSTD_SMALLEST = 9
"""Smallest size of a zstd frame, in bytes: the header and the header of a block."""


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
    from ..odd_codec_ends import decompress_prefix

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
    from ..codecs import Arena, Decompressor

    arena = Arena(1 << 16)
    try:
        size = Decompressor(limit).decompress(int(row["attributes"]) & CODEC_MASK, payload, arena)
        return arena.view[:size].tobytes()
    except KafkaFormatError:
        prefix = complete_prefix(payload, row, limit)
        if prefix is None:
            raise
        return prefix.data


def first_records(buffer: Buffer, row: Any, limit: int) -> tuple[bytes, BatchTable] | None:
    """Return the records of a damaged batch that can be decoded, and a table in which they are a complete batch.

    `row` is the header of the batch in `buffer`. Return None if no record can be decoded. Messages of formats 0 and 1
    are not divided.
    """
    start, size, codec = int(row["payload_position"]), int(row["payload_size"]), int(row["attributes"]) & CODEC_MASK
    payload = byte_view(buffer)[start : start + size]
    if row["magic"] != MAGIC_V2:
        return None
    data = bytes(payload) if codec == CODEC_NONE else _decompressed(codec, payload, limit)
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
    """Return as much of the decompressed data as possible."""
    from ..codecs import Arena, Decompressor
    from ..odd_codec_ends import decompress_prefix

    arena = Arena(1 << 16)
    try:
        size = Decompressor(limit).decompress(codec, payload, arena)
        return arena.view[:size].tobytes()
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


def java_refusal(codec: int, payload: memoryview) -> str | None:
    """Return why Kafka's Java code does not read compressed data that kafkafmt can read. Return None if it reads the data.

    The rules for lz4 are those of Kafka's ``Lz4BlockInputStream``.
    """
    if not len(payload) and codec not in (CODEC_NONE, CODEC_ZSTD):
        return "the compressed data is empty"
    if codec != CODEC_LZ4 or len(payload) < _LZ4_SMALLEST:
        return None
    flags = payload[4]
    if not flags & _LZ4_INDEPENDENT:
        return "lz4 blocks depend on earlier blocks"
    if flags & _LZ4_RESERVED:
        return "an lz4 frame has a dictionary or reserved flags"
    p, checksum = int(_first_block(flags)), 4 if flags & _LZ4_BLOCK_CHECKSUM else 0
    size = -1
    while size and p <= len(payload) - 8:
        size = int.from_bytes(payload[p : p + 4], "little")
        if size == _LZ4_STORED:
            return "an lz4 frame continues after an empty block"
        p += 4 + (size & ~_LZ4_STORED) + checksum
    return None


def refused_by_java(buffer: Buffer, table: BatchTable) -> list[OddEnd]:
    """Find batches that Kafka's Java code does not read, although kafkafmt reads them (see `java_refusal`)."""
    codecs, starts, sizes = table["attributes"] & CODEC_MASK, table["payload_position"], table["payload_size"]
    suspects = (codecs != CODEC_NONE) & (sizes == 0) & (table["count"] == 0)
    frames = np.flatnonzero((codecs == CODEC_LZ4) & (sizes >= _LZ4_SMALLEST))
    view = byte_view(buffer)
    if len(frames):
        suspects[frames] = _odd_lz4(np.frombuffer(view, np.uint8), starts[frames], starts[frames] + sizes[frames])
    found = []
    for i in np.flatnonzero(suspects).tolist():
        reason = java_refusal(int(codecs[i]), view[int(starts[i]) : int(starts[i] + sizes[i])])
        if reason is not None:
            found.append(OddEnd(int(table["position"][i]), reason, False))
    return found


def not_read_by_java(buffer: Buffer, table: BatchTable, max_batch_bytes: int) -> list[OddEnd]:
    """Find batches with complete records that Kafka's Java code does not read to their end.

    Only gzip data, and data whose structure is odd, is decompressed.
    """
    found = refused_by_java(buffer, table)
    suspects = table.compress(_may_be_odd(buffer, table, max_batch_bytes))
    if len(suspects):
        from .reader import RecordReader

        reader = RecordReader(("offset",), max_batch_bytes=max_batch_bytes)
        for _ in reader.read(buffer, suspects, lambda _, __: None):
            pass
        found += [odd for odd in reader.take_odd_ends() if not odd.java_reads]
    return found


def _may_be_odd(buffer: Buffer, table: BatchTable, max_batch_bytes: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the batches whose compressed data can have an odd end."""
    codecs, data = table["attributes"] & CODEC_MASK, np.frombuffer(byte_view(buffer), np.uint8)
    suspects: npt.NDArray[np.bool_] = codecs == CODEC_GZIP
    snappy = np.flatnonzero(codecs == CODEC_SNAPPY)
    if len(snappy):
        faults, limit = np.empty(len(snappy), np.int8), min(max_batch_bytes, MAX_OFFSET)
        starts, sizes = table["payload_position"][snappy], table["payload_size"][snappy]
        core.check_snappy(buffer, starts, sizes, len(snappy), limit, faults)
        suspects[snappy] = faults > 0
    for codec, smallest, odd in (
        (CODEC_LZ4, _LZ4_SMALLEST, _odd_lz4),
        (CODEC_ZSTD, _ZSTD_SMALLEST, _odd_zstd),
    ):
        rows = np.flatnonzero((codecs == codec) & (table["payload_size"] >= smallest))
        if len(rows):
            starts = table["payload_position"][rows]
            suspects[rows] = odd(data, starts, starts + table["payload_size"][rows])
    return suspects


def _first_block(flags: Any) -> Any:
    """Return the position of the first block in an lz4 frame, from the flags in its header."""
    return 7 + (flags & _LZ4_CONTENT_SIZE) + 4 * (flags & _LZ4_DICTIONARY)


Data = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]


def _numbers(data: Data, positions: IntArray, size: int, dtype: str) -> IntArray:
    """Return the unsigned numbers at some positions."""
    found: IntArray = data[positions[:, np.newaxis] + np.arange(size)].view(dtype)[:, 0].astype(np.int64)
    return found


def _odd_lz4(data: Data, starts: IntArray, ends: IntArray) -> Mask:
    """Return a mask of the lz4 frames that Java may not read, because of their flags, their blocks or their end."""
    flags = data[starts + 4].astype(np.int64)
    usual = (flags & (_LZ4_INDEPENDENT | _LZ4_RESERVED)) == _LZ4_INDEPENDENT
    positions = starts + _first_block(flags)
    checksums = np.where(flags & _LZ4_BLOCK_CHECKSUM, 4, 0)
    after = np.where(flags & _LZ4_CONTENT_CHECKSUM, 4, 0)
    complete = np.zeros(len(starts), bool)
    active = np.flatnonzero(usual & (positions <= ends - 4))
    while len(active):
        sizes = _numbers(data, positions[active], 4, "<u4")
        positions[active] += 4
        complete[active[sizes == 0]] = True
        positions[active] += (sizes & (_LZ4_STORED - 1)) + np.where(sizes == 0, after[active], checksums[active])
        active = active[(sizes != 0) & (sizes != _LZ4_STORED)]
        active = active[positions[active] <= ends[active] - 4]
    mask: Mask = ~complete | (positions > ends)
    return mask


def _odd_zstd(data: Data, starts: IntArray, ends: IntArray) -> Mask:
    """Return a mask of the zstd data that is not exactly one frame without a checksum."""
    descriptors = data[starts + 4]
    complete = np.zeros(len(starts), bool)
    positions = starts + np.array([header_size(d) for d in range(256)])[descriptors]
    active = np.flatnonzero((descriptors & 4 == 0) & (positions <= ends - 3))
    while len(active):
        blocks = _numbers(data, positions[active], 2, "<u2") | data[positions[active] + 2].astype(np.int64) << 16
        positions[active] += 3 + np.where(blocks & 6 == 2, 1, blocks >> 3)
        last = blocks & 1 == 1
        complete[active[last]] = True
        active = active[~last]
        active = active[positions[active] <= ends[active] - 3]
    mask: Mask = ~complete | (positions != ends)
    return mask
