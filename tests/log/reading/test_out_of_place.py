"""Test which batches are copies, fill a gap or are damage if the offsets of batches contradict each other."""

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
from kafkafmt.log.reading import batches_of_ranges, copies, index_ranges
from kafkafmt.log.reading.offset_interval import OffsetInterval


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
    monkeypatch.setattr(batches_of_ranges, "WINDOW_BYTES", request.param)
    monkeypatch.setattr(copies._Window, "BYTES", request.param)
    monkeypatch.setattr(copies, "COMPARED_BYTES", request.param)


@pytest.mark.usefixtures("_window")
def test_long_copy_is_reported_batch_by_batch(tmp_path: Path) -> None:
    """In the copy, the content of one batch differs. Only this batch is damage."""
    parts, other = batches(0, 40), batches(0, 40)
    other[7] = changed(other[7])
    log = write(tmp_path, (0, [*parts, *other]))
    assert problems(log) == {"duplicate_batch": 39, "contradicting_offsets": 1}
    assert delivered(log) == list(range(40))


@pytest.mark.usefixtures("_window")
def test_batches_of_a_copy_fill_gaps_in_the_original(tmp_path: Path) -> None:
    parts = batches(0, 40)
    original = [mutate(p, len(p) - 3, bytes([p[-3] ^ 1])) if i in (1, 5, 9, 13) else p for i, p in enumerate(parts)]
    log = write(tmp_path, (0, [*original, *parts[:15]]))
    assert problems(log) == {"corrupt_checksum": 4, "batch_out_of_place": 4, "duplicate_batch": 11}
    assert delivered(log) == list(range(40))


@pytest.mark.usefixtures("_window")
def test_copies_in_adjacent_segments_are_found(tmp_path: Path) -> None:
    first, second, third = batches(0, 20), batches(20, 40), batches(40, 60)
    other = changed(third[5])
    mixed = [*second[:5], *first[3:9], *second[5:], *third[:4], other]
    log = write(tmp_path, (0, first), (20, mixed), (40, third))
    assert problems(log) == {"duplicate_batch": 10, "contradicting_offsets": 1}
    assert delivered(log) == list(range(60))


@pytest.mark.parametrize("order", [[4, 3, 2], [5, 4, 3, 2], [5, 3, 2, 4]], ids=str)
def test_several_batches_fill_a_gap_together(tmp_path: Path, order: list[int]) -> None:
    parts = batches(0, 20)
    log = write(tmp_path, (0, [*parts[:2], *(parts[i] for i in order), *parts[2 + len(order) :]]))
    assert set(problems(log)) == {"batch_out_of_place"}
    assert delivered(log) == list(range(20))
    interval = OffsetInterval(2, 4)
    assert [r.offset for r in log.records(interval)] == [2, 3]


@pytest.mark.parametrize("extra", [[], [3]], ids=str)
def test_batches_that_do_not_fill_a_gap_together_are_damage(tmp_path: Path, extra: list[int]) -> None:
    """One batch is missing, or two different batches have the same offset."""
    parts = batches(0, 20)
    moved = [*(changed(parts[i]) for i in extra), *parts[2 if extra else 3 : 4][::-1]]
    log = write(tmp_path, (0, [*parts[:2], parts[4], *moved, *parts[5:]]))
    assert problems(log)["contradicting_offsets"]
    assert delivered(log) == [*range(2), *range(4, 20)]


def test_first_of_two_batches_fills_a_gap(tmp_path: Path) -> None:
    """Both batches have the missing offset. The second one is damage, because its content differs."""
    parts = batches(0, 10)
    other = changed(parts[4])
    log = write(tmp_path, (0, [*parts[:4], *parts[5:8], parts[4], other, parts[4], *parts[8:]]))
    assert problems(log) == {"batch_out_of_place": 1, "duplicate_batch": 1, "contradicting_offsets": 1}
    assert delivered(log) == list(range(10))


@pytest.mark.parametrize("magic", [0, 1])
def test_copy_of_a_wrapper_message_is_found(tmp_path: Path, magic: int) -> None:
    """The header of a wrapper message contains the last offset of its inner messages."""
    record: tuple[Any, ...] = (b"k", b"v" * 20) if magic == 0 else (b"k", b"v" * 20, 1)
    parts = [build_batch([record] * 4, base_offset=4 * i, magic=magic, codec="gzip") for i in range(4)]
    log = write(tmp_path, (0, [parts[0], parts[1], parts[0], parts[1], parts[2]]), (12, [parts[1], parts[3]]))
    assert problems(log) == {"duplicate_batch": 3}
    assert delivered(log) == list(range(16))


