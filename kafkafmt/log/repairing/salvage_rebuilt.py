"""Rebuild batches that Kafka's Java code does not read to their end."""

from __future__ import annotations

import numpy as np

from ...records.java_reads import rebuilt_batches
from ...types import IntArray
from ..catalog import SegmentFile
from ..damage import Walker
from ..reading import PartitionLog
from ..storage import FileView
from ..verifying import PartitionReport
from .salvage_pieces import Restored, outside, paired

REBUILT = {"odd_codec_end", "refused_by_kafka"}


def needs_rebuilding(report: PartitionReport) -> bool:
    """Return whether a partition can contain batches that Kafka's Java code does not read to their end."""
    return any(finding.code in REBUILT for finding in report.findings)


def with_rebuilt(log: PartitionLog, segment: SegmentFile, spans: IntArray) -> tuple[IntArray, list[Restored]]:
    """Return the byte ranges without the batches that Kafka does not read to their end, and these batches, rebuilt."""
    holes: list[tuple[int, int]] = []
    rebuilt: list[Restored] = []
    with FileView(segment.place, fill_unreadable=True) as view:
        walker = Walker(view, segment.base_offset or 0, log.max_batch_bytes)
        for start, end in spans.tolist():
            for position, buffer, table, _ in walker.tables(start, end):
                for i, data in rebuilt_batches(buffer, table, log.max_batch_bytes):
                    begin = position + int(table["position"][i])
                    holes.append((begin, begin + int(table["size"][i])))
                    rebuilt.append(Restored(int(table["base_offset"][i]), data))
    if not holes:
        return spans, rebuilt
    cuts = np.array(sorted(holes), np.int64)
    return outside(paired(cuts[:, 0], cuts[:, 1]), spans), rebuilt
