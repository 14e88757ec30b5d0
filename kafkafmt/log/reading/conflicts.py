"""Which of several sound batches to believe where their offsets contradict each other.

Base offsets stand outside the CRC, so a sound batch may lie about its place. Of the runs of a segment the heaviest
chain with rising offsets is believed; of equally heavy ones that with the most runs that continue each other without
a gap, less the gaps that neither damage nor a batch left out explains. So the batch that fits neither neighbour goes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._backend import core
from ...constants import MAX_OFFSET, MAX_RELATIVE_OFFSET
from .segment_walker import Bad, Run

REACH = 2048
"""How many runs back a run is compared with; more than that in a row are never left out together."""


def in_order(parts: Sequence[Run | Bad], lower: int, upper: int | None) -> bool:
    """Do the runs rise, and lie within [lower, upper)? The last offset of all has no next one, so no batch ends there."""
    last = lower - 1
    for part in parts:
        if isinstance(part, Run):
            if part.first_offset <= last or part.last_offset < part.first_offset:
                return False
            last = part.last_offset
    return not _adrift(parts, lower) and last < (MAX_OFFSET if upper is None else upper)


def _adrift(parts: Sequence[Run | Bad], lower: int) -> set[int]:
    """Lone batches directly behind damage, further from what precedes that than a segment reaches: nothing confirms their base offsets.

    A segment named 0 may be a piece that somebody cut out of another: its name says nothing.
    """
    found = set()
    before = lower - 1 if lower else None
    for i, part in enumerate(parts):
        if isinstance(part, Run):
            far = before is not None and part.first_offset - before > MAX_RELATIVE_OFFSET + 1
            if far and part.batches == 1 and i and isinstance(parts[i - 1], Bad):
                found.add(i)
            before = part.last_offset
    return found


def believable(parts: Sequence[Run | Bad], lower: int, upper: int | None) -> set[int]:
    """The indexes of the runs to believe; the others contradict them. Runs must be cut at gaps."""
    adrift = _adrift(parts, lower)
    index = [
        i
        for i, p in enumerate(parts)
        if isinstance(p, Run)
        and i not in adrift
        and lower <= p.first_offset <= p.last_offset < (MAX_OFFSET if upper is None else upper)
    ]
    if not index:
        return set()
    runs = [parts[i] for i in index]
    first = np.array([r.first_offset for r in runs if isinstance(r, Run)], np.int64)
    last = np.array([r.last_offset for r in runs if isinstance(r, Run)], np.int64)
    batches = np.array([r.batches for r in runs if isinstance(r, Run)], np.int64)
    spans = np.cumsum(np.concatenate(([0], last - first + 1)))
    bad = np.cumsum([isinstance(p, Bad) for p in parts], dtype=np.int64)[index]
    start = [_bonus(f - lower, int(o), bool(d)) for f, o, d in zip(first.tolist(), spans, bad, strict=False)]
    score, parent = np.empty(len(runs), np.int64), np.empty(len(runs), np.int64)
    core.heaviest_chain(first, last, batches << 32, spans, bad, np.array(start, np.int64), parent, score, REACH)
    total = score.copy()
    if upper is not None:
        for j in range(len(runs)):
            total[j] += _bonus(upper - 1 - int(last[j]), int(spans[-1] - spans[j + 1]), bool(bad[-1] != bad[j]))
    best_ends = np.flatnonzero(total == total.max())
    at = int(
        best_ends[np.argmin(last[best_ends])]
    )  # a hurt offset that lies too high is followed by what seems too low
    chain = set()
    while at >= 0:
        chain.add(index[at])
        at = int(parent[at])
    return chain


def _bonus(gap: int, left_out: int, damaged: bool) -> int:
    """A gap of no offsets counts for a chain, one that nothing explains against it."""
    return 1 if gap == 0 else 0 if gap == left_out or damaged else -1
