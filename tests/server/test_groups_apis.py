"""Test the APIs of consumer groups with encoded requests, in all versions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from handler_calls import Caller, internal_catalog, run

from kafkafmt import protocol
from kafkafmt.log.groups.groups import GroupState
from kafkafmt.protocol import ErrorCode
from kafkafmt.server.groups import GroupApis, GroupLimits
from kafkafmt.server.internal_topics import read_groups

LIMITS = GroupLimits(min_session_timeout=0.0)


def versions(key: int) -> range:
    known = protocol.message_class(key, "request").API.versions
    return range(known.first, known.last + 1)


@pytest.fixture
def apis() -> Iterator[GroupApis]:
    catalog = internal_catalog()
    made = GroupApis(catalog, limits=LIMITS)
    yield made
    made.close()
    catalog.close()


def join_request(group: str = "g", session_ms: int = 10_000, **fields: Any) -> Any:
    metadata = protocol.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"meta")
    return protocol.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[metadata],
        **fields,
    )


async def join(call: Caller, version: int | None = None, **fields: Any) -> Any:
    """Join a group. Repeat the request if the response is MEMBER_ID_REQUIRED."""
    response = await call(join_request(**fields), version)
    if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        response = await call(join_request(**fields | {"member_id": response.member_id}), version)
    return response


async def sync(call: Caller, joined: Any, version: int | None = None, group: str = "g", **fields: Any) -> Any:
    version = call.handlers[14][1] if version is None else version
    assignments = [
        protocol.SyncGroupRequest.SyncGroupRequestAssignment(member_id=m.member_id, assignment=b"part of " + m.metadata)
        for m in joined.members
    ]
    protocols = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    return await call(
        protocol.SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=assignments,
            **protocols | fields,
        ),
        version,
    )


async def heartbeat(call: Caller, joined: Any, version: int | None = None, group: str = "g") -> ErrorCode:
    request = protocol.HeartbeatRequest(group_id=group, generation_id=joined.generation_id, member_id=joined.member_id)
    return ErrorCode((await call(request, version)).error_code)


def test_handlers_support_all_versions_of_the_group_apis(apis: GroupApis) -> None:
    for key, (low, high, _) in apis.handlers().items():
        assert range(low, high + 1) == versions(key)


@pytest.mark.parametrize("version", versions(10))
def test_find_coordinator_returns_this_server(apis: GroupApis, version: int) -> None:
    async def main() -> None:
        call = Caller(apis.handlers(), version)
        if version < 4:
            found = await call(protocol.FindCoordinatorRequest(key="g"))
        else:
            response = await call(protocol.FindCoordinatorRequest(coordinator_keys=["g", "h"]))
            assert [c.key for c in response.coordinators] == ["g", "h"]
            found = response.coordinators[1]
        assert (found.error_code, found.node_id, found.host, found.port) == (0, 1, "127.0.0.1", 9092)
        if version >= 1:
            keys = {"key": "s"} if version < 4 else {"coordinator_keys": ["s"]}
            refused = await call(protocol.FindCoordinatorRequest(key_type=2, **keys))
            refused = refused.coordinators[0] if version >= 4 else refused
            assert refused.error_code == ErrorCode.INVALID_REQUEST

    run(main())


@pytest.mark.parametrize("version", versions(11))
def test_join_group_makes_the_first_member_the_leader(apis: GroupApis, version: int) -> None:
    async def main() -> None:
        joined = await join(Caller(apis.handlers()), version)
        assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
        assert joined.leader == joined.member_id
        assert [(m.member_id, m.metadata) for m in joined.members] == [(joined.member_id, b"meta")]

    run(main())


@pytest.mark.parametrize("version", versions(11))
def test_join_group_refuses_an_unknown_member(apis: GroupApis, version: int) -> None:
    async def main() -> None:
        refused = await Caller(apis.handlers(), version)(join_request(member_id="stranger"))
        assert (refused.error_code, refused.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "stranger")
        assert refused.protocol_name == (None if version >= 7 else "")

    run(main())


@pytest.mark.parametrize("version", versions(14))
def test_sync_group_returns_the_assignment(apis: GroupApis, version: int) -> None:
    async def main() -> None:
        call = Caller(apis.handlers())
        joined = await join(call)
        synced = await sync(call, joined, version)
        assert (synced.error_code, synced.assignment) == (0, b"part of meta")
        if version >= 5:
            assert synced.protocol_name == "range"
            missing = await sync(call, joined, version, protocol_name=None)
            assert missing.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    run(main())


@pytest.mark.parametrize("version", versions(12))
def test_heartbeat_reports_rebalances_and_unknown_members(apis: GroupApis, version: int) -> None:
    async def main() -> None:
        call = Caller(apis.handlers())
        joined = await join(call)
        await sync(call, joined)
        assert await heartbeat(call, joined, version) == ErrorCode.NONE
        waiting = asyncio.create_task(join(call, 3))
        await asyncio.sleep(0)
        assert await heartbeat(call, joined, version) == ErrorCode.REBALANCE_IN_PROGRESS
        assert await heartbeat(call, joined, version, "other") == ErrorCode.UNKNOWN_MEMBER_ID
        assert await heartbeat(call, joined, version, "") == ErrorCode.INVALID_GROUP_ID
        waiting.cancel()

    run(main())


@pytest.mark.parametrize("version", versions(13))
def test_leave_group_removes_the_member(apis: GroupApis, version: int) -> None:
    async def main() -> None:
        call = Caller(apis.handlers())
        joined = await join(call)
        member = protocol.LeaveGroupRequest.MemberIdentity
        ids = (joined.member_id, "stranger")
        if version < 3:
            codes = [
                (await call(protocol.LeaveGroupRequest(group_id="g", member_id=i), version)).error_code for i in ids
            ]
        else:
            request = protocol.LeaveGroupRequest(group_id="g", members=[member(member_id=i) for i in ids])
            response = await call(request, version)
            assert response.error_code == ErrorCode.NONE
            codes = [m.error_code for m in response.members]
        assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
        assert len(apis.coordinator.groups["g"].members) == 0

    run(main())


@pytest.mark.parametrize("version", versions(15))
def test_describe_groups_shows_members_and_assignments(apis: GroupApis, version: int) -> None:
    async def main() -> None:
        call = Caller(apis.handlers())
        joined = await join(call)
        await sync(call, joined)
        asked: Any = {"include_authorized_operations": True} if version >= 3 else {}
        response = await call(protocol.DescribeGroupsRequest(groups=["g", "missing"], **asked), version)
        group, missing = response.groups
        assert (group.error_code, group.group_state, group.protocol_data) == (0, "Stable", "range")
        [member] = group.members
        assert (member.client_id, member.client_host) == ("client", "/192.0.2.7")
        assert (member.member_metadata, member.member_assignment) == (b"meta", b"part of meta")
        assert missing.group_state == "Dead"
        assert missing.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE)
        if version >= 3:
            assert group.authorized_operations == 1 << 3 | 1 << 6 | 1 << 8

    run(main())


def test_describe_groups_shows_assignments_during_a_rebalance(apis: GroupApis) -> None:
    async def main() -> None:
        call = Caller(apis.handlers())
        joined = await join(call)
        await sync(call, joined)
        joining = asyncio.create_task(join(Caller(apis.handlers())))
        await asyncio.sleep(0.05)
        [group] = (await call(protocol.DescribeGroupsRequest(groups=["g"]))).groups
        assert group.group_state == "PreparingRebalance"
        assert next((m.member_metadata, m.member_assignment) for m in group.members) == (b"", b"part of meta")
        joining.cancel()

    run(main())


@pytest.mark.parametrize("version", versions(16))
def test_list_groups_filters_by_state_and_type(version: int) -> None:
    catalog = internal_catalog()
    apis = GroupApis(catalog, partial(read_groups, catalog.settings))

    async def main() -> None:
        call = Caller(apis.handlers(), version)
        await join(call, 9)

        async def listed(**fields: Any) -> list[str]:
            return [g.group_id for g in (await call(protocol.ListGroupsRequest(**fields))).groups]

        assert await listed() == ["classic-static", "g"]
        if version >= 4:
            assert await listed(states_filter=["empty"]) == ["classic-static"]
            assert await listed(states_filter=["Stable"]) == []
        if version >= 5:
            assert await listed(types_filter=["Classic"], states_filter=["CompletingRebalance"]) == ["g"]
            assert await listed(types_filter=["share"]) == []
        assert (await call(protocol.ListGroupsRequest())).groups[0].protocol_type == "consumer"

    run(main())
    apis.close()
    catalog.close()


@pytest.mark.parametrize("version", versions(42))
def test_delete_groups_deletes_only_groups_without_members(version: int) -> None:
    catalog = internal_catalog()
    apis = GroupApis(catalog, partial(read_groups, catalog.settings))

    async def main() -> None:
        call = Caller(apis.handlers())
        await join(call)
        names = ["classic-static", "g", "missing"]
        response = await call(protocol.DeleteGroupsRequest(groups_names=names), version)
        assert [(r.group_id, r.error_code) for r in response.results] == [
            ("classic-static", ErrorCode.NONE),
            ("g", ErrorCode.NON_EMPTY_GROUP),
            ("missing", ErrorCode.GROUP_ID_NOT_FOUND),
        ]
        assert list(apis.coordinator.groups) == ["g"]

    run(main())
    apis.close()
    catalog.close()


def test_members_with_separate_connections_share_a_group(apis: GroupApis) -> None:
    async def main() -> None:
        a, b = Caller(apis.handlers(), client_id="a"), Caller(apis.handlers(), client_id="b")
        first = await join(a)
        await sync(a, first)
        waiting = asyncio.create_task(join(b))
        while await heartbeat(a, first) != ErrorCode.REBALANCE_IN_PROGRESS:
            await asyncio.sleep(0.01)
        again = await join(a, member_id=first.member_id)
        second = await waiting
        assert again.generation_id == second.generation_id == 2
        assert {m.member_id for m in again.members} == {first.member_id, second.member_id}
        assert second.members == []
        synced = await asyncio.gather(sync(b, second), sync(a, again))
        assert [s.error_code for s in synced] == [0, 0]
        assert apis.coordinator.groups["g"].state == "Stable"

    run(main())


def test_timer_removes_a_member_without_heartbeats(apis: GroupApis) -> None:
    async def main() -> None:
        call = Caller(apis.handlers())
        joined = await join(call, session_ms=50)
        await sync(call, joined)
        group = apis.coordinator.groups["g"]
        while group.state != "Empty":
            await asyncio.sleep(0.01)
        assert await heartbeat(call, joined) == ErrorCode.UNKNOWN_MEMBER_ID

    run(main())


def test_rebalance_completes_if_a_waiting_member_disconnects(apis: GroupApis) -> None:
    async def main() -> None:
        call = Caller(apis.handlers())
        first = await join(call)
        await sync(call, first)
        waiting = asyncio.create_task(join(call, session_ms=50))
        while await heartbeat(call, first) != ErrorCode.REBALANCE_IN_PROGRESS:
            await asyncio.sleep(0.01)
        waiting.cancel()
        again = await join(call, member_id=first.member_id)
        assert len(again.members) == 2
        while await heartbeat(call, again) != ErrorCode.REBALANCE_IN_PROGRESS:
            await asyncio.sleep(0.01)
        assert len(apis.coordinator.groups["g"].members) == 1

    run(main())


@pytest.mark.parametrize("session_ms", [-1, 0, 5_999, 1_800_001, 2**31 - 1])
def test_session_timeout_outside_the_limits_is_refused(session_ms: int) -> None:
    catalog = internal_catalog()
    apis = GroupApis(catalog)

    async def main() -> None:
        response = await Caller(apis.handlers())(join_request(session_ms=session_ms))
        assert response.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
        assert not apis.coordinator.groups

    run(main())
    apis.close()
    catalog.close()


def test_unused_groups_are_removed_at_the_limit_of_groups(apis: GroupApis) -> None:
    apis.coordinator.limits = replace(LIMITS, groups=3)

    async def main() -> None:
        call = Caller(apis.handlers())
        for name in ("a", "b", "c"):
            assert (await join(call, group=name)).error_code == ErrorCode.NONE
        refused = await join(call, group="d")
        assert refused.error_code == ErrorCode.POLICY_VIOLATION
        group = apis.coordinator.find_classic("b")
        assert group is not None
        member = next(iter(group.members))
        members = [protocol.LeaveGroupRequest.MemberIdentity(member_id=member.member_id)]
        await call(protocol.LeaveGroupRequest(group_id="b", members=members))
        assert (await join(call, group="d")).error_code == ErrorCode.NONE
        assert list(apis.coordinator.groups) == ["a", "c", "d"]

    run(main())


def test_join_requests_cannot_exceed_the_memory_limit(apis: GroupApis) -> None:
    limit = apis.coordinator.limits.bytes

    async def main() -> None:
        call = Caller(apis.handlers())
        big = [protocol.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"x" * 900_000)]
        codes = set()
        for number in range(100):
            request = join_request(group=f"group {number}")
            request.protocols = big
            codes.add((await call(request, 3)).error_code)
            assert apis.coordinator._size <= limit
        assert codes == {ErrorCode.NONE, ErrorCode.POLICY_VIOLATION}
        held = sum(group.size for group in apis.coordinator.groups.values())
        assert held == apis.coordinator._size

    run(main())


COMMIT_TOPIC = protocol.OffsetCommitRequest.OffsetCommitRequestTopic(
    name="source", partitions=[protocol.OffsetCommitRequest.OffsetCommitRequestPartition()]
)
REQUESTS: dict[int, Any] = {
    8: protocol.OffsetCommitRequest(group_id="g", topics=[COMMIT_TOPIC]),
    9: protocol.OffsetFetchRequest(
        group_id="g", topics=[protocol.OffsetFetchRequest.OffsetFetchRequestTopic(name="source", partition_indexes=[0])]
    ),
    11: join_request(),
    12: protocol.HeartbeatRequest(group_id="g"),
    13: protocol.LeaveGroupRequest(group_id="g"),
    14: protocol.SyncGroupRequest(group_id="g"),
    15: protocol.DescribeGroupsRequest(groups=["g"]),
    16: protocol.ListGroupsRequest(),
    42: protocol.DeleteGroupsRequest(groups_names=["g"]),
    47: protocol.OffsetDeleteRequest(group_id="g"),
}
BATCHED_FETCH = protocol.OffsetFetchRequest(
    groups=[protocol.OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None)]
)


def error_codes(value: Any) -> set[int]:
    """Return the error codes other than 0 in a JSON value."""
    if isinstance(value, dict):
        own = {value["errorCode"]} if value.get("errorCode") else set()
        return own.union(*(error_codes(v) for v in value.values()))
    return set().union(*map(error_codes, value)) if isinstance(value, list) else set()


def test_requests_are_refused_while_groups_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkafmt.server.groups.loading.LOAD_WAIT", 0.001)
    catalog, may_load = internal_catalog(), threading.Event()

    def read() -> GroupState:
        assert may_load.wait(20)
        return read_groups(catalog.settings)

    apis = GroupApis(catalog, read)

    async def main() -> None:
        call = Caller(apis.handlers())
        try:
            assert (await call(protocol.FindCoordinatorRequest(coordinator_keys=["g"]))).coordinators[0].error_code == 0
            for key, request in REQUESTS.items():
                for version in versions(key):
                    body = BATCHED_FETCH if key == 9 and version >= 8 else request
                    codes = error_codes(protocol.to_json(await call(body, version), version))
                    assert codes == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}, (key, version)
        finally:
            may_load.set()
        while (await call(protocol.ListGroupsRequest())).error_code:
            await asyncio.sleep(0.01)
        assert "classic-static" in apis.coordinator.groups

    run(main())
    apis.close()
    catalog.close()


def test_unreadable_consumer_offsets_are_reported() -> None:
    messages: list[str] = []
    catalog = internal_catalog(messages)

    def fail() -> GroupState:
        raise PermissionError(13, "Permission denied", "__consumer_offsets-0")

    apis = GroupApis(catalog, fail)

    async def main() -> None:
        assert (await Caller(apis.handlers())(protocol.ListGroupsRequest())).groups == []

    run(main())
    assert len(messages) == 1
    assert "cannot be read: [Errno 13] Permission denied" in messages[0]
    apis.close()
    catalog.close()
