"""Send random requests to a `ClassicGroup`, and check its invariants after each request."""

from __future__ import annotations

from random import Random

import pytest

from kafkafmt.protocol import ErrorCode
from kafkafmt.server.groups.limits import GroupLimits
from kafkafmt.server.groups.members import JoinRequest, JoinResult, SyncResult
from kafkafmt.server.groups.rebalance import State
from kafkafmt.server.groups.state import ClassicGroup

STEPS = 300
PROTOCOLS = (("range", b"a"), ("sticky", b"b"), ("range", b"changed"))


class Answers:
    """Count the responses to one request, and fail if there is more than one."""

    def __init__(self) -> None:
        self.results: list[JoinResult | SyncResult] = []

    def __call__(self, result: JoinResult | SyncResult) -> None:
        assert not self.results, "a request was answered twice"
        self.results.append(result)


class World:
    """A group, a clock, and random requests with valid and invalid member ids and generations."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.time = 0.0
        delay = self.chance.choice((0.0, 3.0))
        limits = GroupLimits(members=6, initial_rebalance_delay=delay)
        self.group = ClassicGroup("g", lambda: self.time, limits)
        self.known: list[tuple[str, str | None, int]] = [("", None, -1)]
        """Member id, instance id and generation from earlier JoinGroup responses."""
        self.asked: list[tuple[Answers, str | None]] = []

    def step(self) -> None:
        self.chance.choice(
            (self.join, self.join, self.sync, self.sync, self.heartbeat, self.leave, self.commit, self.wait)
        )()
        for answers, instance_id in self.asked:
            for result in answers.results:
                if isinstance(result, JoinResult) and result.member_id:
                    self.known.append((result.member_id, instance_id, result.generation))
        self.asked = [(answers, instance_id) for answers, instance_id in self.asked if not answers.results]
        del self.known[1:-12]

    def join(self) -> None:
        member_id, instance_id, _ = self.chance.choice(self.known)
        if not member_id:
            instance_id = self.chance.choice((None, None, "a", "b"))
        protocols = tuple(self.chance.sample(PROTOCOLS, self.chance.choice((1, 2))))
        request = JoinRequest(
            member_id,
            instance_id,
            "client",
            "/",
            self.chance.uniform(6, 20),
            self.chance.uniform(1, 30),
            "consumer",
            protocols,
            self.chance.random() < 0.7,
            self.chance.random() < 0.5,
        )
        answers = Answers()
        self.asked.append((answers, instance_id))
        self.group.join(request, answers)

    def sync(self) -> None:
        member_id, instance_id, generation = self.chance.choice(self.known)
        answers = Answers()
        self.asked.append((answers, instance_id))
        assignments = {member.member_id: b"part" for member in self.group.members}
        self.group.sync(member_id, instance_id, generation, None, None, assignments, answers)

    def heartbeat(self) -> None:
        self.group.heartbeat(*self.chance.choice(self.known))

    def commit(self) -> None:
        self.group.commit_error(*self.chance.choice(self.known))

    def leave(self) -> None:
        member_id, instance_id, _ = self.chance.choice(self.known)
        if self.chance.random() < 0.3:
            self.group.leave(member_id, instance_id)

    def wait(self, seconds: float | None = None) -> None:
        end = self.time + (self.chance.uniform(0, 8) if seconds is None else seconds)
        while (deadline := self.group.next_deadline()) is not None and deadline <= end:
            self.time = max(deadline, self.time)
            self.group.expire()
            later = self.group.next_deadline()
            assert later is None or later > self.time, "expire() leaves a deadline that has passed"
        self.time = end

    def check(self) -> None:
        group = self.group
        members = list(group.members)
        assert len(members) + len(group.pending) <= 6 + 2  # existing static members may rejoin a full group
        assert (group.leader is None) == (not members) or group.state == State.PREPARING_REBALANCE
        if group.state == State.EMPTY:
            assert not members
        if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
            assert group.leader is not None
            assert group.leader in group.members
            assert group.protocol_name in group.members.common_protocols()
            assert not any(member.awaits_join for member in members)
        if group.state != State.COMPLETING_REBALANCE:
            assert not any(member.respond_to_sync for member in members)
        if members or group.pending:
            assert group.next_deadline() is not None


@pytest.mark.parametrize("seed", range(60))
def test_group_keeps_its_invariants_under_random_requests(seed: int) -> None:
    world = World(seed)
    generation = 0
    for _ in range(STEPS):
        world.step()
        world.check()
        assert world.group.generation >= generation
        generation = world.group.generation
    world.wait(10_000.0)
    assert world.group.state == State.EMPTY
    assert not world.group.pending
    assert all(answers.results for answers, _ in world.asked), "a request was not answered"
    assert world.group.delete() == ErrorCode.NONE


def test_random_requests_reach_every_state() -> None:
    states = set()
    for seed in range(5):
        world = World(seed)
        for _ in range(STEPS):
            world.step()
            states.add(world.group.state)
    assert states == set(State) - {State.DEAD}
