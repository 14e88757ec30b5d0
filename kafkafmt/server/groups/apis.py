"""Answer requests that concern group membership, such as JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from sys import getsizeof
from typing import Any, TypeVar

from ...protocol import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ErrorCode,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from ...support.text import shown
from ..catalog import Catalog
from ..handlers import Handler, Handlers, RequestContext
from .consumer_apis import ConsumerApis
from .coordinator import AnyGroup, Coordinator
from .limits import GroupLimits
from .loading import GroupLoader, SeedGroups
from .members import MEMBER_BYTES, JoinRequest, JoinResult, SyncResult, protocols_size
from .offset_apis import OffsetApis
from .offsets import CLASSIC, CONSUMER, CommittedOffsets
from .offsets_file import GroupsFile
from .rebalance import State
from .state import ClassicGroup

T = TypeVar("T")

GROUP_COORDINATOR, TRANSACTION_COORDINATOR = 0, 1
"""Values of `key_type` in a FindCoordinator request."""
NO_OPERATIONS = -(2**31)
"""Value of `authorized_operations` in a response if the request did not ask for this field."""
GROUP_OPERATIONS = sum(1 << operation for operation in (3, 6, 8))
"""Bit field of READ, DELETE and DESCRIBE. The code of an operation in Kafka's ``AclOperation`` is its bit number."""


