"""Hold all groups, find and create them, limit their memory, and let them expire."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from ...protocol import ErrorCode
from .consumer_state import ConsumerGroup, PartitionsOf
from .limits import GroupLimits
from .offsets import CommittedOffsets, GroupFacts
from .state import ClassicGroup, State

AnyGroup = ClassicGroup | ConsumerGroup


class Coordinator:
    """All groups of the server.

    Parameters
    ----------
    offsets : CommittedOffsets
        The committed offsets.
    limits : GroupLimits
    now : callable
        Returns the current time in seconds.

    Attributes
    ----------
    groups : dict of str to ClassicGroup or ConsumerGroup
        The groups by name. A group without members is a classic group or a consumer group.
    """

    def __init__(self, offsets: CommittedOffsets, limits: GroupLimits, now: Callable[[], float]) -> None:
        self.offsets = offsets
        self.limits = limits
        self.groups: dict[str, AnyGroup] = {}
        self._now = now
        self._sizes: dict[str, int] = {}
        """Approximate memory of each group that a client has created or changed, in bytes."""
        self._size = 0
        self._deadlines: dict[str, float] = {}
        """The next time at which each group is examined."""
        self._queue: list[tuple[float, str]] = []

    def add_known_groups(self) -> None:
        """Add each group that has committed offsets or that had members earlier, without members."""
        for group_id in sorted(self.offsets.group_ids() - self.groups.keys()):
            self._add(group_id)

    def find(self, group_id: str) -> AnyGroup | None:
        """Return a group, or None if there is no such group."""
        return self.groups.get(group_id)

    def find_classic(self, group_id: str) -> ClassicGroup | None:
        """Return a classic group, or None if there is no such group or if it is a consumer group."""
        found = self.groups.get(group_id)
        return found if isinstance(found, ClassicGroup) else None

    def find_consumer(self, group_id: str) -> ConsumerGroup | None:
        """Return a consumer group, or None if there is no such group or if it is a classic group."""
        found = self.groups.get(group_id)
        return found if isinstance(found, ConsumerGroup) else None

    def make_classic(self, group: AnyGroup) -> ClassicGroup | None:
        """Return the group if it is a classic group. Convert it if it has no members; otherwise return None."""
        if isinstance(group, ClassicGroup):
            return group
        if group.members:
            return None
        made = ClassicGroup(group.group_id, self._now, self.limits, group.protocol_type, group.generation)
        self.groups[group.group_id] = made
        return made

    def make_consumer(self, group: AnyGroup, partitions_of: PartitionsOf) -> ConsumerGroup | None:
        """Return the group if it is a consumer group. Convert it if it has no members; otherwise return None."""
        if isinstance(group, ConsumerGroup):
            return group
        if group.state != State.EMPTY or group.pending:
            return None
        made = ConsumerGroup(group.group_id, self._now, self.limits, partitions_of, group.generation)
        self.groups[group.group_id] = made
        return made

    def find_or_create(self, group_id: str) -> AnyGroup | None:
        """Return a group. It is created if necessary. Return None if there are too many groups."""
        found = self.groups.get(group_id)
        if found is not None:
            return found
        if len(self.groups) >= self.limits.groups:
            self._drop_unused_groups()
        if len(self.groups) >= self.limits.groups:
            return None
        return self._add(group_id)

    def has_memory(self, size: int) -> bool:
        """Return whether groups and commits may grow by `size` bytes."""
        return self._size + self.offsets.size + size <= self.limits.bytes

    def changed(self, group: AnyGroup) -> None:
        """Update the memory and the next deadline of a group after members have changed."""
        group_id = group.group_id
        if self.groups.get(group_id) is not group:
            return
        size = group.size
        self._size += size - self._sizes.get(group_id, 0)
        self._sizes[group_id] = size
        deadline = group.next_deadline()
        if deadline is not None and deadline < self._deadlines.get(group_id, float("inf")):
            self._deadlines[group_id] = deadline
            heappush(self._queue, (deadline, group_id))

    def next_deadline(self) -> float | None:
        """Return the time at which `expire` must be called, or None."""
        return self._queue[0][0] if self._queue else None

    def expire(self) -> None:
        """Let members and rebalances expire whose time has come."""
        now = self._now()
        while self._queue and self._queue[0][0] <= now:
            deadline, group_id = heappop(self._queue)
            if self._deadlines.get(group_id) == deadline:
                del self._deadlines[group_id]
                group = self.groups[group_id]
                group.expire()
                self.changed(group)

    def delete(self, group_id: str) -> ErrorCode:
        """Delete a group that has no members, with its offsets.

        Raises
        ------
        OSError
            The groups file cannot be written. The group is not deleted.
        """
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state != State.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        self.offsets.delete_group(group_id)
        self._remove(group)
        return ErrorCode.NONE

    def _add(self, group_id: str) -> ClassicGroup:
        facts = self.offsets.facts.get(group_id, GroupFacts())
        group = ClassicGroup(group_id, self._now, self.limits, *facts)
        self.groups[group_id] = group
        return group

    def _remove(self, group: AnyGroup) -> None:
        group.delete()
        del self.groups[group.group_id]
        self._size -= self._sizes.pop(group.group_id, 0)
        self._deadlines.pop(group.group_id, None)

    def _drop_unused_groups(self) -> None:
        """Forget groups that have neither members nor offsets."""
        known = self.offsets.group_ids()
        unused: Iterable[AnyGroup] = [
            group
            for group_id, group in self.groups.items()
            if group.state == State.EMPTY and not getattr(group, "pending", None) and group_id not in known
        ]
        for group in unused:
            self._remove(group)
