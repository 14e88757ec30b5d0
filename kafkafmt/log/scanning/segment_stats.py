"""Summarize the batch headers of a segment."""

from __future__ import annotations

from dataclasses import dataclass

from ...constants import NO_TIMESTAMP, TRANSACTIONAL_BIT
from ...types import BatchSummary


@dataclass
class Stats:
    """Summary of the batch headers of a segment."""

    batches: int = 0
    # including control records; None if there is a wrapper message, whose header does not contain it
    records: int | None = 0
    codecs: int = 0  # bit mask of codec ids
    magics: int = 0  # bit mask
    min_timestamp: int = NO_TIMESTAMP  # smallest base timestamp in ms, or -1
    max_timestamp: int = NO_TIMESTAMP  # in ms, or -1
    transactional: bool = False

    @classmethod
    def of(cls, batches: int, found: BatchSummary) -> Stats:
        """Return the statistics of a number of batches. `found` is a summary of their headers."""
        return cls(
            batches,
            None if found.wrappers else found.records,
            found.codecs,
            found.magics,
            max(found.min_timestamp, NO_TIMESTAMP),
            max(found.max_timestamp, NO_TIMESTAMP),
            bool(found.attributes & TRANSACTIONAL_BIT),
        )

    def add(self, batches: int, found: BatchSummary) -> None:
        """Add a number of batches to the statistics. `found` is a summary of their headers."""
        self.batches += batches
        self.records = total(self.records, None if found.wrappers else found.records)
        self.transactional = self.transactional or bool(found.attributes & TRANSACTIONAL_BIT)
        self.codecs |= found.codecs
        self.magics |= found.magics
        self.max_timestamp = max(self.max_timestamp, found.max_timestamp)
        if found.min_timestamp >= 0:
            low = found.min_timestamp
            self.min_timestamp = low if self.min_timestamp < 0 else min(self.min_timestamp, low)


def total(a: int | None, b: int | None) -> int | None:
    """Return the sum of two counts. If either count is None, return None."""
    return None if a is None or b is None else a + b
