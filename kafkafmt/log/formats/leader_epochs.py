"""Compute the leader epochs of a log from the epochs of its batches and its leader epoch checkpoint.

Kafka's counterpart is ``LeaderEpochFileCache``. The CRC of a batch does not cover its leader epoch.
Therefore, functions here select the most plausible increasing sequence of epochs.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

import numpy as np

from ...constants import MAGIC_V2, MAX_OFFSET
from ...types import BatchSummary, BatchTable, last_offsets

Epochs = list[tuple[int, int]]  # Pairs (epoch, first offset). Both values increase from pair to pair.


def epochs_of(table: BatchTable) -> Epochs:
    """Return a pair (epoch, base offset) for the first batch, and for each batch at which the leader epoch changes."""
    # Batches of formats 0 and 1 are ignored, because they have no leader epoch.
    rows = table[(table["magic"] >= MAGIC_V2) & (table["leader_epoch"] >= 0)]
    if not len(rows):
        return []
    changes = np.concatenate(([0], np.flatnonzero(rows["leader_epoch"][1:] != rows["leader_epoch"][:-1]) + 1))
    return list(zip(rows["leader_epoch"][changes].tolist(), rows["base_offset"][changes].tolist(), strict=True))


def epoch_runs(table: BatchTable, found: BatchSummary) -> list[tuple[int, int, int]]:
    """Return (epoch, first offset, last offset) for each group of consecutive batches of one leader epoch."""
    # Batches of formats 0 and 1 are ignored, because they have no leader epoch.
    if found.lowest_epoch == found.highest_epoch >= 0 and found.magics == 1 << MAGIC_V2:  # true for most tables
        return [(found.lowest_epoch, found.first, found.last)]
    epochs, magics = table["leader_epoch"], table["magic"]
    known = (magics >= MAGIC_V2) & (epochs >= 0)
    if not known.any():
        return []
    rows = table if known.all() else table[known]
    starts = np.concatenate(([0], np.flatnonzero(rows["leader_epoch"][1:] != rows["leader_epoch"][:-1]) + 1))
    ends = np.concatenate((starts[1:], [len(rows)])) - 1
    lasts = last_offsets(rows[ends])
    return list(
        zip(rows["leader_epoch"][starts].tolist(), rows["base_offset"][starts].tolist(), lasts.tolist(), strict=True)
    )


def contradicted(epochs: Sequence[tuple[int, int]], runs: Iterable[tuple[int, int, int]]) -> bool:
    """Return whether a checkpoint's leader epochs are not in order, or contradict the batches (see `epoch_runs`)."""
    # No entry describes batches before the first one. Batches after the last entry may have a higher epoch.
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
    """Return the epochs, with their first offsets, in the longest subsequence in which epochs never decrease."""
    # Patience sorting: `tops[n]` is the smallest epoch at the end of a non-decreasing subsequence of length n + 1.
    # `ends[n]` is the index of the element of `changes` from which the epoch `tops[n]` was taken.
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
    """Add a leader epoch that starts at `offset`. Remove those that are higher, or start at `offset` or later."""
    kept = list(epochs)
    if kept and kept[-1][0] == epoch and kept[-1][1] <= offset:
        return kept
    return [e for e in kept if e[0] < epoch and e[1] < offset] + [(epoch, offset)]


def within(epochs: Iterable[tuple[int, int]], start: int, end: int) -> Epochs:
    """Remove leader epochs outside [start, end]. The first remaining one starts at `start` or later."""
    kept = [e for e in epochs if e[1] <= end]
    before = [e for e in kept if e[1] <= start]
    return [(epoch, start) for epoch, _ in before[-1:]] + kept[len(before) :]


def believable_runs(
    runs: Sequence[tuple[int, int, int]], known: Sequence[tuple[int, int]] = ()
) -> list[tuple[int, int, int]]:
    """Select offset ranges with non-decreasing leader epochs that cover as many offsets as possible."""
    # The CRC of a batch does not cover its leader epoch. Therefore, a batch with a matching CRC can have a wrong epoch.
    # Ranges whose epoch agrees with the checkpoint's entries (`known`) have priority.
    starts = [offset for _, offset in known]
    # Each candidate sequence of ranges has a last epoch (`epochs`), a weight (`weights`) and a last range (`ends`).
    # Both epochs and weights increase from candidate to candidate.
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
    """Return a pair (epoch, first offset) for each leader epoch in `runs`. The epochs in `runs` must not decrease."""
    found: Epochs = []
    for epoch, first, _ in runs:
        if not found or epoch > found[-1][0]:
            found.append((epoch, first))
    return found


def end_offset_for(epochs: Sequence[tuple[int, int]], epoch: int, log_end: int) -> tuple[int, int] | None:
    """Return the pair (epoch, end offset) with which a broker answers an OffsetsForLeaderEpoch request."""
    # The epoch is the log's largest that is at most `epoch`, or `epoch` itself if all are larger. None: the end offset
    # is unknown, because the log has no epochs, or `epoch` is negative or above the latest.
    if not epochs or epoch > epochs[-1][0] or epoch < 0:
        return None
    if epoch == epochs[-1][0]:
        return epoch, log_end
    after = bisect_right(epochs, epoch, key=lambda e: e[0])
    return (epochs[after - 1][0] if after else epoch), epochs[after][1]


def trusted_epochs(checkpoint: Sequence[tuple[int, int]], runs: Sequence[tuple[int, int, int]]) -> Epochs:
    """Return the leader epochs of the checkpoint, if it agrees with the batches, and later ones of the batches."""
    # The checkpoint is ignored if it is empty, not in increasing order, or contradicts the batches (`epoch_runs`).
    kept = [] if contradicted(checkpoint, ()) else list(checkpoint)
    believed = believable_runs(runs, kept)
    of_batches = epochs_from(believed)
    if not kept or contradicted(kept, believed):
        return of_batches
    return [*kept, *((e, o) for e, o in of_batches if e > kept[-1][0] and o >= kept[-1][1])]


def common_end(
    leader: Sequence[tuple[int, int]], leader_end: int, follower: Sequence[tuple[int, int]], follower_end: int
) -> int | None:
    """Return the offset to which a follower must truncate its log, or None if a log has no leader epochs."""
    # Kafka's counterpart is ``AbstractFetcherThread.getOffsetTruncationState`` (KIP-101, KIP-279). The latest epoch of
    # the leader is at least that of the follower.
    if not leader or not follower:
        return None
    end, epoch = follower_end, follower[-1][0]
    while True:
        answer = end_offset_for(leader, epoch, leader_end)
        if answer is None:
            return end
        theirs, offset = answer
        end = min(end, offset)
        own = (epoch, end) if theirs == epoch else end_offset_for(follower, theirs, follower_end)
        if own is None:
            return end
        end = min(end, own[1])
        if own[0] == theirs:
            return end
        epoch = own[0]  # the next iteration checks whether the leader has the epoch `own[0]`


def joined_epochs(histories: Iterable[Sequence[tuple[int, int]]]) -> Epochs:
    """Merge the leader epochs of several copies of a log. On a contradiction, the first copy takes precedence."""
    # Each epoch gets its lowest first offset, because retention can delete the first batches in some copies.
    found: dict[int, int] = {}
    for history in histories:
        for epoch, offset in history:
            before = max((o for e, o in found.items() if e < epoch), default=-1)
            after = min((o for e, o in found.items() if e > epoch), default=MAX_OFFSET)
            if before < offset < after:
                found[epoch] = min(offset, found.get(epoch, offset))
    return sorted(found.items())
