"""Build error responses in which every group or partition has the same error code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import protocol
from ...protocol import ErrorCode

FIRST_BATCHED_FETCH = 8
"""First version of OffsetFetch whose requests can name several groups."""


def _commit(request: Any, version: int, error: ErrorCode) -> Any:
    make = protocol.OffsetCommitResponse
    return make(
        topics=[
            make.OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    make.OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=error)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _fetch(request: Any, version: int, error: ErrorCode) -> Any:
    make = protocol.OffsetFetchResponse
    if version >= FIRST_BATCHED_FETCH:
        return make(
            groups=[make.OffsetFetchResponseGroup(group_id=g.group_id, error_code=error) for g in request.groups]
        )
    if version >= 2:
        return make(error_code=error)
    return make(
        topics=[
            make.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    make.OffsetFetchResponsePartition(
                        partition_index=number, committed_offset=-1, metadata="", error_code=error
                    )
                    for number in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _join(request: Any, version: int, error: ErrorCode) -> Any:
    name = None if version >= 7 else ""
    return protocol.JoinGroupResponse(error_code=error, member_id=request.member_id, protocol_name=name)


def _describe(request: Any, version: int, error: ErrorCode) -> Any:
    make = protocol.DescribeGroupsResponse
    return make(groups=[make.DescribedGroup(group_id=group, error_code=error) for group in request.groups])


def _describe_consumers(request: Any, version: int, error: ErrorCode) -> Any:
    make = protocol.ConsumerGroupDescribeResponse
    return make(groups=[make.DescribedGroup(group_id=group, error_code=error) for group in request.group_ids])


def _delete(request: Any, version: int, error: ErrorCode) -> Any:
    make = protocol.DeleteGroupsResponse
    return make(results=[make.DeletableGroupResult(group_id=group, error_code=error) for group in request.groups_names])


def _simple(name: str) -> Callable[[Any, int, ErrorCode], Any]:
    """Return a function that builds a response of the API `name` with only a top-level error code."""

    def refuse(request: Any, version: int, error: ErrorCode) -> Any:
        response: Any = protocol.message_class(name, "response")
        return response(error_code=error)

    return refuse


REFUSALS: dict[int, Callable[[Any, int, ErrorCode], Any]] = {
    8: _commit,
    9: _fetch,
    11: _join,
    12: _simple("Heartbeat"),
    13: _simple("LeaveGroup"),
    14: _simple("SyncGroup"),
    15: _describe,
    16: _simple("ListGroups"),
    42: _delete,
    47: _simple("OffsetDelete"),
    68: _simple("ConsumerGroupHeartbeat"),
    69: _describe_consumers,
}
"""Functions of request, version and error code that build error responses, by API key."""
