"""Choose the batches of a merged log from the valid batches of several replicas.

Of batches with the same offsets, the one with the most records is chosen, because compaction may
have removed records in some replicas, and then the leader's. Batches with a corrupted base offset
or leader epoch are chosen last.

Batch boundaries differ if the record format was converted in one replica. Batches are never cut. Of
overlapping batches, those are chosen that contain the most records together. Therefore, no range of
overlapping batches has fewer records than it has in any replica.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..storage import FileView
from .merge_replica import Headers, Replica


def batch_bytes(replicas: Sequence[Replica], row: Any) -> bytes:
    """Read the bytes of one batch from the segment file of its replica, and correct its base offset."""
    with FileView(replicas[int(row["replica"])].log.segments[int(row["segment"])].path) as view:
        data = view.read(int(row["position"]), int(row["size"]))
    offset = int.from_bytes(data[:8], "big") + int(row["shift"])
    return offset.to_bytes(8, "big") + data[8:]


def choose(replicas: Sequence[Replica]) -> Headers:
    """Return the batches of the merged log, in offset order, from replicas in the order of `ranked`."""
    rows: Headers = np.concatenate([replica.usable_headers() for replica in replicas])
    if not len(rows):
        return rows
    rows = rows[np.lexsort((rows["replica"], rows["corrupted"], -rows["count"], rows["last"], rows["first"]))]
    same = (rows["first"][1:] == rows["first"][:-1]) & (rows["last"][1:] == rows["last"][:-1])
    rows = rows[np.concatenate(([True], ~same))]
    if (rows["first"][1:] > rows["last"][:-1]).all():
        return rows
    return _without_overlaps(rows)


def _without_overlaps(rows: Headers) -> Headers:
    """Choose the batches that contain the most records together, and of equal choices the one with better replicas."""
    rows = rows[np.argsort(rows["last"], kind="stable")]
    before = np.searchsorted(rows["last"], rows["first"]).tolist()
    totals, taken = [(0, 0)], [False]
    for end, count, replica in zip(before, rows["count"].tolist(), rows["replica"].tolist(), strict=True):
        records, rank = totals[end]
        total = records + count, rank - replica * count
        taken.append(total >= totals[-1])
        totals.append(max(total, totals[-1]))
    chosen, i = [], len(rows)
    while i:
        if taken[i]:
            chosen.append(i - 1)
        i = before[i - 1] if taken[i] else i - 1
    picked: Headers = rows[chosen[::-1]]
    return picked
