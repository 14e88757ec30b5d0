"""Test reading in one pass. The results equal those of plans, and each byte is read once."""

from __future__ import annotations

import itertools
import struct
from pathlib import Path
from random import Random

import pytest
from building import SNAPPY, batch, compress, message, mutate, simple_batch
from fuzz import directories

from kafkafmt import iter_batches
from kafkafmt.constants import NO_END
from kafkafmt.log import Damage, DamagedLogError, PartitionDir, PartitionLog, discover
from kafkafmt.log.damage.plan import ReadLimits
from kafkafmt.log.reading import OffsetInterval, single_pass
from kafkafmt.log.scanning.index_ranges import Border, Share, border_near, divide, share_of, whole_segment

Delivered = tuple[list[tuple[int, bytes | None, bytes | None]], list[Damage], str]


def read(
    directory: PartitionDir, planned: bool, fail: bool = False, start: int | None = None, end: int | None = None
) -> tuple[Delivered, PartitionLog]:
    """Return the records and the damage of a partition, and its PartitionLog.

    The damage is sorted by position, because the order in which damage is reported depends on `planned`. A
    plan does not list batches that cannot be decoded as damage. They are reported later than the damage in
    the plan.
    """
    log = PartitionLog(directory)
    if planned:
        for segment in log.segments:
            log.plan(segment)
    damaged: list[Damage] = []
    records: list[tuple[int, bytes | None, bytes | None]] = []
    error = ""
    try:
        interval = OffsetInterval(start or 0, NO_END if end is None else end)
        for record in log.records(interval, on_damage=None if fail else damaged.append):
            records.append((record.offset, record.key, record.value))
    except DamagedLogError as raised:
        error = str(raised)
    damaged.sort(key=lambda damage: (damage.file, damage.position))
    return (records, damaged, error), log


def numbered(count: int, first: int = 0) -> list[bytes]:
    """Return batches of one record each. The first offset is `first`."""
    return [simple_batch([b"value %d" % i], i) for i in range(first, first + count)]


def write_segment(
    folder: Path, batches: list[bytes], base: int = 0, entries: bool = True, indexed: list[bytes] | None = None
) -> list[tuple[int, int]]:
    """Write a segment with an index entry for each batch except the first, and return the entries.

    If `indexed` is given, the index describes these batches instead.
    """
    folder.mkdir(exist_ok=True)
    name = folder / f"{base:020}"
    name.with_suffix(".log").write_bytes(b"".join(batches))
    found, position = [], 0
    for raw in indexed or batches:
        if position:
            found.append((int.from_bytes(raw[:8], "big") - base, position))
        position += len(raw)
    if entries:
        name.with_suffix(".index").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in found))
    return found


def only(folder: Path) -> PartitionDir:
    """Return the only partition of a directory."""
    (directory,) = discover([folder]).partitions
    return directory


def mutated_partitions(folder: Path, seed: int) -> list[PartitionDir]:
    """Write a random log directory, and return its partitions."""
    for name, data in directories.mutated(Random(seed)).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    try:
        return discover([folder]).partitions
    except OSError:
        return []


