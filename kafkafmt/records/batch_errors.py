"""Collect the errors of batches whose records cannot be decoded.

A log can contain a hundred thousand such batches although their CRCs match. Creating an exception
for each of them would take much more time than finding them. Therefore, the usual errors are stored
in arrays, and their messages are created on request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ..constants import CODEC_MASK, FAULTS
from ..errors import KafkaFormatError
from ..types import BatchTable, IntArray

OTHER = 0
"""Value of `ErrorColumns.fault` if FAULTS does not contain the error message."""
NOT_COMPRESSED = -1
"""Value of `ErrorColumns.detail` if the batch is not compressed."""


class ErrorColumns(NamedTuple):
    """Errors of batches, as arrays with one item for each batch."""

    position: IntArray  # in the buffer
    fault: IntArray  # index of the error message in FAULTS, or OTHER
    detail: IntArray  # in the decompressed records, or NOT_COMPRESSED; for OTHER, the index in `texts`
    texts: list[tuple[str, str]]  # error codes and messages


class BatchErrors:
    """Receives the errors of batches that `RecordReader.read` skips, in any order."""

    def __init__(self) -> None:
        self._rows: list[IntArray] = []
        """Arrays with three columns: `position`, `fault` and `detail` of `ErrorColumns`."""
        self._texts: list[tuple[str, str]] = []

    def __len__(self) -> int:
        return sum(map(len, self._rows))

    @property
    def columns(self) -> ErrorColumns:
        """All errors as arrays. There must be at least one error."""
        position, fault, detail = np.concatenate(self._rows).T
        return ErrorColumns(position, fault, detail, self._texts)

    def add(self, position: int, error: KafkaFormatError) -> None:
        self.add_all(np.array([position], np.int64), [error])

    def add_all(self, positions: IntArray, errors: Iterable[KafkaFormatError]) -> None:
        """Add a different error for each of the batches at `positions` in the buffer."""
        known: dict[tuple[str, str], int] = {}
        indexes = [known.setdefault((error.code, error.message), len(known)) for error in errors]
        rows = (positions, np.full(len(positions), OTHER), np.array(indexes, np.int64) + len(self._texts))
        self._rows.append(np.stack(rows, axis=1))
        self._texts += known

    def add_faults(self, faults: IntArray, table: BatchTable, decoded: BatchTable) -> None:
        """Add the faults that `core.decode_valid_records` has found."""
        # `table` and `decoded` contain the same batches. Positions in `table` refer to the caller's
        # buffer, and those in `decoded` to the decoded buffer.
        at, rows = faults[:, 0], np.empty((len(faults), 3), np.int64)
        rows[:, 0], rows[:, 1] = table["position"][at], faults[:, 1]
        compressed = (table["attributes"][at] & CODEC_MASK) != 0
        rows[:, 2] = np.where(compressed, faults[:, 2] - decoded["payload_position"][at], NOT_COMPRESSED)
        self._rows.append(rows)


def fault_message(fault: int, detail: int) -> str:
    """Return the error message of a batch. For the arguments, see `ErrorColumns`."""
    return FAULTS[fault] if detail == NOT_COMPRESSED else inside_records(FAULTS[fault], detail)


def inside_records(message: str, inside: int) -> str:
    """Add the position in the decompressed records to an error message."""
    return f"{message}, at byte {inside} of its decompressed records"
