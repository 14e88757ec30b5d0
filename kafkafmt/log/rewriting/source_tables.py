"""Read valid batches of a segment again, to copy or rebuild them."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..._backend import core
from ...errors import KafkaFormatError
from ...types import BatchTable, IntArray
from ..catalog import SegmentFile
from ..damage import Scratch, TableReader
from ..storage import FileView, SpanCopier


def tables_of(view: FileView, segment: SegmentFile, spans: IntArray, limit: int) -> Iterator[tuple[Any, BatchTable]]:
    """Read byte ranges of a segment. Yield buffers, each with a table of its adjacent batches."""
    # Small byte ranges are read together. OSError: a batch is no longer valid, because the file has changed.
    reader, copier, scratch = TableReader(view, segment.base_offset or 0, limit), SpanCopier(), Scratch()
    for start, end, data in copier.windows(view, spans):
        if data is None:
            for _, buffer, table, error in reader.tables(start, end):
                if error is not None:
                    raise _changed(segment, error)
                yield buffer, table
            continue
        at = 0
        while at < len(data):
            scan = core.scan_batches(data, scratch.table, at)
            if scan.error is not None:
                scan.error.position = int(copier.file_positions(np.array([scan.error.position]))[0])
            if scan.error is not None or not scan.count:
                raise _changed(segment, scan.error)
            yield data, scratch.table[: scan.count]
            at = scan.position


def _changed(segment: SegmentFile, error: KafkaFormatError | None) -> OSError:
    reason = "" if error is None else f" ({error})"
    return OSError(errno.EIO, f"the file changed while it was rewritten{reason}", str(segment.path))
