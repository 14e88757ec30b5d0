"""Read batch headers into a table, and check CRCs.

Kafka calls this shallow iteration, because the records are not read.
"""

from __future__ import annotations

import os
import struct
from typing import Any

from ..constants import (
    BATCH_HEADER_SIZE,
    CODEC_MASK,
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
from ..types import BatchTable, Buffer, ByteArray, Scan
from .crc import crc32, crc32c
from .varint import check_range, view_of

HEADER = struct.Struct(">qiibIhiqqqhii")
INT32 = struct.Struct(">i")
INT64 = struct.Struct(">q")
UINT32 = struct.Struct(">I")
INT8_OF = [n if n < 128 else n - 256 for n in range(256)]


def checksums(view: memoryview, p: int, length: int) -> tuple[int, int]:
    """Return the stored and the computed CRC of a complete batch or message."""
    end = p + ENTRY_OVERHEAD + length
    if view[p + MAGIC_AT] == MAGIC_V2:
        return UINT32.unpack_from(view, p + CRC_AT)[0], crc32c(view, 0, p + CRC_START, end)
    return UINT32.unpack_from(view, p + LEGACY_CRC_AT)[0], crc32(view, 0, p + MAGIC_AT, end)


def length_error(length: int, p: int, base_offset: int) -> StructureError:
    return StructureError(f"length field is {length}, which no batch can have", p, base_offset, None)


def entry_error(view: memoryview, p: int, end: int, check_crc: bool) -> KafkaFormatError | None:
    """Return the error in the batch or message at `p`, or None. An incomplete one, past `end`, is not an error."""
    # The CRC of an incomplete batch is not checked. The first 17 bytes of the batch must be before
    # `end`.
    (base_offset,), (length,) = INT64.unpack_from(view, p), INT32.unpack_from(view, p + LENGTH_AT)
    whole = length <= end - p - ENTRY_OVERHEAD
    resume = p + ENTRY_OVERHEAD + length if whole else None
    magic = INT8_OF[view[p + MAGIC_AT]]
    known = MAGIC_V0 <= magic <= MAGIC_V2
    if not (MIN_LENGTHS[magic] if known else MIN_LEGACY_LENGTH) <= length <= MAX_BATCH_LENGTH:
        return length_error(length, p, base_offset)
    if not known:
        return UnsupportedError(f"magic {magic} is not supported", p, base_offset, resume)
    if whole and check_crc:
        stored, actual = checksums(view, p, length)
        if stored != actual:
            name = "CRC-32C" if magic == MAGIC_V2 else "CRC-32"
            return ChecksumError(f"{name} is {actual:#010x}, the crc field says {stored:#010x}", p, base_offset, resume)
    return None


def message_row(view: memoryview, p: int, length: int, magic: int) -> tuple[int, ...]:
    """Return the header of a message of magic 0 or 1 as a row of BATCH_DTYPE."""
    # The payload of an uncompressed message is the message itself, as `decode_records` expects. The
    # payload of a wrapper message is its compressed value. If the value is null or runs past the
    # end of the message, the payload size is 0.
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
            if 0 <= value_length <= end - q:
                payload, payload_size = q, value_length
    return (
        p,
        offset,
        timestamp,
        timestamp,
        NO_PRODUCER_ID,
        payload,
        payload_size,
        size,
        -1,
        crc,
        0,
        -1,
        count,
        attributes,
        -1,
        magic,
    )


def scan_batches(
    buffer: Buffer, table: BatchTable, start: int = 0, end: int | None = None, check_crc: bool = True
) -> Scan:
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
    if ENTRY_OVERHEAD <= last - p < MAGIC_END:
        (base_offset,), (length,) = INT64.unpack_from(view, p), INT32.unpack_from(view, p + LENGTH_AT)
        # The magic byte is missing, so report only a length that is invalid in all record formats.
        if not MIN_LEGACY_LENGTH <= length <= MAX_BATCH_LENGTH:
            return Scan(n, p, length_error(length, p, base_offset))
    return Scan(n, p, None)


def scan_file(descriptor: int, buffer: ByteArray, table: BatchTable, start: int, end: int) -> Scan:
    if start < 0 or end < start:
        raise ValueError(f"start {start} and end {end} are not a valid range of a file")
    count, position = 0, start
    while position < end:
        got = _read_piece(descriptor, buffer[: end - position], position)
        scan = scan_batches(buffer[:got], table[count:])
        rows = table[count : count + scan.count]
        rows["position"] += position
        rows["payload_position"] += position
        count, position = count + scan.count, position + scan.position
        if scan.error is not None or not scan.count:
            break
    return Scan(count, position, None)


def _read_piece(descriptor: int, target: Any, position: int) -> int:
    """Read bytes of a file until `target` is full, the file ends, or a read fails. Return the number of bytes."""
    got = 0
    while got < len(target):
        try:
            n = os.preadv(descriptor, [memoryview(target)[got:]], position + got)
        except OSError:
            break
        if not n:
            break
        got += n
    return got