def test_batches_far_out_of_place_are_read_without_the_bytes_between_them(tmp_path: Path) -> None:
    """A plan reads the segment twice. Each batch is then read once more."""
    parts = [simple_batch([b"value" * 8], i) for i in range(4000)]
    for i in range(0, 1900, 40):
        parts[i], parts[i + 2000] = parts[i + 2000], parts[i]
    log = write(tmp_path, (0, parts))
    assert delivered(log) == list(range(4000))
    assert log.bytes_read <= 3.1 * sum(map(len, parts))


COPIES_OVER_BATCHES: dict[str, tuple[dict[int, list[tuple[int, int]]], dict[int, tuple[int, int]]]] = {
    "a whole segment": ({0: [(30, 60)], 30: [(30, 60)]}, {0: (0, 29)}),
    "the start of a segment": ({0: [(30, 50), (20, 30)], 30: [(30, 60)]}, {0: (0, 19)}),
    "the middle of a segment": ({0: [(0, 30)], 30: [(30, 35), (0, 20), (55, 60)]}, {30: (35, 54)}),
    "the end of a segment": ({0: [(0, 10), (40, 60)], 30: [(30, 60)]}, {0: (10, 29)}),
    "later batches of the segment": ({0: [(0, 10), (15, 20), (15, 60)]}, {0: (10, 14)}),
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
    assert report["records"] is None
    lost = [o for first, last in missing.values() for o in range(first, last + 1)]
    assert delivered(log) == [o for o in range(60) if o not in lost]
    (lowest,) = (first for first, _ in missing.values())
    damaged: list[Any] = []
    for _ in log.records(OffsetInterval(lowest, lowest + 1), on_damage=damaged.append):
        pytest.fail("the offset is missing")
    assert damaged


SHIFTED_BLOCKS: dict[str, tuple[list[tuple[int, int]], tuple[int, int]]] = {
    "over the batches directly before it": ([(0, 10), (15, 20), (15, 60)], (10, 14)),
    "over some batches before it": ([(0, 10), (13, 20), (18, 60)], (10, 12)),
    "over some batches after it": ([(0, 20), (12, 20), (23, 60)], (20, 22)),
    "over the first batches": ([(5, 10), (8, 60)], (0, 4)),
    "over the last batches": ([(0, 50), (45, 50)], (50, 59)),
}
"""For each log: the ranges of batches, and the missing offsets. A block of batches was copied to a wrong place."""


@pytest.mark.parametrize("name", SHIFTED_BLOCKS)
def test_copies_explain_a_gap_between_adjacent_batches(tmp_path: Path, name: str) -> None:
    """The accepted batch may have overwritten the missing batches, and the copy is its original."""
    ranges, missing = SHIFTED_BLOCKS[name]
    base = 100
    made = batches(base, base + 60)
    parts = [p for a, b in ranges for p in made[a:b]]
    log = write(tmp_path, (base, parts), (base + 60, batches(base + 60, base + 70)))
    damaged = verify_partition(log)["damaged"]
    assert {(d["error"], d["first_offset"] - base, d["last_offset"] - base) for d in damaged} == {
        ("contradicting_offsets", *missing)
    }
    assert delivered(log) == [base + o for o in range(70) if not missing[0] <= o <= missing[1]]


@pytest.mark.parametrize("records", [1, 3])
def test_copy_over_batches_with_another_number_of_offsets(tmp_path: Path, records: int) -> None:
    """A batch was copied over the batch directly before it, which had two records."""
    copied = simple_batch([b"v"] * records, 12)
    log = write(tmp_path, (0, [*batches(0, 10), copied, copied, *batches(12 + records, 30)]))
    (damage,) = verify_partition(log)["damaged"]
    assert (damage["first_offset"], damage["last_offset"]) == (10, 11)
    assert damage["message"].startswith("it is a copy of another batch with offset")
    assert delivered(log) == [*range(10), *range(12, 30)]


def test_each_copy_explains_one_gap(tmp_path: Path) -> None:
    parts = batches(0, 90)
    made = [*parts[:10], *parts[12:20], *parts[18:40], *parts[43:50], *parts[45:90]]
    damaged = verify_partition(write(tmp_path, (0, made)))["damaged"]
    assert [(d["first_offset"], d["last_offset"]) for d in damaged] == [(10, 11)] * 2 + [(40, 42)] * 5
    assert problems(write(tmp_path, (0, [*made[:30], *parts[33:]]))) == {"duplicate_batch": 2}


@pytest.mark.parametrize("compacted", [False, True])
def test_rest_of_an_overwritten_batch_explains_a_gap(tmp_path: Path, compacted: bool) -> None:
    """Two batches have overwritten the batch directly before them, and the second one is torn at its old place."""
    parts = batches(0, 30)
    block = [parts[11], simple_batch([bytes(200)], 12)]
    kept = [*parts[:3], *parts[5:10]] if compacted else parts[:10]
    log = write(tmp_path, (0, [*kept, *block, block[1][-len(parts[10]) :], *parts[13:]]))
    (damage,) = verify_partition(log)["damaged"]
    assert damage["position"] == sum(map(len, [*kept, *block]))
    assert (damage["first_offset"], damage["last_offset"]) == ((13, 12) if compacted else (10, 10))
    missing: list[Any] = []
    assert not list(log.records(OffsetInterval(10, 11), on_damage=missing.append))
    assert bool(missing) is not compacted


def test_copies_in_a_compacted_log_are_no_damage(tmp_path: Path) -> None:
    parts = batches(0, 60)
    log = write(tmp_path, (0, [*parts[:10], *parts[20:30], *parts[22:25], *parts[40:]]))
    assert problems(log) == {"duplicate_batch": 3}


def test_damage_next_to_copies_explains_missing_offsets(tmp_path: Path) -> None:
    parts = batches(0, 60)
    log = write(tmp_path, (0, [*parts[:10], *parts[3:7], bytes(50), *parts[20:]]))
    assert problems(log) == {"duplicate_batch": 4, "corrupt_structure": 1}


@pytest.mark.parametrize("order", [[9, 6], [7, 5], [8, 6, 5]])
def test_batches_that_fill_a_gap_partly_are_damage_of_their_own_offsets(tmp_path: Path, order: list[int]) -> None:
    """The batches are in reverse order, and more offsets are missing. A read of only these offsets reports the damage."""
    parts = batches(0, 20)
    kept = [o for o in range(20) if not 4 < o < 10]
    at = [*kept[:5], *order, *kept[5:]]
    write(tmp_path, (0, [parts[o] for o in at]))
    delivered = [r.offset for r in write(tmp_path).records(on_damage=lambda _: None)]
    for lost in set(order) - set(delivered):
        damaged: list[Any] = []
        log = write(tmp_path)
        assert not list(log.records(OffsetInterval(lost, lost + 1), on_damage=damaged.append))
        assert [d for d in damaged if d.first_offset <= lost <= d.last_offset]
        assert {d.code for d in damaged} == {"contradicting_offsets"}


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


@pytest.mark.parametrize(("order", "lost"), [([4, 7, 6, 10], 7), ([4, 12, 13, 6, 10], 6), ([6, 10, 4, 15], 4)])
def test_batch_out_of_place_is_damage_of_both_places(tmp_path: Path, order: list[int], lost: int) -> None:
    """Offsets are missing at the place of the rejected batch, and where its own offsets belong."""
    parts = batches(0, 30)
    at = [0, 1, 2, 3, *order, *range(16, 30)]
    log = write(tmp_path, (0, [parts[o] for o in at]))
    damaged = log.plan(log.segments[0]).damaged
    assert sum(d.length for d in damaged) == sum(len(parts[o]) for o in set(at) - set(delivered(log)))
    assert [d.position for d in damaged] == sorted(d.position for d in damaged)
    found: list[Any] = []
    assert not list(write(tmp_path).records(OffsetInterval(lost, lost + 1), on_damage=found.append))
    assert [d for d in found if d.first_offset <= lost <= d.last_offset]
    assert {(d.code, d.length) for d in found} == {("contradicting_offsets", 0)}


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
    assert found == [0, 2, 4, 5, 6, 7, 10, 16, *range(22, 40, 2)]
    assert problems(write(tmp_path))["transaction_in_doubt"] == 1
