"""Build batches of record format 2 for tests, including unusual and damaged batches.

This module imports nothing from `kafkafmt`. Therefore, the tests do not repeat mistakes of the
package. Each header field is a parameter. Its default is the value of a correct producer. The
layout of a batch (big-endian):

    0 baseOffset i64        8 batchLength i32 (bytes after it)       12 partitionLeaderEpoch i32     16 magic i8
    17 crc u32 (CRC-32C of 21..end)   21 attributes i16   23 lastOffsetDelta i32   27 baseTimestamp i64   35 maxTimestamp i64
    43 producerId i64      51 producerEpoch i16      53 baseSequence i32      57 count i32      61 records, possibly compressed

    batch([record(value=b"a"), record(1, value=b"b")], base_offset=10, codec=ZSTD)
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterable, Sequence

import crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = 61
CRC_AT, CRC_FROM = 17, 21

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40
ABORT, COMMIT = 0, 1

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_BLOCK = 32 * 1024

# (offset_delta, timestamp_delta, key, value, headers)
Fields = tuple[int, int, bytes | None, bytes | None, Sequence[tuple[bytes, bytes | None]]]


def varint(value: int) -> bytes:
    """Return the shortest zigzag varint of a 32-bit or 64-bit value."""
    n = (value << 1) ^ (value >> 63)
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def long_varint(value: int, size: int) -> bytes:
    """Return a varint that is padded to `size` bytes. Kafka accepts it, but no producer writes it."""
    short = varint(value)
    if len(short) >= size:
        return short
    return short[:-1] + bytes([short[-1] | 0x80]) + b"\x80" * (size - len(short) - 1) + b"\x00"


def sized(data: bytes | None, null: int = -1) -> bytes:
    """Return the bytes after a varint that contains their length. For None, return the length `null`."""
    return varint(null) if data is None else varint(len(data)) + data


def record(
    offset_delta: int = 0,
    timestamp_delta: int = 0,
    key: bytes | None = None,
    value: bytes | None = None,
    headers: Sequence[tuple[bytes, bytes | None]] = (),
    *,
    attributes: int = 0,
    header_count: int | None = None,
    length: int | None = None,
    extra: bytes = b"",
) -> bytes:
    """Build a record. `header_count` and `length` may be wrong on purpose. `extra` follows the headers."""
    body = bytearray([attributes & 0xFF])
    body += varint(timestamp_delta) + varint(offset_delta) + sized(key) + sized(value)
    body += varint(len(headers) if header_count is None else header_count)
    for name, data in headers:
        body += sized(name) + sized(data)
    body += extra
    return varint(len(body) if length is None else length) + bytes(body)


def compress(codec: int, data: bytes, level: int | None = None) -> bytes:
    """Compress data as Kafka's Java producer does."""
    if codec == NONE:
        return data
    if codec == GZIP:
        return gzip.compress(data, 6 if level is None else level, mtime=0)
    if codec == SNAPPY:
        return xerial(data)
    if codec == LZ4:
        import lz4.frame

        packed: bytes = lz4.frame.compress(  # as in Java: independent blocks of 64 KiB, no content size, no checksums
            data,
            compression_level=level or 0,
            block_size=lz4.frame.BLOCKSIZE_MAX64KB,
            block_linked=False,
            store_size=False,
        )
        return packed
    if codec == ZSTD:
        import zstandard

        stream = zstandard.ZstdCompressor(level=3 if level is None else level, write_content_size=False).compressobj()
        return stream.compress(data) + stream.flush()  # Java writes a stream, so its frames have no content size
    raise ValueError(f"no codec {codec}")


def xerial(data: bytes, block: int = XERIAL_BLOCK) -> bytes:
    """Return a stream of snappy-java: magic, two versions, and blocks, each after its length."""
    import cramjam

    out = bytearray(XERIAL_MAGIC + struct.pack(">ii", 1, 1))
    for start in range(0, len(data), block):
        packed = bytes(cramjam.snappy.compress_raw(data[start : start + block]))
        out += struct.pack(">i", len(packed)) + packed
    return bytes(out)


