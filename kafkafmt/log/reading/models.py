"""Define what readers report about a segment: damage and findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import KafkaFormatError


@dataclass(frozen=True, slots=True)
class Damage:
    """A span of a `.log` that cannot be delivered.

    first_offset, last_offset: the widest range that may be missing; None where that end is open; first = last + 1
    where nothing can be missing. records: how many data records it held, None where that is not known.
    """

    file: str
    position: int
    length: int
    first_offset: int | None
    last_offset: int | None
    error: str
    message: str
    records: int | None = None

    @property
    def lost(self) -> str:
        """What it may have cost, for a message."""
        if self.empty:
            return "no offset is missing"
        first = "unknown" if self.first_offset is None else self.first_offset
        last = "the end" if self.last_offset is None else self.last_offset
        return f"offsets {first} to {last} cannot be read"

    @property
    def empty(self) -> bool:
        return self.first_offset is not None and self.last_offset is not None and self.last_offset < self.first_offset


@dataclass(frozen=True, slots=True)
class Finding:
    """Something worth a line that keeps nothing from being delivered."""

    file: str
    error: str
    message: str


class DamagedLogError(KafkaFormatError):
    """Damage in a log that was read to fail at it; `damage` says what, `code` its kind, `path` in which partition directory."""

    damage: Damage
    path: str

    def __init__(self, damage: Damage, path: str) -> None:
        super().__init__(f"{path}/{damage.file}: {damage.message}; {damage.lost}", damage.position)
        self.damage, self.path = damage, path
        self.resume: int = damage.position + damage.length
        self.code: str = damage.error

    def __reduce__(self) -> Any:
        return type(self), (self.damage, self.path)
