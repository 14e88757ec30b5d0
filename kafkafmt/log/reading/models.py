"""Define damage and findings, which readers report about a partition, and the error for damage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import KafkaFormatError


@dataclass(frozen=True, slots=True)
class Damage:
    """A range of bytes in a `.log` file that cannot be delivered.

    Attributes
    ----------
    file : str
        Name of the file.
    position, length : int
        Position and length of the range, in bytes.
    first_offset, last_offset : int or None
        The first and the last offset that may be missing. An offset is None if it is not known. If
        no offset can be missing, `first_offset` is `last_offset` + 1.
    code : str
        Stable identifier of the problem.
    message : str
        What is wrong.
    records : int or None
        Number of data records in this range of bytes. None if it is not known.
    """

    file: str
    position: int
    length: int
    first_offset: int | None
    last_offset: int | None
    code: str
    message: str
    records: int | None = None

    @property
    def lost(self) -> str:
        """The offsets that may be missing, as a phrase for messages."""
        if self.empty:
            return "no offset is missing"
        first = "unknown" if self.first_offset is None else self.first_offset
        last = "the end" if self.last_offset is None else self.last_offset
        return f"offsets {first} to {last} cannot be read"

    @property
    def empty(self) -> bool:
        """Whether the range of missing offsets is empty, so that no offset can be missing."""
        return self.first_offset is not None and self.last_offset is not None and self.last_offset < self.first_offset


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem that does not prevent the delivery of any complete batch.

    Attributes
    ----------
    file : str
        Name of the file.
    code : str
        Stable identifier of the problem.
    message : str
        What is wrong.
    """

    file: str
    code: str
    message: str


class DamagedLogError(KafkaFormatError):
    """Raised if a log is damaged and is not read with ``on_error="skip"``.

    Attributes
    ----------
    damage : Damage
        The damaged span.
    code : str
        Code of the damage.
    path : str
        The partition directory.
    position, resume : int
        Start and end of the damaged span in the file, in bytes.
    """

    damage: Damage
    path: str

    def __init__(self, damage: Damage, path: str) -> None:
        super().__init__(f"{path}/{damage.file}: {damage.message}; {damage.lost}", damage.position)
        self.damage, self.path = damage, path
        self.resume: int = damage.position + damage.length
        self.code: str = damage.code

    def __reduce__(self) -> Any:
        return type(self), (self.damage, self.path)
