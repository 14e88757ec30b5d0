"""The shallow walk: batch headers into a table, CRCs checked, nothing decompressed."""

from __future__ import annotations

import struct

import numpy as np

from ..constants import (
    BATCH_HEADER_SIZE,
    CRC_AT,
    CRC_START,
    ENTRY_OVERHEAD,
    LENGTH_AT,
    MAGIC_AT,
    MAGIC_END,
    MAGIC_V2,
    MIN_BATCH_LENGTH,
    MIN_LEGACY_LENGTH,
)
from ..errors import ChecksumError, KafkaFormatError, StructureError, UnsupportedError
from ..types import Buffer, Scan
from .crc import crc32c
from .varint import check_range, view_of

HEADER = struct.Struct(">qiibIhiqqqhii")
INT32 = struct.Struct(">i")
INT64 = struct.Struct(">q")
UINT32 = struct.Struct(">I")


def crc_holds(view: memoryview, p: int, length: int) -> bool:
    end: int = p + ENTRY_OVERHEAD + length
    return crc32c(view, 0, p + CRC_START, end) == UINT32.unpack_from(view, p + CRC_AT)[0]


def entry_error(view: memoryview, p: int, end: int, check_crc: bool) -> KafkaFormatError | None:
    """What is wrong with the batch at `p`, whose first 17 bytes lie before `end`; None also where it is cut off."""
    (base_offset,), (length,) = INT64.unpack_from(view, p), INT32.unpack_from(view, p + LENGTH_AT)
    whole = length <= end - p - ENTRY_OVERHEAD
    resume = p + ENTRY_OVERHEAD + length if whole else None
    magic = INT8_OF[view[p + MAGIC_AT]]
    if length < MIN_LEGACY_LENGTH or (magic == MAGIC_V2 and length < MIN_BATCH_LENGTH):
        return StructureError(f"length field is {length}, less than the smallest batch", p, base_offset, None)
    if magic != MAGIC_V2:
        return UnsupportedError(f"magic {magic} is not supported", p, base_offset, resume)
    if whole and check_crc and not crc_holds(view, p, length):
        stored, actual = UINT32.unpack_from(view, p + CRC_AT)[0], crc32c(view, 0, p + CRC_START, p + ENTRY_OVERHEAD + length)
        return ChecksumError(f"CRC-32C is {actual:#010x}, the crc field says {stored:#010x}", p, base_offset, resume)
    return None


INT8_OF = [n if n < 128 else n - 256 for n in range(256)]


def scan_batches(buffer: Buffer, table: np.ndarray, start: int = 0, end: int | None = None, check_crc: bool = True) -> Scan:
    view = view_of(buffer)
    last = check_range(view, start, end)
    p, n = start, 0
    while last - p >= MAGIC_END:
        (length,) = INT32.unpack_from(view, p + LENGTH_AT)
        error = entry_error(view, p, last, check_crc=False)
        if error is not None:
            return Scan(n, p, error)
        if length > last - p - ENTRY_OVERHEAD or n == len(table):
            break
        if check_crc and not crc_holds(view, p, length):
            return Scan(n, p, entry_error(view, p, last, check_crc))
        (base_offset, length, epoch, magic, crc, attributes, last_delta, base_timestamp, max_timestamp, producer_id, producer_epoch,
         sequence, count) = HEADER.unpack_from(view, p)  # fmt: skip
        size = length + ENTRY_OVERHEAD
        table[n] = (p, base_offset, base_timestamp, max_timestamp, producer_id, p + BATCH_HEADER_SIZE, size - BATCH_HEADER_SIZE, size,
                    epoch, crc, last_delta, sequence, count, attributes, producer_epoch, magic)  # fmt: skip
        n += 1
        p += size
    return Scan(n, p, None)


def plausible(view: memoryview, p: int, readable: int) -> bool:
    """Could a sound batch of magic 2 stand here, as far as its header tells?"""
    if readable < BATCH_HEADER_SIZE:
        return False
    (base_offset, length, _, magic, _, attributes, last_delta, _, _, _, _, _, count) = HEADER.unpack_from(view, p)
    return (
        magic == MAGIC_V2 and base_offset >= 0 and 0 <= attributes < 0x80 and attributes & 7 <= 4
        and MIN_BATCH_LENGTH <= length <= readable - ENTRY_OVERHEAD and last_delta >= 0 and count >= 0
    )  # fmt: skip


def find_batch(buffer: Buffer, start: int = 0, end: int | None = None, check_crc: bool = True) -> int | None:
    view = view_of(buffer)
    last = check_range(view, start, end)
    bytes_like = view.obj if isinstance(view.obj, bytes | bytearray) and len(view.obj) == len(view) else bytes(view[start:last])
    shift = 0 if bytes_like is view.obj else start
    at = bytes_like.find(MAGIC_V2, start + MAGIC_AT - shift, last - shift)
    while at >= 0:
        p = at + shift - MAGIC_AT
        if plausible(view, p, last - p) and (not check_crc or crc_holds(view, p, INT32.unpack_from(view, p + LENGTH_AT)[0])):
            return p
        at = bytes_like.find(MAGIC_V2, at + 1, last - shift)
    return None
