"""The shallow walk: batch headers into a table, CRCs checked, nothing decompressed."""

from __future__ import annotations

import re
import struct

from ..constants import (
    BATCH_HEADER_SIZE,
    CODEC_LZ4,
    CODEC_MASK,
    CODEC_NAMES,
    CRC_AT,
    CRC_START,
    ENTRY_OVERHEAD,
    LEGACY_ATTRIBUTES,
    LEGACY_ATTRIBUTES_AT,
    LEGACY_CRC_AT,
    LEGACY_KEY_AT,
    LEGACY_TIMESTAMP_AT,
    LENGTH_AT,
    MAGIC_AT,
    MAGIC_END,
    MAGIC_V0,
    MAGIC_V2,
    MAX_BATCH_LENGTH,
    MIN_LEGACY_LENGTH,
    MIN_LENGTHS,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
)
from ..errors import ChecksumError, KafkaFormatError, StructureError, UnsupportedError
from ..types import BatchTable, Buffer, Scan
from .crc import crc32, crc32c
from .varint import check_range, view_of

HEADER = struct.Struct(">qiibIhiqqqhii")
INT32 = struct.Struct(">i")
INT64 = struct.Struct(">q")
UINT32 = struct.Struct(">I")
INT8_OF = [n if n < 128 else n - 256 for n in range(256)]
CHUNK = 1 << 20
MAGICS = re.compile(rb"[\x00-\x02]")


def checksums(view: memoryview, p: int, length: int) -> tuple[int, int]:
    """What the crc field of a whole batch or message says, and what its bytes give."""
    end = p + ENTRY_OVERHEAD + length
    if view[p + MAGIC_AT] == MAGIC_V2:
        return UINT32.unpack_from(view, p + CRC_AT)[0], crc32c(view, 0, p + CRC_START, end)
    return UINT32.unpack_from(view, p + LEGACY_CRC_AT)[0], crc32(view, 0, p + MAGIC_AT, end)


def entry_error(view: memoryview, p: int, end: int, check_crc: bool) -> KafkaFormatError | None:
    """What is wrong with the batch or message at `p`, whose first 17 bytes lie before `end`; None also where it is cut off."""
    (base_offset,), (length,) = INT64.unpack_from(view, p), INT32.unpack_from(view, p + LENGTH_AT)
    whole = length <= end - p - ENTRY_OVERHEAD
    resume = p + ENTRY_OVERHEAD + length if whole else None
    magic = INT8_OF[view[p + MAGIC_AT]]
    known = MAGIC_V0 <= magic <= MAGIC_V2
    if not (MIN_LENGTHS[magic] if known else MIN_LEGACY_LENGTH) <= length <= MAX_BATCH_LENGTH:
        return StructureError(f"length field is {length}, which no batch can have", p, base_offset, None)
    if not known:
        return UnsupportedError(f"magic {magic} is not supported", p, base_offset, resume)
    if whole and check_crc:
        stored, actual = checksums(view, p, length)
        if stored != actual:
            name = "CRC-32C" if magic == MAGIC_V2 else "CRC-32"
            return ChecksumError(f"{name} is {actual:#010x}, the crc field says {stored:#010x}", p, base_offset, resume)
    return None


