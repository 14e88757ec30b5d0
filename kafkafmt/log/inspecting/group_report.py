"""Report the committed offsets of consumer groups, with log end offsets, lags and total lags."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..catalog import PartitionDir
from ..groups import CommittedOffset, Group, GroupState, groups_dict
from ..reading import PartitionLog, find_timestamp
from ..verifying import EXIT_DAMAGE, EXIT_UNREADABLE, Run, UnreadablePartition, unreadable_dict


@dataclass(frozen=True)
class GroupTotal:
    """The total lag of one consumer group.

    Attributes
    ----------
    group : str
        Name of the group.
    partitions : int
        Number of partitions for which the group has committed an offset.
    lag : int
        Sum of the known lags.
    unknown : int
        Number of partitions whose lag is unknown.
    """

    group: str
    partitions: int
    lag: int
    unknown: int


@dataclass(frozen=True)
class GroupReport:
    """Committed offsets and lags of consumer groups, as returned by `report_groups`.

    Attributes
    ----------
    offsets : tuple of CommittedOffset
        Committed offsets with their lags, ordered by group, topic and partition.
    groups : tuple of Group
        Groups with their members, ordered by name.
    unreadable : tuple of UnreadablePartition
        Partitions whose log end offset could not be read.
    damaged : bool
        Whether damage in ``__consumer_offsets`` was skipped.
    """

    offsets: tuple[CommittedOffset, ...]
    groups: tuple[Group, ...]
    unreadable: tuple[UnreadablePartition, ...] = ()
    damaged: bool = False

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
    """Return the committed offsets of `state` with the log end offset and the lag of each partition.

    Parameters
    ----------
    state : GroupState
        The groups and their committed offsets.
    directories : iterable of PartitionDir
        The partitions whose log ends are read.
    run : Run
        Collects messages and partitions that cannot be read.
    at : int, optional
        A time, in milliseconds since 1970-01-01 UTC. By default, lags are computed from the end of
        the log. If `at` is given, lags are computed from the first record whose timestamp is `at`
        or later, or from the end of the log if there is no such record. A negative lag is then
        reported as 0. Without `at`, a lag is negative if the committed offset is above the end of
        the log, as in Kafka's ``ConsumerGroupCommand``.
    damaged : bool, default False
        Whether damage in ``__consumer_offsets`` was skipped.
    """
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
