"""Test which batches are copies or damage if the offsets of batches contradict each other."""

from __future__ import annotations

import random
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from building import ABORT, COMMIT, TRANSACTIONAL, control_batch, mutate, repair_crc, simple_batch
from reports import verify_partition

from kafkafmt import build_batch
from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.damage import conflicts
from kafkafmt.log.reading import OffsetInterval
from kafkafmt.log.scanning import index_ranges


def batches(first: int, end: int) -> list[bytes]:
    """Return batches with one record and one offset each."""
    return [simple_batch([b"%d:" % i + random.Random(i).randbytes(30)], i) for i in range(first, end)]


def changed(part: bytes) -> bytes:
    """Return a valid batch with the same offset and another value."""
    return repair_crc(mutate(part, len(part) - 3, bytes([part[-3] ^ 1])))


def write(folder: Path, *segments: tuple[int, list[bytes]]) -> PartitionLog:
    path = folder / "t-0"
    path.mkdir(exist_ok=True)
    for base, parts in segments:
        (path / f"{base:020}.log").write_bytes(b"".join(parts))
    return PartitionLog(discover([path]).partitions[0])


def problems(log: PartitionLog) -> Counter[str]:
    report = verify_partition(log)
    return Counter([d["error"] for d in report["damaged"]] + [f["error"] for f in report["findings"]])


def delivered(log: PartitionLog) -> list[int]:
    return [r.offset for r in log.records(on_damage=lambda _: None)]


