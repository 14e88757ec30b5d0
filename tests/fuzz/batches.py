"""Parse, change and serialize batches and messages, independently of the core."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import building
import crc32c

from kafkafmt.codecs.compressor import Compressor
from kafkafmt.codecs.decompressor import Arena, Decompressor
from kafkafmt.errors import KafkaFormatError
from kafkafmt.records.lz4v0 import with_right_checksum, with_wrong_checksum

V2_FIELDS = {
    "base_offset": (0, ">q"), "length": (8, ">i"), "leader_epoch": (12, ">i"), "magic": (16, ">b"), "crc": (17, ">i"),
    "attributes": (21, ">h"), "last_offset_delta": (23, ">i"), "base_timestamp": (27, ">q"), "max_timestamp": (35, ">q"),
    "producer_id": (43, ">q"), "producer_epoch": (51, ">h"), "base_sequence": (53, ">i"), "count": (57, ">i"),
}  # fmt: skip
LEGACY_FIELDS = {
    "offset": (0, ">q"),
    "length": (8, ">i"),
    "crc": (12, ">i"),
    "magic": (16, ">b"),
    "attributes": (17, ">b"),
}
TIMESTAMP = {"timestamp": (18, ">q")}
LIMIT = 1 << 20
"""Largest size up to which a mutator decompresses data, in bytes."""


def fields_of(batch: bytes) -> dict[str, tuple[int, str]]:
    """Return the header fields of a batch or message: a dict from name to position and struct format."""
    if len(batch) > 16 and batch[16] < 2:
        return LEGACY_FIELDS | (TIMESTAMP if batch[16] == 1 else {})
    return V2_FIELDS


def get(batch: bytes, name: str) -> int:
    """Return the value of a header field, or 0 if the batch ends before it."""
    at, form = fields_of(batch)[name]
    return int(struct.unpack_from(form, batch, at)[0]) if at + struct.calcsize(form) <= len(batch) else 0


def put(batch: bytes, name: str, value: int) -> bytes:
    """Return the batch with a new value in a header field, or unchanged if it ends before the field."""
    at, form = fields_of(batch)[name]
    size = struct.calcsize(form)
    bits = 8 * size
    value = (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
    return batch[:at] + struct.pack(form, value) + batch[at + size :] if at + size <= len(batch) else batch


def repaired(batch: bytes) -> bytes:
    """Return the batch with a correct CRC of the bytes that its length field includes."""
    if len(batch) < 18:
        return batch
    end = min(len(batch), max(18, 12 + get(batch, "length")))
    if batch[16] >= 2:
        return batch if end < 21 else batch[:17] + struct.pack(">I", crc32c.crc32c(batch[21:end])) + batch[21:]
    return batch[:12] + struct.pack(">I", zlib.crc32(batch[16:end])) + batch[16:]


def with_length(batch: bytes) -> bytes:
    """Return the batch with a correct length field."""
    return put(batch, "length", len(batch) - 12)


def split(data: bytes) -> list[bytes]:
    """Split a buffer by the length fields of its batches. The last item contains the remaining bytes."""
    found: list[bytes] = []
    at = 0
    while at < len(data):
        size = 12 + struct.unpack_from(">i", data, at + 8)[0] if at + 12 <= len(data) else 0
        if size < 14 or at + size > len(data):
            return [*found, data[at:]]
        found.append(data[at : at + size])
        at += size
    return found


def payload_at(batch: bytes) -> tuple[int, int] | None:
    """Return the start and end of a batch's records or of a message's value, or None if unknown."""
    if len(batch) < 18:
        return None
    if batch[16] >= 2:
        return (61, len(batch)) if len(batch) >= 61 else None
    at = 26 if batch[16] == 1 else 18
    for _ in range(2):
        if at + 4 > len(batch):
            return None
        size = struct.unpack_from(">i", batch, at)[0]
        start, at = at + 4, at + 4 + max(size, 0)
    return (start, at) if size >= 0 and at <= len(batch) else None


def codec_of(batch: bytes) -> int:
    return get(batch, "attributes") & 7


def unpacked(batch: bytes) -> bytes | None:
    """Return the decompressed payload of a batch or message, or None if it cannot be decompressed."""
    place = payload_at(batch)
    if place is None:
        return None
    payload, codec = batch[slice(*place)], codec_of(batch)
    if codec == 0:
        return payload
    arena = Arena(1 << 12)
    try:
        data: Any = with_right_checksum(memoryview(payload)) if codec == 3 and batch[16] == 0 else payload
        size = Decompressor(LIMIT).decompress(codec, data, arena)
    except KafkaFormatError:
        return None
    return bytes(arena.view[:size])


def compressed(codec: int, data: bytes, magic: int = 2) -> bytes:
    """Return the payload with the compression and the framing of the format."""
    if codec == 0:
        return data
    made = Compressor(codec).compress(data)
    return bytes(with_wrong_checksum(memoryview(made))) if codec == 3 and magic == 0 else made


def with_payload(batch: bytes, payload: bytes) -> bytes:
    """Return the batch with a new payload, a correct length and an unchanged CRC."""
    place = payload_at(batch)
    if place is None:
        return batch
    start, end = place
    if batch[16] >= 2:
        return with_length(batch[:start] + payload)
    return with_length(batch[: start - 4] + struct.pack(">i", len(payload)) + payload + batch[end:])


def with_records(batch: bytes, records: bytes, codec: int) -> bytes:
    """Return the batch with new records, which are compressed with a codec, and a correct CRC."""
    attributes = get(batch, "attributes") & ~7 | codec
    return repaired(put(with_payload(batch, compressed(codec, records, batch[16])), "attributes", attributes))


Record = tuple[int, int, int, bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]


def read_records(payload: bytes) -> list[Record]:
    """Parse the records in a payload, up to the first invalid record.

    Return their attributes, deltas, keys, values and headers.
    """
    found: list[Record] = []
    at = 0

    def number() -> int:
        nonlocal at
        value, at = building._read_varint(payload, at)
        return value

    def data() -> bytes | None:
        nonlocal at
        size = number()
        if size < 0:
            return None
        if at + size > len(payload):
            raise IndexError
        at += size
        return payload[at - size : at]

    try:
        while at < len(payload) and len(found) < 1000:
            size = number()
            end = size + at
            attributes = payload[at]
            at += 1
            timestamp, offset, key, value = number(), number(), data(), data()
            headers = [(data() or b"", data()) for _ in range(min(max(number(), 0), 1000))]
            found.append((attributes, offset, timestamp, key, value, headers))
            if size < 0:
                break
            at = end
    except IndexError:
        pass
    return found


def write_record(record: Record, **wrong: int) -> bytes:
    """Return the bytes of a record. `wrong` contains arguments of `building.record`: header_count and length."""
    attributes, offset, timestamp, key, value, headers = record
    return building.record(offset, timestamp, key, value, headers, attributes=attributes, **wrong)  # type: ignore[arg-type]