class GroupApis:
    """Handles the requests of all APIs of consumer groups. Kafka's counterpart is ``GroupCoordinatorService``."""

    # `seed_groups` is called in a thread. It returns the groups and the committed offsets in the
    # log directories. These groups have no members at first, because their members use another
    # server. Without `groups_file`, commits are kept in memory only.

    def __init__(
        self,
        catalog: Catalog,
        seed_groups: Callable[[], SeedGroups] | None = None,
        groups_file: Path | None = None,
        limits: GroupLimits | None = None,
    ) -> None:
        self._catalog = catalog
        file = None if groups_file is None else GroupsFile(groups_file)
        try:
            offsets = CommittedOffsets(file)
        except BaseException:
            if file is not None:
                file.close()
            raise
        if file is not None and file.ignored:
            catalog.settings.on_message(
                f"{file.path}: the last line is incomplete and is ignored: {shown(file.ignored[:200])}; "
                "a client that commits its offsets again restores the commit"
            )
        self.coordinator: Coordinator = Coordinator(offsets, limits or GroupLimits(), time.monotonic)
        self._offset_apis = OffsetApis(catalog, self.coordinator)
        self._consumer_apis = ConsumerApis(catalog, self.coordinator, self._changed)
        self._timer: asyncio.TimerHandle | None = None
        self._loader = GroupLoader(catalog, self.coordinator, seed_groups)

    def start(self) -> None:
        """Start reading the consumer groups of the log directories. The event loop must be running."""
        self._loader.start()

    def handlers(self) -> Handlers:
        """Return the supported APIs: a dict from API key to lowest version, highest version and handler."""
        own: dict[int, tuple[int, int, Handler]] = {
            10: (0, 6, self._find_coordinator),
            11: (0, 9, self._join_group),
            12: (0, 4, self._heartbeat),
            13: (0, 5, self._leave_group),
            14: (0, 5, self._sync_group),
            15: (0, 6, self._describe_groups),
            16: (0, 5, self._list_groups),
            42: (0, 3, self._delete_groups),
        }
        own |= {**self._offset_apis.handlers(), **self._consumer_apis.handlers()}
        return {key: (low, high, self._loader.when_loaded(key, handler)) for key, (low, high, handler) in own.items()}

    def close(self) -> None:
        """Cancel the timer and the loading of groups, and close the groups file."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._loader.close()
        self.coordinator.offsets.close()

    # Handlers

    async def _find_coordinator(
        self, request: FindCoordinatorRequest, context: RequestContext
    ) -> FindCoordinatorResponse:
        cluster = self._catalog.cluster
        known = request.key_type in (GROUP_COORDINATOR, TRANSACTION_COORDINATOR)
        error = ErrorCode.NONE if known else ErrorCode.INVALID_REQUEST
        message = None if known else f"the coordinator key type {request.key_type} is not supported"
        node_id, host, port = (cluster.node_id, cluster.host, cluster.port) if known else (-1, "", -1)
        if context.api_version < 4:
            return FindCoordinatorResponse(
                error_code=error, error_message=message, node_id=node_id, host=host, port=port
            )
        make = FindCoordinatorResponse.Coordinator
        return FindCoordinatorResponse(
            coordinators=[
                make(key=key, node_id=node_id, host=host, port=port, error_code=error, error_message=message)
                for key in dict.fromkeys(request.coordinator_keys)
            ]
        )

    async def _join_group(self, request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
        version = context.api_version
        rebalance_ms = request.session_timeout_ms if version == 0 else request.rebalance_timeout_ms
        join = JoinRequest(
            request.member_id,
            request.group_instance_id,
            context.client_id or "",
            f"/{context.connection.peer[0]}",
            request.session_timeout_ms / 1000,
            max(rebalance_ms, 0) / 1000,
            request.protocol_type,
            tuple((p.name, bytes(p.metadata)) for p in request.protocols),
            version >= 4,
            version >= 9,
        )
        group, error = self._group_to_join(request.group_id, join)
        if group is None:
            return _join_response(JoinResult(error, request.member_id), version)
        future: asyncio.Future[JoinResult] = asyncio.get_running_loop().create_future()
        group.join(join, lambda result: _resolve(future, result))
        self._changed(group)
        del request, join
        context.release()
        return _join_response(await future, version)

    async def _sync_group(self, request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse:
        group = self.coordinator.find_classic(request.group_id)
        error = _group_id_error(request.group_id)
        if context.api_version >= 5 and (request.protocol_type is None or request.protocol_name is None):
            error = error or ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        size = sum(len(a.assignment) for a in request.assignments)
        if group is None:
            error = error or ErrorCode.UNKNOWN_MEMBER_ID
        elif not self.coordinator.has_memory(size):
            error = error or ErrorCode.POLICY_VIOLATION
        if error or group is None:
            return SyncGroupResponse(error_code=error)
        future: asyncio.Future[SyncResult] = asyncio.get_running_loop().create_future()
        group.sync(
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            request.protocol_type,
            request.protocol_name,
            {a.member_id: bytes(a.assignment) for a in request.assignments},
            lambda result: _resolve(future, result),
        )
        self._changed(group)
        del request
        context.release()
        result = await future
        return SyncGroupResponse(
            error_code=result.error,
            protocol_type=result.protocol_type,
            protocol_name=result.protocol_name,
            assignment=result.assignment,
        )

    async def _heartbeat(self, request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
        group = self.coordinator.find_classic(request.group_id)
        error = _group_id_error(request.group_id)
        if not error and group is None:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if not error and group is not None:
            error = group.heartbeat(request.member_id, request.group_instance_id, request.generation_id)
        return HeartbeatResponse(error_code=error)

    async def _leave_group(self, request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
        group = self.coordinator.find_classic(request.group_id)
        error = _group_id_error(request.group_id)
        if error or (group is not None and group.state == State.DEAD):
            return LeaveGroupResponse(error_code=error or ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if context.api_version < 3:
            left = ErrorCode.UNKNOWN_MEMBER_ID if group is None else group.leave(request.member_id, None)
            response = LeaveGroupResponse(error_code=left)
        else:
            make = LeaveGroupResponse.MemberResponse
            response = LeaveGroupResponse(
                members=[
                    make(
                        member_id=m.member_id,
                        group_instance_id=m.group_instance_id,
                        error_code=ErrorCode.UNKNOWN_MEMBER_ID
                        if group is None
                        else group.leave(m.member_id, m.group_instance_id),
                    )
                    for m in request.members
                ]
            )
        if group is not None:
            self._changed(group)
        return response

    async def _describe_groups(self, request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
        operations = GROUP_OPERATIONS if request.include_authorized_operations else NO_OPERATIONS
        return DescribeGroupsResponse(
            groups=[self._describe(name, operations, context.api_version) for name in dict.fromkeys(request.groups)]
        )

    async def _list_groups(self, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
        states = {state.lower() for state in request.states_filter}
        types = {kind.lower() for kind in request.types_filter}
        return ListGroupsResponse(
            groups=[
                ListGroupsResponse.ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or "",
                    group_state=group.state,
                    group_type=_type_of(group),
                )
                for group in self.coordinator.groups.values()
                if (not states or group.state.lower() in states) and (not types or _type_of(group) in types)
            ]
        )

    async def _delete_groups(self, request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
        results = []
        for group_id in dict.fromkeys(request.groups_names):
            try:
                error = self.coordinator.delete(group_id)
            except OSError as problem:
                self._catalog.settings.on_message(f"the groups file cannot be written: {problem}")
                error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            results.append(DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=error))
        return DeleteGroupsResponse(results=results)

    # Groups

    def _group_to_join(self, group_id: str, join: JoinRequest) -> tuple[ClassicGroup | None, ErrorCode]:
        """Return the group that a client may join, or None and an error code if the request is refused."""
        limits, find = self.coordinator.limits, self.coordinator.find
        error = _group_id_error(group_id)
        if not error and not limits.min_session_timeout <= join.session_timeout <= limits.max_session_timeout:
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        if not error and join.member_id and find(group_id) is None:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        size = 2 * MEMBER_BYTES + getsizeof(group_id) + getsizeof(join.client_id) + protocols_size(join.protocols)
        if not error and not self.coordinator.has_memory(size):
            error = ErrorCode.POLICY_VIOLATION
        if error:
            return None, error
        found = self.coordinator.find_or_create(group_id)
        if found is None:
            return None, ErrorCode.POLICY_VIOLATION
        group = self.coordinator.make_classic(found)
        return group, ErrorCode.NONE if group is not None else ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def _describe(self, group_id: str, operations: int, version: int) -> Any:
        make = DescribeGroupsResponse.DescribedGroup
        group = self.coordinator.find_classic(group_id)
        if group is None:
            missing = make(group_id=group_id, group_state=State.DEAD, authorized_operations=operations)
            if version >= 6:
                missing.error_code = ErrorCode.GROUP_ID_NOT_FOUND
                missing.error_message = f"Group {group_id} not found."
            return missing
        stable = group.state == State.STABLE
        return make(
            group_id=group_id,
            group_state=group.state,
            protocol_type=group.protocol_type or "",
            protocol_data=(group.protocol_name or "") if stable else "",
            members=[
                DescribeGroupsResponse.DescribedGroupMember(
                    member_id=m.member_id,
                    group_instance_id=m.instance_id,
                    client_id=m.client_id,
                    client_host=m.client_host,
                    member_metadata=m.metadata(group.protocol_name) if stable else b"",
                    member_assignment=m.assignment,
                )
                for m in group.members
            ],
            authorized_operations=operations,
        )

    def _changed(self, group: AnyGroup) -> None:
        self.coordinator.changed(group)
        self._set_timer()

    def _set_timer(self) -> None:
        """Schedule a call of `_expire` at the earliest deadline of all groups."""
        deadline = self.coordinator.next_deadline()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline is not None:
            wait = max(deadline - time.monotonic(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(wait, self._expire)

    def _expire(self) -> None:
        self.coordinator.expire()
        self._set_timer()


def _type_of(group: AnyGroup) -> str:
    return CLASSIC if isinstance(group, ClassicGroup) else CONSUMER


def _group_id_error(group_id: str) -> ErrorCode:
    return ErrorCode.NONE if group_id else ErrorCode.INVALID_GROUP_ID


def _resolve(future: asyncio.Future[T], result: T) -> None:
    """Set the result of a future, unless the future was cancelled when its connection was closed."""
    if not future.done():
        future.set_result(result)


def _join_response(result: JoinResult, version: int) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name if version >= 7 else result.protocol_name or "",
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=m.member_id, group_instance_id=m.instance_id, metadata=m.metadata
            )
            for m in result.members
        ],
    )
