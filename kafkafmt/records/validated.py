"""Define `Validated`, the result of validating record data."""

from __future__ import annotations

from typing import NamedTuple

from ..types import Buffer
from .record_bytes import RecordBytes


class _ValidatedFields(NamedTuple):
    records: Buffer
    rebuilt: str | None
    count: int  # type: ignore[assignment]  # hides tuple.count, which is not used
    first_offset: int
    next_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int


class Validated(RecordBytes, _ValidatedFields):
    """Validated record data, ready to be appended. ``bytes(result)`` returns the record data.

    From Python 3.12 onwards, `Validated` objects support the buffer protocol.

    Attributes
    ----------
    records : bytes-like
        The given buffer if it was changed in place. Otherwise, a bytearray.
    rebuilt : {"codec", "format", "inner_offsets"} or None
        Reason why batches were rebuilt; None if no batch was rebuilt.
    count : int
        Number of records.
    first_offset : int
        Offset of the first record.
    next_offset : int
        Offset after the last record.
    max_timestamp : int
        Largest timestamp in ms; -1 if there is none.
    offset_of_max_timestamp : int
        Offset of the first record with the largest timestamp; -1 if there is none, or if the
        records were not checked.
    """

    __slots__ = ()

    @property
    def in_place(self) -> bool:
        """True if no batch was rebuilt."""
        return self.rebuilt is None
