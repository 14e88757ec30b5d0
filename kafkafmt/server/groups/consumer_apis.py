"""Answer ConsumerGroupHeartbeat and ConsumerGroupDescribe requests (KIP-848)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from sys import getsizeof
from typing import Any

from ...protocol import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ErrorCode,
)
from ..catalog import Catalog
from ..handlers import Handlers, RequestContext
from .assignors import PartitionKey
from .consumer_state import JOINS, LEAVES_FOR_A_WHILE, PARTITION_BYTES, ConsumerGroup, ConsumerMember, Heartbeat
from .coordinator import AnyGroup, Coordinator
from .members import MEMBER_BYTES
from .rebalance import GROUP_BYTES

HEARTBEAT_INTERVAL_MS = 1000
"""Heartbeat interval of consumers. It is shorter than Kafka's 5000 ms, so that rebalances are faster."""
READ_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8
"""Bit field of READ, DELETE and DESCRIBE. The code of an operation in Kafka's ``AclOperation`` is its bit number."""
NO_OPERATIONS = -(2**31)
CONSUMER_MEMBER = 1
"""Value of `MemberType` in a ConsumerGroupDescribe response for members that use the consumer protocol."""


class ConsumerApis:
    """Handles the requests of the consumer group protocol (KIP-848)."""

    def __init__(self, catalog: Catalog, coordinator: Coordinator, on_change: Callable[[AnyGroup], None]) -> None:
        self._catalog = catalog
        self._coordinator = coordinator
        coordinator.partitions_of = self._partitions_of
        self._on_change = on_change

    def handlers(self) -> Handlers:
        """Return the supported APIs: a dict from API key to lowest version, highest version and handler."""
        return {68: (0, 1, self._heartbeat), 69: (0, 1, self._describe)}

    async def _heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext
    ) -> ConsumerGroupHeartbeatResponse:
        error, message = _request_error(request, context.api_version)
        owned = None
        if not error and request.topic_partitions is not None:
            owned = await self._catalog.run(self._keys, request.topic_partitions)
        group = None
        if not error:
            group, error, message = self._group_of(request)
        if error or group is None:
            return ConsumerGroupHeartbeatResponse(error_code=error, error_message=message)
        topics = request.subscribed_topic_names
        result = group.heartbeat(
            Heartbeat(
                request.member_id or str(uuid.uuid4()),
                request.member_epoch,
                context.client_id or "",
                f"/{context.connection.peer[0]}",
                request.instance_id,
                request.rack_id,
                None if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms / 1000,
                None if topics is None else frozenset(topics),
                request.server_assignor,
                owned,
            )
        )
        if result.assignment is not None or topics is not None or request.member_epoch <= JOINS:
            # Call `_on_change` only if the heartbeat may have changed the group, because the call visits all members.
            self._on_change(group)
        response = ConsumerGroupHeartbeatResponse(
            error_code=result.error,
            error_message=result.error.message if result.error else None,
            member_id=result.member_id or None,
            member_epoch=result.epoch,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        )
        if result.assignment is not None:
            make = ConsumerGroupHeartbeatResponse
            found = await self._catalog.run(self._with_ids, result.assignment)
            partitions = [make.TopicPartitions(topic_id=i, partitions=numbers) for i, _, numbers in found]
            response.assignment = make.Assignment(topic_partitions=partitions)
        return response

    async def _describe(
        self, request: ConsumerGroupDescribeRequest, context: RequestContext
    ) -> ConsumerGroupDescribeResponse:
        operations = READ_OPERATIONS if request.include_authorized_operations else NO_OPERATIONS
        groups = []
        for group_id in dict.fromkeys(request.group_ids):
            group = self._coordinator.find_consumer(group_id)
            described = ConsumerGroupDescribeResponse.DescribedGroup(
                group_id=group_id, authorized_operations=operations
            )
            if not group_id:
                described.error_code = ErrorCode.INVALID_GROUP_ID
            elif group is None:
                described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
                known = self._coordinator.find(group_id) is not None
                described.error_message = f"Group {group_id} {'is not a consumer group' if known else 'not found'}."
            else:
                described.group_state = group.state
                described.group_epoch = described.assignment_epoch = group.generation
                described.assignor_name = group.assignor
                described.members = [
                    await self._described_member(group, member, context.api_version)
                    for member in list(group.members.values())
                ]
            groups.append(described)
        return ConsumerGroupDescribeResponse(groups=groups)

    async def _described_member(self, group: ConsumerGroup, member: ConsumerMember, version: int) -> Any:
        make = ConsumerGroupDescribeResponse
        assigned, target = frozenset(member.assigned), frozenset(group.target.get(member.member_id, ()))

        async def assignment(partitions: frozenset[PartitionKey]) -> Any:
            found = await self._catalog.run(self._with_ids, partitions)
            return make.Assignment(
                topic_partitions=[
                    make.TopicPartitions(topic_id=i, topic_name=name, partitions=numbers) for i, name, numbers in found
                ]
            )

        return make.Member(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topics),
            assignment=await assignment(assigned),
            target_assignment=await assignment(target),
            member_type=CONSUMER_MEMBER if version >= 1 else -1,
        )

    def _group_of(self, request: ConsumerGroupHeartbeatRequest) -> tuple[ConsumerGroup | None, ErrorCode, str | None]:
        """Return the group that a heartbeat concerns, or None with an error code and an error message."""
        coordinator, group_id = self._coordinator, request.group_id
        names = request.subscribed_topic_names or ()
        count = sum(len(self._partitions_of(name)) for name in set(names))
        texts = (group_id, request.member_id, request.instance_id, request.rack_id, *names)
        size = GROUP_BYTES + MEMBER_BYTES + sum(map(getsizeof, texts)) + PARTITION_BYTES * count
        if (request.member_epoch == JOINS or names) and not coordinator.has_memory(size):
            return None, ErrorCode.POLICY_VIOLATION, "the server has reached its memory limit for consumer groups"
        if request.member_epoch != JOINS:
            group = coordinator.find_consumer(group_id)
            unknown = ErrorCode.UNKNOWN_MEMBER_ID if coordinator.find(group_id) else ErrorCode.GROUP_ID_NOT_FOUND
            return (
                (group, ErrorCode.NONE, None)
                if group
                else (None, unknown, f"group {group_id} has no member {request.member_id}")
            )
        found = coordinator.find_or_create(group_id)
        if found is None:
            return None, ErrorCode.POLICY_VIOLATION, "the server has too many groups"
        group = coordinator.make_consumer(found)
        if group is None:
            return None, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group."
        return group, ErrorCode.NONE, None

    def _partitions_of(self, topic: str) -> tuple[int, ...]:
        found = self._catalog.topic(topic)
        return () if found is None else tuple(found.partitions)

    def _keys(self, topics: Iterable[Any]) -> frozenset[PartitionKey]:
        """Return the partitions that a request lists, without partitions of unknown topics."""
        named = [(self._catalog.topic_by_id(topic.topic_id), topic.partitions) for topic in topics]
        return frozenset((topic.name, number) for topic, numbers in named if topic is not None for number in numbers)

    def _with_ids(self, partitions: Iterable[PartitionKey]) -> list[tuple[uuid.UUID, str, list[int]]]:
        """Group the partitions by topic. Return the id, name and partition numbers of each topic that still exists."""
        by_topic: dict[str, list[int]] = {}
        for name, number in sorted(partitions):
            by_topic.setdefault(name, []).append(number)
        found = [(self._catalog.topic(name), numbers) for name, numbers in by_topic.items()]
        return [(topic.topic_id, topic.name, numbers) for topic, numbers in found if topic is not None]


