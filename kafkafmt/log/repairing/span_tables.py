"""Read the headers of the batches in many byte ranges of a segment."""

from __future__ import annotations

from collections.abc import Iterator

from ..._backend import core
from ...types import BatchTable, IntArray
from ..damage import Scratch, TableReader
from ..storage import SpanCopier


def tables_of(
    reader: TableReader, spans: IntArray, copier: SpanCopier, scratch: Scratch
) -> Iterator[tuple[IntArray, BatchTable]]:
    """Yield the file positions and headers of the batches in `spans`, which contain only valid batches."""
    # A table is valid until the next item is requested. `reader` must not use the same `scratch`.
    for start, end, data in copier.windows(reader.view, spans):
        if data is None:
            for position, _, table, _ in reader.tables(start, end):
                yield table["position"] + position, table
            continue
        at = 0
        while at < len(data):
            scan = core.scan_batches(data, scratch.table, at)
            if not scan.count:  # the file has changed
                break
            table = scratch.table[: scan.count]
            yield copier.file_positions(table["position"]), table
            at = scan.position
