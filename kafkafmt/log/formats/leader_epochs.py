"""Compute the leader epochs of a log from the epochs of its batches and its leader epoch checkpoint.

Kafka's counterpart is ``LeaderEpochFileCache``. The CRC of a batch does not cover its leader epoch,
so the epoch of a batch can be wrong although its CRC matches. Therefore, functions in this module
select the most plausible increasing sequence of epochs.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

import numpy as np

from ...constants import MAGIC_V2, MAX_OFFSET
from ...types import BatchSummary, BatchTable, last_offsets

Epochs = list[tuple[int, int]]
"""Pairs (epoch, first offset). Both values increase from pair to pair."""


def epochs_of(table: BatchTable) -> Epochs:
    """Find the batches at which the leader epoch changes. Return a pair (epoch, base offset) for each of them.

    The first pair describes the first batch. Batches of formats 0 and 1 are ignored, because they
    have no leader epoch.
    """
    rows = table[(table["magic"] >= MAGIC_V2) & (table["leader_epoch"] >= 0)]
    if not len(rows):
        return []
    changes = np.concatenate(([0], np.flatnonzero(rows["leader_epoch"][1:] != rows["leader_epoch"][:-1]) + 1))
    return list(zip(rows["leader_epoch"][changes].tolist(), rows["base_offset"][changes].tolist(), strict=True))


def epoch_runs(table: BatchTable, found: BatchSummary) -> list[tuple[int, int, int]]:
    """Group consecutive batches by leader epoch. Return a tuple (epoch, first offset, last offset) for each group.

    Batches of formats 0 and 1 are ignored, because they have no leader epoch. `found` is a summary
    of the table.
    """
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
    """Return whether the leader epochs of a log's batches contradict the entries of its leader epoch checkpoint.

    If the checkpoint's entries are not in increasing order, return True.

    Batches before the offset of the first checkpoint entry are ignored, because no entry describes
    them. Batches at or after the offset of the last checkpoint entry may have a higher epoch than
    this entry.

    Parameters
    ----------
    epochs : sequence of (int, int)
        Entries of the checkpoint: pairs (epoch, first offset).
    runs : iterable of (int, int, int)
        Tuples (epoch, first offset, last offset), as returned by `epoch_runs`.
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
    """Remove implausible leader epochs. Return a pair (epoch, first offset) for each remaining epoch.

    The result consists of the epochs in the longest subsequence of `changes` in which epochs never
    decrease.

    Parameters
    ----------
    changes : sequence of (int, int)
        Pairs (epoch, base offset), as returned by `epochs_of`.
    """
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
    """Add a new leader epoch that starts at `offset`, and return all leader epochs of the log.

    Epochs are removed if they are higher than `epoch`, or if they start at `offset` or later.
    """
    kept = list(epochs)
    if kept and kept[-1][0] == epoch and kept[-1][1] <= offset:
        return kept
    return [e for e in kept if e[0] < epoch and e[1] < offset] + [(epoch, offset)]


def within(epochs: Iterable[tuple[int, int]], start: int, end: int) -> Epochs:
    """Remove leader epochs outside the offsets [start, end] of a log, and return the others.

    If the first remaining epoch starts before `start`, its first offset is raised to `start`.
    """
    kept = [e for e in epochs if e[1] <= end]
    before = [e for e in kept if e[1] <= start]
    return [(epoch, start) for epoch, _ in before[-1:]] + kept[len(before) :]


def believable_runs(
    runs: Sequence[tuple[int, int, int]], known: Sequence[tuple[int, int]] = ()
) -> list[tuple[int, int, int]]:
    """Select offset ranges with non-decreasing leader epochs, so that these ranges cover as many offsets as possible.

    The CRC of a batch does not cover its leader epoch. Therefore, a batch with a matching CRC can
    have a wrong epoch. Ranges whose epoch agrees with the checkpoint have priority over all other
    ranges.

    Parameters
    ----------
    runs : sequence of (int, int, int)
        Tuples (epoch, first offset, last offset), as returned by `epoch_runs`.
    known : sequence of (int, int), optional
        Entries of the checkpoint: pairs (epoch, first offset).
    """
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
    """Return the pair (epoch, end offset) with which a broker answers an OffsetsForLeaderEpoch request.

    The returned epoch is the largest epoch of the log that is at most `epoch`. If all epochs of the
    log are larger, `epoch` itself is returned.

    Return None if the end offset is unknown. This is the case if the log has no epochs, and if
    `epoch` is negative or above the latest epoch.
    """
    if not epochs or epoch > epochs[-1][0] or epoch < 0:
        return None
    if epoch == epochs[-1][0]:
        return epoch, log_end
    after = bisect_right(epochs, epoch, key=lambda e: e[0])
    return (epochs[after - 1][0] if after else epoch), epochs[after][1]


def trusted_epochs(checkpoint: Sequence[tuple[int, int]], runs: Sequence[tuple[int, int, int]]) -> Epochs:
    """Return the leader epochs of a log, from its leader epoch checkpoint and its batches.

    If the checkpoint agrees with the batches, its entries are returned, followed by higher epochs
    that only the batches contain. The checkpoint is ignored if it is empty, if its entries are not
    in increasing order, or if it contradicts the batches.

    Parameters
    ----------
    checkpoint : sequence of (int, int)
        Pairs (epoch, first offset).
    runs : sequence of (int, int, int)
        Tuples (epoch, first offset, last offset), as returned by `epoch_runs`.
    """
    kept = [] if contradicted(checkpoint, ()) else list(checkpoint)
    believed = believable_runs(runs, kept)
    of_batches = epochs_from(believed)
    if not kept or contradicted(kept, believed):
        return of_batches
    return [*kept, *((e, o) for e, o in of_batches if e > kept[-1][0] and o >= kept[-1][1])]


def common_end(
    leader: Sequence[tuple[int, int]], leader_end: int, follower: Sequence[tuple[int, int]], follower_end: int
) -> int | None:
    """Return the offset to which a follower must truncate its log, so that the log agrees with the leader's log.

    Return None if the leader's or the follower's log has no leader epochs.

    Parameters
    ----------
    leader, follower : sequence of (int, int)
        Leader epochs of both logs: pairs (epoch, first offset). The latest epoch of the leader is at
        least the latest epoch of the follower.
    leader_end, follower_end : int
        End offsets of both logs.

    Notes
    -----
    Kafka's counterpart is ``AbstractFetcherThread.getOffsetTruncationState`` (KIP-101, KIP-279).
    """
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
    """Merge the leader epochs of several copies of a log.

    Retention can delete the first batches of an epoch in some copies. Therefore, each epoch gets
    the lowest first offset that a copy contains. If copies contradict each other, the copy that
    comes first in `histories` takes precedence.
    """
    found: dict[int, int] = {}
    for history in histories:
        for epoch, offset in history:
            before = max((o for e, o in found.items() if e < epoch), default=-1)
            after = min((o for e, o in found.items() if e > epoch), default=MAX_OFFSET)
            if before < offset < after:
                found[epoch] = min(offset, found.get(epoch, offset))
    return sorted(found.items())
