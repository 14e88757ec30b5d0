"""Test wrapper messages whose offset is wrong.

No CRC covers the offset. All readers must agree about it.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest
from building import SNAPPY, compress, message, simple_batch
from reports import verify_partition
from seeding import seeds
from selecting import interval

from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.damage import known_wrappers
from kafkafmt.log.damage.parts import Bad

PER_WRAPPER = 4


def wrapper(magic: int, first: int, n: int = PER_WRAPPER, codec: int = 1) -> bytes:
    offsets = range(first, first + n) if magic == 0 else range(n)
    inner = b"".join(message(magic, None, b"%d" % (first + i), offset=o) for i, o in enumerate(offsets))
    return message(magic, None, compress(codec, inner), offset=first + n - 1, attributes=codec)


def with_offset(entry: bytes, offset: int) -> bytes:
    return struct.pack(">q", offset) + entry[8:]


def open_log(folder: Path, *parts: bytes, base: int = 0) -> PartitionLog:
    path = folder / "t-0"
    path.mkdir(exist_ok=True)
    for old in path.iterdir():
        old.unlink()
    (path / f"{base:020}.log").write_bytes(b"".join(parts))
    return PartitionLog(discover([path]).partitions[0])


def offsets(log: PartitionLog, **given: Any) -> list[int]:
    found = []
    for record in log.records(interval(log, **given), on_damage=lambda _: None):
        assert record.value == b"%d" % record.offset
        found.append(record.offset)
    return found


def damaged_offsets(log: PartitionLog) -> set[int]:
    spans = verify_partition(log)["damaged"]
    return {
        o
        for d in spans
        for o in range(d["first_offset"], (d["last_offset"] if d["last_offset"] is not None else 60) + 1)
    }


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("wrong", [0, 1, 4, 5, 6, 8, 9, 10, 11, 12, 2**40])
def test_wrapper_with_a_wrong_offset_is_damage(tmp_path: Path, magic: int, wrong: int) -> None:
    parts = [wrapper(magic, first) for first in range(0, 20, 4)]
    parts[1] = with_offset(parts[1], wrong)
    log = open_log(tmp_path, *parts)
    others = [o for o in range(20) if o not in range(4, 8)]
    assert offsets(log) == others
    report = verify_partition(open_log(tmp_path, *parts))
    assert [(d["error"], d["first_offset"], d["last_offset"]) for d in report["damaged"]] == [
        ("contradicting_offsets", 4, 7)
    ]
    assert report["records_recovered"] == 16
    for start in range(21):
        for end in (start + 1, start + 5, 20):
            expected = [o for o in others if start <= o < end]
            assert offsets(open_log(tmp_path, *parts), start=start, end=end) == expected, (start, end)


@pytest.mark.parametrize("wrong", [1, 3, 5])
def test_first_wrapper_of_format_0_with_a_wrong_offset_is_damage(tmp_path: Path, wrong: int) -> None:
    parts = [with_offset(wrapper(0, 100), 103 + wrong), *(wrapper(0, first) for first in range(104, 112, 4))]
    assert offsets(open_log(tmp_path, *parts, base=100)) == list(range(104, 112))


def test_wrapper_at_offset_zero_with_one_message_is_valid(tmp_path: Path) -> None:
    assert offsets(open_log(tmp_path, wrapper(1, 0, n=1), wrapper(1, 1))) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("inner", [[3, 0, 3, 4], [2, 2, 3, 4], [4, 3, 2, 1]])
def test_wrapper_whose_messages_do_not_increase_is_damage(tmp_path: Path, magic: int, inner: list[int]) -> None:
    messages = b"".join(message(magic, None, b"x", offset=o) for o in inner)
    odd = message(magic, None, compress(1, messages), offset=4, attributes=1)
    log = open_log(tmp_path, odd, wrapper(magic, 5), wrapper(magic, 9))
    assert offsets(log) == list(range(5, 13))
    assert [d["error"] for d in verify_partition(log)["damaged"]] == ["contradicting_offsets"]


def random_log(rng: random.Random) -> tuple[list[bytes], list[tuple[int, int]]]:
    """Return batches and messages of random formats, with the first and last offset of each."""
    parts, spans, offset = [], [], 0
    formats = rng.choice([[0], [1], [2], [0, 1, 2]])
    for _ in range(rng.randrange(4, 9)):
        magic, n = rng.choice(formats), rng.randrange(1, 6)
        kind = rng.choice(["plain", "wrapper"]) if magic < 2 else "batch"
        n = 1 if kind == "plain" else n
        if kind == "batch":
            parts.append(simple_batch([b"%d" % (offset + i) for i in range(n)], offset, codec=rng.choice([0, 1, 4])))
        elif kind == "plain":
            parts.append(message(magic, None, b"%d" % offset, offset=offset))
        else:
            parts.append(wrapper(magic, offset, n, codec=rng.choice([1, SNAPPY])))
        spans.append((offset, offset + n - 1))
        offset += n
    return parts, spans


@pytest.mark.parametrize("seed", seeds(10, range(40)))
def test_readers_agree_after_an_offset_was_corrupted(tmp_path: Path, seed: int) -> None:
    """`verify`, full reads and range reads deliver the same records. No record has a wrong offset."""
    rng = random.Random(seed)
    parts, spans = random_log(rng)
    victim = rng.randrange(len(parts) - 1)
    end = spans[-1][1] + 1
    wrong = rng.choice([0, 1, rng.randrange(end + 3), rng.randrange(end + 3), 2**62, -1])
    parts[victim] = with_offset(parts[victim], wrong)
    log = open_log(tmp_path, *parts)
    found = offsets(log)
    assert found == sorted(set(found))
    intact = [o for i, (a, b) in enumerate(spans) for o in range(a, b + 1) if i != victim]
    assert set(intact) - set(found) <= set(range(spans[victim][0], spans[min(victim + 1, len(spans) - 1)][1] + 1))
    report = verify_partition(open_log(tmp_path, *parts))
    assert report["records_recovered"] == len(found)
    assert set(range(end)) - set(found) <= damaged_offsets(open_log(tmp_path, *parts)) | set(
        range(spans[victim][0], spans[victim][1] + 1)
    )
    for _ in range(8):
        start, stop = sorted((rng.randrange(end + 1), rng.randrange(end + 2)))
        assert offsets(open_log(tmp_path, *parts), start=start, end=stop) == [o for o in found if start <= o < stop], (
            start,
            stop,
        )


def test_inner_messages_after_a_lost_header_are_not_delivered(tmp_path: Path, package: object) -> None:
    """Incompressible values leave the bytes of inner messages unchanged in compressed data."""
    values = random.Random(5)

    def wrapper(first: int, count: int) -> bytes:
        inner = b"".join(message(1, b"k", values.randbytes(3000), offset=i) for i in range(count))
        return message(1, None, compress(SNAPPY, inner), offset=first + count - 1, attributes=SNAPPY)

    lost, damaged, valid = wrapper(0, 8), wrapper(8, 8), wrapper(16, 4)
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(bytes(len(lost) + 60) + damaged[60:] + valid)
    log = PartitionLog(discover([folder]).partitions[0])
    assert [r.offset for r in log.records(on_damage=lambda _: None)] == [16, 17, 18, 19]


def test_wrong_offsets_after_the_first_one_are_found_natively(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrappers = [wrapper(0, first) for first in range(0, 12_000, PER_WRAPPER)]
    wrong = [with_offset(w, 4 * i + 1000) if i % 5 == 2 else w for i, w in enumerate(wrappers)]
    described = []

    def counted(*arguments: Any) -> Bad:
        described.append(arguments)
        return describe(*arguments)

    describe = known_wrappers._contradicted_wrapper
    monkeypatch.setattr(known_wrappers, "_contradicted_wrapper", counted)
    log = open_log(tmp_path, *wrong)
    assert len(log.plan(log.segments[0]).damaged) == 600
    assert len(described) <= 3  # the plan walks through the segment three times
