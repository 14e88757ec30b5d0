"""Test where reading resumes after damage.

Batches in record values are not delivered, batches after two damaged ones are, and the work is
linear.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import crc32c
import pytest
from building import message, mutate, simple_batch
from reports import verify_partition
from seeding import seeds

from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.damage.checksums import SpanCrcs
from kafkafmt.log.damage.part_builder import MERGED_BYTES, SINGLE_SPANS
from kafkafmt.log.damage.plan import plan_segment
from kafkafmt.log.damage.search import Search
from kafkafmt.log.damage.segment_walker import Walker
from kafkafmt.log.storage.file_view import FileView


def open_log(folder: Path, data: bytes, base: int = 0) -> PartitionLog:
    path = folder / "t-0"
    path.mkdir(exist_ok=True)
    (path / f"{base:020}.log").write_bytes(data)
    return PartitionLog(discover([path]).partitions[0])


def offsets(log: PartitionLog) -> list[int]:
    return [r.offset for r in log.records(on_damage=lambda _: None)]


def without_length_and_crc(entry: bytes, length: bytes = b"\x2f\xcb\x12\x81") -> bytes:
    crc_at = 17 if entry[16] == 2 else 12
    return mutate(mutate(entry, 8, length), crc_at, bytes(b ^ 0x55 for b in entry[crc_at : crc_at + 4]))


INNER = {
    "one batch": lambda first: simple_batch([b"inner"], first),
    "two batches": lambda first: simple_batch([b"inner"], first) + simple_batch([b"inner"], first + 1),
    "message": lambda first: message(1, None, b"inner", offset=first),
    "messages": lambda first: message(0, None, b"inner", offset=first) + message(0, None, b"inner", offset=first + 1),
}


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize(
    ("before", "after"), [(b"", b""), (b"prefix", b""), (b"", b"suffix"), (b"prefix", b"suffix " * 20)]
)
@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("offset", [0, 3, 4, 5, 6, 40])
def test_batch_in_a_value_is_not_delivered_if_length_and_crc_are_wrong(
    tmp_path: Path, magic: int, inner: str, before: bytes, after: bytes, offset: int
) -> None:
    value = before + INNER[inner](offset) + after

    def entry(base: int, value: bytes) -> bytes:
        return simple_batch([value], base) if magic == 2 else message(magic, None, value, offset=base)

    parts = [entry(i, value if i == 4 else b"v%d" % i) for i in range(9)]
    parts[4] = without_length_and_crc(parts[4])
    log = open_log(tmp_path, b"".join(parts))
    assert offsets(log) == [0, 1, 2, 3, 5, 6, 7, 8]
    assert [(d["first_offset"], d["last_offset"]) for d in verify_partition(log)["damaged"]][:1] == [(4, 4)]


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_batch_inside_the_last_value_is_not_delivered(tmp_path: Path, magic: int) -> None:
    value = b"prefix" + simple_batch([b"inner"], 5) + b"suffix"
    parts = [simple_batch([b"v"], i) if magic == 2 else message(magic, None, b"v", offset=i) for i in range(4)]
    last = simple_batch([value], 4) if magic == 2 else message(magic, None, value, offset=4)
    assert offsets(open_log(tmp_path, b"".join(parts) + without_length_and_crc(last))) == [0, 1, 2, 3]


def randomly_damaged(entry: bytes, rng: random.Random) -> bytes:
    """Return `entry` with one of six kinds of damage."""
    damages: list[Callable[[], bytes]] = [
        lambda: mutate(entry, len(entry) - 1, bytes([entry[-1] ^ 1])),
        lambda: mutate(entry, 8, rng.randbytes(4)),
        lambda: mutate(entry, 12, rng.randbytes(4)),
        lambda: mutate(entry, 16, b"\x09"),
        lambda: without_length_and_crc(entry, rng.randbytes(4)),
        lambda: rng.randbytes(len(entry)),
    ]
    return rng.choice(damages)()


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("seed", seeds(20, range(60)))
def test_messages_after_two_damaged_ones_are_delivered(tmp_path: Path, magic: int, seed: int) -> None:
    """A message between the two damaged ones can be part of a value, so it may be reported as damage."""
    rng = random.Random(seed * 2 + magic)
    base = rng.choice([0, 7, 100_000])
    parts = [
        message(magic, None, b"%d:" % (base + i) + rng.randbytes(rng.choice([0, 30, 200])), offset=base + i)
        for i in range(12)
    ]
    a = rng.randrange(magic, 10)  # after a damaged first message of format 1, all messages may be inner ones
    b = a + rng.choice([1, 1, 2])
    for i in {a, min(b, 11)}:
        parts[i] = randomly_damaged(parts[i], rng)
    log = open_log(tmp_path, b"".join(parts), base)
    found = offsets(log)
    assert set(found) <= {base + i for i in range(12) if i not in (a, b)}
    assert {base + i for i in range(12) if not a <= i <= b} <= set(found)
    lost = {base + i for i in range(12)} - set(found)
    spans = [
        (d["first_offset"], base + 12 if d["last_offset"] is None else d["last_offset"])
        for d in verify_partition(log)["damaged"]
    ]
    tail = {base + 11} if any(f["error"] == "unfinished_tail" for f in verify_partition(log)["findings"]) else set()
    assert lost - tail <= {o for first, last in spans for o in range(first, last + 1)}


@pytest.mark.parametrize("magic", [0, 2])
@pytest.mark.parametrize("base", [0, 7])
def test_header_of_zeros_is_not_trusted(tmp_path: Path, magic: int, base: int) -> None:
    """At offset 0, zeros look like an intact header. The batches before the next damage would then be damage too."""
    parts = [
        simple_batch([b"value"], base + i) if magic == 2 else message(magic, None, b"value", offset=base + i)
        for i in range(9)
    ]
    for i, fill in ((0, b"\0"), (1, b"\0"), (5, b"\xff")):
        parts[i] = fill * len(parts[i])
    assert offsets(open_log(tmp_path, b"".join(parts), base)) == [base + i for i in (2, 3, 4, 6, 7, 8)]


def test_many_consecutive_damaged_batches_become_one_span(tmp_path: Path) -> None:
    parts = [simple_batch([b"value %d" % i], i) for i in range(400)]
    parts[5:390] = [mutate(p, 66, b"\xff\xff") for p in parts[5:390]]
    log = open_log(tmp_path, b"".join(parts))
    spans = verify_partition(log)["damaged"]
    assert len(spans) == SINGLE_SPANS + 1
    assert sum(d["length"] for d in spans) == sum(map(len, parts[5:390])) < MERGED_BYTES
    assert {(d["first_offset"], d["last_offset"]) for d in spans} == {(5, 389)}
    assert spans[-1]["message"].startswith(
        f"{385 - SINGLE_SPANS} damaged batches; error of the first one: the CRC does not match"
    )


def test_crcs_of_two_places_are_computed_once(tmp_path: Path) -> None:
    """A search computes CRCs of short damaged batches, and of possible batches that end far after them."""
    data = random.Random(1).randbytes(2_000_000)
    path = tmp_path / "file"
    path.write_bytes(data)
    with FileView(path) as view:
        crcs = SpanCrcs(view)
        for at in range(0, 1_000_000, 50_000):
            assert crcs.span(True, at + 30_000, 1_900_000) == crc32c.crc32c(data[at + 30_000 : 1_900_000])
            assert crcs.span(True, at, at + 5000) == crc32c.crc32c(data[at : at + 5000])
        assert crcs.bytes_summed < 2 * len(data)
        assert view.reads < 100


# Work of a search in bytes, for n and 4n batches.


def _flip(batch: bytes) -> bytes:
    return mutate(batch, 66, b"\xff\xfe")


def _fake(claimed: int, offset: int) -> bytes:
    return struct.pack(">qiibIhiqqqhii", offset, claimed - 12, 0, 2, 0x12345678, 0, 0, 0, 0, -1, -1, -1, 1)


def _batches(n: int) -> list[bytes]:
    return [simple_batch([b"value of %d" % i], i) for i in range(n)]


def _between(i: int, part: bytes) -> bytes:
    """Destroy two of four batches, and change the CRC of every eighth one."""
    if i % 8 == 7:
        return mutate(part, 17, b"\x12\x34\x56\x78")
    return random.Random(i).randbytes(len(part)) if i % 4 in (0, 3) else part


DAMAGE = {
    "every batch": lambda n: [_flip(b) for b in _batches(n)],
    "two of three batches": lambda n: [_flip(b) if i % 3 else b for i, b in enumerate(_batches(n))],
    "every other length": lambda n: [mutate(b, 8, b"\x00\x01\x00\x00") if i % 2 else b for i, b in enumerate(_batches(n))],
    "every length and CRC": lambda n: [without_length_and_crc(b) for b in _batches(n)],
    "pairs": lambda n: [without_length_and_crc(b) if i % 16 < 2 else b for i, b in enumerate(_batches(n))],
    "zeroed batches": lambda n: [bytes(len(b)) if i % 4 == 1 else b for i, b in enumerate(_batches(n))],
    "headers up to the end": lambda n: [_fake((n - i) * 61, 5 + i) for i in range(n)],
    "headers up to different ends": lambda n: [_fake(61 + 61 * ((i * 7919) % max(n - i, 1)), 5 + i) for i in range(n)],
    "a header every four bytes": lambda n: [b"\x02\x00\x00\x00"] * (n * 20),
    "random bytes": lambda n: [random.Random(n).randbytes(n * 80)],
    "falling offsets": lambda n: [simple_batch([b"v"], n - i) for i in range(n)],
    "zigzag offsets": lambda n: [simple_batch([b"v"], i ^ 1) for i in range(n)],
    "plain messages": lambda n: [_flip(m) if i % 3 else m for i, m in enumerate(message(1, None, b"v" * 60, offset=i) for i in range(n))],
    "two batches between destroyed ones": lambda n: [_between(i, b) for i, b in enumerate(_batches(n))],
    "values that are batches": lambda n: [without_length_and_crc(simple_batch([simple_batch([b"v"], i)] * 3, 3 * i)) for i in range(n)],
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_work_after_damage_is_linear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Count the bytes that are read, scanned and covered by CRCs, and the headers, for n and 4n batches.

    Quadratic work would be 16 times as much.
    """
    searches: list[Search] = []
    heads = [0]
    original, head = Search.__init__, Search.head

    def recording_init(self: Search, *arguments: Any) -> None:
        original(self, *arguments)
        searches.append(self)

    def counting_head(self: Search, position: int) -> bytes:
        heads[0] += 1
        return head(self, position)

    monkeypatch.setattr(Search, "__init__", recording_init)
    monkeypatch.setattr(Search, "head", counting_head)
    work = []
    for n in (3000, 12000):
        data = b"".join(DAMAGE[kind](n))
        log = open_log(tmp_path, data)
        searches.clear()
        heads[0] = 0
        plan = plan_segment(log.segments[0])
        search = searches[0]
        assert plan.size == len(data)
        work.append(
            (search.view.bytes_read + search.bytes_scanned + search.crcs.bytes_summed, heads[0] * 64, len(data))
        )
    (*before, _), (*after, size) = work
    assert sum(after) <= 8 * sum(before) + 12_000_000
    assert after[0] <= 60 * size + 4_000_000
    assert after[1] <= 60 * size


