"""Select ranges of batches that have increasing offsets and the largest possible total weight."""

from __future__ import annotations

import numpy as np

from ..types import IntArray


def heaviest_chain(
    first: IntArray,
    last: IntArray,
    weight: IntArray,
    left_out: IntArray,
    damage: IntArray,
    start_bonus: IntArray,
    parent: IntArray,
    score: IntArray,
    reach: int,
) -> None:
    for j in range(len(first)):
        a = max(0, j - reach)
        before = np.flatnonzero(last[a:j] < first[j]) + a
        score[j] = int(weight[j]) + int(start_bonus[j])
        parent[j] = -1
        if len(before):
            gap, omitted = first[j] - last[before] - 1, left_out[j] - left_out[before + 1]
            # The values are those of `gap_scores` in log/damage/conflicts.py.
            explained = (gap == omitted) | (damage[before] != damage[j])
            reached = score[before] + np.select([gap == 0, explained, omitted != 0], [2, 0, -1], -2)
            best = int(np.argmax(reached))
            if int(reached[best]) > int(start_bonus[j]):
                score[j] = int(reached[best]) + int(weight[j])
                parent[j] = before[best]
