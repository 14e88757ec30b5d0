"""Choose the batches of a merged log from the valid batches of several replicas.

Batches of different replicas usually have the same boundaries. If several batches have the same
offsets, the batch with the most records is chosen, because compaction may have removed records in
some replicas. If the numbers of records are equal, the leader's batch is chosen. Batches with a
corrupted base offset or leader epoch are chosen last.

Batch boundaries differ if the record format was converted in one replica. In this case, batches are
chosen so that the merged log contains every record of every replica exactly once. If possible,
whole batches are chosen. If only some records of a batch are used, the batch is rebuilt
(`cut_batch`). Batches with odd record offsets are always chosen whole.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._backend import core
from ...constants import LOG_APPEND_TIME_BIT, MAGIC_V0, MAGIC_V2
from ...records import RecordReader, build_batch, iter_batches
from ...records.rebuilt_header import with_header_of
from ...types import BATCH_DTYPE, IntArray, distinct
from ..format.file_view import FileView
from .merge_replica import Headers, Replica

MAX_INT32 = 0x7FFFFFFF
"""The largest sequence number of a producer. The next sequence number is 0."""


def batch_bytes(replicas: Sequence[Replica], row: Any) -> bytes:
    """Read the bytes of one batch from the segment file of its replica, and correct its base offset."""
    with FileView(replicas[int(row["replica"])].log.segments[int(row["segment"])].path) as view:
        data = view.read(int(row["position"]), int(row["size"]))
    offset = int.from_bytes(data[:8], "big") + int(row["shift"])
    return offset.to_bytes(8, "big") + data[8:]


def offsets_in(batch: bytes, max_batch_bytes: int) -> IntArray:
    """Return the offsets of the records in a batch."""
    table = np.empty(1, BATCH_DTYPE)
    reader = RecordReader(("offset",), max_batch_bytes=max_batch_bytes)
    found = [np.zeros(0, np.int64)]
    if core.scan_batches(batch, table).count:
        for _, columns in reader.read(batch, table, lambda _, __: None):
            assert columns.offset is not None
            found.append(columns.offset[: columns.rows].copy())
    return np.concatenate(found)


def cut_batch(batch: bytes, first: int, last: int, max_batch_bytes: int) -> bytes:
    """Return a batch that contains only the records at the offsets `first` to `last`.

    The records keep their offsets and timestamps. A v2 batch also keeps its producer, its leader
    epoch, its attributes, and the sequence number of each record.
    """
    (source,) = iter_batches(batch)
    records = [r for r in source.records(max_batch_bytes=max_batch_bytes) if first <= r.offset <= last]
    given: dict[str, Any] = {"magic": source.magic, "codec": source.codec}
    if source.magic == MAGIC_V2:
        given |= {"base_offset": first, "delete_horizon": source.delete_horizon}
    elif source.magic > MAGIC_V0 and source.attributes & LOG_APPEND_TIME_BIT:
        given["log_append_time"] = source.max_timestamp
    built = build_batch(records, **given)
    if source.magic != MAGIC_V2:
        return built
    sequence = None
    if source.base_sequence >= 0:
        sequence = (source.base_sequence + first - source.base_offset) & MAX_INT32
    return with_header_of(batch, built, sequence)


def choose(replicas: Sequence[Replica], max_batch_bytes: int) -> Headers:
    """Return the batches of the merged log, in offset order and without overlaps.

    Parameters
    ----------
    replicas : sequence of Replica
        The replicas, from the leader to the oldest follower, as returned by `ranked`.
    max_batch_bytes : int
        Largest size of one batch, in bytes after decompression.
    """
    rows: Headers = np.concatenate([replica.usable_headers() for replica in replicas])
    if not len(rows):
        return rows
    rows = rows[np.lexsort((rows["replica"], rows["corrupted"], -rows["count"], rows["last"], rows["first"]))]
    same = (rows["first"][1:] == rows["first"][:-1]) & (rows["last"][1:] == rows["last"][:-1])
    group = np.concatenate(([0], np.cumsum(~same)))
    best = np.concatenate(([True], ~same))
    dense = (rows["count"] > rows["last"] - rows["first"])[best][group]
    copies = np.concatenate(([False], same & (rows["crc"][1:] == rows["crc"][:-1])))
    # Keep each distinct version of a batch that has lost records through compaction.
    # Compaction may have removed different records in each replica.
    rows = rows[best | (~dense & ~copies)]
    reached = np.maximum.accumulate(rows["last"])
    begins = np.flatnonzero(np.concatenate(([True], rows["first"][1:] > reached[:-1])))
    ends = np.append(begins[1:], len(rows))
    alone = ends - begins == 1
    if alone.all():
        return rows

    def offsets(row: Any) -> IntArray:
        return offsets_in(batch_bytes(replicas, row), max_batch_bytes)

    chosen = [rows[begins[alone]]]
    for begin, end in zip(begins[~alone].tolist(), ends[~alone].tolist(), strict=True):
        chosen.append(_without_overlaps(rows[begin:end], offsets))
    merged: Headers = np.concatenate(chosen)
    merged = merged[np.argsort(merged["first"], kind="stable")]
    return merged


def _without_overlaps(rows: Headers, offsets: Callable[[Any], IntArray]) -> Headers:
    """Choose whole or partial batches from overlapping batches, so that each record is chosen exactly once."""
    first, last = int(rows["first"].min()), int(rows["last"].max())
    replicas: list[Headers] = [rows[rows["replica"] == replica] for replica in distinct(rows["replica"])]
    for own in replicas:
        adjacent = bool((own["first"][1:] == own["last"][:-1] + 1).all())
        if adjacent and int(own["count"].sum()) == last - first + 1 == int(own["last"][-1] - own["first"][0]) + 1:
            return own
    records = [offsets(row) for row in rows]
    if any(map(_is_odd, rows, records)):
        return max(replicas, key=lambda own: int(own["count"].sum()))
    union = distinct(np.concatenate(records))
    picked: list[Headers] = []
    active: list[int] = []
    at, following, end = 0, 0, first - 1
    while at < len(union):
        offset = int(union[at])
        while following < len(rows) and rows["first"][following] <= offset:
            active.append(following)
            following += 1
        active = [i for i in active if rows["last"][i] >= offset]
        options = []
        for i in active:
            start = bisect_left(records[i], offset)
            rest = records[i][start:]
            if not len(rest) or rest[0] != offset:
                continue
            wanted = union[at : at + len(rest)]
            differs = np.flatnonzero(rest[: len(wanted)] != wanted)
            n = int(differs[0]) if len(differs) else len(wanted)
            after = int(union[at + n]) if at + n < len(union) else last + 1
            whole = n == len(records[i]) and int(rows["first"][i]) > end and int(rows["last"][i]) < after
            options.append((whole, n, -int(rows["replica"][i]), -i))
        whole, n, _, i = max(options)
        row = rows[-i : -i + 1].copy()
        if not whole:
            row["first"], row["last"], row["count"], row["cut"] = offset, union[at + n - 1], n, True
        picked.append(row)
        end = int(row["last"][0])
        at += n
    return np.concatenate([*picked, _empty_batches(rows, records, picked)])


def _is_odd(row: Any, offsets: IntArray) -> bool:
    """Return whether the records' offsets do not increase, or are outside the offsets in the batch header."""
    return bool((np.diff(offsets, prepend=row["first"] - 1, append=row["last"] + 1) < 1).any())


def _empty_batches(rows: Headers, records: Sequence[IntArray], picked: Sequence[Headers]) -> Headers:
    """Return the empty batches of `rows` whose offsets do not overlap with a batch in `picked`.

    If compaction removes all records of a producer's last batch, the log cleaner keeps an empty
    batch. The header of the empty batch contains the producer's last sequence number.
    """
    taken = [(int(row["first"][0]), int(row["last"][0])) for row in picked]
    kept = []
    for i in [i for i in range(len(rows)) if not len(records[i])]:
        first, last = int(rows["first"][i]), int(rows["last"][i])
        if all(last < a or b < first for a, b in taken):
            taken.append((first, last))
            kept.append(i)
    return rows[kept]
