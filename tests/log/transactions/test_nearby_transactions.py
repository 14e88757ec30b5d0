"""Test that transactions near a range of offsets have the same outcomes as in the whole log."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from building import ABORT, COMMIT, TRANSACTIONAL, batch, control_batch, mutate, record, simple_batch
from fuzz.work import counted
from golden_cases import CASES, LEGACY, Case
from seeding import seeds
from transactional_logs import damage, write_transactions

from kafkafmt import LogDirectory
from kafkafmt.constants import NO_END, READ_COMMITTED
from kafkafmt.log import PartitionDir, PartitionLog, discover
from kafkafmt.log.formats.index_entries import TRANSACTION_ENTRY
from kafkafmt.log.reading import OffsetInterval
from kafkafmt.log.scanning.header_walk import HeaderWalk, TransactionalBatches
from kafkafmt.log.storage.file_view import FileView
from kafkafmt.log.transactions.nearby_transactions import open_after, outcomes_near
from kafkafmt.log.transactions.transaction_walk import TransactionWalk


def partition(path: Path) -> PartitionDir:
    (found,) = discover([path]).partitions
    return found


def committed(log: PartitionLog, low: int, high: int) -> list[int]:
    interval = OffsetInterval(low, high, READ_COMMITTED)
    return [r.offset for r in log.records(interval, on_damage=lambda _: None)]


def check_ranges(directory: PartitionDir, chance: Random) -> int:
    """Compare committed records with and without the whole log. Return how often the whole log was not needed."""
    whole = PartitionLog(directory)
    assert whole.transactions is not None
    end, nearby = whole.next_offset, 0
    for _ in range(4):
        low = chance.randint(directory.log_start_offset, max(end, directory.log_start_offset))
        high = chance.choice((NO_END, chance.randint(low, max(end, low))))
        log = PartitionLog(directory)
        for _ in range(2):  # the first read may have loaded the whole log
            assert committed(log, low, high) == committed(whole, low, high), (directory.path, low, high)
        nearby += not log.knows_transactions
        stable = PartitionLog(directory).open_transactions
        assert stable.last_stable_offset == whole.transactions.last_stable_offset
        assert stable.open == whole.transactions.open
    return nearby


@pytest.mark.parametrize("case", [*CASES, *LEGACY], ids=str)
@pytest.mark.slow
def test_ranges_of_golden_logs_have_the_outcomes_of_the_whole_log(case: Case) -> None:
    for directory in discover(case.roots).partitions:
        if directory.error is None:
            check_ranges(directory, Random(str(directory.path.name)))


@pytest.mark.parametrize("seed", range(12))
def test_ranges_of_intact_logs_are_decided_without_the_whole_log(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    assert check_ranges(partition(write_transactions(tmp_path, chance)), chance) == 4


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.slow
def test_ranges_of_damaged_logs_have_the_outcomes_of_the_whole_log(tmp_path: Path, seed: int) -> None:
    chance = Random(1000 + seed)
    path = write_transactions(tmp_path, chance)
    for _ in range(chance.choice((1, 1, 2, 3))):
        damage(path, chance)
    check_ranges(partition(path), chance)


def transactional_batch(base: int, size: int = 20) -> bytes:
    return batch([record(0, value=b"x" * size)], base_offset=base, flags=TRANSACTIONAL, producer_id=5, producer_epoch=0)


def test_damaged_marker_after_the_range_requires_the_whole_log(tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    path.mkdir()
    marker = bytearray(control_batch(COMMIT, base_offset=1, producer_id=5))
    marker[-1] ^= 1
    (path / f"{0:020}.log").write_bytes(transactional_batch(0) + marker + transactional_batch(2))
    log = PartitionLog(partition(path))
    assert committed(log, 0, 1) == []
    assert log.knows_transactions
    assert [(d.first_offset, d.last_offset) for d in log.transactions.doubts] == [(0, 0)]


def test_missing_offsets_at_the_start_of_a_segment_require_the_whole_log(tmp_path: Path) -> None:
    """The missing offsets may include the marker of the transaction in the previous segment."""
    path = tmp_path / "t-0"
    path.mkdir()
    (path / f"{0:020}.log").write_bytes(transactional_batch(0))
    (path / f"{1:020}.log").write_bytes(batch([record(0, value=b"v")], base_offset=3))
    log = PartitionLog(partition(path))
    assert not log.open_transactions.open
    assert committed(PartitionLog(partition(path)), 0, NO_END) == [3]
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 4\n")
    log = PartitionLog(partition(path))
    assert log.open_transactions.open == {5: 0}
    assert not log.knows_transactions


def test_index_entry_without_a_marker_requires_the_whole_log(tmp_path: Path) -> None:
    """A broker trusts the entry, so the transaction counts as aborted."""
    path = tmp_path / "t-0"
    path.mkdir()
    commit = control_batch(COMMIT, base_offset=3, producer_id=5)
    (path / f"{0:020}.log").write_bytes(transactional_batch(0) + transactional_batch(2) + commit)
    entry = np.array([(0, 5, 0, 1, 2)], TRANSACTION_ENTRY)
    (path / f"{0:020}.txnindex").write_bytes(entry.tobytes())
    log = PartitionLog(partition(path))
    assert committed(log, 0, NO_END) == committed(log, 0, NO_END) == [2]
    assert log.knows_transactions


def test_open_transaction_before_the_snapshot_ends_the_range(tmp_path: Path) -> None:
    with LogDirectory(tmp_path, segment_bytes=1000) as directory:
        writer = directory.writer("t")
        writer.append([(b"k", b"v", 1)], producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
        for _ in range(40):
            writer.append([(b"k", b"v" * 100, 1)])
        assert len(writer.segments) > 3
    log = PartitionLog(partition(tmp_path / "t-0"))
    assert log.open_transactions.open == {5: 0}
    assert committed(log, 0, NO_END) == []
    assert not log.knows_transactions


@pytest.mark.parametrize("seed", range(6))
def test_headers_read_for_transactions_are_counted(tmp_path: Path, seed: int) -> None:
    log = PartitionLog(partition(write_transactions(tmp_path, Random(seed))))
    with counted() as work:
        stable = log.open_transactions.last_stable_offset
    assert 0 < work.read == log.bytes_read
    with counted() as work:
        before = log.bytes_read
        log.transactions_in(stable // 2, stable)
    assert not log.knows_transactions
    assert 0 < work.read == log.bytes_read - before


def log_with_a_snapshot_at_its_end(path: Path) -> PartitionDir:
    """Write an open transaction among 4 MB of other batches, with the snapshot that a stopped broker writes."""
    with LogDirectory(path) as directory:
        writer = directory.writer("t")
        for i in range(60):
            if i == 50:
                writer.append([(b"k", b"v", 1)], producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
            writer.append([(b"k", b"v" * 70_000, 1)])
    (found,) = (path / "t-0").glob("*.snapshot")
    assert int(found.stem) == 61
    return partition(path / "t-0")


def count_headers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets one item for each read of headers."""
    reads: list[int] = []
    read = HeaderWalk.read

    def counted(walk: HeaderWalk) -> TransactionalBatches | None:
        reads.append(walk.last)
        return read(walk)

    monkeypatch.setattr(HeaderWalk, "read", counted)
    return reads


