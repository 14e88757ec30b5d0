"""Read the first records of a topic, from which formats are found that no schema describes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .._backend import core
from ..log.reading import PartitionLog, Selection, ignore

INFERRED, LOOKED_AT = 10_000, 100
"""Number of records from which types are inferred, and from which a subject or message is found."""


class Sample:
    """The first selected records of partitions. They are read when they are needed."""

    def __init__(self, logs: Iterable[PartitionLog] = (), selection: Selection | None = None) -> None:
        self._logs, self._selection = list(logs), selection or Selection()
        self._found: dict[int, list[core.Record]] = {}

    def records(self, most: int) -> Sequence[core.Record]:
        """Return at most `most` records, about the same number of each partition. Damaged batches are left out."""
        if most not in self._found:
            self._found[most] = []
            each = -(-most // max(len(self._logs), 1))
            for log in self._logs:
                left = each
                interval = self._selection.resolve(log)
                for source, columns in log.chunks(interval=interval, on_damage=ignore, capacity=min(each, 1024)):
                    records = core.make_records(source, columns)[:left]
                    self._found[most] += records
                    left -= len(records)
                    if left <= 0:
                        break
        return self._found[most]