def _request_error(request: ConsumerGroupHeartbeatRequest, version: int) -> tuple[ErrorCode, str | None]:
    """Return the error code and message of a heartbeat request, or (NONE, None) if it is valid."""
    # Kafka's counterpart is ``throwIfConsumerGroupHeartbeatRequestIsInvalid``.
    if request.subscribed_topic_regex:
        return (
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            "kafkafmt serve does not support subscription by regular expression; subscribe by name",
        )
    reason = None
    if not request.group_id:
        reason = "the group id is empty"
    elif request.instance_id == "" or request.rack_id == "":
        reason = "the instance id or the rack id is empty; omit the field or set it"
    elif not request.member_id and (version >= 1 or request.member_epoch != JOINS):
        reason = "the member id is empty"
    elif request.member_epoch < LEAVES_FOR_A_WHILE:
        reason = f"the member epoch is {request.member_epoch}; it must be -2 or greater"
    elif request.member_epoch == LEAVES_FOR_A_WHILE and request.instance_id is None:
        reason = "the member epoch is -2, which requires an instance id"
    elif request.member_epoch == JOINS and (
        request.rebalance_timeout_ms <= 0
        or (request.subscribed_topic_names is None and request.subscribed_topic_regex is None)
        or request.topic_partitions != []
    ):
        reason = "a member that joins must send a rebalance timeout, its topics, and an empty list of partitions"
    return (ErrorCode.NONE, None) if reason is None else (ErrorCode.INVALID_REQUEST, reason)
