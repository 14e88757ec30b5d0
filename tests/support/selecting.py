"""Select records with the keyword arguments of `kafkafmt.Partition.records`."""

from __future__ import annotations

from typing import Unpack

from kafkafmt.log import PartitionLog
from kafkafmt.log.reading import OffsetInterval
from kafkafmt.log.reading.record_selection import Selection
from kafkafmt.view.selection_arguments import SelectionArguments, parse_selection


def selection(**given: Unpack[SelectionArguments]) -> Selection:
    """Return the selection that the arguments describe."""
    return parse_selection(given)[0]


def interval(log: PartitionLog, **given: Unpack[SelectionArguments]) -> OffsetInterval:
    """Return the offsets in a log that the arguments select."""
    return selection(**given).resolve(log)


COMMITTED: Selection = selection(isolation="read_committed")
