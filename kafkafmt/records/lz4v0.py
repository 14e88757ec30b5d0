"""Correct the header checksum of lz4 frames in messages with magic 0 (KAFKA-3160).

In format 0, clients and brokers include the frame's magic bytes in the header checksum. This is an
error according to the lz4 specification. Kafka's Java code does not verify this checksum in format
0, but lz4 libraries verify it. Therefore, the checksum is corrected in a copy of the frame before
decompression.
"""

from __future__ import annotations

LZ4_MAGIC = b"\x04\x22\x4d\x18"
_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_WORD = 0xFFFFFFFF


def _rotate(x: int, n: int) -> int:
    return (x << n | x >> (32 - n)) & _WORD


def xxh32_short(data: bytes) -> int:
    """Return the xxHash-32, with the seed 0, of a frame descriptor, which has at most 15 bytes."""
    if len(data) >= 16:
        raise ValueError(f"data has {len(data)} bytes; it must have fewer than 16")
    h = (_P5 + len(data)) & _WORD
    words = len(data) // 4 * 4
    for i in range(0, words, 4):
        h = _rotate((h + int.from_bytes(data[i : i + 4], "little") * _P3) & _WORD, 17) * _P4 & _WORD
    for byte in data[words:]:
        h = _rotate((h + byte * _P5) & _WORD, 11) * _P1 & _WORD
    h = (h ^ h >> 15) * _P2 & _WORD
    h = (h ^ h >> 13) * _P3 & _WORD
    return h ^ h >> 16


def with_right_checksum(frame: memoryview) -> bytes | memoryview:
    """Return an lz4 frame with the header checksum of the specification. Other data is returned unchanged."""
    return _with_checksum(frame, 4)


def with_wrong_checksum(frame: memoryview) -> bytes | memoryview:
    """Return an LZ4 frame with the incorrect header checksum that Kafka uses in messages of format 0."""
    return _with_checksum(frame, 0)


def _with_checksum(frame: memoryview, start: int) -> bytes | memoryview:
    """Return the frame with a header checksum that covers the header from byte `start` onwards."""
    if frame[:4] != LZ4_MAGIC or len(frame) < 7:
        return frame
    flags = frame[4]
    # The content size (8 bytes) and the dictionary id (4 bytes) are optional.
    end = 6 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    if len(frame) <= end:
        return frame
    checksum = xxh32_short(bytes(frame[start:end])) >> 8 & 0xFF
    return frame if frame[end] == checksum else b"".join((frame[:end], bytes([checksum]), frame[end + 1 :]))
