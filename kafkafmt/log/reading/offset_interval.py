"""Define `OffsetInterval`, which specifies the records of one partition that are read."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...constants import NO_END, READ_COMMITTED, READ_UNCOMMITTED


@dataclass(frozen=True)
class OffsetInterval:
    """Specification of the records of one partition to read, as returned by `Selection.resolve`.

    Attributes
    ----------
    low, high : int
        First offset, and end offset (exclusive). Both are 0 or higher.
    isolation : {"read_uncommitted", "read_committed"}
        "read_committed" omits aborted records, and records after the last stable offset.
    control : bool
        Include control records.
    """

    low: int = 0
    high: int = NO_END
    isolation: str = READ_UNCOMMITTED
    control: bool = False

    @property
    def committed(self) -> bool:
        """Whether `isolation` is "read_committed"."""
        return self.isolation == READ_COMMITTED

    def ending_at(self, offset: int) -> OffsetInterval:
        """Return a copy that ends at the lower of `offset` and `high` (exclusive)."""
        return replace(self, high=min(self.high, offset))
