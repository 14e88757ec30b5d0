"""Test groups with the consumer protocol (KIP-848): the assignors, the group state and the two APIs."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

import pytest
from handler_calls import Caller, internal_catalog, run

from kafkafmt import protocol
from kafkafmt.protocol import ErrorCode
from kafkafmt.server.groups import GroupApis, GroupLimits
from kafkafmt.server.groups.assignors import ASSIGNORS, Assignment, assign_range, assign_uniform
from kafkafmt.server.groups.consumer_state import SESSION_TIMEOUT, ConsumerGroup, Heartbeat, HeartbeatResult

T = frozenset({"t"})


# Assignors


def test_range_assigns_consecutive_partitions_of_each_topic() -> None:
    topics = {"a": (0, 1, 2, 3, 4), "b": (0, 1)}
    both = frozenset(topics)
    assert assign_range({"x": both, "y": both, "z": frozenset({"a"})}, topics, {}) == {
        "x": {("a", 0), ("a", 1), ("b", 0)},
        "y": {("a", 2), ("a", 3), ("b", 1)},
        "z": {("a", 4)},
    }


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("seed", range(30))
def test_assignors_give_each_partition_to_one_subscribed_member(name: str, seed: int) -> None:
    chance = Random(seed)
    topics = {f"t{i}": tuple(range(chance.randint(1, 9))) for i in range(4)}
    before: Assignment = {}
    for _ in range(5):
        members = {
            f"m{i}": frozenset(chance.sample(sorted(topics), chance.randint(0, 4))) for i in range(chance.randint(1, 6))
        }
        before = ASSIGNORS[name](members, topics, before)
        assert before.keys() == members.keys()
        assigned = [p for partitions in before.values() for p in partitions]
        subscribed = frozenset[str]().union(*members.values())
        assert sorted(assigned) == [(t, n) for t in sorted(subscribed) for n in topics[t]]
        assert all(topic in members[m] for m, partitions in before.items() for topic, _ in partitions)


def test_uniform_is_balanced_and_moves_few_partitions() -> None:
    topics = {"t": tuple(range(10))}
    first = assign_uniform(dict.fromkeys("ab", T), topics, {})
    assert {len(p) for p in first.values()} == {5}
    second = assign_uniform(dict.fromkeys("abc", T), topics, first)
    assert sorted(len(p) for p in second.values()) == [3, 3, 4]
    assert second["a"] < first["a"]
    assert second["b"] < first["b"]
    third = assign_uniform(dict.fromkeys("ab", T), topics, second)
    assert second["a"] <= third["a"]
    assert second["b"] <= third["b"]
    assert {len(p) for p in third.values()} == {5}


class Numbers(tuple[int, ...]):
    """Partition numbers that fail the test if they are searched, because each search reads the whole tuple."""

    def __contains__(self, number: object) -> bool:
        raise AssertionError(f"searched the partition numbers for {number}")


@pytest.mark.parametrize("name", ASSIGNORS)
def test_assignors_do_not_search_partition_numbers(name: str) -> None:
    first = ASSIGNORS[name]({"a": T}, {"t": Numbers(range(4))}, {})
    assert first == {"a": {("t", n) for n in range(4)}}
    assert ASSIGNORS[name]({"a": T}, {"t": Numbers(range(2))}, first) == {"a": {("t", 0), ("t", 1)}}


# Group state


class World:
    """A consumer group that subscribes to the topic "t", and a clock that only the test advances."""

    def __init__(self, partitions: int = 4) -> None:
        self.time = 0.0
        self.partitions = partitions
        self.group = ConsumerGroup(
            "g", lambda: self.time, GroupLimits(members=5), lambda t: tuple(range(self.partitions)) if t == "t" else ()
        )

    def join(self, member_id: str, **fields: Any) -> HeartbeatResult:
        values: dict[str, Any] = {"rebalance_timeout": 30.0, "topics": T, "owned": frozenset()}
        return self.group.heartbeat(Heartbeat(member_id, 0, **values | fields))

    def beat(
        self,
        member_id: str,
        epoch: int,
        owned: frozenset[tuple[str, int]] | None = None,
        instance_id: str | None = None,
    ) -> HeartbeatResult:
        return self.group.heartbeat(Heartbeat(member_id, epoch, owned=owned, instance_id=instance_id))


def numbers(result: HeartbeatResult) -> list[int] | None:
    assert result.error == ErrorCode.NONE
    return None if result.assignment is None else sorted(number for _, number in result.assignment)


def test_first_member_gets_all_partitions() -> None:
    world = World()
    result = world.join("a")
    assert (result.epoch, numbers(result)) == (1, [0, 1, 2, 3])
    assert world.group.state == "Stable"
    again = world.beat("a", 1)
    assert (again.epoch, again.assignment) == (1, None)


def test_partition_moves_only_after_its_owner_revoked_it() -> None:
    world = World()
    everything = world.join("a").assignment
    second = world.join("b")
    assert (second.epoch, numbers(second)) == (2, [])
    assert world.group.state == "Reconciling"
    first = world.beat("a", 1, everything)
    kept = first.assignment
    assert (first.epoch, len(kept or ())) == (1, 2)
    assert numbers(world.beat("b", 2)) is None
    assert world.beat("a", 1, everything).epoch == 1
    assert world.beat("a", 1, kept).epoch == 2
    moved = world.beat("b", 2).assignment
    assert moved is not None
    assert moved | (kept or set()) == {("t", n) for n in range(4)}
    assert world.group.state == "Stable"


def test_member_that_revokes_nothing_is_removed_after_the_timeout() -> None:
    world = World()
    everything = world.join("a").assignment
    world.join("b")
    world.beat("a", 1, everything)
    world.time = 29.0
    world.beat("a", 1, everything)
    world.group.expire()
    assert set(world.group.members) == {"a", "b"}
    world.time = 30.0
    world.group.expire()
    assert set(world.group.members) == {"b"}
    assert world.beat("a", 1).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert numbers(world.beat("b", 2)) == [0, 1, 2, 3]


def test_member_without_heartbeats_is_removed() -> None:
    world = World()
    world.join("a")
    assert world.group.next_deadline() == SESSION_TIMEOUT
    world.time = SESSION_TIMEOUT
    world.group.expire()
    assert world.group.state == "Empty"
    assert world.group.next_deadline() is None


def test_returning_static_member_keeps_its_partitions() -> None:
    world = World()
    everything = world.join("a", instance_id="one").assignment
    world.join("b", instance_id="two")
    kept = world.beat("a", 1, everything).assignment
    assert world.beat("a", 1, kept).epoch == 2
    moved = world.beat("b", 2).assignment
    left = world.beat("b", -2)
    assert (left.error, left.epoch) == (ErrorCode.NONE, -2)
    assert world.beat("a", 2).assignment is None
    again = world.join("c", instance_id="two")
    assert (again.epoch, again.assignment) == (2, moved)
    assert world.beat("b", 2).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.group.state == "Stable"
    assert world.beat("a", 2).epoch == 2


def test_instance_id_of_another_member_is_fenced() -> None:
    world = World()
    world.join("a", instance_id="one")
    world.beat("a", -2, instance_id="one")
    world.join("b", instance_id="one")
    for epoch in (1, -1, -2):
        assert world.beat("a", epoch, instance_id="one").error == ErrorCode.FENCED_INSTANCE_ID
        assert world.beat("b", epoch, instance_id="two").error == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.beat("b", 1, instance_id="one").error == ErrorCode.NONE


def test_absent_static_member_is_removed_after_its_session() -> None:
    world = World()
    everything = world.join("a").assignment
    world.join("b", instance_id="two")
    kept = world.beat("a", 1, everything).assignment
    world.beat("a", 1, kept)
    world.beat("b", -2)
    world.time = SESSION_TIMEOUT - 1
    world.beat("a", 2)
    world.time = SESSION_TIMEOUT
    world.group.expire()
    assert numbers(world.beat("a", 2)) == [0, 1, 2, 3]


@pytest.mark.parametrize("epoch", [-1, -2])
def test_partitions_of_a_leaving_member_are_reassigned(epoch: int) -> None:
    world = World()
    everything = world.join("a").assignment
    world.join("b")
    world.beat("a", 1, everything)
    left = world.beat("a", epoch)
    assert (left.error, left.epoch) == (ErrorCode.NONE, epoch)
    assert numbers(world.beat("b", 2)) == [0, 1, 2, 3]


def test_heartbeat_with_the_previous_epoch_gets_the_response_again() -> None:
    world = World()
    everything = world.join("a").assignment
    world.join("b")
    kept = world.beat("a", 1, everything).assignment
    assert world.beat("a", 1, kept).epoch == 2
    assert world.beat("a", 1, kept).epoch == 2
    assert world.beat("a", 1, everything).error == ErrorCode.FENCED_MEMBER_EPOCH
    assert world.beat("a", 7).error == ErrorCode.FENCED_MEMBER_EPOCH


def test_fenced_member_can_rejoin_with_the_same_id() -> None:
    world = World()
    world.join("a")
    again = world.join("a")
    assert (again.epoch, numbers(again)) == (1, [0, 1, 2, 3])


def test_new_partitions_are_assigned() -> None:
    world = World()
    world.join("a")
    world.partitions = 6
    assert world.beat("a", 1).assignment is None
    world.time = 6.0
    result = world.beat("a", 1)
    assert (result.epoch, numbers(result)) == (2, [0, 1, 2, 3, 4, 5])


def test_group_uses_the_assignor_of_most_members() -> None:
    world = World()
    for name, assignor in (("a", "range"), ("b", "uniform"), ("c", "range")):
        assert world.join(name, assignor=assignor).error == ErrorCode.NONE
    assert world.group.assignor == "range"
    assert world.join("d", assignor="magic").error == ErrorCode.UNSUPPORTED_ASSIGNOR


def test_full_group_and_used_instance_id_are_refused() -> None:
    world = World()
    for name in "abcde":
        assert world.join(name, instance_id=name).error == ErrorCode.NONE
    assert world.join("f").error == ErrorCode.GROUP_MAX_SIZE_REACHED
    world.beat("a", -1)
    assert world.join("f", instance_id="b").error == ErrorCode.UNRELEASED_INSTANCE_ID
    assert world.join("f", instance_id="a").error == ErrorCode.NONE


def test_commit_requires_the_current_member_epoch() -> None:
    world = World()
    assert world.group.commit_error("", None, -1) == ErrorCode.NONE
    world.join("a")
    assert world.group.commit_error("a", None, 1) == ErrorCode.NONE
    assert world.group.commit_error("a", None, 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert world.group.commit_error("", None, -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.group.delete() == ErrorCode.NON_EMPTY_GROUP


@pytest.mark.parametrize("seed", range(40))
def test_random_heartbeats_never_assign_a_partition_twice(seed: int) -> None:
    chance, world = Random(seed), World(7)
    owned: dict[str, frozenset[tuple[str, int]]] = {}
    epochs: dict[str, int] = {}
    for _ in range(300):
        name = chance.choice("abcdefg")
        action = chance.random()
        if action < 0.05:
            world.time += chance.uniform(0, 30)
            world.group.expire()
            continue
        if name not in epochs:
            result = world.join(name, instance_id=name)
        elif action < 0.1:
            result = world.beat(name, chance.choice((-1, -2)))
        else:
            result = world.beat(name, epochs[name], owned[name] if action < 0.8 else None)
        if result.error or result.epoch < 0:
            epochs.pop(name, None)
            owned.pop(name, None)
        else:
            epochs[name] = result.epoch
            owned[name] = owned.get(name, frozenset()) if result.assignment is None else result.assignment
        for gone in owned.keys() - world.group.members.keys():
            del owned[gone], epochs[gone]
        held = [p for m in world.group.members.values() for p in m.assigned | m.revoking]
        assert len(held) == len(set(held))
        assert set(held) == set(world.group._owners)
    epochs = {name: epoch for name, epoch in epochs.items() if name in world.group.members}
    owned = {name: partitions for name, partitions in owned.items() if name in epochs}
    for name in world.group.members.keys() - epochs.keys():  # static members that left temporarily
        result = world.join(name, instance_id=name)
        assert result.assignment is not None
        epochs[name], owned[name] = result.epoch, result.assignment
    for _ in range(6):
        for name in list(epochs):
            result = world.beat(name, epochs[name], owned[name])
            assert result.error == ErrorCode.NONE
            epochs[name] = result.epoch
            owned[name] = owned[name] if result.assignment is None else result.assignment
    if epochs:
        assert world.group.state == "Stable"
        assert sorted(p for partitions in owned.values() for p in partitions) == [("t", n) for n in range(7)]


# APIs


@pytest.fixture
def apis() -> Iterator[GroupApis]:
    catalog = internal_catalog()
    made = GroupApis(catalog)
    yield made
    made.close()
    catalog.close()


def heartbeat(member_id: str = "m", epoch: int = 0, **fields: Any) -> Any:
    joins = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["source", "none"], "topic_partitions": []}
    given: dict[str, Any] = (joins if epoch == 0 else {}) | fields
    return protocol.ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch, **given)


@pytest.mark.parametrize("version", [0, 1])
def test_heartbeat_and_describe_return_the_assignment(apis: GroupApis, version: int) -> None:
    async def main() -> None:
        call = Caller(apis.handlers())
        joined = await call(heartbeat("m" if version else ""), version)
        assert (joined.error_code, joined.member_epoch) == (0, 1)
        assert len(joined.member_id) == (1 if version else 36)
        [partitions] = joined.assignment.topic_partitions
        assert partitions.partitions == [0, 1, 2]
        again = await call(heartbeat(joined.member_id, 1), version)
        assert (again.error_code, again.assignment) == (0, None)
        response = await call(protocol.ConsumerGroupDescribeRequest(group_ids=["g", "no"]), version)
        group, missing = response.groups
        assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert (group.group_state, group.group_epoch, group.assignor_name) == ("Stable", 1, "uniform")
        [member] = group.members
        assert (member.client_id, member.subscribed_topic_names) == ("client", ["none", "source"])
        [shown] = member.assignment.topic_partitions
        assert (shown.topic_name, shown.topic_id, shown.partitions) == ("source", partitions.topic_id, [0, 1, 2])
        [listed] = (await call(protocol.ListGroupsRequest())).groups
        assert (listed.group_type, listed.group_state) == ("consumer", "Stable")
        left = await call(heartbeat(joined.member_id, -1), version)
        assert left.member_epoch == -1

    run(main())


@pytest.mark.parametrize(
    "request_",
    [
        heartbeat(""),
        heartbeat("m", -3),
        heartbeat("m", -2),
        heartbeat("m", 0, rebalance_timeout_ms=-1),
        heartbeat("m", 0, subscribed_topic_names=None),
        heartbeat("m", 0, topic_partitions=None),
        heartbeat("m", 0, instance_id=""),
        heartbeat("m", 1, rack_id=""),
    ],
)
def test_invalid_heartbeats_are_refused(apis: GroupApis, request_: Any) -> None:
    async def main() -> None:
        response = await Caller(apis.handlers())(request_)
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert response.error_message
        assert not apis.coordinator.groups

    run(main())


def test_heartbeat_with_unknown_group_or_regex_is_refused(apis: GroupApis) -> None:
    async def main() -> None:
        call = Caller(apis.handlers())
        assert (await call(heartbeat("m", 3))).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        pattern = await call(heartbeat("m", 0, subscribed_topic_regex="s.*"))
        assert pattern.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
        await call(heartbeat("m"))
        unknown = protocol.ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=UUID(int=5), partitions=[1])
        assert (await call(heartbeat("m", 1, topic_partitions=[unknown]))).error_code == ErrorCode.NONE
        assert (await call(heartbeat("x", 1))).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    run(main())


def test_member_may_join_with_an_empty_regex(apis: GroupApis) -> None:
    """A client sends an empty regular expression if it has none, also without topics."""

    async def main() -> None:
        joined = await Caller(apis.handlers())(heartbeat(subscribed_topic_names=None, subscribed_topic_regex=""))
        assert (joined.error_code, joined.assignment.topic_partitions) == (ErrorCode.NONE, [])

    run(main())


def test_describe_of_an_empty_group_id_is_an_error(apis: GroupApis) -> None:
    async def main() -> None:
        response = await Caller(apis.handlers())(protocol.ConsumerGroupDescribeRequest(group_ids=[""]))
        assert response.groups[0].error_code == ErrorCode.INVALID_GROUP_ID

    run(main())


def test_group_without_members_can_change_its_group_protocol(apis: GroupApis) -> None:
    async def main() -> None:
        call = Caller(apis.handlers())
        protocols = [protocol.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")]
        classic = protocol.JoinGroupRequest(
            group_id="g",
            session_timeout_ms=6000,
            rebalance_timeout_ms=6000,
            protocol_type="consumer",
            protocols=protocols,
        )
        await call(heartbeat("m"))
        refused = await call(classic, 3)
        assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        await call(heartbeat("m", -1))
        joined = await call(classic, 3)
        assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 3)
        assert (await call(heartbeat("m"))).error_code == ErrorCode.GROUP_ID_NOT_FOUND

    run(main())


def test_offset_apis_check_the_epoch_of_members(apis: GroupApis) -> None:
    async def main() -> None:
        call = Caller(apis.handlers())
        await call(heartbeat("m"))
        make = protocol.OffsetCommitRequest
        codes = []
        for epoch in (1, 0):
            topic = make.OffsetCommitRequestTopic(
                name="source", partitions=[make.OffsetCommitRequestPartition(committed_offset=5)]
            )
            commit = make(group_id="g", member_id="m", generation_id_or_member_epoch=epoch, topics=[topic])
            codes.append((await call(commit, 9)).topics[0].partitions[0].error_code)
        assert codes == [ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH]
        # These versions have a generation instead of a member epoch.
        old = [(await call(commit, version)).topics[0].partitions[0].error_code for version in (7, 8)]
        assert old == [ErrorCode.UNSUPPORTED_VERSION] * 2
        kind = protocol.OffsetFetchRequest.OffsetFetchRequestGroup
        codes = []
        for member_id, epoch in (("m", 1), ("m", 0), ("x", 1), (None, -1)):
            asked = kind(group_id="g", member_id=member_id, member_epoch=epoch, topics=None)
            codes.append((await call(protocol.OffsetFetchRequest(groups=[asked]), 9)).groups[0].error_code)
        assert codes == [0, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, 0]

    run(main())
