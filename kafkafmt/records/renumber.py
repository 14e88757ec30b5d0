"""Correct the offset deltas of a batch if they do not increase.

A correct client sends batches with increasing offset deltas. If a batch has other offset deltas,
and the broker must re-encode the batch, the broker ignores the deltas and assigns new offsets.
Therefore, it accepts the batch.
"""

from __future__ import annotations

import struct

from .._backend import core
from ..constants import (
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    CODEC_NONE,
    COUNT_AT,
    CRC_AT,
    CRC_START,
    ENTRY_OVERHEAD,
    LENGTH_AT,
)
from ..errors import KafkaFormatError

_INT32, _UINT32 = struct.Struct(">i"), struct.Struct(">I")


def with_increasing_deltas(batch: memoryview, max_batch_bytes: int) -> bytearray | None:
    """Return a copy of a v2 batch with the offset deltas 0, 1, 2 and so on.

    Return None if the number of records or the length of a record is wrong.
    """
    codec = batch[CRC_START + 1] & CODEC_MASK
    records = batch[BATCH_HEADER_SIZE:]
    try:
        if codec != CODEC_NONE:
            from ..codecs import Arena, Decompressor
            from ..compressor import Compressor

            arena = Arena()
            Decompressor(max_batch_bytes).decompress(codec, batch[BATCH_HEADER_SIZE:], arena)
            records = arena.view[: arena.filled]
        renumbered = _renumbered(records, _INT32.unpack_from(batch, COUNT_AT)[0])
    except KafkaFormatError:
        return None
    if renumbered is None:
        return None
    out = bytearray(batch[:BATCH_HEADER_SIZE]) + (
        renumbered if codec == CODEC_NONE else Compressor(codec).compress(renumbered)
    )
    _INT32.pack_into(out, LENGTH_AT, len(out) - ENTRY_OVERHEAD)
    _UINT32.pack_into(out, CRC_AT, core.crc32c(out, 0, CRC_START))
    return out


def _renumbered(records: memoryview, count: int) -> bytearray | None:
    """Return uncompressed records with the offset deltas 0, 1, 2 and so on.

    Return None if the length of a record is wrong.
    """
    out, p = bytearray(), 0
    for delta in range(count):
        length, p = core.read_varint(records, p)
        stop = p + length
        if not p < stop <= len(records):
            return None
        _, before = core.read_varlong(records, p + 1, stop)
        _, after = core.read_varint(records, before, stop)
        number = _varint(delta)
        out += _varint(before - p + len(number) + stop - after)
        out += records[p:before]
        out += number
        out += records[after:stop]
        p = stop
    return out if p == len(records) else None


def _varint(n: int) -> bytes:
    """Encode a non-negative number as a zigzag varint."""
    raw, out = 2 * n, bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)
