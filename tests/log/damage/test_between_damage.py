"""Test valid batches between two damaged places, after a damaged batch with an intact header.

They are delivered if the length field of the damaged batch is correct, and a later batch continues
their offsets. Batches inside a record value do not meet these conditions.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from building import batch, message, mutate

from kafkafmt.log import PartitionLog, discover

LARGE = 70_000


def read(folder: Path, data: bytes) -> list[tuple[int, bytes | None]]:
    path = folder / "t-0"
    path.mkdir(exist_ok=True)
    (path / f"{0:020}.log").write_bytes(data)
    log = PartitionLog(discover([path]).partitions[0])
    return [(r.offset, r.value) for r in log.records(on_damage=lambda _: None)]


def entry(magic: int, offset: int, value: bytes | None = None, codec: int = 0) -> bytes:
    value = b"value %d" % offset if value is None else value
    if magic == 2:
        return batch([(0, 0, None, value, ())], base_offset=offset, codec=codec)
    return message(magic, None, value, offset=offset)


def wrong_crc(part: bytes) -> bytes:
    at = 17 if part[16] == 2 else 12
    return mutate(part, at, bytes(b ^ 0x55 for b in part[at : at + 4]))


def destroyed(part: bytes, rng: random.Random) -> bytes:
    return rng.randbytes(len(part))


@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (1, 0), (2, 0), (2, 1), (2, 2), (2, 4)])
@pytest.mark.parametrize("places", [1, 3, 40])
def test_batches_between_damaged_places_are_delivered(tmp_path: Path, magic: int, codec: int, places: int) -> None:
    rng = random.Random(places)
    parts, lost = [], set()
    for place in range(places + 1):
        first = place * 10
        parts += [entry(magic, first + i, codec=codec) for i in range(10)]
        lost |= {first + 3, first + 4, first + 7}
        parts[first + 3] = wrong_crc(parts[first + 3])
        for i in (4, 7):
            parts[first + i] = destroyed(parts[first + i], rng)
    found = read(tmp_path, b"".join(parts))
    assert found == [(o, b"value %d" % o) for o in range(10 * (places + 1)) if o not in lost]


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_single_batch_between_damaged_places_is_delivered(tmp_path: Path, magic: int) -> None:
    """Its offset fits, and the records of the damaged batch before it fill this batch."""
    rng = random.Random(magic)
    parts = [entry(magic, i) for i in range(10)]
    parts[3] = wrong_crc(parts[3])
    parts[4], parts[6] = destroyed(parts[4], rng), destroyed(parts[6], rng)
    assert [o for o, _ in read(tmp_path, b"".join(parts))] == [0, 1, 2, 5, 7, 8, 9]


def test_batches_after_records_that_cannot_be_decoded_are_damage(tmp_path: Path) -> None:
    """The length field of the damaged batch cannot be checked, so the batches could be part of a value."""
    rng = random.Random(4)
    parts = [entry(2, i) for i in range(12)]
    parts[3] = mutate(parts[3], 61, b"\xff")
    parts[4], parts[8] = destroyed(parts[4], rng), destroyed(parts[8], rng)
    assert [o for o, _ in read(tmp_path, b"".join(parts))] == [0, 1, 2, 9, 10, 11]


def segment(magic: int, first: int, count: int) -> bytes:
    return b"".join(entry(magic, first + i, b"embedded") for i in range(count))


def nested(magic: int, first: int, count: int) -> bytes:
    return b"text" + entry(magic, first + 100_000, b"more text" + segment(magic, first, count) + b"end") + b"end"


CONTENT: dict[str, Callable[[int, int, int], bytes]] = {
    "segment": lambda magic, first, count: b"text" + segment(magic, first, count) + b"end",
    "nested segment": nested,
    "segments": lambda magic, first, count: (
        b"text" + segment(magic, first, 2) + b"between" + segment(magic, first + 2, count) + b"end"
    ),
    "large segment": lambda magic, first, count: b"text" + segment(magic, first, count) + b"end" * LARGE,
}
LENGTHS: dict[str, Callable[[int], int]] = {
    "intact": lambda size: size,
    "to the value": lambda size: 70,
    "too short": lambda size: size // 2,
    "too long": lambda size: size + 100,
    "impossible": lambda size: 0x2FCB1281,
}


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("content", CONTENT)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("lost", [0, 1, 8])
def test_segment_in_a_value_is_not_delivered(tmp_path: Path, magic: int, content: str, length: str, lost: int) -> None:
    """The offsets of the segment continue the damaged batch, and the `lost` batches after it are destroyed."""
    rng = random.Random(lost)
    parts = [entry(magic, i) for i in range(40)]
    part = wrong_crc(entry(magic, 4, CONTENT[content](magic, 7, 4)))
    parts[4] = mutate(part, 8, struct.pack(">i", LENGTHS[length](len(part) - 12)))
    for i in range(5, 5 + lost):
        parts[i] = destroyed(parts[i], rng)
    found = read(tmp_path, b"".join(parts))
    assert [o for o, value in found if value != b"value %d" % o] == []
    assert [o for o, _ in found] == [*range(4), *range(5 + lost, 40)]


@pytest.mark.parametrize("seed", range(60))
def test_no_embedded_record_is_delivered_after_random_damage(tmp_path: Path, seed: int) -> None:
    """Each value can contain a segment whose offsets follow the next batch of the log."""
    rng = random.Random(seed)
    magic = rng.choice([1, 2, 2])
    parts = []
    for i in range(60):
        content = CONTENT[rng.choice(sorted(CONTENT))](magic, i + rng.choice([2, 3, 5, 9]), rng.randrange(2, 5))
        parts.append(entry(magic, i, content if rng.random() < 0.3 else None))
    i = rng.randrange(len(parts) - 12)
    parts[i] = wrong_crc(parts[i])
    if rng.random() < 0.5:
        parts[i] = mutate(parts[i], 8, struct.pack(">i", rng.randrange(14, 2 * len(parts[i]))))
    for k in range(i + 1, i + rng.randrange(1, 10)):
        parts[k] = rng.randbytes(len(parts[k]))
    assert [o for o, value in read(tmp_path, b"".join(parts)) if value == b"embedded"] == []