def message_row(view: memoryview, p: int, length: int, magic: int) -> tuple[int, ...]:
    """A row for a message of magic 0 or 1. Its payload: itself, for the deep walk; of a wrapper, the compressed value."""
    (offset,), (crc,) = INT64.unpack_from(view, p), UINT32.unpack_from(view, p + LEGACY_CRC_AT)
    size, attributes = length + ENTRY_OVERHEAD, view[p + LEGACY_ATTRIBUTES_AT] & LEGACY_ATTRIBUTES
    timestamp = INT64.unpack_from(view, p + LEGACY_TIMESTAMP_AT)[0] if magic else NO_TIMESTAMP
    count, payload, payload_size = 1, p, size
    if attributes & CODEC_MASK:
        count, payload_size = -1, 0
        end, q = p + size, p + LEGACY_KEY_AT[magic] + 4
        (key_length,) = INT32.unpack_from(view, q - 4)
        if key_length <= end - q - 4:
            q += max(key_length, 0) + 4
            (value_length,) = INT32.unpack_from(view, q - 4)
            if 0 <= value_length == end - q:
                payload, payload_size = q, value_length
    return (p, offset, timestamp, timestamp, NO_PRODUCER_ID, payload, payload_size, size, -1, crc, 0, -1, count, attributes, -1, magic)


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
        size = length + ENTRY_OVERHEAD
        if view[p + MAGIC_AT] != MAGIC_V2:
            table[n] = message_row(view, p, length, view[p + MAGIC_AT])
        else:
            (base_offset, length, epoch, magic, crc, attributes, last_delta, base_timestamp, max_timestamp, producer_id,
             producer_epoch, sequence, count) = HEADER.unpack_from(view, p)  # fmt: skip
            table[n] = (p, base_offset, base_timestamp, max_timestamp, producer_id, p + BATCH_HEADER_SIZE, size - BATCH_HEADER_SIZE,
                        size, epoch, crc, last_delta, sequence, count, attributes, producer_epoch, magic)  # fmt: skip
        n += 1
        p += size
    return Scan(n, p, None)


def plausible(view: memoryview, p: int, end: int, check_crc: bool) -> bool:
    """Could a sound batch or message stand at `p`, as far as its header tells? With `check_crc`: does one?"""
    magic, readable = view[p + MAGIC_AT], end - p
    if readable < ENTRY_OVERHEAD + MIN_LENGTHS[magic]:
        return False
    (offset,), (length,) = INT64.unpack_from(view, p), INT32.unpack_from(view, p + LENGTH_AT)
    if offset < 0 or not MIN_LENGTHS[magic] <= length <= MAX_BATCH_LENGTH:
        return False
    stands = batch_stands(view, p) if magic == MAGIC_V2 else message_stands(view, p, readable, length, magic)
    if not stands or not check_crc:
        return stands
    if length > readable - ENTRY_OVERHEAD:
        return False
    stored, actual = checksums(view, p, length)
    return stored == actual


def batch_stands(view: memoryview, p: int) -> bool:
    _, _, _, _, _, attributes, last_delta, _, _, _, _, _, count = HEADER.unpack_from(view, p)
    return bool(0 <= attributes < 0x80 and attributes & CODEC_MASK < len(CODEC_NAMES) and last_delta >= 0 and count >= 0)


def message_stands(view: memoryview, p: int, readable: int, length: int, magic: int) -> bool:
    """Key and value fill a message exactly, which chance seldom brings about."""
    attributes, key_at = view[p + LEGACY_ATTRIBUTES_AT], LEGACY_KEY_AT[magic]
    (key_length,) = INT32.unpack_from(view, p + key_at)
    if attributes & 0xF0 or attributes & CODEC_MASK > CODEC_LZ4 or not -1 <= key_length <= length - MIN_LENGTHS[magic]:
        return False
    value_at = key_at + 4 + max(key_length, 0)
    if readable - 4 < value_at:
        return True
    (value_length,) = INT32.unpack_from(view, p + value_at)
    rest = ENTRY_OVERHEAD + length - value_at - 4
    return bool(value_length == rest or (value_length == -1 and rest == 0))


def find_batch(buffer: Buffer, start: int = 0, end: int | None = None, check_crc: bool = True) -> int | None:
    view = view_of(buffer)
    last = check_range(view, start, end)
    for a in range(start + MAGIC_AT, last, CHUNK):  # chunks keep the copies small, the pattern finds magic bytes fast
        for hit in MAGICS.finditer(bytes(view[a : min(a + CHUNK, last)])):
            p = a + hit.start() - MAGIC_AT
            if plausible(view, p, last, check_crc):
                return p
    return None
