"""Build logs for `test_damage.py`, with different kinds of damage in batches of all formats.

`FILES` contains a function for each kind of damage. The function returns the content of a segment.
"""

from __future__ import annotations

import random
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from building import (
    ABORT,
    COMMIT,
    GZIP,
    LZ4,
    SNAPPY,
    TRANSACTIONAL,
    ZSTD,
    compress,
    control_batch,
    message,
    mutate,
    simple_batch,
)

BATCH_BYTES = (108, 300, 1024)
MARKER_BYTES = 77
"""Nominal size of transactional batches that are smaller than a marker, so each damaged batch can be a marker."""
BATCH_OVERHEAD = 71
"""Upper limit for the size of a batch with one record, without the value. The actual size is 68 to 70 bytes."""
FAR = 80_000
"""Distance of a wrong offset from the correct one. No single read call covers both places."""
INNER_MESSAGES = 4
VALUE_AT = 34
"""Position of the value in a message of format 1 without a key."""
DATA_HEADERS = {GZIP: 10, SNAPPY: 20, LZ4: 7}
"""Size of the header of the compressed data."""
CODEC_NAMES = {GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd", 5: "known"}
"""Names of the codecs in the names of damage, such as "records that are not gzip data". Kafka has no codec 5."""
Batch = Callable[[int], bytes]
"""A function that returns the batch with a given index. The offsets of the batches increase."""


@cache
def values(size: int) -> list[bytes]:
    return [random.Random(i).randbytes(size) for i in range(16)]


def valid(i: int, size: int) -> bytes:
    return simple_batch([values(size - BATCH_OVERHEAD)[i % 16]], i)


def corrupted(batch: bytes) -> bytes:
    return mutate(batch, len(batch) - 3, bytes(b ^ 255 for b in batch[-3:]))


def with_length(batch: bytes) -> bytes:
    """Return a batch whose length field states about twice the size of the batch."""
    return mutate(batch, 8, struct.pack(">i", 2 * len(batch) - 9))


def with_offset(batch: bytes, distance: int) -> bytes:
    """Add `distance` to the base offset of a batch. A negative result is replaced by 0."""
    return mutate(batch, 0, struct.pack(">q", max(int.from_bytes(batch[:8], "big") + distance, 0)))


def separated(i: int, size: int) -> bytes:
    """Return a valid batch and one to 20 bytes after it, so that the next batch does not follow directly."""
    value = values(size - BATCH_OVERHEAD)[i % 16]
    return simple_batch([value[20:]], i) + value[: 1 + i % 20]


def in_damaged_value(i: int, size: int) -> bytes:
    """Return a batch with a wrong length and a wrong CRC, whose value is a valid batch."""
    return with_length(mutate(simple_batch([valid(i, size)], i), 21, b"\xff"))


def transactional(i: int, size: int) -> bytes:
    """Return a batch of one of five producers. The last 5 of each 50 batches are markers. A third of them abort."""
    if i % 50 >= 45:
        kind = COMMIT if i // 50 % 3 else ABORT
        return control_batch(kind, base_offset=i, producer_id=i % 5, producer_epoch=0)
    fields = {"flags": TRANSACTIONAL, "producer_id": i % 5, "producer_epoch": 0, "base_sequence": i}
    return simple_batch([values(size - BATCH_OVERHEAD)[i % 16]], i, **fields)


def open_transaction(i: int) -> bytes:
    """Return a transactional batch. Each batch has another producer, and no transaction ends."""
    return simple_batch([bytes(8)], i, flags=TRANSACTIONAL, producer_id=i, producer_epoch=0, base_sequence=0)


def wrapper(codec: int, magic: int, i: int) -> bytes:
    """Return a wrapper message with INNER_MESSAGES inner messages. Half of each value can be compressed."""
    inner = b"".join(
        message(
            magic,
            None,
            random.Random(i * 7 + k).randbytes(20) + b"x" * 25,
            offset=k if magic else i * INNER_MESSAGES + k,
            timestamp=1_700_000_000_000 + i,
        )
        for k in range(INNER_MESSAGES)
    )
    return message(
        magic, None, compress(codec, inner), offset=last_offset(i), timestamp=1_700_000_000_000 + i, attributes=codec
    )


def last_offset(i: int) -> int:
    return i * INNER_MESSAGES + INNER_MESSAGES - 1


def mixed(magic: int, i: int) -> bytes:
    """Return a wrapper message if `i` is odd, or an uncompressed message."""
    return wrapper(GZIP, magic, i) if i % 2 else message(magic, None, bytes(50), offset=last_offset(i), timestamp=5)


def plain(i: int) -> bytes:
    return message(1, None, values(60)[i % 16], offset=last_offset(i), timestamp=5)


def with_crc(message_bytes: bytes) -> bytes:
    """Correct the CRC of a message of format 0 or 1."""
    return mutate(message_bytes, 12, struct.pack(">I", zlib.crc32(message_bytes[16:])))


def with_corrupted_data(codec: int, i: int) -> bytes:
    """Return a wrapper message of format 1 whose CRC matches, although three bytes of the compressed data are wrong."""
    wrapped = wrapper(codec, 1, i)
    for at in random.Random(i).sample(range(VALUE_AT + DATA_HEADERS[codec], len(wrapped)), 3):
        wrapped = mutate(wrapped, at, bytes([wrapped[at] ^ 0x55]))
    return with_crc(wrapped)


def with_truncated_data(i: int) -> bytes:
    """Return a wrapper message of format 1 whose CRC matches, although the end of the gzip data is missing."""
    wrapped = wrapper(GZIP, 1, i)[:-20]
    wrapped = mutate(wrapped, VALUE_AT - 4, struct.pack(">i", len(wrapped) - VALUE_AT))
    return with_crc(mutate(wrapped, 8, struct.pack(">i", len(wrapped) - 12)))


def wrong_codec(codec: int, i: int) -> bytes:
    """Return a batch whose records are not compressed, although its attributes contain a codec."""
    return mutate(valid(i, 130), 22, bytes([codec]), repair=True)


def fake_header(i: int, count: int) -> bytes:
    """Return a header of format 2 with a length that ends at the end of the file."""
    return struct.pack(">qiibIhiqqqhii", i, (count - i) * 61 - 12, 0, 2, 0x12345678, 0, 0, 0, 0, -1, -1, -1, 1)


def damages(make: Batch) -> dict[str, Batch]:
    """Return the kinds of damage that are measured for batches of all formats."""
    return {
        "none": make,
        "every batch": lambda i: corrupted(make(i)),
        "two of three batches": lambda i: corrupted(make(i)) if i % 3 else make(i),
        "two of three, lengths too": lambda i: with_length(corrupted(make(i))) if i % 3 else make(i),
        "neighbour pairs": lambda i: corrupted(make(i)) if i % 64 < 2 else make(i),
        "zeroed sectors": lambda i: bytes(len(make(i))) if i % 64 == 1 else make(i),
        "offsets in zigzag": lambda i: make(i ^ 1),
        "every fifth offset too high": lambda i: with_offset(make(i), 1000) if i % 5 == 0 else make(i),
        "every fifth offset too low": lambda i: with_offset(make(i), -7) if i % 5 == 0 else make(i),
        "every fifth offset far too high": lambda i: with_offset(make(i), FAR) if i % 5 == 0 else make(i),
    }


def kinds() -> Iterator[tuple[str, Batch]]:
    """Yield the name of each kind of damage, with a function that returns the batch with a given index."""
    batches: dict[str, Batch] = {
        **{f"{size} bytes": partial(valid, size=size) for size in BATCH_BYTES},
        **{f"transactions, {size} bytes": partial(transactional, size=size) for size in (MARKER_BYTES, 300)},
        "plain messages": plain,
        "gzip wrappers": partial(wrapper, GZIP, 1),
        "snappy wrappers": partial(wrapper, SNAPPY, 1),
        "lz4 wrappers": partial(wrapper, LZ4, 1),
        "mixed messages, format 0": partial(mixed, 0),
        "mixed messages, format 1": partial(mixed, 1),
    }
    for name, make in batches.items():
        for damage, damaged in damages(make).items():
            yield f"{name}, {damage}", damaged
    for size in BATCH_BYTES:
        yield f"{size} bytes, bytes between batches", partial(separated, size=size)
        yield f"{size} bytes, batches in damaged values", partial(in_damaged_value, size=size)
    yield "open transactions, none", open_transaction
    for codec, name in CODEC_NAMES.items():
        yield f"records that are not {name} data", partial(wrong_codec, codec)
    for codec in DATA_HEADERS:
        yield f"corrupted {CODEC_NAMES[codec]} data", partial(with_corrupted_data, codec)
    yield "truncated gzip data", with_truncated_data


def content(make: Batch, size: int) -> bytes:
    """Return the content of a file of about `size` bytes."""
    parts: list[bytes] = []
    total = 0
    while total < size:
        parts.append(make(len(parts)))
        total += len(parts[-1])
    return b"".join(parts)


FILES: dict[str, Callable[[int], bytes]] = {
    **{name: partial(content, make) for name, make in kinds()},
    "headers up to the end": lambda size: b"".join(fake_header(i, size // 61) for i in range(size // 61)),
    "random bytes": lambda size: random.Random(size).randbytes(size),
}
"""For each kind of damage, a function that returns the content of a file of about a given size."""
