"""Decide whether a log was compacted, so that missing offsets are normal. All readers use this module.

A log counts as compacted if one of these signs is found:

1. The checkpoint of the log cleaner contains the partition.
2. In the metadata log, the topic's `cleanup.policy` contains `compact`.
3. A batch has fewer records than offsets.
4. Offsets are missing between two adjacent batches of one segment.

The metadata log and the batches of other segments are read only after missing offsets were found. A
batch that is out of place also leaves a gap. Until a reader without a plan of the whole segment
asks `is_compacted`, it trusts only the other signs, or many gaps.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ...types import BatchTable, IntArray, thinned
from ..catalog import PartitionDir, SegmentFile
from .parts import UNKNOWN_COUNT, RunColumns
from .topic_configs import cleanup_policy

MANY_GAPS = 8  # A batch that is out of place leaves one gap. If there are this many gaps, compaction is the reason.
COMPACT = "compact"


class Segments(Protocol):
    """A log whose segments can be planned, such as `PlannedLog`."""

    directory: PartitionDir

    @property
    def segments(self) -> list[SegmentFile]:
        """The segments of the log."""

    def lacks_offsets(self, segment: SegmentFile) -> bool:
        """Return whether offsets are missing inside a range of valid batches of a segment."""


def is_compacted(log: Segments) -> bool:
    """Return whether a log was compacted. Segments are planned until one of them shows it."""
    return is_recorded(log.directory) or was_cleaned(log)


def was_cleaned(log: Segments) -> bool:
    """Return whether the log cleaner has run, according to its checkpoint or to the batches."""
    # A policy, as in `is_compacted`, does not prove that the log cleaner removed the missing offsets. A reader that
    # does not know whether they contained the marker of an aborted transaction must not ignore them.
    return log.directory.was_cleaned or any(log.lacks_offsets(s) for s in log.segments)


def is_recorded(directory: PartitionDir) -> bool:
    """Return whether the checkpoint of the log cleaner or the metadata log shows that a log was compacted."""
    if directory.compacts is None:
        directory.compacts = directory.cleaned or COMPACT in cleanup_policy(directory)
    return directory.compacts


def shown_by(rows: BatchTable, first: IntArray, last: IntArray) -> bool:
    """Return whether adjacent batches show that the log was compacted, even if one of them may be out of place."""
    return is_shown(thinned(rows), int(np.count_nonzero(first[1:] > last[:-1] + 1)))


def is_shown(lacks_records: bool, gaps: int) -> bool:
    """Return whether thinned batches or the number of gaps between batches show that the log was compacted."""
    return lacks_records or gaps >= MANY_GAPS


def runs_lack_offsets(runs: RunColumns) -> bool:
    """Return whether offsets are missing inside or between the batches of a range of adjacent batches."""
    # Headers of wrapper messages contain only their last offsets, so they are ignored.
    return bool((~runs.dense & (runs.records != UNKNOWN_COUNT) & (runs.records <= runs.last - runs.first)).any())
