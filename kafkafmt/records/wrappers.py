"""Read the offsets and timestamps of the messages inside wrapper messages (formats 0 and 1).

The offset field of a wrapper message contains the offset of its last inner message. The CRC of the
wrapper message does not cover this field, so the field can be wrong even if the CRC matches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._backend import core
from ..constants import DEFAULT_MAX_BATCH_BYTES
from ..types import BatchTable, Buffer, IntArray
from .payloads import PayloadReader


class InnerMessages(NamedTuple):
    """Offsets, counts and timestamps of inner messages, as arrays with one element per wrapper message."""

    # If the inner offsets do not increase, `first` and `last` are an empty range: 2**63 - 1 and
    # -2**63.

    first: IntArray
    """First inner offset, or the value of the offset field if the wrapper message cannot be read."""
    last: IntArray
    """Highest inner offset, or the value of the offset field if the wrapper message cannot be read."""
    count: IntArray  # type: ignore[assignment]  # hides tuple.count
    """Number of inner messages, or -1 if the wrapper message cannot be read."""
    latest: IntArray
    """Highest timestamp of the inner messages, or -1 if the wrapper message cannot be read."""


class WrapperReader:
    """Reads the offsets and timestamps inside wrapper messages. Only one thread can use a reader at a time."""

    def __init__(self, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES) -> None:
        self._payloads = PayloadReader(max_batch_bytes)

    @property
    def found_odd_ends(self) -> bool:
        """Whether the compressed data of a wrapper message had an odd end."""
        return len(self._payloads.odd_ends) > 0

    def read(self, buffer: Buffer, table: BatchTable) -> InnerMessages:
        """Describe the inner messages of each wrapper message in `table`, whose positions refer to `buffer`."""
        result = InnerMessages(*np.empty((4, len(table)), np.int64))
        for found in self._payloads.read(buffer, table):
            rows = slice(found.begin, found.begin + len(found.table))
            core.message_offsets(found.source, found.table, *(values[rows] for values in result))
        return result
