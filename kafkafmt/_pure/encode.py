"""Encode records of magic 2 and messages of magic 0 and 1."""

from __future__ import annotations

from ..constants import MAGIC_V0
from .batch import INT32, INT64, UINT32
from .crc import crc32
from .fields import Fields


def varint(n: int) -> bytes:
    """Encode an integer of up to 64 bits as a zigzag varint."""
    raw = (n << 1) ^ (n >> 63)
    if raw < 0x80:
        return bytes((raw,))
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def sized(data: bytes | None) -> bytes:
    """Return the length of `data` as a varint, followed by `data`. None is encoded as length -1."""
    return varint(-1) if data is None else varint(len(data)) + data


def long_sized(data: bytes | None) -> bytes:
    """Return the length of `data` as an int32, followed by `data`. None is encoded as length -1."""
    return INT32.pack(-1) if data is None else INT32.pack(len(data)) + data


def encode_record(record: Fields, timestamp_delta: int, offset_delta: int) -> bytes:
    parts = [b"\0", varint(timestamp_delta), varint(offset_delta), sized(record.key), sized(record.value)]
    parts.append(varint(len(record.headers)))
    for key, value in record.headers:
        parts += sized(key), sized(value)
    body = b"".join(parts)
    return varint(len(body)) + body


def encode_message(record: Fields, magic: int, attributes: int, offset: int, timestamp: int) -> bytes:
    when = b"" if magic == MAGIC_V0 else INT64.pack(timestamp)
    body = bytes((magic, attributes)) + when + long_sized(record.key) + long_sized(record.value)
    return INT64.pack(offset) + INT32.pack(len(body) + 4) + UINT32.pack(crc32(body)) + body
