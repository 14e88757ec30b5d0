"""Scan a buffer that may be corrupted, in time that is linear in the size of the buffer.

A corrupted header can contain any length, and the CRC of the batch is computed over this length. If
many corrupted headers contain large lengths, computing their CRCs takes quadratic time. Therefore,
`DamageScanner` limits the number of bytes that are read for CRCs that do not match. The limit is a
small multiple of the buffer's size. If the limit is reached, a linear search finds the positions of
all valid batches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._backend import core
from ..constants import BATCH_HEADER_SIZE, ENTRY_OVERHEAD, LENGTH_AT, MAGIC_AT, MAX_OFFSET
from ..errors import ChecksumError, KafkaFormatError, StructureError, TruncatedError
from ..support.text import quantity
from ..types import BATCH_DTYPE, BatchTable, Buffer, Scan, view_of

CRC_BUDGET = 4
"""Number of bytes that may be read to check CRCs after damage, as a multiple of the buffer's size.

For comparison, a single corrupted byte in a batch causes reads of twice the size of the batch.
"""
FIRST_ROWS = 64
"""Largest number of valid batches that the first search can find. Each further search can find twice as many."""
MAX_ROWS = 1 << 20
"""Largest number of valid batches that any search can find."""


def incomplete_batch(buffer: Buffer, position: int) -> TruncatedError:
    """Return the error for an incomplete batch that begins at `position` and extends past the end of a buffer."""
    rest = bytes(view_of(buffer)[position : position + MAGIC_AT])
    left = view_of(buffer).nbytes - position
    size = (
        f" of {int.from_bytes(rest[LENGTH_AT:ENTRY_OVERHEAD], 'big') + ENTRY_OVERHEAD}"
        if left >= ENTRY_OVERHEAD
        else ""
    )
    base_offset = int.from_bytes(rest[:LENGTH_AT], "big", signed=True) if left >= LENGTH_AT else None
    return TruncatedError(f"the data ends {quantity(left, 'byte')} into a batch{size}", position, base_offset)


class DamageScanner:
    """Scans the batches of one buffer, and finds valid batches after damage."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.size: int = view_of(buffer).nbytes
        self._budget = CRC_BUDGET * self.size
        self._found = np.empty(0, np.int64)
        self._from = self._to = 0
        """Start and end of the range of bytes that has been searched for valid batches."""
        self._rows = FIRST_ROWS

    def scan(self, table: BatchTable, position: int) -> Scan:
        """Fill `table` with the headers of the batches from `position` onwards, as `core.scan_batches` does."""
        if self._budget <= 0:
            return self._scan_found(table, position)
        scan: Scan = core.scan_batches(self.buffer, table, position)
        if isinstance(scan.error, ChecksumError):
            self._budget -= (scan.error.resume or self.size) - scan.position
        return scan

    def find(self, start: int) -> int | None:
        """Return the position of the first valid batch at or after `start`, or None."""
        if start < self._from or not self._to:
            self._found, self._from, self._to = self._found[:0], start, start
        at = int(np.searchsorted(self._found, start))
        while at == len(self._found):
            if self._to >= self.size:
                return None
            self._search()
            at = int(np.searchsorted(self._found, start))
        return int(self._found[at])

    def is_valid(self, position: int) -> bool:
        if self._budget <= 0:
            return self.find(position) == position
        probe = np.empty(1, BATCH_DTYPE)
        scan = core.scan_batches(self.buffer, probe, position)
        if scan.count:
            self._budget -= scan.position - position
        elif isinstance(scan.error, ChecksumError):
            self._budget -= (scan.error.resume or self.size) - position
        return bool(scan.count)

    def _search(self) -> None:
        """Search the next part of the buffer for valid batches."""
        # A search ends at the end of the buffer, or when its result array is full. Each search uses
        # a larger array than the previous one, so that few searches are necessary.
        rows, beyond = np.empty(self._rows, np.int64), np.empty((self._rows, 2), np.int64)
        self._rows = min(2 * self._rows, MAX_ROWS)
        count, _, self._to = core.find_batches(self.buffer, rows, beyond, self._to, None, MAX_OFFSET)
        self._found = np.concatenate((self._found, rows[:count]))

    def _scan_found(self, table: BatchTable, position: int) -> Scan:
        """Fill `table` as `scan` does, without computing CRCs: a batch is accepted if `find` has found it there."""
        stop, count = position, 0
        while count < len(table) and self.find(stop) == stop:
            scan = core.scan_batches(self.buffer, table[count : count + 1], stop, None, False)
            stop, count = scan.position, count + scan.count
        if count == len(table):
            return Scan(count, stop, None)
        probe = np.empty(1, BATCH_DTYPE)
        scan = core.scan_batches(self.buffer, probe, stop, None, False)
        return Scan(count, stop, self._error_of(probe[0]) if scan.count else scan.error)

    def _error_of(self, row: Any) -> KafkaFormatError:
        """Return the error for a batch that is complete but not valid."""
        position, base_offset = int(row["position"]), int(row["base_offset"])
        resume = position + int(row["size"])
        if core.find_batch(self.buffer, position, min(position + BATCH_HEADER_SIZE, self.size), False) == position:
            return ChecksumError("the CRC does not match the crc field", position, base_offset, resume)
        return StructureError("a field of the header has an impossible value", position, base_offset, resume)
