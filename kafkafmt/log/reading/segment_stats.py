"""Summarize the batch headers of a segment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...constants import CODEC_MASK, DELETE_HORIZON_BIT, MAGIC_V2, NO_TIMESTAMP, TRANSACTIONAL_BIT
from ...types import BatchTable


@dataclass
class Stats:
    """Summary of the batch headers of a segment.

    Attributes
    ----------
    batches : int
        Number of batches.
    records : int or None
        Number of records, including control records. None if there is a wrapper message, whose
        header does not contain this number.
    codecs, magics : int
        Bit masks of the codec ids and of the magic values that occur.
    min_timestamp, max_timestamp : int
        Smallest base timestamp and largest maximum timestamp, in ms. -1 if no batch has a
        timestamp.
    transactional : bool
        Whether the segment contains transactional batches.
    """

    batches: int = 0
    records: int | None = 0
    codecs: int = 0
    magics: int = 0
    min_timestamp: int = NO_TIMESTAMP
    max_timestamp: int = NO_TIMESTAMP
    transactional: bool = False

    def add(self, rows: BatchTable) -> None:
        """Add a table of batches to the summary."""
        attributes = rows["attributes"]
        self.batches += len(rows)
        wrappers = bool(((rows["count"] < 0) & (rows["magic"] < MAGIC_V2)).any())
        self.records = total(self.records, None if wrappers else int(np.maximum(rows["count"], 0).sum(dtype=np.int64)))
        self.transactional = self.transactional or bool((attributes & TRANSACTIONAL_BIT).any())
        self.codecs |= int(np.bitwise_or.reduce(1 << (attributes & CODEC_MASK)))
        self.magics |= int(np.bitwise_or.reduce(1 << rows["magic"]))
        self.max_timestamp = max(self.max_timestamp, int(rows["max_timestamp"].max()))
        starts = rows["base_timestamp"][((attributes & DELETE_HORIZON_BIT) == 0) & (rows["base_timestamp"] >= 0)]
        if len(starts):
            low = int(starts.min())
            self.min_timestamp = low if self.min_timestamp < 0 else min(self.min_timestamp, low)


def total(a: int | None, b: int | None) -> int | None:
    """Return the sum of two counts, or None if either count is None."""
    return None if a is None or b is None else a + b