def batch(
    records: Iterable[bytes | Fields] = (),
    *,
    base_offset: int = 0,
    codec: int = NONE,
    base_timestamp: int = 1_700_000_000_000,
    max_timestamp: int | None = None,
    attributes: int | None = None,
    flags: int = 0,
    last_offset_delta: int | None = None,
    count: int | None = None,
    leader_epoch: int = 0,
    magic: int = 2,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    length: int | None = None,
    crc: int | None = None,
    payload: bytes | None = None,
    compressed: bytes | None = None,
    level: int | None = None,
) -> bytes:
    """Return a batch.

    `records` are bytes from `record()` or tuples of its five fields. `attributes` replaces the
    codec bits and `flags`. `payload` replaces the joined records before compression. `compressed`
    replaces all bytes after the header.
    """
    made = [r if isinstance(r, bytes) else record(*r) for r in records]
    deltas = [peek_deltas(r) for r in made]
    if last_offset_delta is None:
        last_offset_delta = deltas[-1][1] if deltas else 0
    if max_timestamp is None:
        max_timestamp = base_timestamp + max((t for t, _ in deltas), default=0)
    body = (
        compressed if compressed is not None else compress(codec, b"".join(made) if payload is None else payload, level)
    )
    head = HEADER.pack(
        base_offset,
        HEADER_SIZE - 12 + len(body) if length is None else length,
        leader_epoch,
        magic,
        0,
        _i16((codec | flags) if attributes is None else attributes),
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(made) if count is None else count,
    )
    whole = bytearray(head + body)
    struct.pack_into(">I", whole, CRC_AT, crc32c.crc32c(bytes(whole[CRC_FROM:])) if crc is None else crc)
    return bytes(whole)


def simple_batch(values: Sequence[bytes | None], base_offset: int = 0, **fields: object) -> bytes:
    """Return a batch of these values, with null keys, no headers, and timestamps 1 ms apart."""
    return batch([(i, i, None, v, ()) for i, v in enumerate(values)], base_offset=base_offset, **fields)  # type: ignore[arg-type]


def control_batch(
    kind: int,
    *,
    base_offset: int = 0,
    producer_id: int = 1,
    producer_epoch: int = 0,
    coordinator_epoch: int = 0,
    version: int = 0,
) -> bytes:
    """Return a batch with a transaction marker. `kind` is ABORT or COMMIT."""
    marker = record(0, 0, struct.pack(">hh", version, kind), struct.pack(">hi", version, coordinator_epoch))
    return batch(
        [marker],
        base_offset=base_offset,
        flags=TRANSACTIONAL | CONTROL,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def empty_batch(base_offset: int = 0, last_offset_delta: int = 0, **fields: object) -> bytes:
    """Return a batch without records, which the log cleaner keeps for the producer state."""
    given: dict[str, object] = {
        "base_timestamp": -1,
        "max_timestamp": 1_700_000_000_000,
        "producer_id": 1,
        "producer_epoch": 0,
    }
    return batch([], base_offset=base_offset, last_offset_delta=last_offset_delta, **(given | fields))  # type: ignore[arg-type]


def repair_crc(data: bytes | bytearray, start: int = 0) -> bytes:
    """Correct the CRC of the batch at `start`. Its length field may exceed the data."""
    whole = bytearray(data)
    claimed = struct.unpack_from(">i", whole, start + 8)[0]
    end = min(len(whole), max(start + HEADER_SIZE, start + 12 + claimed))
    struct.pack_into(">I", whole, start + CRC_AT, crc32c.crc32c(bytes(whole[start + CRC_FROM : end])))
    return bytes(whole)


def mutate(data: bytes, position: int, replacement: bytes, *, repair: bool = False) -> bytes:
    """Overwrite bytes of `data` at `position`. With `repair`, the CRC of the only batch is corrected."""
    changed = data[:position] + replacement + data[position + len(replacement) :]
    return repair_crc(changed) if repair else changed


def split(data: bytes) -> list[bytes]:
    """Divide an undamaged log into batches by their length fields."""
    out, at = [], 0
    while at < len(data):
        end = at + 12 + struct.unpack_from(">i", data, at + 8)[0]
        if not at + 17 <= end <= len(data):
            raise ValueError(f"no complete batch at {at}")
        out.append(data[at:end])
        at = end
    return out


def message(
    magic: int, key: bytes | None, value: bytes | None, *, offset: int = 0, timestamp: int = 0, attributes: int = 0
) -> bytes:
    """Return a message of format 0 or 1, including its offset and size."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for part in (key, value):
        body += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def peek_deltas(raw: bytes) -> tuple[int, int]:
    """Return the timestamp delta and offset delta of a record, or zeros if the record cannot be parsed."""
    try:
        _, at = _read_varint(raw, 0)
        timestamp, at = _read_varint(raw, at + 1)
        offset, _ = _read_varint(raw, at)
    except IndexError:
        return 0, 0
    return timestamp, offset


def _read_varint(raw: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = raw[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at


def _i16(value: int) -> int:
    return value - 0x10000 if value > 0x7FFF else value