def test_second_walk_finds_the_same_parts_as_the_first(tmp_path: Path) -> None:
    parts = [simple_batch([b"value %d" % i * 4], i) for i in range(400)]
    for i in range(1, 100, 3):
        parts[i] = mutate(mutate(parts[i], 66, b"\xff\xfe\xfd"), 8, struct.pack(">i", 2 * len(parts[i]) - 9))
    parts[200] = mutate(parts[200], 66, b"\xff\xfe\xfd")
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(parts))
    with FileView(path) as view:
        walker = Walker(view, 0)
        first, second = list(walker.walk()), list(walker.walk())
    assert len(first) > 50
    assert second == first


def test_damage_with_implausible_lengths_is_searched_in_large_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each base sequence looks like the length of a message that ends later in the file."""
    steps: list[int] = []
    resume = Search.resume

    def counting(self: Search, position: int, expected: int) -> tuple[int, bool]:
        steps.append(position)
        return resume(self, position, expected)

    monkeypatch.setattr(Search, "resume", counting)
    batches = [simple_batch([b"v"], i, producer_id=1, producer_epoch=0, base_sequence=300) for i in range(6000)]
    data = b"".join(mutate(b, len(b) - 2, b"\xff") for b in batches)
    log = open_log(tmp_path, data)
    assert not log.plan(log.segments[0]).runs
    assert 0 < len(steps) < 40
