"""Summarize tables of batch headers, and combine adjacent batches into ranges."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..constants import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    MAGIC_V2,
    MAX_OFFSET,
    MIN_OFFSET,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
)
from ..types import BatchSummary, BatchTable, IntArray, ProducerBatch, last_offsets

OFFSET_PROBLEM, COPY_PROBLEM = -5, -10  # log/damage/parts.py defines the same values


def summarize_batches(rows: BatchTable) -> BatchSummary:
    attributes, base_timestamps = rows["attributes"], rows["base_timestamp"]
    starts = base_timestamps[((attributes & DELETE_HORIZON_BIT) == 0) & (base_timestamps >= 0)]
    firsts, lasts, epochs = rows["base_offset"], last_offsets(rows), rows["leader_epoch"]
    adjacent = bool(((lasts[:-1] < MAX_OFFSET) & (firsts[1:] == lasts[:-1] + 1)).all())
    span = int(lasts[-1]) - int(firsts[0]) + 1 if len(rows) else 0
    return BatchSummary(
        wrappers=bool(((rows["count"] < 0) & (rows["magic"] < MAGIC_V2)).any()),
        records=int(np.maximum(rows["count"], 0).sum(dtype=np.int64)),
        attributes=int(np.bitwise_or.reduce(attributes.astype(np.uint16))),
        codecs=int(np.bitwise_or.reduce(1 << (attributes & CODEC_MASK))),
        magics=int(np.bitwise_or.reduce(1 << rows["magic"])),
        min_timestamp=int(starts.min(initial=np.iinfo(np.int64).max)) if len(starts) else NO_TIMESTAMP,
        max_timestamp=int(rows["max_timestamp"].max(initial=NO_TIMESTAMP)),
        producers=bool((rows["producer_id"] != NO_PRODUCER_ID).any()),
        negative_delta=bool((rows["last_offset_delta"] < 0).any()),
        lowest=int(rows["base_offset"].min(initial=MAX_OFFSET)),
        highest=int(rows["base_offset"].max(initial=MIN_OFFSET)),
        lowest_epoch=int(epochs.min(initial=np.iinfo(np.int32).max)),
        highest_epoch=int(epochs.max(initial=np.iinfo(np.int32).min)),
        offsets=len(rows) + int(np.maximum(rows["last_offset_delta"], 0).sum(dtype=np.int64)),
        increasing=bool((lasts[:-1] < firsts[1:]).all()),
        dense=adjacent and int(offsets_with_records(rows).sum()) == span,
        first=int(firsts[0]) if len(rows) else 0,
        last=int(lasts[-1]) if len(rows) else -1,
        start=int(rows["position"][0]) if len(rows) else 0,
        end=int(rows["position"][-1]) + int(rows["size"][-1]) if len(rows) else 0,
        adjacent=bool((rows["position"][1:] == (rows["position"] + rows["size"])[:-1]).all()),
    )


def offsets_with_records(rows: BatchTable) -> IntArray:
    """Return the number of records of each batch, but at most its number of offsets."""
    offsets = np.maximum(rows["last_offset_delta"], 0).astype(np.int64) + 1
    counts: IntArray = np.minimum(rows["count"], offsets)
    return counts


def combine_batches(
    rows: BatchTable,
    firsts: IntArray | None,
    cut_gaps: bool,
    cut_at: IntArray,
    cut_before: IntArray,
    runs: IntArray,
    before: IntArray,
) -> int:
    cuts = len(cut_before)
    if not len(rows):
        before[:cuts] = np.arange(cuts)
        return 0
    firsts = rows["base_offset"] if firsts is None else firsts
    last = last_offsets(rows)
    begins = np.empty(len(rows) + 1, bool)
    begins[1:-1] = firsts[1:] != last[:-1] + 1 if cut_gaps else firsts[1:] <= last[:-1]
    begins[1:-1] |= np.isin(firsts[1:], cut_at)
    begins[cut_before] = True
    begins[0] = True
    starts = np.flatnonzero(begins[:-1])
    ends = np.append(starts[1:], len(rows)) - 1
    counts = np.maximum(rows["count"], 0)
    data = np.where((rows["attributes"] & CONTROL_BIT) != 0, 0, counts)
    unknown = np.logical_or.reduceat((rows["count"] < 0) & (rows["magic"] < MAGIC_V2), starts)
    records = np.where(unknown, -1, np.add.reduceat(data, starts, dtype=np.int64))
    dense = np.add.reduceat(offsets_with_records(rows), starts) == last[ends] - firsts[starts] + 1
    columns = (
        starts,
        rows["position"][starts],
        rows["position"][ends] + rows["size"][ends],
        firsts[starts],
        last[ends],
        ends - starts + 1,
        records,
        dense,
        np.searchsorted(cut_before, starts, "right") + np.arange(len(starts)),
    )
    for column, values in zip(runs, columns, strict=True):
        column[: len(starts)] = values
    before[:cuts] = np.searchsorted(starts, cut_before) + np.arange(cuts)
    return len(starts)


def offsets_around(
    run_at: IntArray, firsts: IntArray, lasts: IntArray, lower: int, upper: int | None, at: IntArray, found: IntArray
) -> None:
    following, n = np.searchsorted(run_at, at), len(run_at)
    found[0] = np.concatenate(([lower], lasts + 1))[following]
    found[1] = np.concatenate((firsts - 1, [MAX_OFFSET if upper is None else upper]))[following]
    found[2] = (following < n) | (upper is not None)


def describe_damage(
    spans: IntArray,
    count: int,
    firsts: IntArray,
    lasts: IntArray,
    lengths: IntArray,
    whole: npt.NDArray[np.bool_],
    misplaced: npt.NDArray[np.bool_],
) -> None:
    start, end, problem, actual, stored, _, _, rest = spans[:, :count]
    lengths[:] = end - start
    whole[:] = (rest == 0) & ((problem >= 0) | (problem == OFFSET_PROBLEM) | (problem == COPY_PROBLEM))
    changed = stored - actual != lasts - firsts
    misplaced[:] = (problem == COPY_PROBLEM) | ((problem == OFFSET_PROBLEM) & changed)


def producer_fields(rows: BatchTable) -> list[ProducerBatch]:
    """Return the fields of each batch that affect the state of its producer."""
    names = (
        "producer_id",
        "producer_epoch",
        "base_offset",
        "last_offset_delta",
        "base_sequence",
        "max_timestamp",
        "attributes",
    )
    return list(zip(*(rows[name].tolist() for name in names), strict=True))


def transactional_batches(rows: BatchTable) -> list[ProducerBatch]:
    return producer_fields(rows[(rows["attributes"] & (TRANSACTIONAL_BIT | CONTROL_BIT)) != 0])
