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
"""Value of `ErrorColumns.inside` if the batch is not compressed."""


class ErrorColumns(NamedTuple):
    """Errors of batches, as arrays with one item for each batch.

    Attributes
    ----------
    position : array of int64
        Position of each batch in the buffer.
    fault : array of int64
        Index of the error message in FAULTS, or OTHER.
    inside : array of int64
        Position of the error in the decompressed records, or NOT_COMPRESSED.
    others : dict of int to tuple of str
        Maps the index of each batch with the fault OTHER to its error code and error message.
    """

    position: IntArray
    fault: IntArray
    inside: IntArray
    others: dict[int, tuple[str, str]]


class BatchErrors:
    """Receives the errors of batches that `RecordReader.read` skips, in any order."""

    def __init__(self) -> None:
        self._faults: list[IntArray] = []
        self._others: list[tuple[int, str, str]] = []
        """Position, error code and error message of each batch with the fault OTHER."""

    def __len__(self) -> int:
        return sum(map(len, self._faults)) + len(self._others)

    @property
    def columns(self) -> ErrorColumns:
        """All errors as arrays."""
        others = np.full((len(self._others), 3), NOT_COMPRESSED, np.int64)
        others[:, 0], others[:, 1] = [position for position, _, _ in self._others], OTHER
        rows = np.concatenate([*self._faults, others])
        problems = ((code, message) for _, code, message in self._others)
        position, fault, inside = rows.T
        return ErrorColumns(position, fault, inside, dict(enumerate(problems, len(rows) - len(others))))

    def add(self, position: int, error: KafkaFormatError) -> None:
        """Add the error of the batch at `position` in the buffer."""
        self._others.append((position, error.code, error.message))

    def add_all(self, table: BatchTable, errors: Iterable[tuple[int, KafkaFormatError]]) -> None:
        """Add errors of batches in `table`. Each item contains the index of a batch in `table`, and the error."""
        positions = table["position"].tolist()
        self._others += [(positions[at], error.code, error.message) for at, error in errors]

    def add_faults(self, faults: IntArray, table: BatchTable, decoded: BatchTable) -> None:
        """Add the faults that `core.decode_valid_records` has found.

        `table` and `decoded` contain the same batches. The positions in `table` refer to the buffer of
        the caller, and the positions in `decoded` refer to the decoded buffer.
        """
        at, rows = faults[:, 0], np.empty((len(faults), 3), np.int64)
        rows[:, 0], rows[:, 1] = table["position"][at], faults[:, 1]
        compressed = (table["attributes"][at] & CODEC_MASK) != 0
        rows[:, 2] = np.where(compressed, faults[:, 2] - decoded["payload_position"][at], NOT_COMPRESSED)
        self._faults.append(rows)


def fault_message(fault: int, inside: int) -> str:
    """Return the error message of a batch. For the arguments, see `ErrorColumns`."""
    return FAULTS[fault] if inside == NOT_COMPRESSED else inside_records(FAULTS[fault], inside)


def inside_records(message: str, inside: int) -> str:
    """Add the position in the decompressed records to an error message."""
    return f"{message}, at byte {inside} of its decompressed records"
