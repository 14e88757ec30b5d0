"""Process the requests of the members of a classic consumer group.

`ClassicGroup` performs no I/O, and reads the time from a clock that the caller passes. A JoinGroup
or SyncGroup request may have to wait for other members of the group. Therefore, `ClassicGroup`
passes the result to a callback.

Kafka's counterparts are ``ClassicGroup`` and ``GroupMetadataManager``.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from ...protocol import ErrorCode
from .members import JoinRequest, JoinResult, Member, RespondToJoin, RespondToSync, SyncResult
from .rebalance import RebalancingGroup, State


class ClassicGroup(RebalancingGroup):
    """A classic group, in which one member (the leader) computes the assignment."""

    protocol_type: str | None
    leader: str | None

    # Requests of members

    def join(self, request: JoinRequest, respond: RespondToJoin) -> None:
        # If the group rebalances, `respond` is called after the other members have joined.
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
        """Process a SyncGroup request. `respond` is called after the leader has sent the assignments."""
        # The request of the leader contains the assignments. A protocol that is None is not
        # compared with the group's.
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
        """Process a heartbeat. The result is REBALANCE_IN_PROGRESS if the member must send JoinGroup again."""
        error = self.member_error(member_id, instance_id, generation)
        if error:
            return error
        self._extend_session(self.members[member_id])
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state == State.PREPARING_REBALANCE else ErrorCode.NONE

    def leave(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Remove a member. `member_id` may be empty if `instance_id` identifies a static member."""
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

    def commit_error(
        self, member_id: str, instance_id: str | None, generation: int, knows_epochs: bool = True
    ) -> ErrorCode:
        """Return NONE if a member may commit, which extends its session."""
        # Others may commit only if the group is empty.
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
        """Process a JoinGroup request of an existing member."""
        # The group rebalances if the member's protocols have changed, or if the leader of a stable
        # group joins again.
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
        """Replace the member id of a static member that has restarted."""
        # A stable group rebalances only if the selected protocol changes (KIP-345).
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
