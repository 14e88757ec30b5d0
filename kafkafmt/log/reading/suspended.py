"""Collect the transactions whose markers damage may hide, and find their outcomes with the transaction indexes.

Damage can hide the markers of a hundred thousand transactions. Therefore, the transactions are
stored as rows of an array.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ...constants import CONTROL_ABORT, MAX_OFFSET, NO_MARKER
from ...types import IntArray
from ..format.files import file_size
from ..format.packed import segment_name_of
from ..format.producers import Aborted
from .partition_dir import PartitionDir
from .transaction_index import IndexEntries
from .transactions import DAMAGE, Cause, Doubts, Transactions


@dataclass
class Suspended:
    """Transactions with an unknown outcome, and the next marker of each of their producers.

    Attributes
    ----------
    awaited : set of int
        The producers that have a transaction with an unknown outcome and no later marker.
    """

    awaited: set[int] = field(default_factory=set)
    _rows: array[int] = field(default_factory=lambda: array("q"))
    """The rows of the array `hidden` of `core.walk_transactions`."""
    _causes: list[Cause] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)
    """For each item of `_causes`, the number of the first row with this cause."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._rows) // 4

    def add(self, producer_id: int, first: int, last: int, cause: Cause) -> None:
        """Add a transaction with records at the offsets from `first` to `last`."""
        self._begin(cause)
        self._rows.extend((producer_id, first, last, NO_MARKER))
        self.awaited.add(producer_id)

    def extend(self, hidden: IntArray, cause: Cause) -> None:
        """Add rows that `core.walk_transactions` has written."""
        if len(hidden):
            self._begin(cause)
            self._rows.frombytes(hidden.tobytes())

    def _begin(self, cause: Cause) -> None:
        if not self._causes or self._causes[-1] != cause:
            self._causes.append(cause)
            self._starts.append(len(self))

    def doubts(self) -> tuple[Doubts, IntArray, IntArray]:
        """Return the transactions, and the kind and the offset of the next marker of each transaction's producer.

        The transactions are grouped by producer. If no marker follows, the kind is NO_MARKER, and the
        offset is MAX_OFFSET.
        """
        rows = np.frombuffer(self._rows, np.int64).reshape(-1, 4)
        cause = np.repeat(np.arange(len(self._starts)), np.diff(self._starts, append=len(rows)))
        _, begins, group = np.unique(rows[:, 0], return_index=True, return_inverse=True)
        order = np.argsort(begins[group], kind="stable")
        rows, cause = rows[order], cause[order]
        doubtful = rows[:, 3] == NO_MARKER
        following = _next_in_group(~doubtful, rows[:, 0])[doubtful]
        kinds, offsets = np.append(rows[:, 3], NO_MARKER)[following], np.append(rows[:, 1], MAX_OFFSET)[following]
        producer_id, first, last, _ = rows[doubtful].T
        return Doubts(producer_id, first, last, cause[doubtful], self._causes), kinds, offsets


def resolve(
    suspended: Suspended,
    found: Transactions,
    last_markers: Mapping[int, int],
    directory: PartitionDir,
    index: IndexEntries,
) -> None:
    """Find the outcomes of transactions that have a damaged or missing marker, and add the outcomes to `found`.

    - Aborted: a transaction index lists the transaction.
    - Committed: no transaction index lists the transaction, although the transaction has ended. It
      has ended if its producer wrote a later marker, or if a later index entry contains a last
      stable offset above the first offset of the transaction.
    - Unknown: all other cases.

    Parameters
    ----------
    suspended : Suspended
        The transactions.
    found : Transactions
        The outcomes of other transactions.
    last_markers : mapping of int to int
        The offset of the last marker of each producer.
    directory : PartitionDir
        The partition.
    index : IndexEntries
        The entries of the transaction indexes of the partition.
    """
    doubts, next_kinds, next_offsets = suspended.doubts()
    named = list(zip(index.producer_id.tolist(), index.last.tolist(), strict=True))
    marked = {(producer_id, last) for producer_id, spans in found.aborted.items() for _, last in spans}
    own = _entry_of(doubts, index.producer_id, index.last)
    exists = own < len(index)
    listed = exists & (np.append(index.first, 0)[own] <= doubts.first)
    later = np.searchsorted(index.last, doubts.last, "right")
    ended = (_last_markers(doubts, last_markers) > doubts.last) | (_highest_from(index.stable)[later] > doubts.first)
    provable = np.array([_is_provable(cause, directory, index) for cause in doubts.causes], bool)[doubts.cause]
    has_marker = np.array([pair in marked for pair in named], bool)
    reliable = marked.issubset(named) and not _is_contradicted(index, doubts, own)
    unknown = ~listed & ~(ended & provable & reliable)
    confirmed = np.where(has_marker, index.stable, -1)
    next_aborts = next_kinds == CONTROL_ABORT
    next_aborts |= (next_kinds == NO_MARKER) & (_highest_from(confirmed)[later] > doubts.first)
    last = np.where(listed, np.minimum(doubts.last, np.append(index.last, 0)[own]), doubts.last)
    _omit(found, doubts, last, listed | unknown, _continues_doubt(doubts, unknown, next_offsets))
    # If the next marker of the producer is at the marker offset of the entry, the log contains the marker.
    lost = listed & ~((next_kinds == CONTROL_ABORT) & (next_offsets == np.append(index.last, -1)[own]))
    # If a transaction was divided by damage, its parts have the same entry.
    entries, places = np.unique(own[lost], return_index=True)
    found.unmarked += index.at(entries[np.argsort(places)])
    next_aborts |= _lost_abort_markers(doubts, found.unmarked) < next_offsets
    found.doubts = found.doubts.joined(doubts.at(unknown))
    found.committed_unmarked = found.committed_unmarked.joined(doubts.at(~listed & ~unknown & next_aborts))


