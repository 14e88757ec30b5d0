"""Test that inner messages of a damaged wrapper message are not delivered with relative offsets.

Compressed data can contain inner messages unchanged. Their CRCs match, so a search after damage
finds them. Each value contains the offset of its record.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from building import SNAPPY, compress, message, xerial
from seeding import seeds

from kafkafmt.log import PartitionLog, discover

KAFKA_JAVA = -1
"""Stands for snappy in the blocks that Kafka's Java clients write."""


def value(offset: int, content: bytes = b"") -> bytes:
    return b"%08d:" % offset + content


def wrapper(magic: int, first: int, contents: list[bytes], codec: int = SNAPPY) -> bytes:
    inner = b"".join(
        message(magic, b"k", value(first + i, content), offset=i if magic else first + i)
        for i, content in enumerate(contents)
    )
    data = xerial(inner) if codec == KAFKA_JAVA else compress(codec, inner)
    return message(magic, None, data, offset=first + len(contents) - 1, attributes=abs(codec) if codec > 0 else SNAPPY)


def read(folder: Path, data: bytes, base: int = 0) -> list[int]:
    """Return the offsets of all delivered records, and check each of them."""
    path = folder / "t-0"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    (path / f"{base:020}.log").write_bytes(data)
    records = PartitionLog(discover([path]).partitions[0]).records(on_damage=lambda _: None)
    found = [(r.offset, r.value) for r in records]
    assert [o for o, v in found if v is None or not v.startswith(value(o))] == []
    return [o for o, _ in found]


def random_parts(rng: random.Random, base: int) -> list[bytes]:
    magic, plain = rng.choice([0, 1, 1, 1]), rng.choice([0, 0.5, 1])
    parts, offset, compressible = [], base, rng.random() < 0.3
    for _ in range(rng.randrange(1, 9)):
        sizes = [rng.choice([0, 5, 40, 300, 3000]) for _ in range(rng.randrange(1, 14))]
        contents = [b"x" * n if compressible else rng.randbytes(n) for n in sizes]
        if rng.random() < plain:
            parts += [message(magic, None, value(offset + i, c), offset=offset + i) for i, c in enumerate(contents)]
        else:
            parts.append(wrapper(magic, offset, contents, rng.choice([1, SNAPPY, SNAPPY, KAFKA_JAVA, 3])))
        offset += len(contents)
    return parts


def filler(rng: random.Random, size: int) -> bytes:
    return rng.choice([bytes(size), b"\xff" * size, rng.randbytes(size)])


def damaged(rng: random.Random, parts: list[bytes]) -> bytes:
    """Destroy headers, sectors and length fields, or truncate the log."""
    data = bytearray().join(parts)
    for _ in range(rng.choice([1, 1, 2, 3])):
        i = rng.randrange(len(parts))
        start, kind = sum(map(len, parts[:i])), rng.randrange(6)
        size = rng.choice([12, 17, 20, 26, 34, 60, 100, 512])
        if kind == 0:
            size = rng.choice([512, 4096])
            start = start // size * size
        elif kind == 1:
            start, size = start + 8, 8
        elif kind == 2 and start + 17 < len(data):
            data[start + 17] ^= rng.choice([1, 2, 3])
            start, size = start + 8, 4
        elif kind == 3 and i:
            return bytes(data[:start])
        data[start : start + size] = filler(rng, len(data[start : start + size]))
    return bytes(data)


@pytest.mark.parametrize("seed", seeds(100, range(60000, 60400)))
def test_no_record_has_a_wrong_offset_after_damage(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    base = rng.choice([0, 0, 0, 7, 500, 2_000_000])
    read(tmp_path, damaged(rng, random_parts(rng, base)), base)


@pytest.mark.parametrize("lost", [17, 26, 34, 512, 4096])
@pytest.mark.parametrize(
    "end", [b"", bytes(4096), b"\x00\x00\x00\x00\x00\x00\x00\x0c\x00\x00\x03\x00\x01\x02\x03\x04\x01\x0a"]
)
def test_inner_messages_before_the_end_of_the_file_are_damage(tmp_path: Path, lost: int, end: bytes) -> None:
    rng = random.Random(lost)
    first = wrapper(1, 0, [b"", b""])
    second = wrapper(1, 2, [rng.randbytes(3000) for _ in range(10)])
    assert read(tmp_path, first + bytes(lost) + second[lost:] + end) == [0, 1]
    assert read(tmp_path, bytes(len(first) + lost) + second[lost:] + end) == []


@pytest.mark.parametrize("codec", [1, SNAPPY, KAFKA_JAVA, 3])
def test_wrapper_after_the_inner_messages_of_a_lost_wrapper_is_delivered(tmp_path: Path, codec: int) -> None:
    """The plain messages between them have low offsets, so they could be inner messages."""
    rng = random.Random(codec)
    contents = [rng.randbytes(3000) for _ in range(8)]
    plain = b"".join(message(1, None, value(o), offset=o) for o in range(12, 20))
    log = wrapper(1, 0, [b""] * 4) + bytes(60) + wrapper(1, 4, contents, codec)[60:]
    assert read(tmp_path, log + plain + wrapper(1, 20, [b""])) == [*range(4), 20]


@pytest.mark.parametrize("base", [0, 7, 2_000_000])
@pytest.mark.parametrize("gap", [1, 2])
def test_messages_after_a_lost_first_message_are_delivered(tmp_path: Path, base: int, gap: int) -> None:
    """Compaction leaves gaps between the offsets. There are too many bytes for one block of compressed data."""
    offsets = range(base, base + 20 * gap, gap)
    parts = [message(1, None, value(o, b"content" * 600), offset=o) for o in offsets]
    parts[0] = b"\xff" * len(parts[0])
    assert read(tmp_path, b"".join(parts), base) == list(offsets)[1:]


def test_few_messages_after_a_lost_first_message_are_damage(tmp_path: Path) -> None:
    parts = [message(1, None, value(o), offset=o) for o in range(20)]
    assert read(tmp_path, b"\xff" * 30 + b"".join(parts)) == []


def test_bytes_between_messages_lose_no_message(tmp_path: Path) -> None:
    parts = [message(1, None, value(o), offset=o) for o in range(20)]
    parts.insert(9, b"\xff" * 500)
    assert read(tmp_path, b"".join(parts)) == list(range(20))
