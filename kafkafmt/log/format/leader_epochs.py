"""Derive and update the leader epochs of a log: the first offset of each epoch.

Kafka's counterpart is ``LeaderEpochFileCache``. The CRC of a batch does not cover its leader epoch,
so a corrupted batch can name an epoch that never existed. Functions here therefore select, from the
epochs that the batches name, the most plausible sequence in which epochs increase.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

import numpy as np

from ...constants import MAGIC_V2, MAX_OFFSET
from ...types import BatchTable, last_offsets

Epochs = list[tuple[int, int]]
"""(epoch, first offset) pairs, both increasing."""


def epochs_of(table: BatchTable) -> Epochs:
    """Return (epoch, base offset) of each batch at which the leader epoch changes.

    Batches of formats 0 and 1, which have no leader epoch, are ignored.
    """
    rows = table[(table["magic"] >= MAGIC_V2) & (table["leader_epoch"] >= 0)]
    if not len(rows):
        return []
    changes = np.concatenate(([0], np.flatnonzero(rows["leader_epoch"][1:] != rows["leader_epoch"][:-1]) + 1))
    return list(zip(rows["leader_epoch"][changes].tolist(), rows["base_offset"][changes].tolist(), strict=True))


def epoch_runs(table: BatchTable) -> list[tuple[int, int, int]]:
    """Return (epoch, first offset, last offset) of each run of batches with the same epoch.

    Batches of formats 0 and 1, which have no leader epoch, are ignored.
    """
    rows = table[(table["magic"] >= MAGIC_V2) & (table["leader_epoch"] >= 0)]
    if not len(rows):
        return []
    starts = np.concatenate(([0], np.flatnonzero(rows["leader_epoch"][1:] != rows["leader_epoch"][:-1]) + 1))
    ends = np.concatenate((starts[1:], [len(rows)])) - 1
    lasts = last_offsets(rows[ends])
    return list(
        zip(rows["leader_epoch"][starts].tolist(), rows["base_offset"][starts].tolist(), lasts.tolist(), strict=True)
    )


def contradicted(epochs: Sequence[tuple[int, int]], runs: Iterable[tuple[int, int, int]]) -> bool:
    """Return whether the leader epochs of batches contradict the entries of a checkpoint.

    Entries that do not increase count as contradicted.

    Batches before the first entry contradict nothing. Neither do higher epochs after the last
    entry.

    Parameters
    ----------
    epochs : sequence of (int, int)
        The checkpoint's entries, (epoch, first offset).
    runs : iterable of (int, int, int)
        (epoch, first offset, last offset) from `epoch_runs`.
    """
    if any(a[0] >= b[0] or a[1] > b[1] for a, b in itertools.pairwise(epochs)):
        return True
    starts = [offset for _, offset in epochs]
    for epoch, first, last in runs:
        at, at_end = bisect_right(starts, first) - 1, bisect_right(starts, last) - 1
        if at != at_end:
            return True
        if at >= 0 and (epoch < epochs[at][0] or (epoch > epochs[at][0] and at < len(starts) - 1)):
            return True
    return False


def believable_epochs(changes: Sequence[tuple[int, int]]) -> Epochs:
    """Return the longest sequence of changes in which epochs do not decrease, one entry per epoch.

    Parameters
    ----------
    changes : sequence of (int, int)
        (epoch, base offset) from `epochs_of`.
    """
    # For each length: the lowest epoch with which a sequence of this length ends, and its last
    # change.
    tops: list[int] = []
    ends: list[int] = []
    parents: list[int] = []
    lengths: list[int] = []
    latest: dict[int, int] = {}
    for i, (epoch, _) in enumerate(changes):
        length = bisect_right(tops, epoch)
        before = latest.get(epoch, -1)
        extends_same_epoch = before >= 0 and lengths[before] + 1 == length
        parents.append(before if extends_same_epoch else ends[length - 1] if length else -1)
        lengths.append(length)
        tops[length : length + 1], ends[length : length + 1] = [epoch], [i]
        latest[epoch] = i
    chain = []
    at = ends[-1] if ends else -1
    while at >= 0:
        chain.append(changes[at])
        at = parents[at]
    found: Epochs = []
    for epoch, offset in reversed(chain):
        if not found or epoch > found[-1][0]:
            found.append((epoch, offset))
    return found


def assigned(epochs: Iterable[tuple[int, int]], epoch: int, offset: int) -> Epochs:
    """Return the epochs after a leader starts `epoch` at `offset`.

    Entries that contradict this are removed.
    """
    kept = list(epochs)
    if kept and kept[-1][0] == epoch and kept[-1][1] <= offset:
        return kept
    return [e for e in kept if e[0] < epoch and e[1] < offset] + [(epoch, offset)]


def within(epochs: Iterable[tuple[int, int]], start: int, end: int) -> Epochs:
    """Return the epochs of a log that starts at `start` and ends at `end` (exclusive).

    The first epoch is moved up to `start`. The last epoch can start at `end`.
    """
    kept = [e for e in epochs if e[1] <= end]
    before = [e for e in kept if e[1] <= start]
    return [(epoch, start) for epoch, _ in before[-1:]] + kept[len(before) :]


def believable_runs(
    runs: Sequence[tuple[int, int, int]], known: Sequence[tuple[int, int]] = ()
) -> list[tuple[int, int, int]]:
    """Return the runs that together cover the most offsets and in which epochs do not decrease.

    The CRC of a batch does not cover its epoch, so a few batches can name a wrong one. Runs that
    agree with a checkpoint outweigh all others.

    Parameters
    ----------
    runs : sequence of (int, int, int)
        (epoch, first offset, last offset) from `epoch_runs`.
    known : sequence of (int, int), optional
        Entries (epoch, first offset) of the checkpoint.
    """
    starts = [offset for _, offset in known]
    # For each chain that can still win: its last epoch, the offsets that it covers, and its last
    # run. Epochs and weights both increase from chain to chain.
    epochs: list[int] = []
    weights: list[int] = []
    ends: list[int] = []
    parents: list[int] = []
    for i, (epoch, first, last) in enumerate(runs):
        at = bisect_right(epochs, epoch)
        parents.append(ends[at - 1] if at else -1)
        entry = bisect_right(starts, first) - 1
        agrees = entry >= 0 and known[entry][0] == epoch
        weight = (weights[at - 1] if at else 0) + last - first + 1 + (MAX_OFFSET if agrees else 0)
        at = bisect_left(epochs, epoch)
        stop = at
        while stop < len(epochs) and weights[stop] <= weight:
            stop += 1
        epochs[at:stop], weights[at:stop], ends[at:stop] = [epoch], [weight], [i]
    chain = []
    i = ends[-1] if ends else -1
    while i >= 0:
        chain.append(runs[i])
        i = parents[i]
    return chain[::-1]


def epochs_from(runs: Iterable[tuple[int, int, int]]) -> Epochs:
    """Return (epoch, first offset) of each epoch; the epochs of `runs` must not decrease."""
    found: Epochs = []
    for epoch, first, _ in runs:
        if not found or epoch > found[-1][0]:
            found.append((epoch, first))
    return found


def end_offset_for(epochs: Sequence[tuple[int, int]], epoch: int, log_end: int) -> tuple[int, int] | None:
    """Return what a broker answers to OffsetsForLeaderEpoch: an epoch and its end offset.

    The epoch is the largest one that is at most `epoch`; if there is none, it is `epoch` itself.
    Return None if the end offset is unknown: there are no epochs, or `epoch` is negative or above
    the latest.
    """
    if not epochs or epoch > epochs[-1][0] or epoch < 0:
        return None
    if epoch == epochs[-1][0]:
        return epoch, log_end
    after = bisect_right(epochs, epoch, key=lambda e: e[0])
    return (epochs[after - 1][0] if after else epoch), epochs[after][1]
