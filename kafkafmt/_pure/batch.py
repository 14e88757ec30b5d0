"""The shallow walk: batch headers into a table, CRCs checked, nothing decompressed."""

from __future__ import annotations

import struct

from ..constants import (
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    CODEC_NAMES,
    CRC_AT,
    CRC_START,
    ENTRY_OVERHEAD,
    LENGTH_AT,
    MAGIC_AT,
    MAGIC_END,
    MAGIC_V2,
    MAX_BATCH_LENGTH,
    MIN_BATCH_LENGTH,
    MIN_LEGACY_LENGTH,
)
from ..errors import ChecksumError, KafkaFormatError, StructureError, UnsupportedError
from ..types import BatchTable, Buffer, Scan
from .crc import crc32c
from .varint import check_range, view_of

HEADER = struct.Struct(">qiibIhiqqqhii")
INT32 = struct.Struct(">i")
INT64 = struct.Struct(">q")
UINT32 = struct.Struct(">I")
INT8_OF = [n if n < 128 else n - 256 for n in range(256)]
CHUNK = 1 << 20


def crc_holds(view: memoryview, p: int, length: int) -> bool:
    end: int = p + ENTRY_OVERHEAD + length
    (stored,) = UINT32.unpack_from(view, p + CRC_AT)
    return bool(crc32c(view, 0, p + CRC_START, end) == stored)


def entry_error(view: memoryview, p: int, end: int, check_crc: bool) -> KafkaFormatError | None:
    """What is wrong with the batch at `p`, whose first 17 bytes lie before `end`; None also where it is cut off."""
    (base_offset,), (length,) = INT64.unpack_from(view, p), INT32.unpack_from(view, p + LENGTH_AT)
    whole = length <= end - p - ENTRY_OVERHEAD
    resume = p + ENTRY_OVERHEAD + length if whole else None
    magic = INT8_OF[view[p + MAGIC_AT]]
    if not (MIN_BATCH_LENGTH if magic == MAGIC_V2 else MIN_LEGACY_LENGTH) <= length <= MAX_BATCH_LENGTH:
        return StructureError(f"length field is {length}, which no batch can have", p, base_offset, None)
    if magic != MAGIC_V2:
        return UnsupportedError(f"magic {magic} is not supported", p, base_offset, resume)
    if whole and check_crc and not crc_holds(view, p, length):
        stored, actual = UINT32.unpack_from(view, p + CRC_AT)[0], crc32c(view, 0, p + CRC_START, p + ENTRY_OVERHEAD + length)
        return ChecksumError(f"CRC-32C is {actual:#010x}, the crc field says {stored:#010x}", p, base_offset, resume)
    return None


def scan_batches(buffer: Buffer, table: BatchTable, start: int = 0, end: int | None = None, check_crc: bool = True) -> Scan:
    view = view_of(buffer)
    last = check_range(view, start, end)
    p, n = start, 0
    while last - p >= MAGIC_END:
        (length,) = INT32.unpack_from(view, p + LENGTH_AT)
        error = entry_error(view, p, last, check_crc and n < len(table))
        if error is not None:
            return Scan(n, p, error)
        if length > last - p - ENTRY_OVERHEAD or n == len(table):
            break
        (base_offset, length, epoch, magic, crc, attributes, last_delta, base_timestamp, max_timestamp, producer_id, producer_epoch,
         sequence, count) = HEADER.unpack_from(view, p)  # fmt: skip
        size = length + ENTRY_OVERHEAD
        table[n] = (p, base_offset, base_timestamp, max_timestamp, producer_id, p + BATCH_HEADER_SIZE, size - BATCH_HEADER_SIZE, size,
                    epoch, crc, last_delta, sequence, count, attributes, producer_epoch, magic)  # fmt: skip
        n += 1
        p += size
    return Scan(n, p, None)


def plausible(view: memoryview, p: int, end: int, check_crc: bool) -> bool:
    """Could a sound batch of magic 2 stand at `p`, as far as its header tells? With `check_crc`: does one?"""
    (base_offset, length, _, magic, _, attributes, last_delta, _, _, _, _, _, count) = HEADER.unpack_from(view, p)
    header_stands = (
        magic == MAGIC_V2 and base_offset >= 0 and 0 <= attributes < 0x80 and attributes & CODEC_MASK < len(CODEC_NAMES)
        and MIN_BATCH_LENGTH <= length <= MAX_BATCH_LENGTH and last_delta >= 0 and count >= 0
    )  # fmt: skip
    return header_stands and (not check_crc or (length <= end - p - ENTRY_OVERHEAD and crc_holds(view, p, length)))


def find_batch(buffer: Buffer, start: int = 0, end: int | None = None, check_crc: bool = True) -> int | None:
    view = view_of(buffer)
    last = check_range(view, start, end)
    for a in range(start + MAGIC_AT, last, CHUNK):  # bytes.find is fast; chunks keep the copies small
        chunk = bytes(view[a : min(a + CHUNK, last)])
        at = chunk.find(MAGIC_V2)
        while at >= 0:
            p = a + at - MAGIC_AT
            if last - p >= BATCH_HEADER_SIZE and plausible(view, p, last, check_crc):
                return p
            at = chunk.find(MAGIC_V2, at + 1)
    return None