@pytest.fixture(params=[100, 1 << 20])
def _window(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use small and large windows. The small ones are smaller than one batch."""
    monkeypatch.setattr(conflicts, "COMPARED_BYTES", request.param)


@pytest.mark.usefixtures("_window")
def test_long_copy_is_one_finding(tmp_path: Path) -> None:
    parts = batches(0, 40)
    log = write(tmp_path, (0, [*parts, *parts]))
    assert problems(log) == {"duplicate_batch": 1}
    assert delivered(log) == list(range(40))


@pytest.mark.usefixtures("_window")
def test_long_copy_with_another_content_is_damage(tmp_path: Path) -> None:
    parts, other = batches(0, 40), batches(0, 40)
    other[7] = changed(other[7])
    log = write(tmp_path, (0, [*parts, *other]))
    assert problems(log) == {"contradicting_offsets": 1}
    assert delivered(log) == list(range(40))


def test_copies_of_batches_in_other_segments_are_damage(tmp_path: Path) -> None:
    first, second, third = batches(0, 20), batches(20, 40), batches(40, 60)
    log = write(tmp_path, (0, first), (20, [*second[:5], *first[3:9], *second[5:], *third[:4]]), (40, third))
    assert problems(log) == {"contradicting_offsets": 3}
    assert delivered(log) == list(range(60))


@pytest.mark.parametrize("order", [[4, 3, 2], [5, 4, 3, 2], [5, 3, 2, 4]], ids=str)
def test_batches_are_not_reordered(tmp_path: Path, order: list[int]) -> None:
    """Each offset that is not delivered is reported, also if only this offset is read."""
    parts = batches(0, 20)
    log = write(tmp_path, (0, [*parts[:2], *(parts[i] for i in order), *parts[2 + len(order) :]]))
    assert set(problems(log)) == {"contradicting_offsets", "offset_gap"}
    got = delivered(log)
    assert got == sorted(set(got))
    assert len(got) >= 20 - len(order) + 1
    for lost in set(range(20)) - set(got):
        found: list[Any] = []
        assert not list(write(tmp_path).records(OffsetInterval(lost, lost + 1), on_damage=found.append))
        assert [d for d in found if d.first_offset <= lost <= d.last_offset]


@pytest.mark.parametrize("magic", [0, 1])
def test_copy_of_a_wrapper_message_is_found(tmp_path: Path, magic: int) -> None:
    """The header of a wrapper message contains the last offset of its inner messages."""
    record: tuple[Any, ...] = (b"k", b"v" * 20) if magic == 0 else (b"k", b"v" * 20, 1)
    parts = [build_batch([record] * 4, base_offset=4 * i, magic=magic, codec="gzip") for i in range(4)]
    log = write(tmp_path, (0, [parts[0], parts[1], parts[0], parts[1], parts[2], parts[3]]))
    assert problems(log) == {"duplicate_batch": 1}
    assert delivered(log) == list(range(16))


COPIES_OVER_BATCHES: dict[str, tuple[dict[int, list[tuple[int, int]]], dict[int, tuple[int, int]]]] = {
    "a whole segment": ({0: [(30, 60)], 30: [(30, 60)]}, {0: (0, 29)}),
    "the start of a segment": ({0: [(30, 50), (20, 30)], 30: [(30, 60)]}, {0: (0, 19)}),
    "the middle of a segment": ({0: [(0, 30)], 30: [(30, 35), (0, 20), (55, 60)]}, {30: (35, 54)}),
    "the end of a segment": ({0: [(0, 10), (40, 60)], 30: [(30, 60)]}, {0: (10, 29)}),
    "earlier batches of the segment": ({0: [(0, 10), (3, 8), (15, 60)]}, {0: (10, 14)}),
}
"""For each log: the ranges of batches in each segment, and the missing offsets of each damaged segment.

Both are dicts whose keys are the base offsets of the segments.
"""


@pytest.mark.usefixtures("_window")
@pytest.mark.parametrize("name", COPIES_OVER_BATCHES)
def test_copies_at_the_place_of_missing_offsets_are_damage(tmp_path: Path, name: str) -> None:
    """The copies may have overwritten the missing batches, because offsets are missing nowhere else."""
    segments, missing = COPIES_OVER_BATCHES[name]
    parts = batches(0, 60)
    log = write(tmp_path, *((base, [p for a, b in ranges for p in parts[a:b]]) for base, ranges in segments.items()))
    report = verify_partition(log)
    assert {d["file"]: (d["first_offset"], d["last_offset"]) for d in report["damaged"]} == {
        f"{base:020}.log": offsets for base, offsets in missing.items()
    }
    assert set(problems(log)) == {"contradicting_offsets"}
    lost = [o for first, last in missing.values() for o in range(first, last + 1)]
    assert delivered(log) == [o for o in range(60) if o not in lost]
    (lowest,) = (first for first, _ in missing.values())
    damaged: list[Any] = []
    for _ in log.records(OffsetInterval(lowest, lowest + 1), on_damage=damaged.append):
        pytest.fail("the offset is missing")
    assert damaged


SHIFTED_BLOCKS: dict[str, tuple[list[tuple[int, int]], range]] = {
    "over the batches directly before it": ([(0, 10), (15, 20), (15, 60)], range(10, 15)),
    "over some batches before it": ([(0, 10), (13, 20), (18, 60)], range(10, 13)),
    "over some batches after it": ([(0, 20), (12, 20), (23, 60)], range(20, 23)),
    "over the first batches": ([(5, 10), (8, 60)], range(5)),
    "over the last batches": ([(0, 50), (45, 50)], range(50, 60)),
}
"""For each log: the ranges of batches, and the missing offsets. A block of batches was copied to a wrong place."""


@pytest.mark.parametrize("name", SHIFTED_BLOCKS)
def test_copy_is_damage_if_offsets_are_missing(tmp_path: Path, name: str) -> None:
    """The accepted batch may have overwritten the missing batches, and the copy is its original."""
    ranges, missing = SHIFTED_BLOCKS[name]
    base = 100
    made = batches(base, base + 60)
    parts = [p for a, b in ranges for p in made[a:b]]
    log = write(tmp_path, (base, parts), (base + 60, batches(base + 60, base + 70)))
    assert "contradicting_offsets" in problems(log)
    assert delivered(log) == [base + o for o in range(70) if o not in missing]


@pytest.mark.parametrize("index", ["missing", "not in order", "too few entries"])
def test_range_of_a_compacted_log_has_the_batches_after_batches_out_of_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str
) -> None:
    """Reading the range ends at the first batch with higher offsets. No index shows that lower offsets follow."""
    parts = batches(0, 60)
    at = [*range(0, 20, 2), 40, 42, *range(20, 40, 2), *range(44, 60, 2)]
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 60\n")
    for start, end in ((0, 30), (20, 30), (24, 41), (30, 42)):
        log = write(tmp_path, (0, [parts[o] for o in at]))
        if index == "not in order":
            (tmp_path / "t-0" / f"{0:020}.index").write_bytes(struct.pack(">6i", 8, 300, 4, 500, 50, 900))
        if index == "too few entries":
            monkeypatch.setattr(index_ranges, "MAX_RANGE_BYTES", 1000)
        assert log.directory.cleaned
        found = [r.offset for r in log.records(OffsetInterval(start, end), on_damage=lambda _: None)]
        assert found == [o for o in range(start, end, 2) if o < 40]


def test_abort_marker_out_of_place_hides_the_outcome_of_its_transaction(tmp_path: Path) -> None:
    """In a compacted log, the marker does not exactly fill a gap. Its transaction is not committed by the next marker."""
    fields: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}
    data = [simple_batch([b"x"], o, flags=TRANSACTIONAL, base_sequence=o, **fields) for o in range(30)]
    plain = batches(0, 60)
    abort = control_batch(ABORT, base_offset=13, **fields)
    commit = control_batch(COMMIT, base_offset=20, **fields)
    at = [plain[0], abort, plain[2], *plain[4:8], data[8], data[9], plain[10], data[16], commit, *plain[22:40:2]]
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 60\n")
    log = write(tmp_path, (0, at))
    found = [r.offset for r in log.records(OffsetInterval(0, 2**63, "read_committed"), on_damage=lambda _: None)]
    assert found == [0, 2, 4, 5, 6, 7, 10, *range(22, 40, 2)]
    assert problems(write(tmp_path))["transaction_in_doubt"]
