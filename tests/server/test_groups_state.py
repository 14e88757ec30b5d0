"""Test the state machine of classic groups with a clock that only the test advances."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafkafmt.protocol import ErrorCode
from kafkafmt.server.groups.limits import GroupLimits
from kafkafmt.server.groups.members import JoinRequest, JoinResult, SyncResult
from kafkafmt.server.groups.rebalance import State
from kafkafmt.server.groups.state import ClassicGroup

REQUEST = JoinRequest("", None, "client", "/127.0.0.1", 10.0, 30.0, "consumer", (("range", b"m"), ("sticky", b"s")))
LIMITS = GroupLimits()


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


class Client:
    """A group member that, like a client library, keeps its member id and its generation."""

    def __init__(self, group: Group, instance_id: str | None = None, **fields: Any) -> None:
        self.group = group
        self.request = REQUEST._replace(instance_id=instance_id, **fields)
        self.member_id = ""
        self.joined: list[JoinResult] = []
        self.synced: list[SyncResult] = []

    def join(self, **fields: Any) -> JoinResult | None:
        """Join the group, and repeat the request if the result is MEMBER_ID_REQUIRED.

        Return the result, or None if the member has to wait.
        """
        before = len(self.joined)
        self.group.state_machine.join(
            self.request._replace(member_id=self.member_id, **fields), lambda result: self.joined.append(result)
        )
        if len(self.joined) == before:
            return None
        result = self.joined[-1]
        if result.error == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = result.member_id
            return self.join(**fields)
        return result

    @property
    def last(self) -> JoinResult:
        self.member_id = self.joined[-1].member_id or self.member_id
        return self.joined[-1]

    def sync(self, assignments: dict[str, bytes] | None = None, generation: int | None = None) -> SyncResult | None:
        before = len(self.synced)
        self.group.state_machine.sync(
            self.last.member_id,
            self.request.instance_id,
            self.last.generation if generation is None else generation,
            "consumer",
            self.last.protocol_name,
            assignments or {},
            self.synced.append,
        )
        return self.synced[-1] if len(self.synced) > before else None

    def heartbeat(self, generation: int | None = None) -> ErrorCode:
        return self.group.state_machine.heartbeat(
            self.last.member_id,
            self.request.instance_id,
            self.last.generation if generation is None else generation,
        )

    def commit_error(self, generation: int | None = None) -> ErrorCode:
        generation = self.last.generation if generation is None else generation
        return self.group.state_machine.commit_error(self.last.member_id, self.request.instance_id, generation)


class Group:
    """A classic group, its clock, and helper methods for the tests."""

    def __init__(self, limits: GroupLimits = LIMITS) -> None:
        self.clock = Clock()
        self.state_machine = ClassicGroup("g", self.clock, limits)

    @property
    def state(self) -> str:
        return str(self.state_machine.state)

    def wait(self, seconds: float) -> None:
        """Advance the clock, and call `expire` at each deadline on the way."""
        end = self.clock.time + seconds
        while (deadline := self.state_machine.next_deadline()) is not None and deadline <= end:
            self.clock.time = max(deadline, self.clock.time)
            self.state_machine.expire()
        self.clock.time = end

    def stable(self, count: int, **fields: Any) -> list[Client]:
        """Add `count` members, complete the rebalance, and return the members. The first one is the leader."""
        clients = [Client(self, **fields) for _ in range(count)]
        for client in clients:
            client.join()
        for client in clients[:-1]:
            client.join()
        self.assign(clients)
        return clients

    def assign(self, clients: list[Client]) -> None:
        leader = next(c for c in clients if c.last.leader == c.last.member_id)
        assignments = {c.last.member_id: f"part {i}".encode() for i, c in enumerate(clients)}
        for client in clients:
            client.sync(assignments if client is leader else None)
        assert self.state == State.STABLE


@pytest.fixture
def group() -> Group:
    return Group()


def test_first_join_returns_a_member_id(group: Group) -> None:
    results: list[JoinResult] = []
    group.state_machine.join(REQUEST, results.append)
    assert [r.error for r in results] == [ErrorCode.MEMBER_ID_REQUIRED]
    assert results[0].member_id.startswith("client-")
    assert group.state == State.EMPTY
    assert list(group.state_machine.pending) == [results[0].member_id]


def test_single_member_becomes_leader_and_gets_its_own_assignment(group: Group) -> None:
    client = Client(group)
    result = client.join()
    assert result is not None
    assert (result.error, result.generation, result.leader) == (ErrorCode.NONE, 1, result.member_id)
    assert [(m.member_id, m.metadata) for m in result.members] == [(result.member_id, b"m")]
    assert group.state == State.COMPLETING_REBALANCE
    assert client.sync({result.member_id: b"all"}) == SyncResult(ErrorCode.NONE, "consumer", "range", b"all")
    assert group.state == State.STABLE


def test_old_client_joins_with_one_request(group: Group) -> None:
    client = Client(group, requires_known_id=False)
    assert client.join() is not None
    assert len(client.joined) == 1


def test_second_member_waits_until_the_first_rejoins(group: Group) -> None:
    first, *_ = group.stable(1)
    second = Client(group)
    assert second.join() is None
    assert group.state == State.PREPARING_REBALANCE
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    result = first.join()
    assert result is not None
    assert result.generation == second.last.generation == 2
    assert len(result.members) == 2
    assert second.last.members == ()
    assert second.last.leader == first.last.member_id
    assert second.sync() is None
    first.sync({first.last.member_id: b"a", second.last.member_id: b"b"})
    assert [c.synced[-1].assignment for c in (first, second)] == [b"a", b"b"]


def test_member_that_does_not_rejoin_is_removed_after_the_timeout(group: Group) -> None:
    first, _second = group.stable(2, session_timeout=100.0)
    third = Client(group, session_timeout=100.0)
    third.join()
    first.join()
    group.wait(29.9)
    assert group.state == State.PREPARING_REBALANCE
    group.wait(0.2)
    assert group.state == State.COMPLETING_REBALANCE
    assert {m.member_id for m in first.last.members} == {first.last.member_id, third.last.member_id}
    assert first.last.generation == 3


def test_expired_session_starts_a_rebalance(group: Group) -> None:
    first, second = group.stable(2)
    group.wait(6)
    assert first.heartbeat() == ErrorCode.NONE
    group.wait(5)
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    result = first.join()
    assert result is not None
    assert len(result.members) == 1
    assert second.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_leader_with_an_expired_session_is_replaced(group: Group) -> None:
    _first, second = group.stable(2)
    group.wait(6)
    assert second.heartbeat() == ErrorCode.NONE
    group.wait(5)
    result = second.join()
    assert result is not None
    assert result.leader == second.last.member_id


def test_group_is_empty_after_the_session_of_its_last_member(group: Group) -> None:
    group.stable(1)
    group.wait(11)
    assert group.state == State.EMPTY
    assert group.state_machine.next_deadline() is None
    assert group.state_machine.generation == 2


def test_leaving_member_starts_a_rebalance(group: Group) -> None:
    first, second = group.stable(2)
    assert group.state_machine.leave(second.last.member_id, None) == ErrorCode.NONE
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.state_machine.leave(second.last.member_id, None) == ErrorCode.UNKNOWN_MEMBER_ID


def test_pending_member_delays_the_rebalance_until_it_expires(group: Group) -> None:
    first, *_ = group.stable(1, session_timeout=100.0)
    group.state_machine.join(REQUEST, lambda _: None)
    second = Client(group, session_timeout=100.0)
    second.join()
    assert first.join() is None
    group.wait(10.1)
    assert group.state == State.COMPLETING_REBALANCE


def test_leave_of_a_pending_member_completes_the_rebalance(group: Group) -> None:
    first, *_ = group.stable(1)
    results: list[JoinResult] = []
    group.state_machine.join(REQUEST, results.append)
    Client(group).join()
    assert first.join() is None
    assert group.state_machine.leave(results[0].member_id, None) == ErrorCode.NONE
    assert group.state == State.COMPLETING_REBALANCE


def test_member_without_sync_is_removed_after_the_rebalance_timeout(group: Group) -> None:
    first, second = (Client(group, session_timeout=100.0) for _ in range(2))
    first.join()
    second.join()
    first.join()
    first.sync({})
    assert group.state == State.STABLE
    group.wait(31)
    assert group.state == State.PREPARING_REBALANCE
    assert [m.member_id for m in group.state_machine.members] == [first.last.member_id]


def test_rebalance_during_sync_responds_to_waiting_members(group: Group) -> None:
    first, second = (Client(group) for _ in range(2))
    first.join()
    second.join()
    first.join()
    assert second.sync() is None
    Client(group).join()
    assert second.synced[-1].error == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.state == State.PREPARING_REBALANCE


def test_leader_that_rejoins_starts_a_rebalance(group: Group) -> None:
    first, second = group.stable(2)
    assert first.join() is None
    assert second.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_follower_that_rejoins_unchanged_gets_the_current_generation(group: Group) -> None:
    _first, second = group.stable(2)
    result = second.join()
    assert result is not None
    assert (result.error, result.generation) == (ErrorCode.NONE, 2)
    assert group.state == State.STABLE


def test_follower_with_a_new_subscription_starts_a_rebalance(group: Group) -> None:
    _first, second = group.stable(2)
    assert second.join(protocols=(("range", b"other"),)) is None
    assert group.state == State.PREPARING_REBALANCE


def test_group_selects_the_preferred_common_protocol(group: Group) -> None:
    a = Client(group, protocols=(("x", b""), ("y", b""), ("z", b"")))
    b = Client(group, protocols=(("z", b""), ("y", b"")))
    c = Client(group, protocols=(("z", b""), ("x", b""), ("y", b"")))
    for client in (a, b, c, a, b):
        client.join()
    assert group.state_machine.protocol_name == "z"


@pytest.mark.parametrize(
    "fields",
    [
        {"protocols": (("unknown", b""),)},
        {"protocols": ()},
        {"protocol_type": "connect"},
        {"protocol_type": ""},
    ],
)
def test_incompatible_member_is_refused(group: Group, fields: dict[str, Any]) -> None:
    group.stable(1)
    result = Client(group, **fields).join()
    assert result is not None
    assert result.error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.state == State.STABLE


def test_unknown_member_id_is_refused(group: Group) -> None:
    group.stable(1)
    results: list[JoinResult] = []
    group.state_machine.join(REQUEST._replace(member_id="stranger"), results.append)
    assert results == [JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, "stranger")]


def test_wrong_generation_is_refused(group: Group) -> None:
    client, *_ = group.stable(1)
    assert client.heartbeat(7) == ErrorCode.ILLEGAL_GENERATION
    assert client.sync(generation=0) == SyncResult(ErrorCode.ILLEGAL_GENERATION)
    assert client.commit_error(0) == ErrorCode.ILLEGAL_GENERATION


def test_sync_with_another_protocol_is_refused(group: Group) -> None:
    client, *_ = group.stable(1)
    results: list[SyncResult] = []
    group.state_machine.sync(client.member_id, None, 1, "consumer", "sticky", {}, results.append)
    group.state_machine.sync(client.member_id, None, 1, "connect", "range", {}, results.append)
    assert [r.error for r in results] == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL] * 2


def test_sync_during_a_rebalance_is_refused(group: Group) -> None:
    first, _second = group.stable(2)
    Client(group).join()
    assert first.sync() == SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)


def test_commit_is_accepted_from_members_of_the_current_generation(group: Group) -> None:
    first, second = group.stable(2)
    assert first.commit_error() == ErrorCode.NONE
    assert group.state_machine.commit_error("", None, -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.state_machine.commit_error("stranger", None, 2) == ErrorCode.UNKNOWN_MEMBER_ID
    Client(group).join()
    assert first.commit_error() == ErrorCode.NONE
    first.join()
    second.join()
    assert first.commit_error() == ErrorCode.REBALANCE_IN_PROGRESS
    assert first.commit_error(2) == ErrorCode.ILLEGAL_GENERATION


def test_commit_without_a_member_id_is_accepted_by_an_empty_group(group: Group) -> None:
    assert group.state_machine.commit_error("", None, -1) == ErrorCode.NONE
    assert group.state_machine.commit_error("", None, 3) == ErrorCode.UNKNOWN_MEMBER_ID


def test_commit_extends_the_session(group: Group) -> None:
    client, *_ = group.stable(1)
    for _ in range(5):
        group.wait(9)
        assert client.commit_error() == ErrorCode.NONE
    assert group.state == State.STABLE


def test_static_member_that_restarts_keeps_its_assignment(group: Group) -> None:
    first, second = Client(group, "a"), Client(group, "b")
    first.join()
    second.join()
    first.join()
    group.assign([first, second])
    restarted = Client(group, "b")
    result = restarted.join()
    assert result is not None
    assert (result.error, result.generation, result.members) == (ErrorCode.NONE, 2, ())
    assert result.member_id != second.last.member_id
    assert group.state == State.STABLE
    synced = restarted.sync()
    assert synced is not None
    assert synced.assignment == b"part 1"
    assert second.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    assert first.heartbeat() == ErrorCode.NONE


def test_static_leader_that_restarts_skips_the_assignment(group: Group) -> None:
    first = Client(group, "a")
    first.join()
    group.assign([first])
    result = Client(group, "a").join()
    assert result is not None
    assert result.skip_assignment
    assert result.leader == result.member_id
    assert [m.member_id for m in result.members] == [result.member_id]


def test_restarted_static_leader_of_an_old_version_is_not_named_leader(group: Group) -> None:
    first = Client(group, "a")
    first.join()
    group.assign([first])
    result = Client(group, "a", can_skip_assignment=False).join()
    assert result is not None
    assert not result.skip_assignment
    assert result.leader == first.last.member_id != result.member_id
    assert result.members == ()


def test_static_member_remains_in_a_rebalance_until_its_session_ends(group: Group) -> None:
    first, second = Client(group, session_timeout=100.0), Client(group, "b", session_timeout=100.0)
    first.join()
    second.join()
    first.join()
    group.assign([first, second])
    assert first.join() is None
    group.wait(31)
    assert len(first.last.members) == 2
    group.assign([first])
    group.wait(60)
    assert first.heartbeat() == ErrorCode.NONE
    group.wait(30)
    assert len(group.state_machine.members) == 1


def test_stopped_static_members_remain_until_their_sessions_end(group: Group) -> None:
    leader = Client(group, session_timeout=50.0)
    static = Client(group, "b", session_timeout=100.0)
    leader.join()
    static.join()
    leader.join()
    group.assign([leader, static])
    group.state_machine.leave(leader.last.member_id, None)
    group.wait(60)
    assert group.state == State.PREPARING_REBALANCE
    group.wait(45)
    assert group.state == State.EMPTY


def test_static_member_with_changed_protocols_starts_a_rebalance(group: Group) -> None:
    first = Client(group, "a")
    first.join()
    group.assign([first])
    result = Client(group, "a", protocols=(("sticky", b""),)).join()
    assert result is not None
    assert result.generation == 2
    assert result.protocol_name == "sticky"


def test_static_member_fences_an_earlier_one_with_its_instance_id(group: Group) -> None:
    group.stable(1)
    first, second = Client(group, "a"), Client(group, "a")
    assert first.join() is None
    assert second.join() is None
    assert first.joined[-1].error == ErrorCode.FENCED_INSTANCE_ID
    assert len(group.state_machine.members) == 2


def test_static_member_may_leave_by_its_instance_id(group: Group) -> None:
    first = Client(group, "a")
    first.join()
    group.assign([first])
    assert group.state_machine.leave("", "unknown") == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.state_machine.leave("stranger", "a") == ErrorCode.FENCED_INSTANCE_ID
    assert group.state_machine.leave("", "a") == ErrorCode.NONE
    assert group.state == State.EMPTY


def test_repeated_join_request_ends_the_previous_one(group: Group) -> None:
    group.stable(1)
    second = Client(group)
    assert second.join() is None
    assert second.join() is not None
    assert second.joined[-1].error == ErrorCode.REBALANCE_IN_PROGRESS
    assert len(group.state_machine.members) == 2


def test_full_group_refuses_only_new_members() -> None:
    group = Group(replace(LIMITS, members=2))
    first, second = group.stable(2)
    refused = Client(group).join()
    assert refused is not None
    assert refused == JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED)
    assert first.join() is None
    result = second.join()
    assert result is not None
    assert result.error == ErrorCode.NONE


def test_pending_members_count_towards_the_limit() -> None:
    group = Group(replace(LIMITS, members=3))
    results: list[JoinResult] = []
    for _ in range(5):
        group.state_machine.join(REQUEST, results.append)
    expected = [ErrorCode.MEMBER_ID_REQUIRED] * 3 + [ErrorCode.GROUP_MAX_SIZE_REACHED] * 2
    assert [r.error for r in results] == expected
    group.wait(11)
    assert not group.state_machine.pending


def test_members_that_join_in_the_initial_delay_share_a_generation() -> None:
    group = Group(replace(LIMITS, initial_rebalance_delay=3.0))
    clients = [Client(group) for _ in range(3)]
    for client in clients:
        assert client.join() is None
        group.wait(2.0)
    assert group.state == State.PREPARING_REBALANCE
    group.wait(3.0)
    assert {c.last.generation for c in clients} == {1}
    assert len(clients[0].last.members) == 3


def test_initial_delay_ends_at_the_rebalance_timeout() -> None:
    group = Group(replace(LIMITS, initial_rebalance_delay=3.0))
    first = Client(group)
    first.join()
    for _ in range(40):
        group.wait(1.0)
        if group.state != State.PREPARING_REBALANCE:
            break
        Client(group).join()
    assert group.clock.time == 1030.0
    assert first.last.generation == 1


def test_group_with_members_cannot_be_deleted(group: Group) -> None:
    client, *_ = group.stable(1)
    assert group.state_machine.delete() == ErrorCode.NON_EMPTY_GROUP
    group.state_machine.leave(client.last.member_id, None)
    assert group.state_machine.delete() == ErrorCode.NONE
    assert group.state == State.DEAD


def test_deleted_group_refuses_every_request(group: Group) -> None:
    client, *_ = group.stable(1)
    group.state_machine.leave(client.last.member_id, None)
    group.state_machine.delete()
    assert client.heartbeat() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert client.commit_error() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert client.sync() == SyncResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert group.state_machine.leave(client.member_id, None) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group.state_machine.delete() == ErrorCode.GROUP_ID_NOT_FOUND
    result = client.join()
    assert result is not None
    assert result.error == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_generation_continues_after_the_stored_generation() -> None:
    clock = Clock()
    group = ClassicGroup("g", clock, LIMITS, "consumer", 41)
    results: list[JoinResult] = []
    group.join(REQUEST._replace(requires_known_id=False), results.append)
    assert results[0].generation == 42


def test_size_includes_members_until_they_leave(group: Group) -> None:
    empty = group.state_machine.size
    clients = group.stable(3, protocols=(("range", b"m" * 1000),))
    assert group.state_machine.size - empty > 3 * 2000
    for client in clients:
        group.state_machine.leave(client.last.member_id, None)
    assert group.state_machine.size == empty
