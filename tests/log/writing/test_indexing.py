"""Test that indexes, snapshots and aborted transactions that kafkafmt builds have the broker's bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_cases import Case, case

from kafkafmt.log import discover
from kafkafmt.log.formats.index_entries import read_transaction_index
from kafkafmt.log.formats.leader_epochs import assigned, believable_epochs, end_offset_for, within
from kafkafmt.log.formats.producers import Aborted, marker_reader
from kafkafmt.log.formats.snapshots import read_snapshot
from kafkafmt.log.storage.file_view import FileView
from kafkafmt.log.writing.index_builder import State, read_through

# index.interval.bytes of topics whose segments were written without a restart of the broker
INTERVALS = {
    "tx": 300, "idempotent": 200, "deleted": 256, "moving": 100,
    "segments-size": 512, "segments-entries": 1, "segments-index-full": 1, "segments-time": 100,
    "unclean-plain": 256, "unclean-lz4": 256, "unclean-preallocated": 256,
}  # fmt: skip
NAMES = ("transactions", "segments", "idempotent", "delete-records", "unclean", "codecs", "internal")
SOURCES = [case(f"kafka-4.3.1/{name}") for name in NAMES]


def same_entries(made: bytes, path: Path, last: bool) -> bool:
    """Return whether a file equals `made`, except for zeros at its end.

    The time index of the active segment may not contain its last entry yet.
    """
    written = path.read_bytes()
    rest = written[len(made) :]
    return (written[: len(made)] == made and not rest.strip(b"\0")) or (
        last and path.suffix == ".timeindex" and same_entries(made[:-12], path, False)
    )


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_built_indexes_equal_the_brokers(source: Case) -> None:
    compared = 0
    for directory in discover(source.roots).partitions:
        state = State(marker_reader(1 << 27))
        for segment in directory.segments:
            assert segment.base_offset is not None
            with FileView(segment.path) as view:
                made = read_through(view, segment.base_offset, state, INTERVALS.get(directory.topic, 4096))
                assert made.end == view.size or directory.topic == "unclean-preallocated"
            index, times, aborts = (segment.path.with_suffix(s) for s in (".index", ".timeindex", ".txnindex"))
            if index.exists():
                made_offsets, made_times = made.indexes.take()
                assert same_entries(made_offsets, index, segment.last), index
                assert same_entries(made_times, times, segment.last), times
                compared += 1
            listed = (
                [Aborted(*e[1:]) for e in read_transaction_index(aborts.read_bytes()).tolist()]
                if aborts.exists()
                else []
            )
            assert made.aborted == listed
            snapshot = segment.path.with_name(f"{segment.next_base or 0:020}.snapshot")
            if segment.next_base is not None and snapshot.exists():
                assert sorted(state.producers.entries.values()) == sorted(read_snapshot(snapshot.read_bytes()))
    assert compared


def test_leader_epochs_of_batches_ignore_single_wrong_ones() -> None:
    assert believable_epochs([]) == []
    assert believable_epochs([(0, 0), (2, 10), (5, 20)]) == [(0, 0), (2, 10), (5, 20)]
    one_corrupted = [(0, 0), (2**31 - 1, 10), (0, 12), (3, 20)]
    assert believable_epochs(one_corrupted) == [(0, 0), (3, 20)]
    assert believable_epochs([(5, 0), (1, 10), (5, 12)]) == [(5, 0)]
    assert believable_epochs([(0, 0), (9, 7), (1, 8), (2, 9)]) == [(0, 0), (1, 8), (2, 9)]


def test_leader_epochs_are_assigned_and_truncated_as_by_a_broker() -> None:
    epochs = [(0, 0), (2, 10), (5, 20)]
    assert assigned(epochs, 7, 30) == [*epochs, (7, 30)]
    assert assigned(epochs, 5, 25) == epochs
    assert assigned(epochs, 7, 10) == [(0, 0), (7, 10)]
    assert assigned(epochs, 1, 30) == [(0, 0), (1, 30)]
    assert within(epochs, 0, 19) == [(0, 0), (2, 10)]
    assert within(epochs, 0, 20) == epochs
    assert within(epochs, 12, 40) == [(2, 12), (5, 20)]
    assert within(epochs, 10, 40) == [(2, 10), (5, 20)]
    assert within(epochs, 30, 40) == [(5, 30)]


@pytest.mark.parametrize(
    ("epoch", "answer"), [(0, (0, 10)), (1, (0, 10)), (2, (2, 20)), (4, (2, 20)), (5, (5, 33)), (6, None), (-1, None)]
)
def test_end_offset_for_epoch_is_the_start_of_the_next_epoch(epoch: int, answer: tuple[int, int] | None) -> None:
    assert end_offset_for([(0, 0), (2, 10), (5, 20)], epoch, 33) == answer
    assert end_offset_for([], epoch, 33) is None
