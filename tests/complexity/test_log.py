"""Check logs with many segments, index entries and damaged spans."""

from __future__ import annotations

import random
import shutil
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from building import TRANSACTIONAL, batch, mutate, record, simple_batch
from fuzz.work import counted
from patching import patch_everywhere
from reports import verify_partition

import kafkafmt
from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.catalog.partition_dir import PartitionDir
from kafkafmt.log.damage import segment_tables, segment_walker
from kafkafmt.log.damage.segment_walker import Walker
from kafkafmt.log.formats import names
from kafkafmt.log.inspecting.dump_batches import LogDump
from kafkafmt.log.inspecting.dump_indexes import index_items
from kafkafmt.log.inspecting.dump_items import Problem
from kafkafmt.log.reading.follow import Follower
from kafkafmt.log.reading.lookups import find_max_timestamp
from kafkafmt.log.storage import files
from kafkafmt.log.storage.file_view import FileView
from kafkafmt.log.verifying import verify_api as verifying
from kafkafmt.log.verifying import verify_pass
from kafkafmt.log.verifying.audit import PartitionAudit
from kafkafmt.log.writing import recovery
from kafkafmt.log.writing.atomic_append import all_or_nothing

from .growth import grows_linearly, lines_of
from .logs import log_of, verify


def test_verify_grows_linearly_with_segments_if_one_is_damaged(write: Callable[..., Path]) -> None:
    def work(n: int) -> Counter[str]:
        parts = [(i, simple_batch([b"v"], i, producer_id=i, producer_epoch=0, base_sequence=0)) for i in range(n)]
        parts[n // 2] = n // 2, mutate(parts[n // 2][1], 30, b"\xff")
        return verify(write(parts))

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
    assert done.read <= 1.1 * sum(len(data) for _, data in parts) + len(data)  # the damaged segment is read twice


class Names(list[str]):
    """A list of file names that fails the test if it is searched, because each search reads the whole list."""

    def __contains__(self, name: object) -> bool:
        raise AssertionError(f"searched a list for {name}")


def test_verify_does_not_search_lists_of_file_names(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    list_directory = files.list_directory
    patch_everywhere(monkeypatch, files.list_directory, lambda path: tuple(map(Names, list_directory(path))))
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
    patch_everywhere(monkeypatch, files.list_directory, lambda path: tuple(map(Names, list_directory(path))))
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
        assert len(verify_partition(log_of(folder))["findings"]) == 1
        return verify(folder)

    grows_linearly(40, work)


def test_verify_grows_linearly_with_undecodable_batches(write: Callable[..., Path]) -> None:
    """The damage of these batches is found only when they are decoded."""

    def work(n: int) -> Counter[str]:
        parts = [simple_batch([b"v"], i, count=2 if i % 2 else 1) for i in range(n)]
        return verify(write([(0, b"".join(parts))]))

    grows_linearly(20, work)


def test_verify_adds_batches_around_misplaced_ones_once(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first pass ends at a falling offset, because the segment is then read again."""
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
    assert sum(added) == report["records_recovered"] == 100


def test_many_short_ranges_are_copied_together(write: Callable[..., Path]) -> None:
    """Each fourth batch has a wrong offset, so the ranges of valid batches are short."""
    n, distance = 4000, 2000
    batches = [simple_batch([b"v" * 1000], i + distance * (i % 4 == 0)) for i in range(n)]
    folder = write([(0, b"".join(batches))])
    with counted() as work:
        report = kafkafmt.salvage(folder, folder.parent / "salvaged").partitions[0]
    assert report.batches == n - n // 4
    assert work.reads < n // 4 + 50  # each range is read once before it is copied


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


@pytest.mark.parametrize("fill", FILLS)
def test_planning_reads_a_filled_segment_at_most_three_times(write: Callable[..., Path], fill: str) -> None:
    """A search for batches reads each byte. So does the CRC of the first bytes, if they can be a header."""

    def work(n: int) -> int:
        data = FILLS[fill](n << 20)
        folder = write([(0, data)])
        log = PartitionLog(discover([folder]).partitions[0])
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
