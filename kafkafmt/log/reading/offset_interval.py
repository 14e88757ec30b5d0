"""Define `OffsetInterval`, which specifies the records of one partition that are read."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...constants import NO_END, READ_COMMITTED, READ_UNCOMMITTED
from ...records.reader import ALL_OFFSETS, OffsetLimits


@dataclass(frozen=True)
class OffsetInterval:
    """Specification of the records of one partition to read, as returned by `Selection.resolve`.

    Attributes
    ----------
    low, high : int
        First offset, and end offset (exclusive) of the batches, according to their headers. Both are 0
        or higher. They may divide the records among tasks, so they omit only records of batches that are
        partly outside.
    isolation : {"read_uncommitted", "read_committed"}
        "read_committed" omits aborted records, and records after the last stable offset.
    control : bool
        Include control records.
    to_log_end : bool
        True if `high` is the end of the log. Damage at this offset is reported, because it may have
        destroyed selected records.
    partial : bool
        Include the first records of a batch if its later records are damaged.
    selected : tuple of (int, int or None)
        Offset range of the records that the user selected. A record can have an offset outside the
        range in the header of its batch.
    """

    low: int = 0
    high: int = NO_END
    isolation: str = READ_UNCOMMITTED
    control: bool = False
    to_log_end: bool = False
    partial: bool = False
    selected: OffsetLimits = ALL_OFFSETS

    @property
    def committed(self) -> bool:
        """Whether `isolation` is "read_committed"."""
        return self.isolation == READ_COMMITTED

    @property
    def damage_high(self) -> int:
        """End offset (exclusive) of reported damage: `high + 1` if `to_log_end` is True, otherwise `high`."""
        return self.high + 1 if self.to_log_end else self.high

    def stable(self, last_stable_offset: int, is_log_end: bool) -> OffsetInterval:
        """Return the part of the interval below the last stable offset.

        `is_log_end` is True if the last stable offset is the end of the log, because no transaction
        is open.
        """
        if self.high <= last_stable_offset:
            return self
        return replace(self, high=last_stable_offset, to_log_end=is_log_end)