@pytest.fixture(params=[100, 400, 4 << 20])
def range_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Set the size of a range, between one batch and the whole segment, and return it."""
    monkeypatch.setattr(single_pass, "RANGE_BYTES", request.param)
    return int(request.param)


@pytest.mark.parametrize("seed", range(0, 240, 3))
def test_mutated_directories_are_read_as_with_plans(tmp_path: Path, range_bytes: int, seed: int) -> None:
    for directory in mutated_partitions(tmp_path, seed):
        for fail in (False, True):
            assert read(directory, planned=False, fail=fail)[0] == read(directory, planned=True, fail=fail)[0]


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: [*b[:20], mutate(b[20], len(b[20]) - 1, b"\xff"), *b[21:]],
        lambda b: [*b[:20], mutate(b[20], 8, struct.pack(">i", 7)), *b[21:]],
        lambda b: [*b[:20], struct.pack(">q", 500) + b[20][8:], *b[21:]],
        lambda b: [*b[:20], struct.pack(">q", 2) + b[20][8:], *b[21:]],
        lambda b: [*b[:20], *b[21:]],
        lambda b: [*b[:20], b[20], b[20], *b[21:]],
        lambda b: [*b[:20], b[21], b[20], *b[22:]],
        lambda b: [*b[:20], bytes(300), *b[21:]],
        lambda b: [*b, b[0][:30]],
        lambda b: [*b, bytes(4096)],
        lambda b: b[7:],
    ],
)
def test_damaged_segment_is_read_as_with_a_plan(tmp_path: Path, range_bytes: int, damage: object) -> None:
    assert callable(damage)
    write_segment(tmp_path / "t-0", damage(numbered(40)), indexed=numbered(40))
    directory = only(tmp_path / "t-0")
    for fail in (False, True):
        for start, end in ((None, None), (19, 22), (20, None), (None, 21), (30, 35)):
            one_pass = read(directory, planned=False, fail=fail, start=start, end=end)[0]
            if start is None and end is None:
                assert one_pass == read(directory, planned=True, fail=fail)[0]
            wanted = [r for r in read(directory, planned=True)[0][0] if (start or 0) <= r[0] < (end or 99)]
            assert [r for r in one_pass[0] if not fail] == [r for r in wanted if not fail]


@pytest.mark.parametrize("source", [17, 18, 21])
@pytest.mark.parametrize("target", [2, 20, 22, 26, 39])
def test_batch_that_is_out_of_place_is_read_as_with_a_plan(
    tmp_path: Path, range_bytes: int, source: int, target: int
) -> None:
    """As in old Kafka versions, an index entry contains the position and the last offset of a group of four batches."""
    batches = numbered(40)
    batches.insert(target, batches.pop(source))
    write_segment(tmp_path / "t-0", batches)
    size = len(batches[0])
    entries = [(first + 3, sum(map(len, numbered(first)))) for first in range(4, 40, 4)]
    assert entries[0][1] == 4 * size
    (tmp_path / "t-0" / f"{0:020}.index").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
    found, _ = read(only(tmp_path / "t-0"), planned=False)
    lost = target if (source, target) == (21, 20) else source
    assert [offset for offset, *_ in found[0]] == [o for o in range(40) if o != lost]
    assert found == read(only(tmp_path / "t-0"), planned=True)[0]


def test_batch_that_is_out_of_place_in_a_compacted_log_is_damage(tmp_path: Path, range_bytes: int) -> None:
    """Missing offsets are normal, so the ranges before the batch have been delivered when it is found."""
    batches = numbered(40)
    batches.insert(30, batches.pop(10))
    write_segment(tmp_path / "t-0", batches)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 40\n")
    (found, damaged, _), _ = read(discover([tmp_path]).partitions[0], planned=False)
    lost = [o for d in damaged for o in range(d.first_offset or 0, (d.last_offset or 0) + 1)]
    assert sorted([offset for offset, *_ in found] + lost) == list(range(40))


@pytest.mark.parametrize(("source", "target", "count"), [(36, 10, 3), (10, 30, 1), (12, 13, 1), (39, 0, 1)])
def test_range_of_a_compacted_log_contains_batches_that_are_out_of_place(
    tmp_path: Path, source: int, target: int, count: int
) -> None:
    """The index describes the file before batches were moved, and contradicts them."""
    batches = [simple_batch([b"value %d" % i * (i % 7 + 1)], 2 * i) for i in range(40)]
    moved = batches[:source] + batches[source + count :]
    moved[target:target] = batches[source : source + count]
    write_segment(tmp_path / "t-0", moved, indexed=batches)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 80\n")
    directory = discover([tmp_path]).partitions[0]
    whole = read(directory, planned=True)[0][0]
    for start, end in itertools.product(range(0, 80, 7), range(7, 86, 7)):
        (found, _, _), _ = read(directory, planned=False, start=start, end=end)
        assert found == [r for r in whole if start <= r[0] < end]


def test_last_batch_with_a_lowered_offset_is_damage_of_the_offsets_after_the_index(tmp_path: Path) -> None:
    batches = numbered(40)
    write_segment(tmp_path / "t-0", [*batches[:39], struct.pack(">q", 0) + batches[39][8:]], indexed=batches)
    for start in (39, 40, 100):
        (found, damaged, _), log = read(only(tmp_path / "t-0"), planned=False, start=start)
        assert (found, [(d.first_offset, d.last_offset) for d in damaged]) == ([], [(39, None)])
        assert log.next_offset == 39


def thinned(first: int) -> bytes:
    """Return a batch with three offsets, of which compaction removed the second."""
    return batch([(0, 0, None, b"a", ()), (2, 2, None, b"c", ())], base_offset=first, last_offset_delta=2)


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize(
    "batches",
    [[simple_batch([b"value %d" % i], 3 * i) for i in range(60)], [thinned(3 * i + (i >= 6)) for i in range(60)]],
    ids=["many missing batches", "missing records"],
)
def test_copy_of_a_compacted_log_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: list[bytes], tasks: int
) -> None:
    """The log cleaner's checkpoint is missing, but the batches show that the log was compacted."""
    monkeypatch.setattr(single_pass, "RANGE_BYTES", 12 * len(batches[0]))
    lasts = [summary.last_offset.to_bytes(8, "big") + raw[8:] for raw in batches for summary in iter_batches(raw)]
    write_segment(tmp_path / "t-0", batches, indexed=lasts)
    (expected, _, _), _ = read(only(tmp_path / "t-0"), planned=True)
    segment = only(tmp_path / "t-0").segments[0]
    whole = whole_segment(segment, segment.size)
    cuts = [border_near(segment, i * segment.size // tasks) for i in range(1, tasks)]
    found: list[int] = []
    for start, end in itertools.pairwise([whole.start, *cuts, whole.end]):
        assert start is not None
        assert end is not None
        log = PartitionLog(only(tmp_path / "t-0"))
        log.restrict(log.segments[0], Share(start, end))
        found += [r.offset for r in log.records()]
        assert log.planned == 0
    assert found == [offset for offset, *_ in expected]


def read_in_tasks(folder: Path, cuts: list[int]) -> tuple[list[int], list[Damage]]:
    """Read a segment of `numbered` batches in tasks that begin near the batches `cuts`. Return offsets and damage."""
    offsets: list[int] = []
    damaged: list[Damage] = []
    size = len(numbered(1)[0])
    segment = only(folder).segments[0]
    whole = whole_segment(segment, segment.size)
    borders = [whole.start, *(border_near(segment, cut * size) for cut in cuts), whole.end]
    for start, end in itertools.pairwise(borders):
        assert start is not None
        assert end is not None
        log = PartitionLog(only(folder))
        log.restrict(log.segments[0], Share(start, end))
        offsets += [r.offset for r in log.records(on_damage=damaged.append)]
    return sorted(offsets), damaged


@pytest.mark.parametrize(("source", "target"), [(5, 35), (35, 5), (12, 30), (30, 12), (0, 39), (10, 29)])
@pytest.mark.parametrize("cuts", [[10], [30], [10, 20, 30], [11, 12]])
@pytest.mark.parametrize("copied", [False, True])
def test_tasks_report_batches_that_are_out_of_place(
    tmp_path: Path, cuts: list[int], source: int, target: int, copied: bool
) -> None:
    """A batch next to a border can be reported too, because the index contradicts it."""
    batches = numbered(40)
    moved = list(batches)
    moved.insert(target, batches[source] if copied else moved.pop(source))
    write_segment(tmp_path / "t-0", moved, indexed=batches)
    offsets, damaged = read_in_tasks(tmp_path / "t-0", cuts)
    reported = {o for d in damaged for o in range(d.first_offset or 0, (d.last_offset or 0) + 1)}
    assert sorted(set(offsets)) == offsets
    assert len(offsets) >= 39 - len(cuts)
    assert set(offsets) | reported >= set(range(40))


@pytest.mark.parametrize("run_bytes", [1, 200, 1 << 20])
def test_offsets_of_undecodable_batches_do_not_depend_on_the_ranges(
    tmp_path: Path, range_bytes: int, run_bytes: int
) -> None:
    """As in a compacted log, offsets are missing before each batch. They may be missing because of the damage."""
    batches = [simple_batch([b"value %d" % i], 3 * i) for i in range(40)]
    for i in (11, 20, 21, 30):
        batches[i] = mutate(batches[i], 61, b"\x7f", repair=True)  # the length of the record is wrong
    write_segment(tmp_path / "t-0", batches)
    damaged: list[Damage] = []
    log = PartitionLog(only(tmp_path / "t-0"), ReadLimits(run_bytes=run_bytes))
    for planned in (False, True):
        if planned:
            log.plan(log.segments[0])
        damaged.clear()
        list(log.records(on_damage=damaged.append))
        assert [(d.first_offset, d.last_offset) for d in damaged] == [(31, 35), (58, 62), (61, 65), (88, 92)]


def test_valid_segment_is_read_once_and_not_planned(tmp_path: Path, range_bytes: int) -> None:
    write_segment(tmp_path / "t-0", numbered(200))
    write_segment(tmp_path / "t-0", numbered(100, 200), 200)
    (records, damaged, _), log = read(only(tmp_path / "t-0"), planned=False)
    assert [offset for offset, _, _ in records] == list(range(300))
    assert (damaged, log.planned) == ([], 0)
    size = sum(s.size for s in log.segments)
    indexes = sum(s.path.with_suffix(".index").stat().st_size for s in log.segments)
    headers = 61 * (size // range_bytes * 2 + 2)
    assert size <= log.bytes_read <= size + indexes + headers


def test_few_bytes_are_read_for_a_range_of_offsets(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", numbered(20_000))
    (records, _, _), log = read(only(tmp_path / "t-0"), planned=False, start=15_000, end=15_010)
    assert [offset for offset, _, _ in records] == list(range(15_000, 15_010))
    assert log.bytes_read < 50_000


def test_segment_without_an_index_is_read_once(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", numbered(100), entries=False)
    (records, _, _), log = read(only(tmp_path / "t-0"), planned=False)
    assert len(records) == 100
    assert log.bytes_read == log.segments[0].size


@pytest.mark.parametrize("change", [(0, 5), (5, 0), (-1, 0), (1000, 0), (0, 1 << 20)])
def test_wrong_index_entry_does_not_change_the_result(
    tmp_path: Path, range_bytes: int, change: tuple[int, int]
) -> None:
    entries = write_segment(tmp_path / "t-0", numbered(50))
    entries[20] = entries[20][0] + change[0], entries[20][1] + change[1]
    index = tmp_path / "t-0" / f"{0:020}.index"
    index.write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
    (records, damaged, _), _ = read(only(tmp_path / "t-0"), planned=False)
    assert [offset for offset, _, _ in records] == list(range(50))
    assert damaged == []


def test_preallocated_index_ends_at_its_first_zeros(tmp_path: Path) -> None:
    entries = write_segment(tmp_path / "t-0", numbered(50))
    index = tmp_path / "t-0" / f"{0:020}.index"
    index.write_bytes(index.read_bytes() + bytes(8 * 5000))
    (segment,) = only(tmp_path / "t-0").segments
    assert border_near(segment, entries[30][1]) == Border(entries[30][1], entries[30][0])
    assert border_near(segment, entries[30][1] + 1) == Border(entries[31][1], entries[31][0])
    assert border_near(segment, entries[-1][1] + 1) is None


@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_tasks_that_share_a_segment_deliver_each_batch_once(tmp_path: Path, seed: int, fail: bool) -> None:
    """For any damage, tasks that share a segment together deliver what one reader delivers."""
    chance = Random(seed)
    batches, valid = numbered(60), numbered(60)
    for _ in range(chance.randrange(3)):
        i = chance.randrange(60)
        batches[i] = mutate(batches[i], chance.choice((3, 10, 20, 66)), b"\x07")
    entries = write_segment(tmp_path / "t-0", batches, indexed=valid)
    directory = only(tmp_path / "t-0")
    (segment,) = directory.segments
    whole = whole_segment(segment, segment.size)
    inner = [border_near(segment, position) for _, position in sorted(chance.sample(entries, 5))]
    borders = [whole.start, *inner, whole.end]
    expected, _ = read(directory, planned=True)
    records: list[tuple[int, bytes | None, bytes | None]] = []
    damaged: list[Damage] = []
    errors = []
    for start, end in itertools.pairwise(borders):
        assert start is not None
        assert end is not None
        log = PartitionLog(directory)
        log.restrict(segment, Share(start, end))
        try:
            found = list(log.records(on_damage=None if fail else damaged.append))
        except DamagedLogError as error:
            errors.append(str(error))
            continue
        records += [(r.offset, r.key, r.value) for r in found]
    if fail:
        assert len(errors) == len({d.position for d in expected[1]}) or bool(errors) == bool(expected[1])
    else:
        assert sorted(records) == sorted(expected[0])
        assert damaged == expected[1]


def in_shares(directory: PartitionDir, position: int, offset: int) -> list[int]:
    """Divide the only segment at an index entry, and return the offsets that two tasks deliver."""
    (segment,) = directory.segments
    whole, border = whole_segment(segment, segment.size), Border(position, offset)
    found = []
    for share in (Share(whole.start, border), Share(border, whole.end)):
        log = PartitionLog(directory)
        log.restrict(segment, share)
        found += [record.offset for record in log.records(on_damage=lambda _: None)]
    return found


def test_batch_that_is_repeated_at_a_border_is_delivered_once(tmp_path: Path) -> None:
    batches = numbered(20)
    copies = [*batches[:11], *batches[10:]]
    entries = write_segment(tmp_path / "t-0", copies)
    del entries[9]  # remove the entry for the first copy of batch 10
    (tmp_path / "t-0" / f"{0:020}.index").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
    offset, position = entries[9]
    assert offset == 10
    found = in_shares(only(tmp_path / "t-0"), position, offset)
    assert sorted(found) == [o for o in range(20) if o != 10 or 10 in found]


@pytest.mark.parametrize("shift", [-3, 3])
def test_batches_with_shifted_offsets_are_not_delivered_by_two_tasks(tmp_path: Path, shift: int) -> None:
    batches = numbered(40)
    wrong = [struct.pack(">q", i + shift) + batches[i][8:] if 10 <= i < 16 else batches[i] for i in range(40)]
    for offset, position in write_segment(tmp_path / "t-0", wrong, indexed=batches)[8:18]:
        found = in_shares(only(tmp_path / "t-0"), position, offset)
        assert len(found) == len(set(found))


def test_share_of_a_range_of_offsets(tmp_path: Path) -> None:
    entries = dict(write_segment(tmp_path / "t-0", numbered(100)))
    (segment,) = only(tmp_path / "t-0").segments
    found = share_of(segment, 40, 50)
    assert found.start == Border(entries[40], 40)
    assert found.end.position <= entries[52]
    assert share_of(segment) == whole_segment(segment, segment.size)


@pytest.mark.parametrize("wrong", [20, 22])
def test_range_of_offsets_is_complete_if_the_index_points_into_a_batch(
    tmp_path: Path, range_bytes: int, wrong: int
) -> None:
    """The value of a record contains a batch with the offset of the index entry, so its header is plausible."""
    batches = numbered(40)
    batches[wrong] = simple_batch([simple_batch([b"inner"], wrong)], wrong)
    entries = write_segment(tmp_path / "t-0", batches)
    inner = batches[wrong].index(simple_batch([b"inner"], wrong))
    entries[wrong - 1] = wrong, entries[wrong - 1][1] + inner
    (tmp_path / "t-0" / f"{0:020}.index").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
    directory = only(tmp_path / "t-0")
    (segment,) = directory.segments
    for start, end in ((20, 21), (20, 22), (20, 23), (19, 22), (21, 23), (22, 40)):
        log = PartitionLog(directory)
        log.restrict(segment, share_of(segment, start, end))
        assert [r.offset for r in log.records(OffsetInterval(start, end))] == list(range(start, end))


def test_border_with_a_negative_offset_is_not_used(tmp_path: Path) -> None:
    batches = numbered(40)
    batches[20] = simple_batch([simple_batch([b"inner"], -(2**60))], 20)
    entries = write_segment(tmp_path / "t-0", batches)
    entries[19] = 20, entries[19][1] + batches[20].index(simple_batch([b"inner"], -(2**60)))
    (tmp_path / "t-0" / f"{0:020}.index").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
    (segment,) = only(tmp_path / "t-0").segments
    assert share_of(segment, 20, 22).start.position == 0


def test_segment_is_not_divided_at_a_border_that_its_index_does_not_have(tmp_path: Path) -> None:
    from kafkafmt.log.storage.file_view import FileView

    entries = write_segment(tmp_path / "t-0", numbered(100))
    (segment,) = only(tmp_path / "t-0").segments
    offset, position = entries[50]
    end = whole_segment(segment, segment.size).end
    with FileView(segment.path) as view:
        assert divide(segment, view, Share(Border(position, offset), end)) is not None
        assert divide(segment, view, Share(Border(position + 1, offset), end)) is None
        assert divide(segment, view, Share(Border(position, offset + 1), end)) is None


def tables(
    directory: PartitionDir, headers_only: bool, start: int = 0, end: int = NO_END
) -> tuple[list[tuple[str, int, int, int, int]], list[Damage], PartitionLog]:
    """Return the file, position, offset, last offset delta and CRC of each batch, the damage, and the PartitionLog."""
    log, damaged = PartitionLog(directory), list[Damage]()
    found = [
        (part.plan.segment.name, part.position + position, *rest)
        for part in log.parts(start, end, damaged.append, headers_only=headers_only)
        for position, *rest in part.table[["position", "base_offset", "last_offset_delta", "crc"]].tolist()
    ]
    return found, damaged, log


@pytest.fixture(params=[(100, 50), (400, 100), (8 << 20, 150), (8 << 20, 1 << 20)])
def small_pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the sizes of a range and of a piece for reading headers only."""
    monkeypatch.setattr(single_pass, "HEADERS_RANGE_BYTES", request.param[0])
    monkeypatch.setattr(single_pass, "PIECE_BYTES", request.param[1])


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("seed", range(1, 120, 3))
def test_headers_of_mutated_directories_are_read_as_with_records(tmp_path: Path, seed: int) -> None:
    for directory in mutated_partitions(tmp_path, seed):
        assert tables(directory, True)[:2] == tables(directory, False)[:2]


@pytest.mark.usefixtures("small_pieces")
def test_headers_of_large_batches_are_read_without_a_plan(tmp_path: Path) -> None:
    """Batches that are larger than a piece are read with a larger buffer."""
    batches = [simple_batch([bytes(500 if i % 7 == 3 else 20)], i) for i in range(100)]
    write_segment(tmp_path / "t-0", batches)
    found, damaged, log = tables(only(tmp_path / "t-0"), True)
    assert [offset for _, _, offset, *_ in found] == list(range(100))
    assert (damaged, log.planned) == ([], 0)


def test_headers_are_read_in_pieces_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_pass, "PIECE_BYTES", 4096)
    write_segment(tmp_path / "t-0", numbered(2000))
    directory = only(tmp_path / "t-0")
    found, _, log = tables(directory, True)
    assert len(found) == 2000
    assert log.bytes_read == sum(s.size for s in log.segments)
    assert all(bytes(part.buffer) == b"" for part in log.parts(0, NO_END, None, headers_only=True))


@pytest.mark.parametrize(
    ("position", "size", "cuts"),
    [(967, 610, [15, 25]), (937, 422, [*range(5, 40, 5)]), (388, 836, [10, 20, 30]), (11, 896, [15, 25])],
)
def test_tasks_deliver_no_offset_twice_if_bytes_were_copied_to_a_wrong_position(
    tmp_path: Path, position: int, size: int, cuts: list[int]
) -> None:
    """The plan delivers batches of the copied bytes, and another task can confirm the same batches at their own position."""
    write_segment(tmp_path / "t-0", numbered(40))
    (path,) = (tmp_path / "t-0").glob("*.log")
    data = bytearray(path.read_bytes())
    data[position : position + size] = data[position + size : position + 2 * size]
    path.write_bytes(data)
    offsets, damaged = read_in_tasks(tmp_path / "t-0", cuts)
    assert len(offsets) == len(set(offsets)) > 20
    assert damaged


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.slow
def test_tasks_deliver_or_report_all_planned_batches_if_bytes_were_copied_to_a_wrong_position(
    tmp_path: Path, range_bytes: int, seed: int, wrapped: bool
) -> None:
    """Wrapper messages are tested too, because their headers contain only their last offsets."""
    chance = Random(seed)
    batches, entries, offset, position = [], [], 0, 0
    while offset < 120:
        values = [b"value %d" % (offset + i) for i in range(chance.randint(1, 4))]
        inner = b"".join(message(1, None, value, offset=i) for i, value in enumerate(values))
        last = offset + len(values) - 1
        wrapper = message(1, None, compress(SNAPPY, inner), offset=last, attributes=SNAPPY)
        batches.append(wrapper if wrapped else simple_batch(values, offset))
        if offset:
            entries.append((last, position))
        offset, position = last + 1, position + len(batches[-1])
    data, size = bytearray(b"".join(batches)), chance.randint(60, 800)
    target, source = chance.randrange(position - 2 * size), chance.randrange(position - size)
    if chance.random() < 0.7:
        source = target + size
    data[target : target + size] = data[source : source + size]
    write_segment(tmp_path / "t-0", [bytes(data)])
    (tmp_path / "t-0" / f"{0:020}.index").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
    (planned, damaged, _), _ = read(only(tmp_path / "t-0"), planned=True)
    segment = only(tmp_path / "t-0").segments[0]
    whole = whole_segment(segment, segment.size)
    borders = [border_near(segment, at) for _, at in sorted(chance.sample(entries, 3))]
    found: list[int] = []
    for start, end in itertools.pairwise([whole.start, *borders, whole.end]):
        assert start is not None
        assert end is not None
        log = PartitionLog(only(tmp_path / "t-0"))
        log.restrict(log.segments[0], Share(start, end))
        found += [r.offset for r in log.records(on_damage=damaged.append)]
    assert len(found) == len(set(found))
    reported = {o for d in damaged for o in range(d.first_offset or 0, (d.last_offset or 0) + 1)}
    assert set(found) | reported >= {offset for offset, *_ in planned}
