"""Report the committed offsets of consumer groups, with log end offsets, lags and total lags."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...support.report import Report
from ..catalog import PartitionDir
from ..groups import CommittedOffset, Group, GroupState, groups_dict
from ..reading import PartitionLog, find_timestamp
from ..verifying import EXIT_DAMAGE, EXIT_UNREADABLE, Run, UnreadablePartition, unreadable_dict


@dataclass(frozen=True)
class GroupTotal:
    """The total lag of one consumer group."""

    group: str
    partitions: int
    lag: int  # sum of the known lags
    unknown: int  # number of partitions whose lag is unknown


@dataclass(frozen=True)
class GroupReport(Report):
    """Committed offsets and lags of consumer groups, as returned by `report_groups`."""

    command = "groups"

    offsets: tuple[CommittedOffset, ...]
    groups: tuple[Group, ...]
    unreadable: tuple[UnreadablePartition, ...] = ()  # the log end offset could not be read
    damaged: bool = False  # damage in ``__consumer_offsets`` was skipped

    @property
    def totals(self) -> tuple[GroupTotal, ...]:
        """The total lag of each group that has committed an offset, ordered by name."""
        return group_totals(self.offsets)

    @property
    def exit_code(self) -> int:
        """Exit code of ``kafkafmt groups``: 3 if a log end could not be read, 1 if damage was skipped, else 0."""
        if self.unreadable:
            return EXIT_UNREADABLE
        return EXIT_DAMAGE if self.damaged else 0

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that ``kafkafmt groups --format json`` prints."""
        return groups_dict(self.offsets, self.groups) | unreadable_dict(self.unreadable)


def group_totals(offsets: Sequence[CommittedOffset]) -> tuple[GroupTotal, ...]:
    """Return the total lag of each group, ordered by name."""
    by_group: dict[str, list[int | None]] = {}
    for c in offsets:
        by_group.setdefault(c.group, []).append(c.lag)
    return tuple(
        GroupTotal(group, len(lags), sum(lag or 0 for lag in lags), lags.count(None))
        for group, lags in sorted(by_group.items())
    )


def report_groups(
    state: GroupState,
    directories: Iterable[PartitionDir],
    run: Run,
    at: int | None = None,
    damaged: bool = False,
) -> GroupReport:
    """Return the committed offsets of `state` with the log end offset and the lag of each partition."""
    # If `at` (ms) is given, lags are computed from the first record at that time or later, or else from the end of the
    # log, and a negative lag is reported as 0. Without `at`, a lag is negative if the committed offset is above the end
    # of the log, as in Kafka's ``ConsumerGroupCommand``.
    wanted = {(c.topic, c.partition) for c in state.offsets}
    ends: dict[tuple[str, int], int] = {}
    for directory in directories:
        if directory.key in wanted and directory.readable:
            with run.reading(directory):
                ends[directory.key] = _log_end(PartitionLog(directory, tell=run.tell), at)
    offsets = tuple(_with_end(c, ends.get((c.topic, c.partition)), at) for c in state.offsets)
    return GroupReport(offsets, tuple(state.groups), tuple(run.unreadable), damaged)


def _log_end(log: PartitionLog, at: int | None) -> int:
    place = None if at is None else find_timestamp(log, at)
    return log.next_offset if place is None else place.offset


def _with_end(commit: CommittedOffset, end: int | None, at: int | None) -> CommittedOffset:
    if end is None:
        return commit
    lag = end - commit.offset
    return commit._replace(log_end_offset=end, lag=lag if at is None else max(lag, 0))
