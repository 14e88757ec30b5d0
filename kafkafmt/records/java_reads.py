"""Find batches that Kafka's Java code does not read to their end, although kafkafmt reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .._backend import core
from ..codecs.zstd_frames import header_size
from ..constants import CODEC_GZIP, CODEC_LZ4, CODEC_MASK, CODEC_NONE, CODEC_SNAPPY, CODEC_ZSTD, MAX_OFFSET
from ..types import BatchTable, Buffer, IntArray, byte_view
from .convert import recompress
from .odd_ends import OddEnd
from .reader import RecordReader

_LZ4_SMALLEST = 7
"""Smallest size of the header of an lz4 frame, in bytes."""
_LZ4_INDEPENDENT, _LZ4_BLOCK_CHECKSUM, _LZ4_CONTENT_SIZE, _LZ4_CONTENT_CHECKSUM, _LZ4_DICTIONARY = 32, 16, 8, 4, 1
_LZ4_RESERVED = 0x02 | _LZ4_DICTIONARY
"""Bits that must be 0 in Kafka."""
_LZ4_STORED = 0x80000000
"""Bit in the size of an lz4 block that is not compressed."""
_ZSTD_SMALLEST = 9
"""Smallest size of a zstd frame, in bytes: the header and the header of a block."""


def java_refusal(codec: int, payload: memoryview) -> str | None:
    """Return why Kafka's Java code does not read data that kafkafmt reads, or None if it does."""
    # The rules for lz4 are those of Kafka's ``Lz4BlockInputStream``.
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
    if not codecs.any():
        return []
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
    """Find batches with complete records that Kafka's Java code does not read to their end."""
    # Only gzip data, and data whose structure is odd, is decompressed.
    found = refused_by_java(buffer, table)
    suspects = table.compress(_may_be_odd(buffer, table, max_batch_bytes))
    if len(suspects):
        reader = RecordReader(("offset",), max_batch_bytes=max_batch_bytes)
        for _ in reader.read(buffer, suspects, lambda _, __: None):
            pass
        found += [odd for odd in reader.take_odd_ends() if not odd.java_reads]
    # A batch can have both an odd end and flags that Java refuses.
    return sorted({odd.position: odd for odd in found}.values())


def rebuilt_batches(buffer: Buffer, table: BatchTable, max_batch_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield the row and the rebuilt bytes of each batch that Kafka's Java code does not read to its end."""
    # A rebuilt batch has the same codec, offsets, timestamps and producer fields.
    view = byte_view(buffer)
    for odd in not_read_by_java(buffer, table, max_batch_bytes):
        i = int(np.searchsorted(table["position"], odd.position))
        batch = view[odd.position : odd.position + int(table["size"][i])]
        codec = int(table["attributes"][i]) & CODEC_MASK
        yield i, bytes(recompress(batch, codec, max_batch_bytes=max_batch_bytes).records)


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
