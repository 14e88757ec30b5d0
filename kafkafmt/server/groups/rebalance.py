"""Rebalance a classic consumer group.

A group is in one of these states:

- Empty: the group has no members. It may have committed offsets.
- PreparingRebalance: all members must send JoinGroup. The state ends when all members have joined,
  or when the longest rebalance timeout of the members has passed. Dynamic members that have not
  joined by then are removed.
- CompletingRebalance: the members wait for the assignment that the leader computes.
- Stable: all members have their assignment.
- Dead: the group has been deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from sys import getsizeof

from ...protocol import ErrorCode
from .limits import GroupLimits
from .member_table import MemberTable
from .members import JoinedMember, JoinResult, Member, SyncResult

GROUP_BYTES = 1024
"""Approximate memory of a group without its members and commits, in bytes."""
PENDING_BYTES = 256
"""Approximate memory of an item of `RebalancingGroup.pending` without its member id, in bytes."""


class State(StrEnum):
    """State of a classic group, with the names that Kafka uses in responses."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class RebalancingGroup:
    """The state of a classic group and its rebalances. `ClassicGroup` is its only subclass."""

    # `pending` has the expiry times of member ids that were sent with MEMBER_ID_REQUIRED, and that
    # no client has used to join yet. `members` keeps the order of joining. Each completed rebalance
    # increments `generation`.

    def __init__(
        self,
        group_id: str,
        now: Callable[[], float],
        limits: GroupLimits,
        protocol_type: str | None = None,
        generation: int = 0,
    ) -> None:
        self.group_id = group_id
        self.state: State = State.EMPTY
        self.generation: int = generation
        self.protocol_type: str | None = protocol_type
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: MemberTable = MemberTable()
        self.pending: dict[str, float] = {}
        self._now = now
        self._limits = limits
        self._join_deadline: float | None = None
        self._initial_delay_left: float | None = None
        """Seconds by which the initial rebalance delay can still be extended, or None if there is no delay."""
        self._joined_during_delay = False
        self._unsynced: set[str] = set()
        self._sync_deadline: float | None = None

    # Time

    def next_deadline(self) -> float | None:
        """Return the time at which `expire` must be called, or None if nothing can expire."""
        times = [*self.pending.values(), *(m.deadline for m in self.members if m.can_expire)]
        times += [time for time in (self._join_deadline, self._sync_deadline) if time is not None]
        return min(times, default=None)

    def expire(self) -> None:
        """Remove members whose session has expired, and complete a rebalance that has timed out."""
        now = self._now()
        for member_id in [member_id for member_id, deadline in self.pending.items() if deadline <= now]:
            del self.pending[member_id]
        for member in [m for m in self.members if m.can_expire and m.deadline <= now]:
            self._remove_member(member)
        if self._sync_deadline is not None and self._sync_deadline <= now:
            for member_id in list(self._unsynced):
                self._forget(self.members[member_id])
            self._prepare_rebalance()
        self._complete_join_if_all_joined()
        if self._join_deadline is not None and self._join_deadline <= now:
            self._end_waiting_for_joins(now)

    # Memory

    @property
    def size(self) -> int:
        """Approximate memory that the group and its members take, in bytes."""
        pending = sum(PENDING_BYTES + getsizeof(member_id) for member_id in self.pending)
        return GROUP_BYTES + getsizeof(self.group_id) + pending + sum(member.size for member in self.members)

    # Rebalancing

    def _prepare_rebalance(self) -> None:
        if self.state not in (State.EMPTY, State.STABLE, State.COMPLETING_REBALANCE):
            return
        self._unsynced.clear()
        self._sync_deadline = None
        for member in self.members:
            if member.respond_to_sync is not None:
                member.finish_sync(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
                self._extend_session(member)
        now, timeout = self._now(), self.members.rebalance_timeout()
        delay = self._limits.initial_rebalance_delay
        self._initial_delay_left = None
        if self.state == State.EMPTY and delay:
            self._initial_delay_left, self._joined_during_delay = max(timeout - delay, 0.0), False
            self._join_deadline = now + delay
        else:
            self._join_deadline = now + timeout
        self.state = State.PREPARING_REBALANCE

    def _complete_join_if_all_joined(self) -> None:
        if self.state != State.PREPARING_REBALANCE or self._initial_delay_left is not None or self.pending:
            return
        if all(member.awaits_join for member in self.members):
            self._complete_join()

    def _end_waiting_for_joins(self, now: float) -> None:
        """Complete the join phase, or extend the initial delay if members have joined during the delay."""
        left = self._initial_delay_left
        if left and self._joined_during_delay:
            delay = min(self._limits.initial_rebalance_delay, left)
            self._initial_delay_left, self._joined_during_delay = left - delay, False
            self._join_deadline = now + delay
        else:
            self._complete_join()

    def _complete_join(self) -> None:
        """Start the next generation without the dynamic members that have not joined."""
        # Static ones stay until they expire.
        self._initial_delay_left = None
        for member in [m for m in self.members if not m.awaits_join and m.instance_id is None]:
            self._forget(member)
        joined = [member for member in self.members if member.awaits_join]
        timeout = self.members.rebalance_timeout()
        if self.members and not joined:
            self._join_deadline = self._now() + timeout
            return
        self._join_deadline = None
        self.generation = self.generation % 0x7FFFFFFF + 1
        if not self.members:
            self.state, self.protocol_name, self.leader = State.EMPTY, None, None
            return
        if self.leader is None or not self.members[self.leader].awaits_join:
            self.leader = joined[0].member_id
        self.protocol_name = self.members.select_protocol()
        self.state = State.COMPLETING_REBALANCE
        self._unsynced = {member.member_id for member in joined}
        self._sync_deadline = self._now() + timeout
        for member in self.members:
            member.is_new = False
            if member.awaits_join:
                self._extend_session(member)
                member.finish_join(self._join_result(member))

    def _join_result(self, member: Member) -> JoinResult:
        members: tuple[JoinedMember, ...] = ()
        if member.member_id == self.leader:
            members = tuple(
                JoinedMember(m.member_id, m.instance_id, m.metadata(self.protocol_name)) for m in self.members
            )
        return JoinResult(
            ErrorCode.NONE,
            member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol_name,
            self.leader or "",
            members,
        )

    def _accept_assignments(self, assignments: Mapping[str, bytes]) -> None:
        self.state = State.STABLE
        for member in self.members:
            member.assignment = assignments.get(member.member_id, b"")
            if member.respond_to_sync is not None:
                self._extend_session(member)
                member.finish_sync(self._assignment_of(member))

    def _assignment_of(self, member: Member) -> SyncResult:
        return SyncResult(ErrorCode.NONE, self.protocol_type, self.protocol_name, member.assignment)

    # Members

    def _extend_session(self, member: Member) -> None:
        member.deadline = self._now() + member.session_timeout

    def _forget(self, member: Member) -> None:
        """Remove a member, but keep the state of the group."""
        member.finish_join(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID))
        member.finish_sync(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
        self.members.remove(member)
        self._unsynced.discard(member.member_id)
        if self.leader == member.member_id:
            self.leader = self.members.first()

    def _remove_member(self, member: Member) -> None:
        self._forget(member)
        self._prepare_rebalance()
        self._complete_join_if_all_joined()
