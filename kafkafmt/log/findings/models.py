"""Define the objects that describe damage and other problems of a partition, and the error for damage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import KafkaFormatError
from ...support.text import offset_range


@dataclass(frozen=True, slots=True)
class Damage:
    """A byte range of a `.log` file that cannot be read, because it is damaged.

    Attributes
    ----------
    file : str
        Name of the file.
    position, length : int
        Position and length of the byte range.
    first_offset, last_offset : int or None
        First and last offset that may be missing because of the damage. An offset is None if it is
        not known. If no offset can be missing, `first_offset` is `last_offset` + 1.
    code : str
        Stable identifier of the problem.
    message : str
        Description of the problem.
    records : int or None
        Number of data records in the byte range. None if it is not known.
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
        """Text for messages that names the offsets which cannot be read because of the damage."""
        if self.empty:
            return "no offset is missing"
        first = "unknown" if self.first_offset is None else self.first_offset
        last = "the end" if self.last_offset is None else self.last_offset
        return f"{offset_range(first, last)} cannot be read"

    @property
    def empty(self) -> bool:
        """True if no offset is missing because of the damage. False if this is not certain."""
        return self.first_offset is not None and self.last_offset is not None and self.last_offset < self.first_offset


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem that does not prevent any complete batch from being read.

    Attributes
    ----------
    file : str
        Name of the file.
    code : str
        Stable identifier of the problem.
    message : str
        Description of the problem.
    """

    file: str
    code: str
    message: str


def damage_text(damage: Damage, path: str) -> str:
    """Return a message that contains the file, the problem and the lost offsets. `path` is the partition directory."""
    return f"{path}/{damage.file}: {damage.message}; {damage.lost}"


class DamagedLogError(KafkaFormatError):
    """Raised if a log is damaged and the reader was not asked to skip damage (``on_error="skip"``).

    Attributes
    ----------
    damage : Damage
        Description of the damage.
    code : str
        Stable identifier of the problem.
    path : str
        Path of the partition directory.
    position, resume : int
        Start and end of the damaged byte range in the file.
    """

    damage: Damage
    path: str

    def __init__(self, damage: Damage, path: str) -> None:
        super().__init__(damage_text(damage, path), damage.position)
        self.damage, self.path = damage, path
        self.resume: int = damage.position + damage.length
        self.code: str = damage.code

    def __reduce__(self) -> Any:
        return type(self), (self.damage, self.path)
