"""Check logs with many segments, producers, transactions, index entries and damaged spans."""

from __future__ import annotations

import itertools
import random
import shutil
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from building import ABORT, COMMIT, TRANSACTIONAL, batch, control_batch, mutate, record, simple_batch
from fuzz.work import counted
from reports import verify_partition
from selecting import COMMITTED

import kafkafmt
from kafkafmt.constants import MAX_OFFSET
from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.auditing import verify as verifying
from kafkafmt.log.auditing import verify_pass
from kafkafmt.log.auditing.audit import PartitionAudit
from kafkafmt.log.auditing.dump_batches import LogDump
from kafkafmt.log.auditing.dump_indexes import index_items
from kafkafmt.log.auditing.dump_items import Problem
from kafkafmt.log.format import file_view, files, names
from kafkafmt.log.format.file_view import FileView
from kafkafmt.log.format.index_entries import transaction_index_bytes
from kafkafmt.log.format.producers import Aborted
from kafkafmt.log.format.snapshots import ProducerEntry, snapshot_bytes, snapshot_of, states_of
from kafkafmt.log.reading import nearby_transactions, segment_tables, segment_walker, snapshot_files
from kafkafmt.log.reading.damaged_spans import DamagedSpans
from kafkafmt.log.reading.follow import Follower
from kafkafmt.log.reading.lookups import find_max_timestamp
from kafkafmt.log.reading.partition_dir import PartitionDir
from kafkafmt.log.reading.read_limits import ReadLimits
from kafkafmt.log.reading.segment_walker import Walker
from kafkafmt.log.reading.transaction_index import IndexEntries
from kafkafmt.log.reading.transactions import Doubts, Transactions
from kafkafmt.log.writing import recovery
from kafkafmt.log.writing.atomic_append import all_or_nothing

from .growth import grows_linearly, lines_of

