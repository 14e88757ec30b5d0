"""Implement the state machine of a classic consumer group.

`ClassicGroup` performs no I/O, and reads the time from a clock that the caller passes. A JoinGroup
or SyncGroup request may have to wait for other members of the group. Therefore, `ClassicGroup`
passes the result to a callback.

A group is in one of these states:

- Empty: the group has no members. It may have committed offsets.
- PreparingRebalance: all members must send JoinGroup. The state ends when all members have joined,
  or when the longest rebalance timeout of the members has passed. Dynamic members that have not
  joined by then are removed.
- CompletingRebalance: the members wait for the assignment that the leader computes.
- Stable: all members have their assignment.
- Dead: the group has been deleted.

Kafka's counterparts are ``ClassicGroup`` and ``GroupMetadataManager``.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from enum import StrEnum
from sys import getsizeof

from ...protocol import ErrorCode
from .limits import GroupLimits
from .member_table import MemberTable
from .members import JoinedMember, JoinRequest, JoinResult, Member, RespondToJoin, RespondToSync, SyncResult

GROUP_BYTES = 1024
"""Approximate memory of a group without its members and commits, in bytes."""
PENDING_BYTES = 256
"""Approximate memory of an item of `ClassicGroup.pending` without its member id, in bytes."""


class State(StrEnum):
    """State of a classic group, with the names that Kafka uses in responses."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicGroup:
    """A classic group, in which one member (the leader) computes the assignment.

    Parameters
    ----------
    group_id : str
        Name of the group.
    now : callable
        Function that returns the current time of a monotonic clock, in seconds.
    limits : GroupLimits
        Limits on the members of the group.
    protocol_type : str, optional
        Protocol type that the group had before all members left, such as "consumer".
    generation : int, default 0
        Generation that the group had before all members left.

    Attributes
    ----------
    state : State
        The current state of the group.
    generation : int
        Number of the current generation. Each completed rebalance increments it.
    protocol_type, protocol_name : str or None
        Protocol type of the members, such as "consumer", and the name of the selected protocol,
        such as "range".
    leader : str or None
        Id of the member that computes the assignment.
    members : MemberTable
        The members, in the order in which they joined.
    pending : dict of str to float
        Expiry times of member ids that the server has sent with the error MEMBER_ID_REQUIRED, and
        that no client has used to join yet.
    """

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
        self.protocol_type = protocol_type
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

    # Requests of members

    def join(self, request: JoinRequest, respond: RespondToJoin) -> None:
        """Process a JoinGroup request.

        `respond` is called with the result. If the group rebalances, this call happens after the
        other members have joined.
        """
        error = self._join_error(request)
        if error:
            respond(JoinResult(error, "" if error == ErrorCode.GROUP_MAX_SIZE_REACHED else request.member_id))
        elif not request.member_id:
            self._join_without_id(request, respond)
        elif self.pending.pop(request.member_id, None) is not None:
            self._add_member(request.member_id, request, respond)
        else:
            self._rejoin(self.members[request.member_id], request, respond)
        self._complete_join_if_all_joined()

    def sync(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        protocol_type: str | None,
        protocol_name: str | None,
        assignments: Mapping[str, bytes],
        respond: RespondToSync,
    ) -> None:
        """Process a SyncGroup request. The request of the leader contains the assignments.

        `respond` is called with the member's assignment after the leader has sent the assignments.
        `protocol_type` and `protocol_name` must be equal to the values of the group. If one of
        these parameters is None, it is not checked.
        """
        error = self.member_error(member_id, instance_id, generation)
        if not error and (protocol_type or self.protocol_type, protocol_name or self.protocol_name) != (
            self.protocol_type,
            self.protocol_name,
        ):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if not error and self.state == State.PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error:
            respond(SyncResult(error))
            return
        member = self.members[member_id]
        self._unsynced.discard(member_id)
        if not self._unsynced:
            self._sync_deadline = None
        if self.state == State.COMPLETING_REBALANCE:
            # If an earlier SyncGroup request of the member is still unanswered, respond to it now.
            member.finish_sync(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
            member.respond_to_sync = respond
            if member_id == self.leader:
                self._accept_assignments(assignments)
        else:
            self._extend_session(member)
            respond(self._assignment_of(member))

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Process a heartbeat, which extends the session of the member.

        The result is REBALANCE_IN_PROGRESS if the member must send JoinGroup again.
        """
        error = self.member_error(member_id, instance_id, generation)
        if error:
            return error
        self._extend_session(self.members[member_id])
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state == State.PREPARING_REBALANCE else ErrorCode.NONE

    def leave(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Process a LeaveGroup request, which removes a member.

        `member_id` may be empty if `instance_id` identifies a static member.
        """
        if self.state == State.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if member_id in self.pending and instance_id is None:
            del self.pending[member_id]
            self._complete_join_if_all_joined()
            return ErrorCode.NONE
        if not member_id and instance_id is not None:
            member_id = self.members.id_of_instance(instance_id) or ""
        error = self.members.id_error(member_id, instance_id)
        if not error:
            self._remove_member(self.members[member_id])
        return error

    def commit_error(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Return NONE if a member is allowed to commit offsets. Otherwise, return an error code.

        A client that is not a member may commit only if the group is empty. A permitted commit of a
        member extends its session.
        """
        if self.state == State.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and self.state == State.EMPTY:
            return ErrorCode.NONE
        if generation < 0 and not member_id and instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = self.member_error(member_id, instance_id, generation)
        if error:
            return error
        if self.state == State.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self._extend_session(self.members[member_id])
        return ErrorCode.NONE

    def delete(self) -> ErrorCode:
        """Change the state to Dead if the group has no members."""
        if self.state == State.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if self.state != State.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        self.state = State.DEAD
        self.pending.clear()
        return ErrorCode.NONE

    def member_error(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Return NONE if the ids and the generation in a member's request are valid. Otherwise, return an error code."""
        if self.state == State.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self.members.id_error(member_id, instance_id)
        if error:
            return error
        return ErrorCode.NONE if generation == self.generation else ErrorCode.ILLEGAL_GENERATION

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

    # Joining

    def _join_error(self, request: JoinRequest) -> ErrorCode:
        if self.state == State.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        member_id, instance_id = request.member_id, request.instance_id
        if not self._has_capacity_for(member_id, instance_id):
            self.pending.pop(member_id, None)
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        if not self._supports(request):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if not member_id:
            return ErrorCode.NONE
        if member_id in self.pending:
            return ErrorCode.NONE if instance_id is None else ErrorCode.UNKNOWN_MEMBER_ID
        return self.members.id_error(member_id, instance_id)

    def _has_capacity_for(self, member_id: str, instance_id: str | None) -> bool:
        if member_id in self.members or self.members.id_of_instance(instance_id) is not None:
            return True
        others = len(self.pending) - (member_id in self.pending)
        return len(self.members) + others < self._limits.members

    def _supports(self, request: JoinRequest) -> bool:
        """Return whether a JoinGroup request has the group's protocol type and a protocol that all members support."""
        if not request.protocol_type or not request.protocols:
            return False
        if self.state == State.EMPTY:
            return True
        candidates = self.members.common_protocols()
        return request.protocol_type == self.protocol_type and any(name in candidates for name, _ in request.protocols)

    def _join_without_id(self, request: JoinRequest, respond: RespondToJoin) -> None:
        instance_id = request.instance_id
        member_id = f"{request.client_id if instance_id is None else instance_id}-{uuid.uuid4()}"
        if (old_id := self.members.id_of_instance(instance_id)) is not None:
            self._replace_static_member(self.members[old_id], member_id, request, respond)
        elif instance_id is None and request.requires_known_id:
            self.pending[member_id] = self._now() + request.session_timeout
            respond(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add_member(member_id, request, respond)

    def _add_member(self, member_id: str, request: JoinRequest, respond: RespondToJoin) -> None:
        member = Member(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.session_timeout,
            request.rebalance_timeout,
            request.protocols,
            self._now() + self._limits.new_member_timeout,
            respond_to_join=respond,
        )
        if not self.members:
            self.protocol_type = request.protocol_type
        self.members.add(member)
        self.leader = self.leader or member_id
        self._joined_during_delay = True
        self._prepare_rebalance()

    def _rejoin(self, member: Member, request: JoinRequest, respond: RespondToJoin) -> None:
        """Process a JoinGroup request of an existing member.

        The group rebalances if the member's protocols have changed, or if the leader of a stable
        group joins again.
        """
        unchanged = member.protocols == request.protocols
        if self.state == State.COMPLETING_REBALANCE and unchanged:
            respond(self._join_result(member))
        elif self.state == State.STABLE and unchanged and member.member_id != self.leader:
            self._extend_session(member)
            respond(self._join_result(member))
        else:
            self._update(member, request, respond)
            self._prepare_rebalance()

    def _update(self, member: Member, request: JoinRequest, respond: RespondToJoin) -> None:
        member.finish_join(JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.protocols = request.protocols
        member.session_timeout, member.rebalance_timeout = request.session_timeout, request.rebalance_timeout
        member.respond_to_join = respond

    def _replace_static_member(
        self, member: Member, member_id: str, request: JoinRequest, respond: RespondToJoin
    ) -> None:
        """Replace the member id of a static member that has restarted.

        A stable group rebalances only if the selected protocol changes (KIP-345).
        """
        old_leader, old_id = self.leader or "", member.member_id
        member.finish_join(JoinResult(ErrorCode.FENCED_INSTANCE_ID, old_id))
        member.finish_sync(SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        self.members.rename(member, member_id)
        if old_id in self._unsynced:
            self._unsynced = self._unsynced - {old_id} | {member_id}
        is_leader = old_leader == old_id
        if is_leader:
            self.leader = member_id
        self._update(member, request, respond)
        self._extend_session(member)
        if self.state != State.STABLE or self.members.select_protocol() != self.protocol_name:
            self._prepare_rebalance()
            return
        result = self._join_result(member)
        if request.can_skip_assignment:
            member.finish_join(result._replace(skip_assignment=is_leader))
        else:
            # Up to JoinGroup version 8, a member that receives its own id as the leader computes a new assignment.
            # Respond with the leader's old member id, so that the leader does not compute a new assignment.
            member.finish_join(result._replace(leader=old_leader, members=()))

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
        """Start the next generation with the members that have joined.

        Dynamic members that have not joined are removed. Static members remain until their session
        expires.
        """
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
        """Remove a member, and start a rebalance of the remaining members."""
        self._forget(member)
        self._prepare_rebalance()
        self._complete_join_if_all_joined()
