"""Check logs with many transactions and producers."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from building import ABORT, COMMIT, control_batch, mutate, simple_batch
from selecting import COMMITTED

import kafkafmt
from kafkafmt.log import discover
from kafkafmt.log.formats.snapshots import ProducerEntry, snapshot_bytes
from kafkafmt.log.reading.follow import Follower
from kafkafmt.log.storage.file_view import FileView
from kafkafmt.log.transactions import nearby_transactions

from .growth import grows_linearly, lines_of
from .logs import NUMBER, committed, log_of, transactional, verify


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