NUMBER = itertools.count()


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a new partition directory at each call.

    The function's arguments are the segments, as (base offset, bytes), and other files.
    """

    def write_one(segments: list[tuple[int, bytes]], others: Sequence[tuple[str, bytes]] = ()) -> Path:
        folder = tmp_path / f"{next(NUMBER)}" / "t-0"
        folder.mkdir(parents=True)
        for base, data in segments:
            (folder / f"{base:020}.log").write_bytes(data)
        for name, data in others:
            (folder / name).write_bytes(data)
        return folder

    return write_one


def log_of(folder: Path) -> PartitionLog:
    return PartitionLog(discover([folder]).partitions[0])


def verify(folder: Path) -> Counter[str]:
    return lines_of(lambda: verify_partition(log_of(folder)))


def committed(folder: Path) -> Counter[str]:
    partition = kafkafmt.open(folder).partitions[0]
    return lines_of(lambda: list(partition.records(isolation="read_committed", on_error="skip")))


def transactional(base: int, producer_id: int, **fields: Any) -> bytes:
    return simple_batch(
        [b"v"], base, flags=TRANSACTIONAL, producer_id=producer_id, producer_epoch=0, base_sequence=0, **fields
    )


def test_verify_grows_linearly_with_segments_and_producers(write: Callable[..., Path]) -> None:
    """Each segment has a different producer, and an aborted transaction."""

    def work(n: int) -> Counter[str]:
        parts = [
            (2 * i, transactional(2 * i, i) + control_batch(ABORT, base_offset=2 * i + 1, producer_id=i))
            for i in range(n)
        ]
        index = [(f"{2 * i:020}.txnindex", struct.pack(">hqqqq", 0, i, 2 * i, 2 * i + 1, 2 * i + 2)) for i in range(n)]
        return verify(write(parts, index))

    grows_linearly(20, work)


def test_verify_grows_linearly_with_segments_if_one_is_damaged(write: Callable[..., Path]) -> None:
    def work(n: int) -> Counter[str]:
        parts = [(i, simple_batch([b"v"], i, producer_id=i, producer_epoch=0, base_sequence=0)) for i in range(n)]
        parts[n // 2] = n // 2, mutate(parts[n // 2][1], 30, b"\xff")
        return verify(write(parts))

    grows_linearly(20, work)


def test_verify_grows_linearly_with_damage_during_transactions(write: Callable[..., Path]) -> None:
    """A transaction is open when the damage in each segment is read."""

    def work(n: int) -> Counter[str]:
        lost = mutate(simple_batch([b"v" * 20], 1), 70, b"\xff")
        return verify(
            write(
                [
                    (3 * i, transactional(3 * i, 1) + lost + simple_batch([b"v"], 3 * i + 2, producer_id=2))
                    for i in range(n)
                ]
            )
        )

    grows_linearly(20, work)


@pytest.mark.parametrize("flags", [0, TRANSACTIONAL])
def test_segments_after_a_damaged_end_are_read_once(write: Callable[..., Path], flags: int) -> None:
    """Verify must not read segments again to decide whether the missing offsets result from compaction."""
    parts = [
        (
            8 * i,
            b"".join(
                simple_batch([b"v" * 900], 8 * i + k, flags=flags, producer_id=1, producer_epoch=0) for k in range(8)
            ),
        )
        for i in range(40)
    ]
    base, data = parts[3]
    parts[3] = base, mutate(data, len(data) - 3, b"\xff")
    folder = write(parts)
    with counted() as done:
        report = verify_partition(log_of(folder))
    assert len(report["damaged"]) == 1
    assert done.read <= 1.1 * sum(len(data) for _, data in parts)


class Names(list[str]):
    """A list of file names that fails the test if it is searched, because each search reads the whole list."""

    def __contains__(self, name: object) -> bool:
        raise AssertionError(f"searched a list for {name}")


def test_verify_does_not_search_lists_of_file_names(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    list_directory = files.list_directory
    monkeypatch.setattr(files, "list_directory", lambda path: tuple(map(Names, list_directory(path))))
    verify_partition(
        log_of(write([(0, simple_batch([b"v"], 0))], [(f"{0:020}.index", b""), (f"{0:020}.timeindex", b"")]))
    )


class Compared(int):
    """A base offset that counts how often it is compared."""

    count = 0

    def __eq__(self, other: object) -> bool:
        Compared.count += 1
        return int(self) == other

    __hash__ = int.__hash__


def test_opening_for_writing_does_not_search_lists_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    list_directory, base_offset_of = files.list_directory, names.base_offset_of
    segments = 100
    folder = tmp_path / "log" / "t-0"
    folder.mkdir(parents=True)
    for base in range(segments):
        (folder / f"{base:020}.log").write_bytes(simple_batch([b"v"], base))
    with kafkafmt.LogDirectory(folder.parent) as directory:
        directory.writer("t", 0)
    monkeypatch.setattr(files, "list_directory", lambda path: tuple(map(Names, list_directory(path))))
    monkeypatch.setattr(
        recovery, "base_offset_of", lambda name: None if (base := base_offset_of(name)) is None else Compared(base)
    )
    with kafkafmt.LogDirectory(folder.parent) as directory:
        assert directory.writer("t", 0).segments == list(range(segments))
        assert Compared.count < 10 * segments


def test_choice_of_the_longest_replicas_does_not_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for copy in (1, 2):
        for partition in range(3):
            folder = tmp_path / f"{copy}" / f"t-{partition}"
            folder.mkdir(parents=True)
            (folder / f"{0:020}.log").write_bytes(simple_batch([b"v"] * copy, 0))

    def fail(self: PartitionDir, other: object) -> bool:
        raise AssertionError("searched the list of partitions")

    monkeypatch.setattr(PartitionDir, "__eq__", fail)
    found = discover([tmp_path / "1", tmp_path / "2"], "longest").partitions
    assert [p.path.parent.name for p in found] == ["2", "2", "2"]


@pytest.mark.parametrize("atomic", [False, True])
def test_closing_writers_grows_linearly(atomic: bool, tmp_path: Path) -> None:
    """Each checkpoint contains all partitions, so it must not be written for each partition."""

    def work(n: int) -> Counter[str]:
        root = tmp_path / f"{n}-{atomic}"
        with kafkafmt.LogDirectory(root) as directory:
            if atomic:
                appending = all_or_nothing(directory, [("t", i) for i in range(n)])
                appending.__enter__()
                return lines_of(lambda: appending.__exit__(None, None, None))
            for i in range(n):
                directory.writer("t", i)
            return lines_of(directory.close)

    grows_linearly(40, work)


def test_verify_grows_linearly_with_gaps_between_segments(write: Callable[..., Path]) -> None:
    def work(n: int) -> Counter[str]:
        return verify(write([(3 * i, simple_batch([b"v"], 3 * i)) for i in range(n)]))

    grows_linearly(20, work)


def test_verify_grows_linearly_with_contradicting_spans(write: Callable[..., Path]) -> None:
    """The offsets zigzag, so that half of the batches do not fit the batches around them."""

    def work(n: int) -> Counter[str]:
        parts = [simple_batch([b"v"], i if i % 2 else 3 * n - i) for i in range(n)]
        folder = write([(0, b"".join(parts))])
        assert len(verify_partition(log_of(folder))["damaged"]) >= n // 2 - 1
        return verify(folder)

    grows_linearly(20, work)


def test_verify_grows_linearly_with_copies_of_batches(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segment contains each batch twice: all batches in order, and then all of them again."""
    monkeypatch.setattr(segment_tables, "BUFFER_BYTES", 1024)

    def work(n: int) -> Counter[str]:
        parts = [simple_batch([b"v"], i) for i in range(n)]
        folder = write([(0, b"".join(parts * 2))])
        assert len(verify_partition(log_of(folder))["findings"]) == n
        return verify(folder)

    grows_linearly(40, work)


