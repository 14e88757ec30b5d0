"""Test damage, unfinished tails and findings as the README describes them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from building import batch, message, mutate, record, repair_crc, simple_batch, varint
from reports import verify_partition

import kafkafmt
from kafkafmt.constants import NO_END
from kafkafmt.log import DamagedLogError, PartitionLog, discover
from kafkafmt.log.damage import segment_tables
from kafkafmt.log.damage.plan import ReadLimits
from kafkafmt.log.reading import OffsetInterval

PER_BATCH = 5


def five_records(base: int, n: int = PER_BATCH, size: int = 40, **fields: Any) -> bytes:
    records = [record(i, value=b"%d:" % (base + i) + random.Random(base + i).randbytes(size)) for i in range(n)]
    return batch(records, base_offset=base, last_offset_delta=n - 1, **fields)


def ten_batches(**fields: Any) -> list[bytes]:
    return [five_records(i * PER_BATCH, **fields) for i in range(10)]


def write(folder: Path, *segments: tuple[int, bytes], name: str = "t-0") -> PartitionLog:
    path = folder / name
    path.mkdir(exist_ok=True)
    for base, data in segments:
        (path / f"{base:020}.log").write_bytes(data)
    return PartitionLog(discover([path]).partitions[0])


def offsets(log: PartitionLog) -> list[int]:
    """Check that each delivered record has the offset at which it was written, and return the offsets."""
    found = []
    for r in log.records(on_damage=lambda _: None):
        assert r.value is not None
        assert r.value.startswith(b"%d:" % r.offset)
        found.append(r.offset)
    return found


def spans(log: PartitionLog) -> list[tuple[Any, ...]]:
    return [(d["position"], d["length"], d["first_offset"], d["last_offset"]) for d in verify_partition(log)["damaged"]]


def findings(log: PartitionLog) -> list[str]:
    return [f["error"] for f in verify_partition(log)["findings"]]


def without(*batches: int) -> list[int]:
    return [o for o in range(50) if o // PER_BATCH not in batches]


def place_of(parts: list[bytes], i: int) -> tuple[int, int]:
    """Return the position and the length of part number i."""
    return sum(map(len, parts[:i])), len(parts[i])


def test_valid_log_has_neither_damage_nor_findings(tmp_path: Path) -> None:
    log = write(tmp_path, (0, b"".join(ten_batches())))
    report = verify_partition(log)
    assert (report["damaged"], report["findings"]) == ([], [])
    assert report["records"] == report["records_recovered"] == 50
    assert report["next_offset"] == 50
    assert report["batches"] == 10


def test_lower_of_two_contradicting_last_batches_is_delivered(tmp_path: Path) -> None:
    """The log has gaps, so neither batch starts at the offset after the previous batch.

    If corruption decreases a base offset, the offset is usually below the gap.
    """
    raised = mutate(five_records(20), 2, b"\1")
    log = write(tmp_path, (0, five_records(0) + five_records(10) + raised + five_records(30)))
    assert offsets(log) == [*range(5), *range(10, 15), *range(30, 35)]
    assert [s[2:] for s in spans(log)] == [(15, 29)]


FIELDS = [(0, 8), (8, 4), (16, 1), (17, 4), (21, 2), (23, 4), (27, 8), (35, 8), (43, 8), (57, 4), (61, 9), (200, 1)]


@pytest.mark.parametrize("field", FIELDS, ids=str)
@pytest.mark.parametrize("victim", [0, 4, 9])
def test_flipped_bit_damages_at_most_one_batch(tmp_path: Path, field: tuple[int, int], victim: int) -> None:
    """The corrupted batch is damage, or an unfinished tail if it is the last batch.

    Two cases are not tested. Any leader epoch is valid. If the base offset of the last batch is
    increased, it looks like a gap after compaction.
    """
    start, size = field
    for bit in range(size * 8):
        parts = ten_batches()
        at = start + bit // 8
        if victim == 9 and start == 0 and not parts[victim][at] & 1 << bit % 8:
            continue
        parts[victim] = mutate(parts[victim], at, bytes([parts[victim][at] ^ 1 << bit % 8]))
        log = write(tmp_path, (0, b"".join(parts)))
        assert offsets(log) == without(victim), (field, bit)
        first, last = victim * PER_BATCH, victim * PER_BATCH + PER_BATCH - 1
        if findings(log) != ["unfinished_tail"]:
            assert spans(log) == [(*place_of(parts, victim), first, None if victim == 9 else last)], (field, bit)


def test_changed_leader_epoch_is_not_damage(tmp_path: Path) -> None:
    parts = ten_batches()
    parts[3] = mutate(parts[3], 12, b"\x7f\xff\xff\xff")
    assert offsets(write(tmp_path, (0, b"".join(parts)))) == without()


@pytest.mark.parametrize("length", [0, -1, -(2**31), 1, 13, 48, 2**31 - 1, 100, 5000])
@pytest.mark.parametrize("victim", [0, 5])
def test_corrupted_length_damages_one_batch(tmp_path: Path, length: int, victim: int) -> None:
    """The CRC of the batch shows where it ends. Its header contains the number of records."""
    parts = ten_batches()
    parts[victim] = mutate(parts[victim], 8, length.to_bytes(4, "big", signed=True))
    log = write(tmp_path, (0, b"".join(parts)))
    assert offsets(log) == without(victim)
    report = verify_partition(log)
    assert spans(log) == [(*place_of(parts, victim), victim * 5, victim * 5 + 4)]
    assert report["records"] == 50
    assert report["records_recovered"] == 45


def test_crc_shows_the_end_if_a_wrong_length_ends_at_a_header(tmp_path: Path) -> None:
    """According to the corrupted length, the batch ends at the start of a later batch."""
    parts = ten_batches()
    reach = sum(map(len, parts[3:6])) - 12
    parts[3] = mutate(parts[3], 8, reach.to_bytes(4, "big"))
    log = write(tmp_path, (0, b"".join(parts)))
    assert offsets(log) == without(3)
    assert spans(log) == [(*place_of(parts, 3), 15, 19)]


@pytest.mark.parametrize("junk", [b"\0" * 700, bytes(range(256)) * 3, b"\x02" * 300, b"x"])
def test_batches_around_garbage_are_delivered(tmp_path: Path, junk: bytes) -> None:
    parts = ten_batches()
    log = write(tmp_path, (0, b"".join([*parts[:4], junk, *parts[4:]])))
    assert offsets(log) == without()
    assert spans(log) == [(place_of(parts, 4)[0], len(junk), 20, 19)]
    assert verify_partition(log)["records"] == 50


def test_zeroed_page_damages_the_batches_it_covers(tmp_path: Path) -> None:
    parts = ten_batches()
    data = bytearray(b"".join(parts))
    start, size = place_of(parts, 4)[0] + 30, len(parts[4]) + 60
    data[start : start + size] = bytes(size)
    log = write(tmp_path, (0, bytes(data)))
    assert offsets(log) == without(4, 5)
    assert [(s[2], s[3]) for s in spans(log)] in ([(20, 29)], [(20, 29), (20, 29)])
    assert verify_partition(log)["records"] is None


def test_two_damaged_batches_in_a_segment_are_separate_spans(tmp_path: Path) -> None:
    parts = ten_batches()
    parts[2] = mutate(parts[2], 100, b"\xff\xfe")
    parts[7] = mutate(parts[7], 8, b"\x7f\xff\xff\xff")
    log = write(tmp_path, (0, b"".join(parts)))
    assert offsets(log) == without(2, 7)
    assert [(s[2], s[3]) for s in spans(log)] == [(10, 14), (35, 39)]


def test_batch_without_its_last_bytes_is_one_damaged_span(tmp_path: Path) -> None:
    """The last bytes of a batch are missing, and the next batch follows immediately."""
    parts = ten_batches()
    parts[3] = parts[3][:-30]
    log = write(tmp_path, (0, b"".join(parts)))
    assert offsets(log) == without(3)
    assert spans(log) == [(*place_of(parts, 3), 15, 19)]


@pytest.mark.parametrize("base", [0, 20, 1000])
@pytest.mark.parametrize("n", [1, 3])
def test_batches_in_values_of_a_damaged_batch_are_not_delivered(tmp_path: Path, base: int, n: int) -> None:
    """The values in a damaged batch are valid batches, and some have fitting offsets.

    None of them is delivered.
    """
    inner = b"".join(five_records(base + i, n=1) for i in range(n))
    for position in (8, 17, 25, 70):
        for victim in (0, 4, 9):
            parts = ten_batches()
            parts[victim] = batch(
                [record(i, value=inner) for i in range(5)], base_offset=victim * 5, last_offset_delta=4
            )
            parts[victim] = mutate(parts[victim], position, bytes([parts[victim][position] ^ 0x10]))
            assert offsets(write(tmp_path, (0, b"".join(parts)))) == without(victim), (position, victim)


@pytest.mark.parametrize("batches", [1, 2, 3])
def test_batch_after_garbage_that_looks_like_a_value_is_delivered(tmp_path: Path, batches: int) -> None:
    """A value is followed by the rest of its record.

    Therefore, a batch that another batch follows is not part of a value.
    """
    parts = ten_batches()
    parts[3] = random.Random(5).randbytes(100) + varint(sum(len(part) for part in parts[4 : 4 + batches]))
    assert offsets(write(tmp_path, (0, b"".join(parts)))) == without(3)


@pytest.mark.parametrize("cut", [1, 7, 8, 9, 11, 12, 16, 17, 22, 40, 60, 61, 62, 150])
def test_truncated_last_batch_is_an_unfinished_tail(tmp_path: Path, cut: int) -> None:
    parts = ten_batches()
    log = write(tmp_path, (0, b"".join(parts[:9]) + parts[9][:cut]))
    assert offsets(log) == without(9)
    assert (spans(log), findings(log)) == ([], ["unfinished_tail"])
    assert log.next_offset == 45


def test_damage_before_valid_messages_is_not_an_unfinished_tail(tmp_path: Path) -> None:
    """The messages of format 1 are not delivered, because their offsets may be relative."""
    parts = [message(1, None, b"value" * 20, offset=51 + i) for i in range(4)]
    parts[0] = mutate(mutate(parts[0], 8, b"\x00\x00\x10\x00"), 40, b"\xff")
    parts[1] = b"\xff" * len(parts[1]) * 2
    log = write(tmp_path, (50, b"".join(parts)))
    assert (offsets(log), findings(log)) == ([], [])
    assert [(s[2], s[3]) for s in spans(log)] == [(50, None)]


@pytest.mark.parametrize(("gap", "tail"), [(2**31 - 1, True), (2**31, False)])
def test_unfinished_tail_has_an_offset_that_is_possible_in_the_segment(tmp_path: Path, gap: int, tail: bool) -> None:
    """Garbage can look like a header with a high offset. It must not hide that the rest of the file is lost."""
    parts = ten_batches()
    last = message(0, None, b"value", offset=50 + gap)
    log = write(tmp_path, (0, b"".join(parts) + last[:-2]))
    assert (offsets(log), findings(log)) == (without(), ["unfinished_tail"] if tail else [])


def test_truncated_batch_in_an_older_segment_is_damage(tmp_path: Path) -> None:
    parts = ten_batches()
    log = write(tmp_path, (0, b"".join(parts[:5])[:-9]), (25, b"".join(parts[5:])))
    assert offsets(log) == without(4)
    assert [(s[2], s[3]) for s in spans(log)] == [(20, 24)]
    assert findings(log) == []


def test_truncated_last_batch_with_an_earlier_offset_is_damage(tmp_path: Path) -> None:
    parts = ten_batches()
    log = write(tmp_path, (0, b"".join(parts[:9]) + parts[2][:80]))
    assert offsets(log) == without(9)
    assert [(s[2], s[3]) for s in spans(log)] == [(45, None)]


def test_truncated_last_batch_of_unknown_magic_is_damage(tmp_path: Path) -> None:
    parts = ten_batches()
    log = write(tmp_path, (0, b"".join(parts[:9]) + mutate(parts[9], 16, b"\x05")[:80]))
    assert len(spans(log)) == 1


def test_last_batches_with_a_wrong_length_before_garbage_are_damage(tmp_path: Path) -> None:
    """The length extends beyond the end of the file, but a valid batch with the next offset shows that it is wrong."""
    parts = ten_batches()
    parts[8] = mutate(mutate(parts[8], 8, b"\x00\x10"), 100, b"\xff")
    log = write(tmp_path, (0, b"".join(parts) + random.Random(1).randbytes(200)))
    assert offsets(log) == without(8, 9)
    assert [(s[0], s[2], s[3]) for s in spans(log)] == [(sum(map(len, parts[:8])), 40, None)]
    assert findings(log) == []


@pytest.mark.parametrize("n", [1, 5, 17, 300, 5000])
def test_zeros_to_the_end_are_an_unfinished_tail(tmp_path: Path, n: int) -> None:
    log = write(tmp_path, (0, b"".join(ten_batches()) + bytes(n)))
    assert offsets(log) == without()
    assert (spans(log), findings(log)) == ([], ["unfinished_tail"])


def test_zeros_followed_by_another_byte_are_damage(tmp_path: Path) -> None:
    log = write(tmp_path, (0, b"".join(ten_batches()) + bytes(300) + b"\1"))
    assert offsets(log) == without()
    assert [(s[2], s[3]) for s in spans(log)] == [(50, None)]
    assert findings(log) == []


@pytest.mark.parametrize(("zeros", "tail"), [(8, True), (7, False), (100, True)])
def test_last_batch_that_ends_in_zeros_is_a_tail_if_they_are_enough(tmp_path: Path, zeros: int, tail: bool) -> None:
    parts = ten_batches()
    last = parts[9][:-zeros]
    last = last[:-1] + b"\1" if last.endswith(b"\0") else last
    log = write(tmp_path, (0, b"".join(parts[:9]) + last + bytes(zeros)))
    assert offsets(log) == without(9)
    assert (findings(log) == ["unfinished_tail"]) is tail
    assert (spans(log) == []) is tail


def test_unfinished_tail_occurs_only_at_the_end(tmp_path: Path) -> None:
    """A valid batch follows the zeros, so the zeros are a hole in the file."""
    parts = ten_batches()
    log = write(tmp_path, (0, b"".join(parts[:9]) + bytes(300) + parts[9]))
    assert offsets(log) == without()
    assert [(s[2], s[3]) for s in spans(log)] == [(45, 44)]


def test_damaged_last_batch_before_preallocated_zeros_is_skipped(tmp_path: Path) -> None:
    """The damage ends where the length field indicates, and an unfinished tail follows."""
    parts = ten_batches()
    parts[9] = mutate(parts[9], 100, b"\xff")
    log = write(tmp_path, (0, b"".join(parts) + bytes(1000)))
    assert offsets(log) == without(9)


@pytest.mark.parametrize("base", [10**15, 2**62, 2**63 - 1, 2**63 - 3, -1, -(2**63), 12, 0, 17, 22, 999])
@pytest.mark.parametrize("victim", [3, 5])
def test_batch_whose_offset_fits_neither_neighbour_is_damage(tmp_path: Path, base: int, victim: int) -> None:
    parts = ten_batches()
    parts[victim] = mutate(parts[victim], 0, base.to_bytes(8, "big", signed=True))
    log = write(tmp_path, (0, b"".join(parts)))
    assert offsets(log) == without(victim)
    assert spans(log) == [(*place_of(parts, victim), victim * 5, victim * 5 + 4)]
    assert verify_partition(log)["records"] == 50


@pytest.mark.parametrize("base", [2**31 + 50, 10**15, 2**62])
@pytest.mark.parametrize("cleaned", [False, True])
@pytest.mark.parametrize("first", [0, 7])
def test_last_batch_whose_offset_is_in_no_segment_is_damage(
    tmp_path: Path, base: int, cleaned: bool, first: int
) -> None:
    parts = ten_batches()
    parts[9] = mutate(parts[9], 0, base.to_bytes(8, "big"))
    if cleaned:
        (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 50\n")
    write(tmp_path, (5 * first, b"".join(parts[first:])))
    log = PartitionLog(discover([tmp_path]).partitions[0])
    assert log.directory.cleaned == cleaned
    expected = list(range(5 * first, 45))
    assert offsets(log) == expected
    assert spans(log) == [(*place_of(parts[first:], 9 - first), 45, None)]
    for start, end in ((44, base), (base, base + 1), (40, None), (0, base + 5)):
        interval = OffsetInterval(start, NO_END if end is None else end)
        read = PartitionLog(log.directory).records(interval, on_damage=lambda _: None)
        assert [r.offset for r in read] == [o for o in expected if o >= start]


@pytest.mark.parametrize("base", [10**15, 12, 2**62 + 5])
def test_middle_of_three_batches_with_a_wrong_offset_is_damage(tmp_path: Path, base: int) -> None:
    """One of three batches has a wrong offset. It is the only one that fits the gap between the others."""
    parts = ten_batches()[:3]
    parts[1] = mutate(parts[1], 0, base.to_bytes(8, "big"))
    log = write(tmp_path, (0, b"".join(parts)))
    assert offsets(log) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]


def test_batch_out_of_place_is_damage_of_its_own_offsets(tmp_path: Path) -> None:
    parts = ten_batches()
    moved = [*parts[:3], *parts[4:8], parts[3], *parts[8:]]
    log = write(tmp_path, (0, b"".join(moved)))
    assert offsets(log) == without(3)
    assert spans(log) == [(sum(map(len, moved[:7])), len(parts[3]), 15, 19)]
    assert verify_partition(log)["records"] == 50


def test_one_of_two_swapped_batches_is_damage(tmp_path: Path) -> None:
    parts = ten_batches()
    parts[4], parts[5] = parts[5], parts[4]
    log = write(tmp_path, (0, b"".join(parts)))
    assert offsets(log) == without(4)
    assert spans(log) == [(sum(map(len, parts[:5])), len(parts[5]), 20, 24)]


@pytest.mark.parametrize("n", [1, 3])
def test_batches_repeated_byte_for_byte_are_delivered_once(tmp_path: Path, n: int) -> None:
    parts = ten_batches()
    log = write(tmp_path, (0, b"".join([*parts[: 3 + n], *parts[3 : 3 + n], *parts[3 + n :]])))
    assert offsets(log) == without()
    assert spans(log) == []
    assert findings(log) == ["duplicate_batch"]


def test_repeated_batch_with_other_content_is_damage(tmp_path: Path) -> None:
    parts = ten_batches()
    other = repair_crc(mutate(parts[3], len(parts[3]) - 3, b"?"))
    log = write(tmp_path, (0, b"".join([*parts[:6], other, *parts[6:]])))
    assert offsets(log) == without()
    assert [(s[2], s[3]) for s in spans(log)] == [(30, 29)]


def wrapper(first: int, n: int = 4) -> bytes:
    """Return a wrapper message of format 1 that contains the messages unchanged, with offsets from 0."""
    values = [b"%d:" % (first + i) + random.Random(i).randbytes(50) for i in range(n)]
    inner = b"".join(message(1, None, value, offset=i) for i, value in enumerate(values))
    size = len(inner)
    snappy = bytes([size & 0x7F | 0x80, size >> 7, 61 << 2]) + (size - 1).to_bytes(2, "little") + inner  # one literal
    return message(1, None, snappy, offset=first + n - 1, attributes=2)


def test_valid_wrapper_between_corrupted_ones_is_delivered_as_a_wrapper(tmp_path: Path) -> None:
    parts = [wrapper(i * 4) for i in range(3)]
    assert offsets(write(tmp_path, (0, b"".join(parts)))) == list(range(12))
    headless = [p[:8] + bytes(len(p) - 8) for p in parts]
    log = write(tmp_path, (0, headless[0] + parts[1] + headless[2]))
    assert offsets(log) == [4, 5, 6, 7]


def test_plain_message_between_corrupted_ones_is_delivered(tmp_path: Path) -> None:
    parts = [message(1, b"key", b"%d:" % i + b"x" * 50, offset=i) for i in range(8)]
    parts[4], parts[6] = parts[4][:8] + bytes(len(parts[4]) - 8), mutate(parts[6], 16, b"\x07")
    assert offsets(write(tmp_path, (0, b"".join(parts[:7])), (8, message(1, None, b"8:", offset=8)))) == [
        0,
        1,
        2,
        3,
        5,
        8,
    ]


def test_gaps_inside_a_segment_are_findings(tmp_path: Path) -> None:
    parts = ten_batches()
    log = write(tmp_path, (0, b"".join([parts[0], parts[3], parts[9]])))
    assert offsets(log) == [*range(5), *range(15, 20), *range(45, 50)]
    assert (spans(log), findings(log)) == ([], ["offset_gap"] * 2)


def test_missing_segment_is_damage(tmp_path: Path) -> None:
    parts = ten_batches()
    log = write(tmp_path, (0, b"".join(parts[:3])), (30, b"".join(parts[6:])))
    assert (spans(log), findings(log)) == ([(0, 0, 15, 29)], [])


def with_exchanged_batches(folder: Path, base: int) -> PartitionLog:
    """Exchange batches 2 and 3, and corrupt the misplaced batch 2. No damage is before batch 3."""
    parts = ten_batches()
    corrupted = mutate(parts[2], len(parts[2]) - 1, b"!")
    second = b"".join([parts[3], corrupted, *parts[4:]])
    return write(folder, *([(0, b"".join(parts[:2]))] if base else []), (base, second))


def test_missing_offsets_before_the_first_batch_of_a_damaged_log_are_lost(tmp_path: Path) -> None:
    log = with_exchanged_batches(tmp_path, 0)
    report = verify_partition(log)
    assert [(d["error"], d["first_offset"], d["last_offset"]) for d in report["damaged"]] == [
        ("missing_segment", 0, 14),
        ("corrupt_checksum", 20, 19),
    ]
    assert not report["findings"]


def test_batches_that_belong_to_the_next_segment_are_damage(tmp_path: Path) -> None:
    parts = ten_batches()
    log = write(tmp_path, (0, b"".join([*parts[:3], five_records(900)])), (15, b"".join(parts[3:])))
    assert offsets(log) == without()
    assert [(s[2], s[3]) for s in spans(log)] == [(15, 14)]


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_compressed_batch_that_does_not_decompress_is_damage(tmp_path: Path, codec: int) -> None:
    parts = ten_batches(codec=codec)
    parts[6] = repair_crc(mutate(parts[6], 61, b"\xff" * 20))
    log = write(tmp_path, (0, b"".join(parts)))
    assert offsets(log) == without(6)
    report = verify_partition(log)
    assert spans(log) == [(*place_of(parts, 6), 30, 34)]
    assert report["damaged"][0]["error"] == "corrupt_structure"
    assert (report["records"], report["records_recovered"]) == (50, 45)


def test_batch_that_decompresses_past_the_limit_is_damage(tmp_path: Path) -> None:
    parts = ten_batches()
    raw = record(0, value=bytes(5 << 20))
    parts[2] = batch([], base_offset=10, last_offset_delta=4, count=5, codec=4, payload=raw)
    path = tmp_path / "t-0"
    write(tmp_path, (0, b"".join(parts)))
    log = PartitionLog(discover([path]).partitions[0], ReadLimits(1 << 20))
    assert offsets(log) == without(2)
    assert verify_partition(log)["damaged"][0]["error"] == "too_large"


def test_batch_of_an_unknown_codec_is_damage(tmp_path: Path) -> None:
    parts = ten_batches()
    parts[2] = repair_crc(mutate(parts[2], 21, b"\0\7"))
    log = write(tmp_path, (0, b"".join(parts)))
    assert offsets(log) == without(2)
    assert verify_partition(log)["damaged"][0]["error"] == "unsupported"


def test_fail_mode_delivers_the_records_before_the_damage(tmp_path: Path) -> None:
    batch_6 = ten_batches()[6]
    for corrupted_batch in (mutate(batch_6, 100, b"\xff\xff"), repair_crc(mutate(batch_6, 61, b"\xff\xff\xff"))):
        parts = ten_batches()
        parts[6] = corrupted_batch
        log = write(tmp_path, (0, b"".join(parts)))
        found: list[int] = []
        with pytest.raises(DamagedLogError, match="offsets 30 to 34") as caught:
            found.extend(r.offset for r in log.records())
        assert found == list(range(30))
        assert caught.value.position == place_of(parts, 6)[0]
        assert caught.value.resume == sum(place_of(parts, 6))


def test_offsets_of_a_span_come_from_its_neighbours(tmp_path: Path) -> None:
    """The log is compacted.

    Therefore, the damage covers all offsets between its neighbours, whatever its header contains.
    """
    parts = [five_records(0), mutate(five_records(100), 90, b"\xff\xff"), five_records(1000)]
    log = write(tmp_path, (0, b"".join(parts)))
    assert [(s[2], s[3]) for s in spans(log)] == [(5, 999)]


def test_random_damage_affects_no_confirmed_batch(tmp_path: Path) -> None:
    """After two kinds of random damage, exactly the undamaged batches are delivered.

    A batch between two damaged batches is damage if the offset after it is destroyed. It could be
    part of a record value.
    """
    rng = random.Random(20261121)
    for round_ in range(400):
        codec = rng.choice([0, 0, 1, 2, 3, 4])
        parts = [five_records(i * PER_BATCH, size=rng.choice([0, 10, 300]), codec=codec) for i in range(10)]
        touched = set(rng.sample(range(9), 2))
        for i in touched:
            kind = rng.randrange(5)
            if kind == 0:
                at = rng.randrange(61, len(parts[i]))
                parts[i] = mutate(parts[i], at, bytes([parts[i][at] ^ 1 << rng.randrange(8)]))
            elif kind == 1:
                parts[i] = mutate(parts[i], 8, rng.randbytes(4))
            elif kind == 2:
                parts[i] = mutate(parts[i], 16, bytes([rng.choice([3, 9, 255])]))
            elif kind == 3:
                # Zeros at the end of this batch can be replaced by zeros at the start of the next
                # batch.
                parts[i] = parts[i][: rng.randrange(1, len(parts[i].rstrip(b"\0")))]
            else:
                parts[i] = rng.randbytes(len(parts[i]))
        log = write(tmp_path, (0, b"".join(parts)))
        unconfirmed = {
            i + 1 for i in touched if i + 2 in touched and parts[i + 2][:8] != (i * 5 + 10).to_bytes(8, "big")
        }
        found = offsets(log)
        assert set(without(*touched, *unconfirmed)) <= set(found), (round_, touched)
        assert set(found) <= set(without(*touched)), (round_, touched)
        lost = {o for s in spans(log) for o in range(s[2], (s[3] if s[3] is not None else 49) + 1)}
        assert lost >= set(range(50)) - set(found)


@pytest.mark.parametrize("before_end", [0, 17, 30, 60, 61, 1000])
def test_batch_larger_than_the_read_buffer_is_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before_end: int
) -> None:
    """The header of a batch can be near the end of the buffer, and a new buffer has random content."""
    monkeypatch.setattr(segment_tables, "BUFFER_BYTES", 1 << 14)
    monkeypatch.setattr(segment_tables, "aligned_buffer", lambda size: np.full(size, 0xFF, np.uint8))
    fits = five_records(0, 1, (1 << 14) - before_end - len(five_records(0, 1, 9_000)) + 9_000) if before_end else b""
    base = 1 if before_end else 0
    assert len(fits) == ((1 << 14) - before_end if before_end else 0)
    log = write(tmp_path, (0, fits + five_records(base, 1, 40_000) + five_records(base + 1, 1)))
    assert spans(log) == []
    assert findings(log) == []
    assert offsets(log) == list(range(base + 2))


@pytest.mark.parametrize("damaged", [[2], [2, 5, 8, 11, 14, 17]])
def test_reader_that_stops_early_gets_the_damage_between_its_records(tmp_path: Path, damaged: list[int]) -> None:
    """The ranges of valid batches are read together."""
    parts = [simple_batch([b"value"], i) for i in range(20)]
    for i in damaged:
        parts[i] = parts[i][:-1] + b"?"
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"".join(parts))
    partition = kafkafmt.open(tmp_path)["t", 0]
    assert [r.offset for r in partition.records(on_error="skip", limit=4)] == [0, 1, 3, 4]
    assert [d.first_offset for d in partition.damaged][:1] == [2]
    records = partition.records(on_error="skip")
    assert [next(records).offset for _ in range(4)] == [0, 1, 3, 4]
    assert [d.first_offset for d in partition.damaged][:1] == [2]
