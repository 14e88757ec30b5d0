"""Leader epochs: from which offset on each leader wrote (Kafka: LeaderEpochFileCache).

A batch's leader epoch stands outside its CRC, so one that is hurt may name an epoch that never was. Of the epochs that
a log's batches name, the longest rising row is believed.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

import numpy as np

from ...constants import MAGIC_V2, MAX_OFFSET
from ...types import last_offsets

Epochs = list[tuple[int, int]]
"""(epoch, first offset), both rising."""


def epochs_of(table: np.ndarray) -> Epochs:
    """The leader epochs that batches name, (epoch, base offset) at every change; formats 0 and 1 have none."""
    rows = table[(table["magic"] >= MAGIC_V2) & (table["leader_epoch"] >= 0)]
    if not len(rows):
        return []
    changes = np.concatenate(([0], np.flatnonzero(rows["leader_epoch"][1:] != rows["leader_epoch"][:-1]) + 1))
    return list(zip(rows["leader_epoch"][changes].tolist(), rows["base_offset"][changes].tolist(), strict=True))


def epoch_runs(table: np.ndarray) -> list[tuple[int, int, int]]:
    """Return (epoch, first offset, last offset) of neighbouring batches that name the same leader epoch."""
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
    """Return whether batches name other leader epochs than a checkpoint's entries do, or the entries do not rise.

    Batches before the first entry, and later epochs after the last entry, contradict nothing.
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
    """The longest row of changes in which epochs do not fall, each epoch by its first offset."""
    tops: list[int] = []  # of each length of row the lowest epoch that one can end with,
    ends: list[int] = []  # and the change that it ends with
    parents: list[int] = []
    lengths: list[int] = []
    latest: dict[int, int] = {}
    for i, (epoch, _) in enumerate(changes):
        length = bisect_right(tops, epoch)
        before = latest.get(epoch, -1)
        goes_on = before >= 0 and lengths[before] + 1 == length
        parents.append(before if goes_on else ends[length - 1] if length else -1)
        lengths.append(length)
        tops[length : length + 1], ends[length : length + 1] = [epoch], [i]
        latest[epoch] = i
    row = []
    at = ends[-1] if ends else -1
    while at >= 0:
        row.append(changes[at])
        at = parents[at]
    found: Epochs = []
    for epoch, offset in reversed(row):
        if not found or epoch > found[-1][0]:
            found.append((epoch, offset))
    return found


def assigned(epochs: Iterable[tuple[int, int]], epoch: int, offset: int) -> Epochs:
    """The epochs once a leader has begun at an offset: those that contradict it go."""
    kept = list(epochs)
    if kept and kept[-1][0] == epoch and kept[-1][1] <= offset:
        return kept
    return [e for e in kept if e[0] < epoch and e[1] < offset] + [(epoch, offset)]


def within(epochs: Iterable[tuple[int, int]], start: int, end: int) -> Epochs:
    """The epochs of a log from `start` to its end: the one that `start` lies in begins there, the last may begin at the end."""
    kept = [e for e in epochs if e[1] <= end]
    before = [e for e in kept if e[1] <= start]
    return [(epoch, start) for epoch, _ in before[-1:]] + kept[len(before) :]


def believable_runs(
    runs: Sequence[tuple[int, int, int]], known: Sequence[tuple[int, int]] = ()
) -> list[tuple[int, int, int]]:
    """Return the runs (epoch, first offset, last offset) whose epochs rise and that cover the most offsets.

    The epoch is outside a batch's CRC, so a few batches may name a wrong one. Runs that agree with the entries `known` of a
    checkpoint outweigh all others.
    """
    starts = [offset for _, offset in known]
    epochs: list[int] = []  # the last epoch of each chain worth keeping,
    weights: list[int] = []  # the offsets that it covers, which rise too,
    ends: list[int] = []  # and its last run
    parents: list[int] = []
    for i, (epoch, first, last) in enumerate(runs):
        at = bisect_right(epochs, epoch)
        parents.append(ends[at - 1] if at else -1)
        said = bisect_right(starts, first) - 1
        agrees = said >= 0 and known[said][0] == epoch
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
    """Return the first offset of each epoch of runs whose epochs rise."""
    found: Epochs = []
    for epoch, first, _ in runs:
        if not found or epoch > found[-1][0]:
            found.append((epoch, first))
    return found


def end_offset_for(epochs: Sequence[tuple[int, int]], epoch: int, log_end: int) -> tuple[int, int] | None:
    """The largest epoch not above the one asked for, and where it ended, as OffsetsForLeaderEpoch answers; None: not known."""
    if not epochs or epoch > epochs[-1][0] or epoch < 0:
        return None
    if epoch == epochs[-1][0]:
        return epoch, log_end
    after = bisect_right(epochs, epoch, key=lambda e: e[0])
    return (epochs[after - 1][0] if after else epoch), epochs[after][1]