def _next_in_group(mask: npt.NDArray[np.bool_], group: IntArray) -> IntArray:
    """Return the index of the next True in `mask` for each item, if it is in the same group, else the length of `mask`.

    The items of a group are adjacent in the array `group`. If an item is True, the result is its own index.
    """
    indexes = np.where(mask, np.arange(len(mask)), len(mask))
    following = np.minimum.accumulate(indexes[::-1])[::-1]
    inside = np.append(group, 0)[following] == group
    return np.where(inside, following, len(mask))


def _entry_of(doubts: Doubts, producer_id: IntArray, last: IntArray) -> IntArray:
    """Return the first index entry of each transaction's producer whose marker is not before the transaction.

    The arrays `producer_id` and `last` contain the producers and the marker offsets of the entries. The
    result contains indexes of entries. It contains the number of entries if no entry is found.
    """
    n = len(doubts)
    producers = np.concatenate((doubts.producer_id, producer_id))
    order = np.lexsort((np.concatenate((doubts.first, last)), producers))
    following = _next_in_group(order >= n, producers[order])
    found = np.empty(len(order), np.int64)
    found[order] = np.append(order, n + len(last))[following] - n
    return found[:n]


def _is_contradicted(index: IndexEntries, doubts: Doubts, own: IntArray) -> bool:
    """Return whether the log contradicts an index entry, so that other entries can be wrong or missing too.

    The log contradicts an entry in these cases:

    - Another batch is at the offset of its abort marker.
    - A transaction of another producer begins at its first offset.
    - Its first offset is inside another transaction of its producer. `own` contains the result of `_entry_of`.
    """
    if index.contradicted:
        return True
    first, producer_id = np.append(index.first, -1), np.append(index.producer_id, -1)
    if ((doubts.first < first[own]) & (first[own] <= doubts.last)).any():
        return True
    order = np.argsort(first, kind="stable")
    at = order[np.minimum(np.searchsorted(first[order], doubts.first), len(order) - 1)]
    return bool(((first[at] == doubts.first) & (producer_id[at] != doubts.producer_id)).any())


def _lost_abort_markers(doubts: Doubts, unmarked: Sequence[Aborted]) -> IntArray:
    """Return the offset of the next lost abort marker of each transaction's producer, or MAX_OFFSET.

    `unmarked` contains the index entries whose abort markers are lost.
    """
    producer_id = np.array([entry.producer_id for entry in unmarked], np.int64)
    last = np.array([entry.last for entry in unmarked], np.int64)
    offsets: IntArray = np.append(last, MAX_OFFSET)[_entry_of(doubts, producer_id, last)]
    return offsets


def _highest_from(stable: IntArray) -> IntArray:
    """Return the largest last stable offset from each index entry on. After the last entry, it is -1."""
    return np.append(np.maximum.accumulate(stable[::-1])[::-1], -1)


def _last_markers(doubts: Doubts, last_markers: Mapping[int, int]) -> IntArray:
    """Return the offset of the last marker of each transaction's producer, or -1 if the producer has no marker."""
    producers, group = np.unique(doubts.producer_id, return_inverse=True)
    offsets = np.array([last_markers.get(producer_id, -1) for producer_id in producers.tolist()], np.int64)
    found: IntArray = offsets[group]
    return found


def _is_provable(cause: Cause, directory: PartitionDir, index: IndexEntries) -> bool:
    """Return whether a transaction that is not in the transaction indexes can be committed.

    The list of aborted transactions may be incomplete if a segment is missing, or if the transaction
    index of the damaged segment cannot be read or has a corrupted entry.
    """
    file, hidden_by = cause
    path = (directory.path / (segment_name_of(file) or file)).with_suffix(".txnindex")
    complete = path.name not in index.unreadable and path.name not in index.corrupted
    return hidden_by == DAMAGE and complete and file_size(path) is not None


def _continues_doubt(doubts: Doubts, unknown: npt.NDArray[np.bool_], next_offsets: IntArray) -> npt.NDArray[np.bool_]:
    """Return a mask of transactions with an unknown outcome that directly follow another one of the same producer.

    There is no marker of the producer between the two transactions. Often, they are parts of a transaction that damage
    divided.
    """
    follows = np.zeros(len(unknown), bool)
    follows[1:] = unknown[1:] & unknown[:-1] & (next_offsets[1:] == next_offsets[:-1])
    follows[1:] &= (doubts.producer_id[1:] == doubts.producer_id[:-1]) & (doubts.first[1:] > doubts.last[:-1])
    return follows


def _omit(
    found: Transactions,
    doubts: Doubts,
    last: IntArray,
    mask: npt.NDArray[np.bool_],
    continues: npt.NDArray[np.bool_],
) -> None:
    """Add the transactions that `mask` selects to the aborted transactions. Transactions are grouped by producer.

    `last` contains their last offsets. A transaction that `continues` selects extends the offset range of the transaction
    before it.
    """
    starts, ends = mask & ~continues, mask & ~np.append(continues[1:], False)
    producers = doubts.producer_id[starts]
    spans = list(zip(doubts.first[starts].tolist(), last[ends].tolist(), strict=True))
    begins = np.flatnonzero(np.diff(producers, prepend=~producers[:1])).tolist()
    for begin, end in itertools.pairwise([*begins, len(spans)]):
        found.aborted[int(producers[begin])] += spans[begin:end]
