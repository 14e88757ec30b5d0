"""Remember the errors of wrapper messages that cannot be decompressed, because a segment is planned before it is read."""

from __future__ import annotations

import numpy as np

from ...errors import KafkaFormatError
from ...records.batch_errors import BatchErrors
from ...types import BatchTable, IntArray

MOST_FAILED = 1 << 21
"""Largest number of wrapper messages of one partition that are remembered. They take 32 MiB."""
MOST_ERRORS = 256
"""Number of different errors after which no more wrapper messages are remembered."""
_ERROR_BITS = 16


class FailedWrappers:
    """Remembers wrapper messages of one file that cannot be decompressed, and their errors.

    Call `add` for all wrapper messages first, and then `finish`.
    """

    def __init__(self) -> None:
        self._columns = np.empty((2, 0), np.int64)
        """File positions, and CRCs. The lowest bits of each CRC contain the index of the error in `_errors`."""
        self._count = 0
        self._errors: dict[tuple[str, str], int] = {}
        """Maps error codes and error messages to their indexes."""

    def __len__(self) -> int:
        return self._count

    def add(self, start: int, table: BatchTable, errors: list[tuple[int, KafkaFormatError]]) -> None:
        """Add wrapper messages. Each item of `errors` contains an index in `table`, and the error.

        The positions in `table` refer to a buffer that begins at the file position `start`.
        """
        n, end, known = self._count, self._count + len(errors), self._errors
        if end > MOST_FAILED or len(known) > MOST_ERRORS:
            return
        if end > self._columns.shape[1]:
            larger = np.empty((2, 2 * end), np.int64)
            larger[:, :n] = self._columns[:, :n]
            self._columns = larger
        rows, found = [at for at, _ in errors], [error for _, error in errors]
        # Many errors are the same object.
        indexes = {error: known.setdefault((error.code, error.message), len(known)) for error in set(found)}
        positions, crcs = self._columns[:, n:end]
        positions[:] = table["position"][rows]
        positions += start
        crcs[:] = table["crc"][rows]
        crcs <<= _ERROR_BITS
        crcs |= [indexes[error] for error in found]
        self._count = end

    def finish(self) -> FailedWrappers | None:
        """Free unused memory. Return the object itself, or None if it is empty."""
        columns = self._columns[:, : self._count]
        self._columns = columns[:, np.argsort(columns[0], kind="stable")]
        return self if self._count else None

    def without(self, start: int, table: BatchTable, errors: BatchErrors) -> BatchTable:
        """Return the batches in `table` that are not remembered. Add the errors of the other batches to `errors`.

        The positions in `table` refer to a buffer that begins at the file position `start`. Positions and CRCs are
        compared, because the file can have changed.
        """
        positions, crcs = self._columns
        wanted: IntArray = table["position"] + start
        at = np.minimum(np.searchsorted(positions, wanted), self._count - 1)
        found = (positions[at] == wanted) & (crcs[at] >> _ERROR_BITS == table["crc"])
        if not found.any():
            return table
        indexes = crcs[at[found]] & ((1 << _ERROR_BITS) - 1)
        errors.add_texts(table["position"][found], indexes, self._errors)
        return table.compress(~found)
