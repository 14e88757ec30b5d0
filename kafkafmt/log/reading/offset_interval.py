"""Define `OffsetInterval`, which specifies the records of one partition that are read."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...constants import NO_END, READ_COMMITTED, READ_UNCOMMITTED
from ...records.reader import ALL_OFFSETS, OffsetLimits


@dataclass(frozen=True)
class OffsetInterval:
    """Specification of the records of one partition to read, as returned by `Selection.resolve`."""

    # `low` and `high` (exclusive) are offsets of batches according to their headers. They may divide the records among
    # tasks, so they omit only records of batches that are partly outside.

    low: int = 0
    high: int = NO_END
    # "read_committed" omits aborted records, and records after the last stable offset
    isolation: str = READ_UNCOMMITTED
    control: bool = False  # include control records
    to_log_end: bool = False  # damage at `high` is reported, because it may have destroyed selected records
    partial: bool = False  # include the first records of a batch if its later records are damaged
    # by the user; a record can have an offset outside the range in the header of its batch
    selected: OffsetLimits = ALL_OFFSETS

    @property
    def committed(self) -> bool:
        return self.isolation == READ_COMMITTED

    @property
    def damage_high(self) -> int:
        """End offset (exclusive) of reported damage: `high + 1` if `to_log_end` is True, otherwise `high`."""
        return self.high + 1 if self.to_log_end else self.high

    def stable(self, last_stable_offset: int, is_log_end: bool) -> OffsetInterval:
        """Return the part of the interval below the last stable offset."""
        if self.high <= last_stable_offset:
            return self
        return replace(self, high=last_stable_offset, to_log_end=is_log_end)
