"""Find the partitions and offsets from which a consumer group would continue to read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from ...support.text import counted, shown
from ..catalog import Discovery, NoLogError, PartitionDir, like
from ..findings import Damage
from ..reading import OffsetBound, PartitionLog, Selection
from .group_records import GROUPS_TOPIC
from .groups import GroupState, read_group_state


class GroupNotFoundError(LookupError):
    """Raised if a consumer group has not committed an offset for any selected topic.

    Attributes
    ----------
    group : str
        Name of the group.
    topics : tuple of str
        Names of the topics for which the group has committed offsets. None of them was selected.
        Empty if the group has committed no offsets.
    known : tuple of str
        Names of all groups that have committed offsets.
    """

    def __init__(self, group: str, topics: Collection[str] = (), known: Collection[str] = ()) -> None:
        self.group = group
        self.topics: tuple[str, ...] = tuple(sorted(topics))
        self.known: tuple[str, ...] = tuple(sorted(known))
        if self.topics:
            reason = f" for the selected topics, only for {', '.join(self.topics)}"
        else:
            reason = f": {like('group', group, self.known)}"
        super().__init__(f"group {shown(group)} has not committed any offsets{reason}")

    def __reduce__(self) -> tuple[type[GroupNotFoundError], tuple[str, tuple[str, ...], tuple[str, ...]]]:
        return type(self), (self.group, self.topics, self.known)


def read_groups(
    directories: Iterable[PartitionDir],
    on_damage: Callable[[PartitionLog, Damage], None] | None,
    on_message: Callable[[str], None],
    at: int | None = None,
) -> GroupState:
    """Read the state of all consumer groups at the time `at` (ms) or now. NoLogError: no ``__consumer_offsets``."""
    # `on_damage` is called with the log and the damage; without it, damage raises DamagedLogError.
    logs = [PartitionLog(d, tell=on_message) for d in directories if d.topic == GROUPS_TOPIC and d.readable]
    if not logs:
        raise NoLogError(f"found no partition of {GROUPS_TOPIC}, which stores the offsets of consumer groups")
    state = read_group_state(logs, on_damage, at)
    if state.unreadable:
        on_message(f"omitted {counted(state.unreadable, 'record')} of {GROUPS_TOPIC} in an unknown format")
    return state


def choose_from_group(
    found: Discovery,
    chosen: Iterable[PartitionDir],
    group: str,
    selection: Selection,
    on_damage: Callable[[PartitionLog, Damage], None] | None,
    on_message: Callable[[str], None],
) -> tuple[list[PartitionDir], Selection]:
    """Select the partitions and records that a consumer group would read next."""
    # Return the partitions of topics with committed offsets, and a copy of `selection` that starts at these.
    state = read_groups(found.partitions, on_damage, on_message)
    committed = state.committed(group)
    topics = {topic for topic, _ in committed}
    kept = [directory for directory in chosen if directory.topic in topics]
    if not kept:
        raise GroupNotFoundError(group, topics, {c.group for c in state.offsets})
    for directory in kept:
        if reason := _other_start(directory, group, committed.get(directory.key)):
            on_message(f"{directory.topic}-{directory.partition}: {reason}")
    return kept, replace(selection, start=OffsetBound("group", committed=committed))


def _other_start(directory: PartitionDir, group: str, offset: int | None) -> str | None:
    """Explain why reading does not start at the group's committed offset. If it starts there, return None."""
    if offset is None:
        return f"group {group} has not committed an offset; reading starts at the log start offset"
    start = directory.log_start_offset
    if offset < start:
        return (
            f"the committed offset {offset} of group {group} is below the log start offset; reading starts at {start}"
        )
    return None
