"""Test aborted transactions that a transaction index lists, but whose marker is damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from building import split
from salvaging import (
    NAME,
    abort,
    aborted_entries,
    commit,
    committed,
    corrupt,
    data,
    details,
    findings,
    partition,
    salvaged,
)

from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.formats.index_entries import transaction_index_bytes
from kafkafmt.log.formats.snapshots import read_snapshot
from kafkafmt.log.repairing import salvage_markers
from kafkafmt.log.storage.file_view import FileView

ENTRY = (7, 0, 1, 2)
FOLLOWED_BY: dict[str, tuple[list[bytes], list[int]]] = {
    "commit": ([data(2, 7), commit(3)], [2]),
    "abort": ([data(2, 7), abort(3)], []),
    "an open transaction": ([data(2, 7)], []),
    "another producer": ([data(2, 8), commit(3, 8), data(4)], [2, 4]),
    "nothing of a producer": ([data(2), data(3)], [2, 3]),
    "nothing": ([], []),
}


@pytest.mark.parametrize("kind", FOLLOWED_BY)
def test_transaction_index_keeps_entry_whose_marker_is_damaged(kind: str, tmp_path: Path) -> None:
    following, expected = FOLLOWED_BY[kind]
    partition(
        tmp_path / "in",
        data(0, 7),
        corrupt(abort(1)),
        *following,
        index=[ENTRY, *([(7, 2, 3, 4)] if kind == "abort" else [])],
    )
    made, _ = salvaged(tmp_path / "in", tmp_path / "out")
    copy = tmp_path / "out" / "t-0"
    assert aborted_entries(copy)[0] == ENTRY
    assert committed(tmp_path / "out") == committed(tmp_path / "in") == expected
    assert made.restored == [1]
    assert findings(tmp_path / "out") == []
    assert [b for b in split((copy / NAME).read_bytes()) if b in [data(0, 7), *following]] == [data(0, 7), *following]


def test_marker_is_restored_after_records_before_1970(tmp_path: Path) -> None:
    """No marker can have a negative timestamp other than -1."""
    early = data(0, 7, base_timestamp=-5000, max_timestamp=-5000)
    partition(tmp_path / "in", early, corrupt(abort(1)), data(2), index=[ENTRY])
    made, _ = salvaged(tmp_path / "in", tmp_path / "out")
    assert (made.restored, committed(tmp_path / "out"), findings(tmp_path / "out")) == ([1], [2], [])


@pytest.mark.parametrize(("producer_id", "producer_epoch"), [(-7, 1), (7, -1)])
def test_transaction_that_no_marker_can_end_stays_open(producer_id: int, producer_epoch: int, tmp_path: Path) -> None:
    first = data(0, producer_id, producer_epoch=producer_epoch)
    partition(tmp_path / "in", first, corrupt(abort(1)), data(2), index=[(producer_id, 0, 1, 2)])
    made, _ = salvaged(tmp_path / "in", tmp_path / "out", abort_open=True)
    assert (made.restored, made.aborted) == ([], {})


def test_snapshot_and_stable_offset_show_that_the_transaction_ended(tmp_path: Path) -> None:
    partition(tmp_path / "in", data(0, 7), corrupt(abort(1)), data(2), index=[ENTRY])
    made, _ = salvaged(tmp_path / "in", tmp_path / "out")
    producers = read_snapshot((tmp_path / "out" / "t-0" / f"{3:020}.snapshot").read_bytes())
    assert [(p.producer_id, p.epoch, p.txn_first_offset) for p in producers] == [(7, 1, -1)]
    assert made.open == []
    (directory,) = discover([tmp_path / "out"]).partitions
    assert PartitionLog(directory).transactions.last_stable_offset == 3


def test_entries_of_several_producers_are_ordered_by_their_markers(tmp_path: Path) -> None:
    parts = [
        data(0, 7),
        data(1, 8),
        data(2, 9),
        corrupt(abort(3, 8)),
        data(4),
        corrupt(abort(5, 7)),
        abort(6, 9),
        data(7),
    ]
    entries = [(8, 1, 3, 0), (7, 0, 5, 2), (9, 2, 6, 7)]
    partition(tmp_path / "in", *parts, index=entries)
    made, _ = salvaged(tmp_path / "in", tmp_path / "out")
    assert aborted_entries(tmp_path / "out" / "t-0") == entries
    assert made.restored == [3, 5]
    assert committed(tmp_path / "out") == committed(tmp_path / "in") == [4, 7]


def test_entry_is_kept_if_the_marker_is_in_a_missing_segment(tmp_path: Path) -> None:
    folder = partition(tmp_path / "in", data(0, 7), data(1))
    partition(tmp_path / "in", data(10, 7), commit(11), data(12), base=10)
    (folder / f"{2:020}.txnindex").write_bytes(transaction_index_bytes([(7, 0, 5, 6)]))
    salvaged(tmp_path / "in", tmp_path / "out")
    assert aborted_entries(tmp_path / "out" / "t-0") == [(7, 0, 5, 6)]
    assert (tmp_path / "out" / "t-0" / f"{0:020}.txnindex").stat().st_size == 34
    assert committed(tmp_path / "out") == [1, 10, 12]


def test_entry_is_kept_if_its_whole_segment_is_damaged(tmp_path: Path) -> None:
    partition(tmp_path / "in", data(0, 7), data(1))
    partition(tmp_path / "in", corrupt(abort(2)), base=2, index=[(7, 0, 2, 3)])
    partition(tmp_path / "in", data(3, 7), commit(4), base=3)
    salvaged(tmp_path / "in", tmp_path / "out")
    assert aborted_entries(tmp_path / "out" / "t-0") == [(7, 0, 2, 3)]
    assert committed(tmp_path / "out") == [1, 3]


DAMAGED_INDEXES: dict[str, bytes] = {
    "a partial entry follows": transaction_index_bytes([ENTRY]) + b"\x00" * 20,
    "garbage follows": transaction_index_bytes([ENTRY]) + b"\xff" * 34,
    "garbage precedes": b"\xff" * 34 + transaction_index_bytes([ENTRY]),
    "another entry is lost": transaction_index_bytes([ENTRY]),
}


@pytest.mark.parametrize("kind", DAMAGED_INDEXES)
def test_entry_of_a_damaged_index_is_used(kind: str, tmp_path: Path) -> None:
    folder = partition(tmp_path / "in", data(0, 7), corrupt(abort(1)), data(2, 7), commit(3), data(4, 8), abort(5, 8))
    (folder / f"{0:020}.txnindex").write_bytes(DAMAGED_INDEXES[kind])
    salvaged(tmp_path / "in", tmp_path / "out")
    assert aborted_entries(tmp_path / "out" / "t-0") == [ENTRY, (8, 4, 5, 6)]
    assert committed(tmp_path / "out") == [2]


WRONG_ENTRIES: dict[str, tuple[int, int, int, int]] = {
    "another producer": (9, 0, 1, 2),
    "an offset far beyond the end": (7, 0, 2**50, 2**50 + 1),
    "a first offset that comes later": (7, 1, 2, 3),
    "an offset that a batch contains": (7, 0, 2, 3),
}


@pytest.mark.parametrize("kind", WRONG_ENTRIES)
def test_entry_that_batches_contradict_restores_no_marker(kind: str, tmp_path: Path) -> None:
    partition(tmp_path / "in", data(0, 7), corrupt(data(1), 70), data(2), index=[WRONG_ENTRIES[kind]])
    made, _ = salvaged(tmp_path / "in", tmp_path / "out")
    assert made.restored == []
    assert [(p.producer_id, p.txn_first_offset) for p in made.open] == [(7, 0)]


def test_stopping_at_the_first_damage_restores_no_marker_after_it(tmp_path: Path) -> None:
    partition(tmp_path / "in", data(0, 7), corrupt(abort(1)), data(2, 7), commit(3), index=[ENTRY])
    made, _ = salvaged(tmp_path / "in", tmp_path / "out", stop_at_first=True)
    assert (made.restored, made.next_offset) == ([], 1)
    assert [p.txn_first_offset for p in made.open] == [0]


def test_copy_without_the_marker_is_read_according_to_its_index(tmp_path: Path) -> None:
    """Earlier versions of salvage wrote such copies. A broker uses the transaction index."""
    partition(tmp_path / "in", data(0, 7), data(2, 8), commit(3, 8), data(4), index=[ENTRY])
    assert committed(tmp_path / "in") == [2, 4]
    made, _ = salvaged(tmp_path / "in", tmp_path / "out")
    assert made.restored == [1]
    assert committed(tmp_path / "out") == [2, 4]


DIFFERENCES: dict[str, tuple[list[bytes], list[Any]]] = {
    "the index names a committed transaction": ([data(0, 7), commit(1)], [(7, 0, 1, 2)]),
    "a consumer drops what follows a lost marker": ([data(0, 7), data(2, 7), commit(3)], [ENTRY]),
    "a transaction precedes a lost marker": ([data(0, 7), data(2, 7), abort(3)], [(7, 2, 3, 4)]),
}


@pytest.mark.parametrize("kind", DIFFERENCES)
def test_verify_reports_if_a_broker_would_deliver_other_records(kind: str, tmp_path: Path) -> None:
    parts, index = DIFFERENCES[kind]
    folder = partition(tmp_path / "in", *parts, index=index)
    (folder / f"{0:020}.index").touch()
    assert "read_committed_differs" in findings(tmp_path / "in")
    (folder / f"{0:020}.txnindex").unlink()
    assert "read_committed_differs" not in findings(tmp_path / "in")


def test_verify_reports_no_difference_for_a_lost_marker_between_missing_offsets(tmp_path: Path) -> None:
    """The abort marker is not at the first missing offset. A broker would drop only offset 4 in addition."""
    lost = [corrupt(data(1)), corrupt(abort(2)), corrupt(data(3))]
    folder = partition(tmp_path / "in", data(0, 7), *lost, data(4, 7), commit(5), index=[(7, 0, 2, 3)])
    (folder / f"{0:020}.index").touch()
    assert committed(tmp_path / "in") == [4]
    (found,) = (f["message"] for f in details(tmp_path / "in") if f["error"] == "read_committed_differs")
    assert found.startswith("at read_committed, offsets 3 to 4 of producer 7: kafkafmt delivers them, but a Kafka")
    assert "transactions differ" not in found


@pytest.mark.parametrize("following", [[data(2, 7), commit(3)], [data(2, 7), abort(3)]])
def test_verify_reports_doubtful_records_that_a_broker_delivers(following: list[bytes], tmp_path: Path) -> None:
    index = [(7, 2, 3, 4)] if following[-1] == abort(3) else None
    folder = partition(tmp_path / "in", data(0, 7), corrupt(commit(1)), *following, index=index)
    (folder / f"{0:020}.index").touch()
    found = {f["error"]: f["message"] for f in details(tmp_path / "in")}
    assert found["transaction_in_doubt"].endswith("producer 7 that began at offset 0 ended")
    assert found["read_committed_differs"] == (
        "at read_committed, offset 0 of producer 7: kafkafmt omits them, because it is unknown how their transaction "
        "ended, but a broker delivers them"
    )


def test_verify_reports_an_aborted_transaction_that_no_index_names(tmp_path: Path) -> None:
    folder = partition(tmp_path / "in", data(0, 7), abort(1))
    (folder / f"{0:020}.index").touch()
    assert "index_mismatch" in findings(tmp_path / "in")


def test_verify_reports_no_difference_if_the_next_transaction_is_aborted(tmp_path: Path) -> None:
    folder = partition(tmp_path / "in", data(0, 7), data(3), data(4, 7), abort(5), index=[ENTRY, (7, 4, 5, 6)])
    (folder / f"{0:020}.index").touch()
    assert committed(tmp_path / "in") == [3]
    assert findings(tmp_path / "in") == ["offset_gap"]


def test_verify_reports_no_difference_if_an_aborted_transaction_is_lost(tmp_path: Path) -> None:
    folder = partition(tmp_path / "in", data(0), abort(2), data(3, 7), commit(4), index=[(7, 1, 2, 3)])
    (folder / f"{0:020}.index").touch()
    assert committed(tmp_path / "in") == [0, 3]
    assert findings(tmp_path / "in") == ["offset_gap"]


def test_two_damaged_spans_in_a_transaction_restore_its_marker_once(tmp_path: Path) -> None:
    parts = [data(0, 7), corrupt(data(1), 70), data(2, 7), corrupt(data(3), 70), data(4, 7), corrupt(abort(5)), data(6)]
    partition(tmp_path / "in", *parts, index=[(7, 0, 5, 6)])
    made, _ = salvaged(tmp_path / "in", tmp_path / "out")
    assert made.restored == [5]
    assert aborted_entries(tmp_path / "out" / "t-0") == [(7, 0, 5, 6)]
    assert committed(tmp_path / "out") == [6]


IN_DOUBT: dict[str, tuple[list[bytes], list[tuple[int, int, int, int]], list[int], list[int]]] = {
    "abort": ([data(2, 7), abort(3)], [(7, 2, 3, 4)], [], []),
    "abort of another producer": ([data(2, 8), abort(3, 8), data(4)], [(8, 2, 3, 4)], [4], []),
    "commit": ([data(2, 7), commit(3)], [], [2], []),
    "lost abort": ([data(2, 7), corrupt(abort(3)), data(4)], [(7, 2, 3, 4)], [4], [3]),
    "lost abort without damage": ([data(2, 7), data(4, 7), commit(5)], [(7, 2, 3, 4)], [4], [3]),
    "commit and lost abort": ([data(2, 7), commit(3), data(4, 7), corrupt(abort(5))], [(7, 4, 5, 6)], [2], [5]),
}
"""For each kind of marker after a lost commit marker: the batches after it, the entries of the
transaction index, the committed offsets, and the offsets of the restored markers.
"""


@pytest.mark.parametrize("kind", IN_DOUBT)
def test_transaction_with_a_lost_commit_marker_stays_in_doubt(kind: str, tmp_path: Path) -> None:
    """The index lists only aborted transactions. An entry can be lost too, so its absence proves no commit."""
    following, index, expected, restored = IN_DOUBT[kind]
    partition(tmp_path / "in", data(0, 7), corrupt(commit(1)), *following, index=index)
    made, _ = salvaged(tmp_path / "in", tmp_path / "out")
    assert made.restored == restored
    assert committed(tmp_path / "in") == expected
    assert "transaction_in_doubt" in findings(tmp_path / "in")


def test_damage_without_missing_offsets_hides_no_marker(tmp_path: Path) -> None:
    partition(tmp_path / "in", data(0, 7), bytes(100), data(1, 7), commit(2), index=None)
    assert committed(tmp_path / "in") == [0, 1]
    assert "transaction_in_doubt" not in findings(tmp_path / "in")
    salvaged(tmp_path / "in", tmp_path / "out")
    assert committed(tmp_path / "out") == [0, 1]


def test_only_segments_of_transactions_with_lost_markers_are_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, searched = tmp_path / "in", list[str]()
    partition(root, data(0), data(1))
    partition(root, data(2, 7), data(3), base=2)
    partition(root, corrupt(abort(4)), data(5), base=4, index=[(7, 2, 4, 5)])
    partition(root, data(6), base=6)
    partition(root, data(7), base=7)

    def opened(path: str, **options: Any) -> FileView:
        searched.append(Path(path).stem.lstrip("0"))
        return FileView(path, **options)

    monkeypatch.setattr(salvage_markers, "FileView", opened)
    made, _ = salvaged(root, tmp_path / "out")
    assert made.restored == [4]
    assert searched == ["2", "7"]  # Segment 4 has no batch before the marker. The last segment is always read.
    assert committed(tmp_path / "out") == [0, 1, 3, 5, 6, 7]
