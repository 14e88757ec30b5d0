"""Create and find consumer groups, limit the memory of all groups, and expire their members."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from ...protocol import ErrorCode
from .consumer_state import ConsumerGroup, PartitionsOf
from .limits import GroupLimits
from .offsets import CONSUMER, CommittedOffsets, GroupFacts
from .rebalance import State
from .state import ClassicGroup

AnyGroup = ClassicGroup | ConsumerGroup


class Coordinator:
    # A group without members is converted to the other type when a member with the other protocol
    # joins.

    def __init__(self, offsets: CommittedOffsets, limits: GroupLimits, now: Callable[[], float]) -> None:
        self.offsets = offsets
        self.limits = limits
        self.groups: dict[str, AnyGroup] = {}
        self.partitions_of: PartitionsOf = lambda _: ()
        self._now = now
        self._sizes: dict[str, int] = {}
        """Approximate memory in bytes of each group that a client has created or changed, by group id."""
        self._size = 0
        self._deadlines: dict[str, float] = {}
        """The time at which `expire` must check a group next, by group id."""
        self._queue: list[tuple[float, str]] = []

    def add_known_groups(self) -> None:
        """Add each group that has committed offsets or has had members. The added groups have no members."""
        for group_id in sorted(self.offsets.group_ids() - self.groups.keys()):
            self._add(group_id)

    def find(self, group_id: str) -> AnyGroup | None:
        return self.groups.get(group_id)

    def find_classic(self, group_id: str) -> ClassicGroup | None:
        found = self.groups.get(group_id)
        return found if isinstance(found, ClassicGroup) else None

    def find_consumer(self, group_id: str) -> ConsumerGroup | None:
        found = self.groups.get(group_id)
        return found if isinstance(found, ConsumerGroup) else None

    def make_classic(self, group: AnyGroup) -> ClassicGroup | None:
        """Return the group as a classic group, or None if it is a consumer group with members."""
        if isinstance(group, ClassicGroup):
            return group
        if group.members:
            return None
        made = ClassicGroup(group.group_id, self._now, self.limits, group.protocol_type, group.generation)
        self.groups[group.group_id] = made
        return made

    def make_consumer(self, group: AnyGroup) -> ConsumerGroup | None:
        """Return the group as a consumer group, or None if it is a classic group with members."""
        if isinstance(group, ConsumerGroup):
            return group
        if group.state != State.EMPTY or group.pending:
            return None
        made = ConsumerGroup(group.group_id, self._now, self.limits, self.partitions_of, group.generation)
        self.groups[group.group_id] = made
        return made

    def find_or_create(self, group_id: str) -> AnyGroup | None:
        """Find or create the group `group_id`. Return None if there are already too many groups."""
        found = self.groups.get(group_id)
        if found is not None:
            return found
        if len(self.groups) >= self.limits.groups:
            self._drop_unused_groups()
        if len(self.groups) >= self.limits.groups:
            return None
        return self._add(group_id)

    def has_memory(self, size: int) -> bool:
        """Return whether the memory limit allows groups and commits to grow by `size` bytes."""
        return self._size + self.offsets.size + size <= self.limits.bytes

    def changed(self, group: AnyGroup) -> None:
        """Record the new memory size and the next deadline of a group whose members have changed."""
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
        """Return the time at which `expire` must be called, or None if nothing can expire."""
        return self._queue[0][0] if self._queue else None

    def expire(self) -> None:
        """Call `expire` of each group whose deadline has passed."""
        now = self._now()
        while self._queue and self._queue[0][0] <= now:
            deadline, group_id = heappop(self._queue)
            if self._deadlines.get(group_id) == deadline:
                del self._deadlines[group_id]
                group = self.groups[group_id]
                group.expire()
                self.changed(group)

    def delete(self, group_id: str) -> ErrorCode:
        """Delete a group without members and its commits."""
        # If the groups file cannot be written, the group is not deleted.
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state != State.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        self.offsets.delete_group(group_id)
        self._remove(group)
        return ErrorCode.NONE

    def _add(self, group_id: str) -> AnyGroup:
        facts = self.offsets.facts.get(group_id, GroupFacts())
        group: AnyGroup
        if facts.type == CONSUMER:
            group = ConsumerGroup(group_id, self._now, self.limits, self.partitions_of, facts.generation)
        else:
            group = ClassicGroup(group_id, self._now, self.limits, facts.protocol_type, facts.generation)
        self.groups[group_id] = group
        return group

    def _remove(self, group: AnyGroup) -> None:
        group.delete()
        del self.groups[group.group_id]
        self._size -= self._sizes.pop(group.group_id, 0)
        self._deadlines.pop(group.group_id, None)

    def _drop_unused_groups(self) -> None:
        """Remove groups that have neither members nor committed offsets."""
        known = self.offsets.group_ids()
        unused: Iterable[AnyGroup] = [
            group
            for group_id, group in self.groups.items()
            if group.state == State.EMPTY and not getattr(group, "pending", None) and group_id not in known
        ]
        for group in unused:
            self._remove(group)