def test_verify_grows_linearly_with_undecodable_batches(write: Callable[..., Path]) -> None:
    """The damage of these batches is found only when they are decoded."""

    def work(n: int) -> Counter[str]:
        parts = [simple_batch([b"v"], i, count=2 if i % 2 else 1) for i in range(n)]
        return verify(write([(0, b"".join(parts))]))

    grows_linearly(20, work)


def test_verify_grows_linearly_with_snapshots_and_transactions(write: Callable[..., Path]) -> None:
    def work(n: int) -> Counter[str]:
        parts = [(i, transactional(i, i)) for i in range(n)]
        empty = snapshot_bytes([])
        return verify(write(parts, [(f"{i + 1:020}.snapshot", empty) for i in range(n)]))

    grows_linearly(20, work)


def test_verify_grows_linearly_with_producers_in_snapshots(write: Callable[..., Path]) -> None:
    def work(n: int) -> Counter[str]:
        producers = snapshot_bytes(ProducerEntry(i, 0, 0, i) for i in range(n))
        return verify(write([(0, b"".join(transactional(i, i) for i in range(n)))], [(f"{n:020}.snapshot", producers)]))

    grows_linearly(40, work)


def test_damage_objects_are_created_when_the_list_is_read(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    created: list[int] = []
    build = DamagedSpans._build

    def counting(self: DamagedSpans, start: int, stop: int) -> list[kafkafmt.Damage]:
        created.append(stop - start)
        return build(self, start, stop)

    monkeypatch.setattr(DamagedSpans, "_build", counting)
    parts = [simple_batch([b"v"], i) for i in range(400)]
    data = b"".join(mutate(p, len(p) - 1, b"\xee") if i % 2 else p for i, p in enumerate(parts))
    partition = kafkafmt.open(write([(0, data)])).partitions[0]
    assert partition.to_arrow(on_error="skip").num_rows == 200
    assert sum(created) < 10
    assert [damage.first_offset for damage in partition.damaged] == list(range(1, 400, 2))
    assert partition.damaged is partition.damaged
    assert len(partition.damaged) == 200


def test_committed_reading_grows_linearly_with_open_transactions(write: Callable[..., Path]) -> None:
    """Many transactions are open at the same time. For each abort, the oldest of them is looked up."""

    def work(n: int) -> Counter[str]:
        parts = [transactional(i, i) for i in range(n)] + [
            control_batch(ABORT, base_offset=n + i, producer_id=i) for i in range(n)
        ]
        folder = write([(0, b"".join(parts))])
        return verify(folder) + committed(folder)

    grows_linearly(40, work)


def test_files_with_open_transactions_are_opened_as_often_as_with_one(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []

    class CountedView(FileView):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            opened[-1] += 1
            super().__init__(*arguments, **options)

    monkeypatch.setattr(nearby_transactions, "FileView", CountedView)
    for n in (1, 50):
        opened.append(0)
        committed(write([(0, b"".join(transactional(i, i) for i in range(n)))]))
    assert opened[0] == opened[1] > 0


def test_small_batches_of_open_transactions_are_read_once(write: Callable[..., Path]) -> None:
    log = log_of(write([(0, b"".join(transactional(i, i) for i in range(50)))]))
    assert len(log.open_transactions.open) == 50
    assert log.reads < 15


def test_verify_adds_batches_that_are_out_of_place_once(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first pass ends at a falling offset, because the batches are then read again in offset order."""
    monkeypatch.setattr(verify_pass, "TABLE_ROWS", 4)
    monkeypatch.setattr(segment_tables, "BUFFER_BYTES", 1000)
    monkeypatch.setattr(segment_walker, "SMALL_SEGMENT", 0)
    added: list[int] = []
    add = PartitionAudit.add

    def counting(audit: PartitionAudit, segment: Any, position: int, table: Any, *rest: Any) -> None:
        added.append(len(table))
        add(audit, segment, position, table, *rest)

    monkeypatch.setattr(PartitionAudit, "add", counting)
    folder = write([(0, b"".join(simple_batch([b"v" * 100], i ^ 1) for i in range(200)))])
    report = verify_partition(log_of(folder))
    assert sum(added) == report["records_recovered"] > 150


def test_batches_from_two_distant_places_are_read_together(write: Callable[..., Path]) -> None:
    """Each fourth batch is so far away from its place that no read call covers both places."""
    n, distance = 4000, 2000
    batches = [simple_batch([b"v" * 1000], i + distance * (i % 4 == 0)) for i in range(n)]
    folder = write([(0, b"".join(batches))])
    log = log_of(folder)
    parts = sum(1 for _ in log.parts(0, MAX_OFFSET, lambda _: None, grouped=True))
    assert parts < 20
    assert log.reads < 100
    with counted() as work:
        report = kafkafmt.salvage(folder, folder.parent / "salvaged").partitions[0]
    assert report.batches == n - distance // 4
    assert work.reads < 100


def test_small_damaged_segments_are_read_with_one_part_each(write: Callable[..., Path]) -> None:
    n = 20
    segments = []
    for base in range(0, 8 * n, 8):
        batches = [simple_batch([b"v" * 100], base + i) for i in range(8)]
        batches[3] = mutate(batches[3], len(batches[3]) - 1, b"\xee")
        segments.append((base, b"".join(batches)))
    log = log_of(write(segments))
    damaged: list[object] = []
    offsets = [part.table["base_offset"].tolist() for part in log.parts(0, MAX_OFFSET, damaged.append, grouped=True)]
    assert offsets == [[base + i for i in range(8) if i != 3] for base in range(0, 8 * n, 8)]
    assert len(damaged) == n
    assert log.reads < 2 * n + 5  # the first read of each segment finds the damage


def test_committed_reading_grows_linearly_with_transactions(write: Callable[..., Path]) -> None:
    def work(n: int) -> Counter[str]:
        ends = (control_batch((ABORT, COMMIT)[i % 2], base_offset=2 * i + 1, producer_id=7) for i in range(n))
        folder = write([(0, b"".join(transactional(2 * i, 7) + end for i, end in enumerate(ends)))])
        return verify(folder) + committed(folder)

    grows_linearly(40, work)


def test_committed_reading_grows_linearly_with_uncertain_transactions(write: Callable[..., Path]) -> None:
    """Each transaction without a marker is looked up in the transaction index."""

    def work(n: int) -> Counter[str]:
        parts = [transactional(i, i) for i in range(n)] + [b"\xff" * 70]
        parts += [transactional(n + 1 + i, n + i) for i in range(n)]
        parts += [control_batch(ABORT, base_offset=2 * n + 1 + i, producer_id=n + i) for i in range(n)]
        index = b"".join(struct.pack(">hqqqq", 0, n + i, n + 1 + i, 2 * n + 1 + i, 0) for i in range(n))
        folder = write([(0, b"".join(parts))], [(f"{0:020}.txnindex", index)])
        return lines_of(lambda: kafkafmt.open(folder).partitions[0].log.transactions)

    grows_linearly(40, work)


def damaged_transactions(n: int) -> list[tuple[int, bytes]]:
    """Return a segment with three producers. Every fifth batch is a marker, and every third batch is damaged."""
    parts = [
        control_batch(ABORT if i % 2 else COMMIT, base_offset=i, producer_id=i % 3)
        if i % 5 == 4
        else transactional(i, i % 3)
        for i in range(n)
    ]
    return [(0, b"".join(p if i % 3 else mutate(p, len(p) - 1, b"\xee") for i, p in enumerate(parts)))]


def damaged_and_open(n: int) -> list[tuple[int, bytes]]:
    """Return a segment in which each producer has an open transaction, and every other batch is damaged."""
    parts = [transactional(i, i) for i in range(n)]
    return [(0, b"".join(mutate(p, len(p) - 1, b"\xee") if i % 2 else p for i, p in enumerate(parts)))]


@pytest.mark.parametrize("segment", [damaged_transactions, damaged_and_open])
def test_work_grows_linearly_with_damage_in_transactions(
    write: Callable[..., Path], tmp_path: Path, segment: Callable[[int], list[tuple[int, bytes]]]
) -> None:
    def salvage(n: int) -> Counter[str]:
        folder = write(segment(n))
        return lines_of(lambda: kafkafmt.salvage(folder, tmp_path / f"out-{next(NUMBER)}", threads=1))

    grows_linearly(60, lambda n: verify(write(segment(n))))
    grows_linearly(60, lambda n: committed(write(segment(n))))
    grows_linearly(60, salvage)


def test_leader_epochs_grow_linearly_with_batches(write: Callable[..., Path]) -> None:
    def work(n: int) -> Counter[str]:
        data = b"".join(simple_batch([b"v"], i, leader_epoch=i) for i in range(n))
        epochs = "".join(f"{i} {i}\n" for i in range(n))
        return verify(write([(0, data)], [("leader-epoch-checkpoint", f"0\n{n}\n{epochs}".encode())]))

    grows_linearly(40, work)


def test_leader_epochs_grow_linearly_with_wrong_epochs(write: Callable[..., Path]) -> None:
    def work(n: int) -> Counter[str]:
        data = b"".join(simple_batch([b"v"], i, leader_epoch=n - i) for i in range(n))
        epochs = "".join(f"{i} {i}\n" for i in range(n))
        return verify(write([(0, data)], [("leader-epoch-checkpoint", f"0\n{n}\n{epochs}".encode())]))

    grows_linearly(40, work)


def test_verify_grows_linearly_with_wrong_index_entries(write: Callable[..., Path]) -> None:
    def work(n: int) -> Counter[str]:
        data = b"".join(simple_batch([b"v"], i) for i in range(n))
        wrong = b"".join(struct.pack(">ii", i + 1, 7 * i + 1) for i in range(4 * n))
        times = b"".join(struct.pack(">qi", 10**12 + i, i) for i in range(4 * n))
        folder = write([(0, data)], [(f"{0:020}.index", wrong), (f"{0:020}.timeindex", times)])
        return verify(folder) + lines_of(lambda: list(index_items(folder / f"{0:020}.index", 0)))

    grows_linearly(40, work)


def test_dump_grows_linearly_with_batches(write: Callable[..., Path]) -> None:
    def work(n: int) -> Counter[str]:
        folder = write([(0, b"".join(simple_batch([b"v"], i) for i in range(n)))])
        return lines_of(lambda: list(LogDump(folder / f"{0:020}.log", 0, deep=True).items()))

    grows_linearly(40, work)


def test_dump_reads_many_damaged_batches_at_once(write: Callable[..., Path]) -> None:
    def work(n: int) -> int:
        parts = [simple_batch([b"v"], i) for i in range(2 * n)]
        data = b"".join(mutate(p, len(p) - 1, b"\xee") if i % 2 else p for i, p in enumerate(parts))
        folder = write([(0, data)])
        with counted() as done:
            items = list(LogDump(folder / f"{0:020}.log", 0, deep=True).items())
        assert sum(isinstance(item, Problem) for item in items) == n
        return done.reads

    assert work(200) < 50


def test_groups_grow_linearly_with_commits(write: Callable[..., Path]) -> None:
    def key(i: int) -> bytes:
        return (
            struct.pack(">h", 1)
            + b"".join(struct.pack(">h", len(s)) + s for s in (b"group %d" % (i % 50), b"topic"))
            + bytes(4)
        )

    def work(n: int) -> Counter[str]:
        value = struct.pack(">hqih", 3, 5, -1, 0) + struct.pack(">q", 1)
        records = [(i, 0, key(i), value, ()) for i in range(n)]
        folder = write([(0, batch(records))])
        target = folder.with_name("__consumer_offsets-0")
        shutil.move(folder, target)
        return lines_of(lambda: kafkafmt.open(target).groups())

    grows_linearly(100, work)


def test_salvage_grows_linearly_with_damaged_spans(write: Callable[..., Path], tmp_path: Path) -> None:
    """Many extents contain damage. The search between extents has a separate test."""
    from kafkafmt.log.auditing.salvage import salvage_partition
    from kafkafmt.log.reading.models import Damage

    def work(n: int) -> Counter[str]:
        folder = write([(0, b"".join(simple_batch([b"v"], i) for i in range(2 * n)))])
        size = len(simple_batch([b"v"]))
        holes = [Damage(f"{0:020}.log", 2 * i * size, size, 2 * i, 2 * i, "corrupt_structure", "x") for i in range(n)]
        output = tmp_path / f"out-{next(NUMBER)}"
        output.mkdir()
        return lines_of(lambda: salvage_partition(log_of(folder), holes, output))

    grows_linearly(20, work)


def test_salvage_grows_linearly_with_commit_markers_lost_at_one_place() -> None:
    """Each lost marker gets the next free offset after the damage."""
    from kafkafmt.log.auditing.salvage_markers import _lost_markers

    def work(n: int) -> Counter[str]:
        producers, zeros = np.arange(n), np.zeros(n, np.int64)
        found = Transactions(committed_unmarked=Doubts(producers, zeros, zeros, zeros, [("f", "damage")]))
        found.unmarked.append(Aborted(n, 0, 2, 3))
        lines = lines_of(lambda: _lost_markers(found))
        markers = sorted(_lost_markers(found), key=lambda marker: marker.last)
        assert [marker.last for marker in markers] == list(range(1, n + 2))
        assert not markers[1].commit
        return lines

    grows_linearly(50, work)


def test_salvage_grows_linearly_with_extents(write: Callable[..., Path], tmp_path: Path) -> None:
    from kafkafmt.log.auditing.salvage import salvage_partition

    def work(n: int) -> Counter[str]:
        parts = [simple_batch([b"v"], i) for i in range(2 * n)]
        folder = write([(0, b"".join(mutate(p, len(p) - 1, b"\xee") if i % 2 else p for i, p in enumerate(parts)))])
        log = log_of(folder)
        damaged = [damage for segment in log.segments for damage in log.plan(segment).damaged]
        assert len(damaged) >= n // 16
        output = tmp_path / f"out-{next(NUMBER)}"
        output.mkdir()
        return lines_of(lambda: salvage_partition(log, damaged, output))

    grows_linearly(60, work)


def test_salvage_grows_linearly_with_segments(write: Callable[..., Path], tmp_path: Path) -> None:
    from kafkafmt.log.auditing.salvage import salvage_partition
    from kafkafmt.log.format.names import file_name

    def work(n: int) -> Counter[str]:
        parts = [simple_batch([b"v"], i) for i in range(2 * n)]
        damaged = [mutate(part, len(part) - 1, b"\xee") for part in parts]
        log = log_of(write([(2 * i, damaged[2 * i] + parts[2 * i + 1]) for i in range(n)]))
        found = [damage for segment in log.segments for damage in log.plan(segment).damaged]
        output = tmp_path / f"out-{next(NUMBER)}"
        output.mkdir()
        file_name.cache_clear()  # otherwise, names that an earlier call has cached would not be counted
        return lines_of(lambda: salvage_partition(log, found, output))

    grows_linearly(40, work)


def test_salvage_reads_the_permissions_of_all_files_at_once(
    write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy is made with one pass over the source directory, without a lookup for each rebuilt file."""
    from kafkafmt.log.auditing.salvage import salvage_partition

    calls: list[object] = []
    mode_of = files.mode_of

    def counting(path: Any) -> int | None:
        calls.append(path)
        return mode_of(path)

    monkeypatch.setattr(files, "mode_of", counting)

    def count(n: int) -> int:
        calls.clear()
        sources = [(f"{i:020}{suffix}", b"") for i in range(n) for suffix in (".index", ".timeindex", ".snapshot")]
        folder = write([(i, simple_batch([b"v"], i)) for i in range(n)], sources)
        output = tmp_path / f"out-{next(NUMBER)}"
        output.mkdir()
        salvage_partition(log_of(folder), [], output)
        return len(calls)

    assert count(2) == count(12)


def test_salvage_reads_each_producer_snapshot_once(
    write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The offset 1 is missing in the copy, so salvage needs the snapshots after it."""
    opened: Counter[str] = Counter()
    read_bytes = file_view.read_bytes

    def counting(path: Any) -> bytes | None:
        opened[Path(path).name] += 1
        return read_bytes(path)

    monkeypatch.setattr(file_view, "read_bytes", counting)
    snapshots = [(f"{i:020}.snapshot", snapshot_bytes([])) for i in range(2, 6)]
    kafkafmt.salvage(
        write([(i, simple_batch([b"v"], i)) for i in range(6) if i != 1], snapshots), tmp_path / "out", threads=1
    )
    assert {name: opened[name] for name, _ in snapshots} == dict.fromkeys((name for name, _ in snapshots), 1)


def test_only_few_bytes_of_producer_snapshots_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states = [states_of([ProducerEntry(i)]) for i in range(3)]
    monkeypatch.setattr(snapshot_files, "KEPT_BYTES", 2 * len(snapshot_of(states[0])) + 1)
    snapshots = snapshot_files.SnapshotFiles(tmp_path)
    for name, expected in zip("abc", states, strict=True):
        (tmp_path / name).write_bytes(snapshot_of(expected))
        assert snapshots.read(name) == expected
        (tmp_path / name).unlink()
    assert [snapshots.read(name) for name in "abc"] == [*states[:2], None]


def test_index_entries_are_taken_only_if_their_marker_is_before_the_batch(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction with many batches ends with the marker that the transaction index names."""
    taken: list[int] = []
    take = IndexEntries.take

    def counting(entries: IndexEntries, producer_id: int, before: int) -> Any:
        taken.append(before)
        return take(entries, producer_id, before)

    monkeypatch.setattr(IndexEntries, "take", counting)
    batches = b"".join(transactional(i, 1) for i in range(40))
    data = batches + control_batch(ABORT, base_offset=40, producer_id=1) + transactional(41, 1)
    index = transaction_index_bytes([Aborted(1, 0, 40, 41)])
    log = log_of(write([(0, data)], [(f"{0:020}.txnindex", index)]))
    assert log.transactions.aborted == {1: [(0, 40)]}
    assert taken == [41]


def test_merge_grows_linearly_with_ranges(write: Callable[..., Path], tmp_path: Path) -> None:
    """Two replicas are damaged in different batches, and their batches overlap without equal offsets."""
    from kafkafmt.log.auditing.merge_choice import choose
    from kafkafmt.log.auditing.merge_copy import MergedDirectory
    from kafkafmt.log.auditing.merge_replica import ranked, read_replica

    def work(n: int) -> Counter[str]:
        replicas = []
        for shift in range(2):
            parts = [simple_batch([b"v"] * 4, 4 * i + 2 * shift) for i in range(2 * n)]
            damaged = [mutate(p, len(p) - 1, b"\xee") if i % 4 == 2 * shift else p for i, p in enumerate(parts)]
            log = log_of(write([(0, b"".join(damaged))]))
            found = [damage for segment in log.segments for damage in log.plan(segment).damaged]
            replicas.append(read_replica(log, found))
        folder = tmp_path / f"out-{next(NUMBER)}"

        def merge() -> None:
            order = ranked(replicas)
            MergedDirectory(order, choose(order, 1 << 20), folder, lambda _: None).write()

        return lines_of(merge)

    grows_linearly(40, work)


def test_reports_of_merged_logs_read_few_bytes_for_each_lost_range(write: Callable[..., Path], tmp_path: Path) -> None:
    def work(n: int) -> int:
        parts = [simple_batch([b"v" * 50], i) for i in range(2 * n)]
        data = b"".join(mutate(p, len(p) - 1, b"\xee") if i % 2 else p for i, p in enumerate(parts))
        replicas = [write([(0, data)]) for _ in range(2)]
        with counted() as done:
            report = kafkafmt.salvage(replicas, tmp_path / f"out-{next(NUMBER)}", replicas="merge")
        assert len(report.partitions[0].source.damaged) == n
        return done.total

    grows_linearly(300, work)


def test_followed_log_is_not_read_again_for_each_batch(write: Callable[..., Path]) -> None:
    """Like a broker, the test appends a batch and an index entry between two checks."""
    size = len(simple_batch([b"v" * 300]))

    def work(n: int) -> int:
        folder = write([(0, simple_batch([b"v" * 300], 0))], [(f"{0:020}.index", b"")])
        follower = Follower(discover([folder]).partitions[0], [folder])
        list(follower.records())
        with counted() as done:
            for i in range(1, n):
                with (folder / f"{0:020}.log").open("ab") as file:
                    file.write(simple_batch([b"v" * 300], i))
                with (folder / f"{0:020}.index").open("ab") as file:
                    file.write(struct.pack(">ii", i, i * size))
                follower.check(always=True)
                assert len(list(follower.records())) == 1
        return done.total

    grows_linearly(30, work)


def test_following_grows_linearly_with_open_transactions(write: Callable[..., Path]) -> None:
    def work(n: int) -> Counter[str]:
        folder = write([(0, transactional(0, 0))])
        follower = Follower(discover([folder]).partitions[0], [folder], COMMITTED)
        list(follower.records())

        def grow() -> None:
            for i in range(1, n):
                with (folder / f"{0:020}.log").open("ab") as file:
                    file.write(transactional(i, i))
                follower.check(always=True)
                list(follower.records())

        return lines_of(grow)

    grows_linearly(15, work)


def test_lookups_in_many_segments_read_few_bytes(write: Callable[..., Path]) -> None:
    """A lookup by offset or time reads about the same number of bytes if there are twice as many segments."""

    def work(n: int) -> int:
        folder = write(
            [(5 * i, simple_batch([b"v" * 200] * 5, 5 * i, base_timestamp=10**12 + 5 * i)) for i in range(n)]
        )
        with counted() as done:
            partition = kafkafmt.open(folder).partitions[0]
            assert next(partition.records(start=5 * n // 2)).offset == 5 * n // 2
        return done.read + 1

    sizes = [work(n) for n in (20, 40, 80)]
    assert max(sizes) <= 2 * min(sizes), sizes


FILLS: dict[str, Callable[[int], bytes]] = {
    "zeros": lambda size: bytes(size),
    "0xFF": lambda size: b"\xff" * size,
    "random bytes": lambda size: random.Random(size).randbytes(size),
    "batches, then zeros": lambda size: b"".join(simple_batch([b"v"], i) for i in range(50)).ljust(size, b"\0"),
    "zeros, then a batch": lambda size: bytes(size) + simple_batch([b"v"], 7),
}
READ_BY_LOOKUP = 8 << 20
"""Number of bytes that a lookup reads at most, before it plans the segment."""


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("fill", FILLS)
def test_planning_reads_a_filled_segment_at_most_three_times(
    write: Callable[..., Path], fill: str, mapped: bool
) -> None:
    """A search for batches reads each byte. So does the CRC of the first bytes, if they can be a header."""

    def work(n: int) -> int:
        data = FILLS[fill](n << 20)
        folder = write([(0, data)])
        log = PartitionLog(discover([folder]).partitions[0], ReadLimits(mapped=mapped))
        with counted() as done:
            find_max_timestamp(log)
        assert done.read <= 3 * len(data) + READ_BY_LOOKUP
        return done.total

    grows_linearly(4, work)


@pytest.mark.parametrize("before", [0, 50])
def test_zeros_at_the_end_of_a_segment_are_not_searched(write: Callable[..., Path], before: int) -> None:
    """A preallocated file ends with zeros, which can be larger than all batches."""
    batches = b"".join(simple_batch([b"v"], i) for i in range(before))
    folder = write([(0, batches + bytes(20 << 20))])
    (segment,) = log_of(folder).segments
    with FileView(segment.path) as view:
        walker = Walker(view, 0)
        bad = walker.walk().bad(0)
        assert (bad.position, bad.end) == (len(batches), view.size)
        assert walker.search.bytes_scanned == 0
        assert view.bytes_read <= view.size + (5 << 20)


def test_batches_that_cannot_be_decoded_are_handled_in_arrays(write: Callable[..., Path]) -> None:
    """The CRCs match, but the record counts are wrong. No code is executed and nothing is read for each batch."""

    def work(n: int) -> tuple[int, int]:
        folder = write([(0, b"".join(batch([record(value=b"v")], base_offset=i, count=1000) for i in range(n)))])
        with counted() as done:
            lines = lines_of(lambda: verifying.verify_partition(log_of(folder)))
        return sum(lines.values()), done.reads

    work(500)
    lines, reads = work(500)
    more_lines, more_reads = work(2000)
    assert more_lines - lines < 1500
    assert more_reads == reads