def test_snapshot_at_the_end_saves_reading_the_last_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = log_with_a_snapshot_at_its_end(tmp_path)
    reads = count_headers(monkeypatch)
    log = PartitionLog(directory)
    assert log.open_transactions.open == {5: 50}
    assert log.open_transactions.last_stable_offset == 50
    assert len(reads) < 20
    assert not log.knows_transactions


@pytest.mark.parametrize("change", ["append", "truncate", "corrupt snapshot"])
def test_snapshot_is_ignored_if_the_log_ends_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    directory = log_with_a_snapshot_at_its_end(tmp_path)
    (path,), (snapshot,) = directory.path.glob("*.log"), directory.path.glob("*.snapshot")
    if change == "append":
        path.write_bytes(path.read_bytes() + control_batch(COMMIT, base_offset=61, producer_id=5))
    elif change == "truncate":
        path.write_bytes(path.read_bytes()[:3_000_000])
    else:
        snapshot.write_bytes(b"\1" + snapshot.read_bytes()[1:])
    reads = count_headers(monkeypatch)
    log = PartitionLog(partition(tmp_path / "t-0"))
    assert log.open_transactions.open == {"append": {}, "truncate": {}, "corrupt snapshot": {5: 50}}[change]
    assert log.open_transactions.last_stable_offset == {"append": 62, "truncate": 42, "corrupt snapshot": 50}[change]
    assert len(reads) > 40


