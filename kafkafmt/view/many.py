"""Read several partitions of an open log, as records or as Arrow record batches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .._backend import core
from ..log.reading import read_pieces
from ..support import arguments
from .partition import Partition
from .selection_arguments import SelectionArguments, parse_selection
from .value_arguments import ArrowPlan

if TYPE_CHECKING:
    import pyarrow as pa


def read_records(
    partitions: Sequence[Partition], views: bool, limit: int | None, selection: SelectionArguments
) -> core.RecordIterator:
    """Check the arguments, and return an iterator of at most `limit` selected records of several partitions."""
    parse_selection(selection, "views", "limit")
    left = arguments.optional_integer("limit", limit, 0)

    def lists() -> Iterator[list[core.Record]]:
        remaining = left
        for p in partitions:
            if remaining == 0:
                return
            for records in p.record_lists(views, remaining, selection):
                if remaining is not None:
                    remaining -= len(records)
                yield records

    return core.RecordIterator(lists())


def read_batches(
    partitions: Sequence[Partition],
    plan: ArrowPlan,
    threads: int | None,
    ordered: bool,
    limit: int | None,
    selection: SelectionArguments,
) -> Iterator[pa.RecordBatch]:
    """Check the arguments of `Topic.to_batches`, and return an iterator of several partitions."""
    # If `limit` is given, a single thread reads one partition after another, because several
    # threads would read more records than needed.
    parse_selection(selection, "columns", "threads", "ordered", "limit")
    count = arguments.optional_integer("threads", threads, 1) or os.cpu_count() or 1
    most = arguments.optional_integer("limit", limit, 0)
    if most is None:
        return read_pieces([p.arrow_pieces(plan, selection) for p in partitions], count, bool(ordered))
    return _first_batches(partitions, plan, most, selection)


def _first_batches(
    partitions: Sequence[Partition], plan: ArrowPlan, limit: int, selection: SelectionArguments
) -> Iterator[pa.RecordBatch]:
    """Yield Arrow record batches with the first `limit` records of the given partitions."""
    for p in partitions:
        if not limit:
            return
        for batch in p.plan_batches(plan, None, limit, selection):
            limit -= batch.num_rows
            yield batch