def open_before(log: PartitionLog, offset: int) -> dict[int, int]:
    """Return the transactions that are open at an offset, from all batches before it."""
    walk = TransactionWalk(log)
    for part in log.parts(0, offset, walk):
        walk.add(part.buffer, part.table[part.table["base_offset"] < offset], part.plan.segment.name)
    return walk.found.open


def batch_offsets(log: PartitionLog) -> list[int]:
    return [offset for part in log.parts(0, NO_END, None) for offset in part.table["base_offset"].tolist()]


@pytest.mark.parametrize("seed", range(20))
def test_transactions_open_at_the_end_follow_from_those_at_an_earlier_offset(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    path = write_transactions(tmp_path, chance)
    log = PartitionLog(partition(path))
    whole = PartitionLog(partition(path)).transactions
    for upto in chance.sample(batch_offsets(log), 8):
        found = open_after(log.directory, upto, open_before(log, upto), log.ends_at)
        assert found is not None
        assert (found.open, found.last_stable_offset) == (whole.open, whole.last_stable_offset)


@pytest.mark.parametrize("seed", seeds(10, range(40)))
def test_damage_after_an_offset_gives_the_open_transactions_of_the_whole_log_or_none(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    path = write_transactions(tmp_path, chance)
    intact = PartitionLog(partition(path))
    upto = chance.choice(batch_offsets(intact))
    known = open_before(intact, upto)
    last = intact.segments[-1].path
    data, begin = bytearray(last.read_bytes()), 0
    for part in intact.parts(upto, NO_END, None):
        if part.plan.segment.path == last:
            rows = part.table[part.table["base_offset"] >= upto]
            begin = part.run.position + int(rows["position"][0])
            break
    if begin == len(data):
        return
    at = chance.randrange(begin, len(data))
    data[at : at + chance.choice((1, 8, 78))] = chance.randbytes(chance.choice((1, 8, 78)))
    last.write_bytes(data)
    log = PartitionLog(partition(path))
    found = open_after(log.directory, upto, known, log.ends_at)
    whole = PartitionLog(partition(path)).transactions
    assert found is None or found.open == whole.open


def test_damage_at_the_end_of_the_log_is_no_incomplete_batch(tmp_path: Path) -> None:
    """The length of the last batch is corrupted, so the batch seems to be incomplete. It may have been a marker."""
    path = tmp_path / "t-0"
    path.mkdir()
    opening = simple_batch([b"v"], 0, flags=TRANSACTIONAL, producer_id=1, producer_epoch=0, base_sequence=0)
    last = mutate(simple_batch([b"v"], 1), 8, (60_000).to_bytes(4, "big"))
    (path / f"{0:020}.log").write_bytes(opening + last)
    log = PartitionLog(partition(path))
    assert len(log.plan(log.segments[0]).damaged) == 1
    assert not log.ends_at(1)
    fresh = PartitionLog(partition(path))
    assert not fresh.open_transactions.open
    assert [doubt.first_offset for doubt in fresh.transactions.doubts] == [0]


def test_batches_and_markers_from_an_offset_on_are_returned(tmp_path: Path) -> None:
    data = b""
    for offset in range(40):
        producer = offset % 2
        if offset in (2, 20, 21):
            data += control_batch(COMMIT, base_offset=offset, producer_id=producer)
        else:
            fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0}
            data += simple_batch([b"v" * 90], offset, flags=TRANSACTIONAL, **fields)
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(data)
    for first, expected in ((0, {2, 20, 21}), (11, {20, 21})):
        offsets: list[int] = []
        markers: set[int] = set()
        with FileView(path) as view:
            walk = HeaderWalk(first)
            walk.open(view, 0, view.size, -1, 100)
            while (found := walk.read()) is not None:
                offsets += found.rows["base_offset"].tolist()
                markers |= found.markers.keys()
        assert offsets == list(range(first, 40))
        assert markers == expected


def test_small_segments_are_read_with_one_call_each(tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    path.mkdir()
    for base in range(0, 50 * 8, 8):
        batches = [
            simple_batch([b"v"], base + i, flags=TRANSACTIONAL, producer_id=7, producer_epoch=0, base_sequence=0)
            for i in range(7)
        ]
        marker = control_batch(COMMIT, base_offset=base + 7, producer_id=7)
        (path / f"{base:020}.log").write_bytes(b"".join([*batches, marker]))
    log = PartitionLog(partition(path))
    assert log.open_transactions.last_stable_offset == 50 * 8
    assert not log.knows_transactions
    assert log.reads < 60


def test_markers_of_small_transactions_are_read_with_the_batches_around_them(tmp_path: Path) -> None:
    """A separate read call for each marker would take most of the time."""
    parts = []
    for i in range(0, 2000, 2):
        parts.append(simple_batch([b"v"], i, flags=TRANSACTIONAL, producer_id=7, producer_epoch=0, base_sequence=i))
        parts.append(control_batch(COMMIT, base_offset=i + 1, producer_id=7))
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"".join(parts))
    log = PartitionLog(partition(tmp_path))
    assert committed(log, 0, NO_END) == list(range(0, 2000, 2))
    assert not log.knows_transactions
    assert log.reads < 50


@pytest.mark.parametrize("end", [[], [simple_batch([b"v"], 6)]], ids=["at the end", "before a batch"])
def test_marker_after_missing_offsets_requires_the_whole_log(tmp_path: Path, end: list[bytes]) -> None:
    """A copy of a later commit marker has overwritten a batch before the abort marker."""
    path = tmp_path / "t-0"
    path.mkdir()
    abort, commit = (control_batch(kind, base_offset=at, producer_id=5) for kind, at in ((ABORT, 2), (COMMIT, 4)))
    file = path / f"{0:020}.log"
    file.write_bytes(b"".join([transactional_batch(0), commit, abort, transactional_batch(3), commit, *end]))
    directory = partition(path)
    assert outcomes_near(directory, directory.segments[0], 0, 1) is None
    marker = control_batch(COMMIT, base_offset=1, producer_id=5)
    file.write_bytes(b"".join([transactional_batch(0), marker, abort, transactional_batch(3), commit, *end]))
    found = outcomes_near(directory, directory.segments[0], 0, 1)
    assert found is not None
    assert not found.aborted


def test_offsets_that_compaction_has_removed_do_not_require_the_whole_log(tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    path.mkdir()
    batches = [transactional_batch(0), transactional_batch(3), control_batch(COMMIT, base_offset=6, producer_id=5)]
    file = path / f"{0:020}.log"
    file.write_bytes(b"".join(batches))
    directory = partition(path)
    assert outcomes_near(directory, directory.segments[0], 0, 7) is None
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 7\n")
    directory = partition(path)
    assert outcomes_near(directory, directory.segments[0], 0, 7) is not None
    (tmp_path / "cleaner-offset-checkpoint").unlink()
    thinned = batch([record(2, value=b"v")], base_offset=7, last_offset_delta=2)  # one record for three offsets
    file.write_bytes(b"".join([*batches, thinned]))
    directory = partition(path)
    assert outcomes_near(directory, directory.segments[0], 0, 10) is not None
