"""Implement the state of a KIP-848 consumer group, for which the server computes the assignment.

`ConsumerGroup` performs no I/O. A heartbeat can change the group as follows:

1. If a member joins, leaves or changes its subscription, the group epoch is incremented, and a new
   target assignment is computed.
2. If the target assignment takes partitions from a member, the member first gets an assignment
   without these partitions. Its epoch becomes the group epoch when its heartbeat no longer contains
   these partitions.
3. A partition is assigned to its new owner only after the previous owner has revoked it.

Kafka's counterparts are ``ConsumerGroup`` and ``CurrentAssignmentBuilder``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from sys import getsizeof
from typing import NamedTuple

from ...protocol import ErrorCode
from .assignors import ASSIGNORS, DEFAULT_ASSIGNOR, Assignment, PartitionKey
from .limits import GroupLimits
from .members import MEMBER_BYTES

GROUP_BYTES = 1024
PARTITION_BYTES = 400
"""Approximate memory that one assigned partition takes in a `ConsumerGroup`, in bytes."""
JOINS, LEAVES, LEAVES_FOR_A_WHILE = 0, -1, -2
"""Special member epochs in a heartbeat: the member joins, leaves, or leaves temporarily (static members only)."""
SESSION_TIMEOUT = 45.0
"""Session timeout of consumers in seconds, the default of Kafka's ``group.consumer.session.timeout.ms``."""
TOPICS_INTERVAL = 5.0
"""Seconds after which the server checks again whether the subscribed topics have new partitions."""

PartitionsOf = Callable[[str], tuple[int, ...]]
"""Function that returns the partition numbers of a topic, or () if the topic does not exist."""


class ConsumerState(StrEnum):
    """State of a consumer group, with the names that Kafka uses in responses."""

    EMPTY = "Empty"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class Heartbeat(NamedTuple):
    """The fields of a ConsumerGroupHeartbeat request. None means unchanged since the previous heartbeat."""

    member_id: str
    epoch: int
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout: float | None = None
    topics: frozenset[str] | None = None
    assignor: str | None = None
    owned: frozenset[PartitionKey] | None = None


class HeartbeatResult(NamedTuple):
    """The result of a heartbeat. `assignment` is None if the member's assignment has not changed."""

    error: ErrorCode
    member_id: str = ""
    epoch: int = 0
    assignment: frozenset[PartitionKey] | None = None


@dataclass
class ConsumerMember:
    """A member of a consumer group."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout: float
    deadline: float
    topics: frozenset[str] = frozenset()
    assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = 0
    assigned: set[PartitionKey] = field(default_factory=set)
    revoking: set[PartitionKey] = field(default_factory=set)
    revoke_deadline: float = float("inf")

    @property
    def size(self) -> int:
        """Approximate memory that the member takes, in bytes."""
        texts = (self.member_id, self.instance_id, self.rack_id, self.client_id, self.client_host, *self.topics)
        return MEMBER_BYTES + sum(map(getsizeof, texts)) + PARTITION_BYTES * len(self.assigned)


class ConsumerGroup:
    """A group that uses the consumer group protocol (KIP-848)."""

    # `target` has the partitions that each member gets when the rebalance is complete. The initial
    # epoch is positive if the group had members before.

    protocol_type = "consumer"

    def __init__(
        self,
        group_id: str,
        now: Callable[[], float],
        limits: GroupLimits,
        partitions_of: PartitionsOf,
        epoch: int = 0,
    ) -> None:
        self.group_id = group_id
        self.generation: int = epoch
        self.assignor: str = DEFAULT_ASSIGNOR
        self.members: dict[str, ConsumerMember] = {}
        self.target: Assignment = {}
        self._now = now
        self._limits = limits
        self._partitions_of = partitions_of
        self._owners: dict[PartitionKey, str] = {}
        """Id of the member that owns a partition or has not revoked it yet, by partition."""
        self._topics: dict[str, tuple[int, ...]] = {}
        self._topics_checked = now()
        self._dead = False

    @property
    def state(self) -> ConsumerState:
        if self._dead:
            return ConsumerState.DEAD
        if not self.members:
            return ConsumerState.EMPTY
        done = all(
            m.epoch == self.generation and m.assigned == self.target[m.member_id] and not m.revoking
            for m in self.members.values()
        )
        return ConsumerState.STABLE if done else ConsumerState.RECONCILING

    @property
    def size(self) -> int:
        """Approximate memory that the group and its members take, in bytes."""
        return GROUP_BYTES + getsizeof(self.group_id) + sum(m.size for m in self.members.values())

    @property
    def subscribed_topics(self) -> set[str]:
        """Names of the topics to which at least one member subscribes."""
        return {topic for member in self.members.values() for topic in member.topics}

    def heartbeat(self, beat: Heartbeat) -> HeartbeatResult:
        """Process the heartbeat of a member that joins, leaves or stays in the group."""
        member = self.members.get(beat.member_id)
        if beat.epoch in (LEAVES, LEAVES_FOR_A_WHILE):
            error = self._identity_error(beat)
            if error or member is None:
                return HeartbeatResult(error or ErrorCode.UNKNOWN_MEMBER_ID)
            if beat.epoch == LEAVES_FOR_A_WHILE and member.instance_id is not None:
                member.epoch = member.previous_epoch = (
                    LEAVES_FOR_A_WHILE  # the static member keeps its partitions until its session expires
                )
            else:
                self._remove([member])
            return HeartbeatResult(ErrorCode.NONE, beat.member_id, beat.epoch)
        error = self._error(member, beat)
        if error:
            return HeartbeatResult(error)
        if member is None:
            member = self._returned(beat) or self._added(beat)
        member.deadline = self._now() + SESSION_TIMEOUT
        if self._subscribe(member, beat) or self._topics_changed():
            self._bump()
        changed = self._reconcile(member, frozenset() if beat.epoch == JOINS else beat.owned)
        full = beat.epoch == JOINS or None not in (beat.owned, beat.topics, beat.rebalance_timeout)
        assignment = frozenset(member.assigned) if changed or full else None
        return HeartbeatResult(ErrorCode.NONE, member.member_id, member.epoch, assignment)

    def commit_error(self, member_id: str, instance_id: str | None, epoch: int, knows_epochs: bool = True) -> ErrorCode:
        """Return NONE if a member may commit or fetch offsets."""
        # `knows_epochs` is False if the version of the request has a generation instead of a member
        # epoch.
        if self._dead:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not knows_epochs:
            return ErrorCode.UNSUPPORTED_VERSION
        return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH

    def delete(self) -> ErrorCode:
        """Change the state to Dead if the group has no members."""
        if self._dead:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if self.members:
            return ErrorCode.NON_EMPTY_GROUP
        self._dead = True
        return ErrorCode.NONE

    def next_deadline(self) -> float | None:
        """Return the time at which `expire` must be called, or None if nothing can expire."""
        return min((min(m.deadline, m.revoke_deadline) for m in self.members.values()), default=None)

    def expire(self) -> None:
        """Remove members whose session or rebalance timeout has expired."""
        now = self._now()
        self._remove([m for m in self.members.values() if min(m.deadline, m.revoke_deadline) <= now])

    def _error(self, member: ConsumerMember | None, beat: Heartbeat) -> ErrorCode:
        if beat.assignor is not None and beat.assignor not in ASSIGNORS:
            return ErrorCode.UNSUPPORTED_ASSIGNOR
        if beat.epoch == JOINS:
            if member is not None:
                return ErrorCode.NONE
            static = self._static_member(beat.instance_id)
            if static is not None:
                released = static.epoch == LEAVES_FOR_A_WHILE
                return ErrorCode.NONE if released else ErrorCode.UNRELEASED_INSTANCE_ID
            full = len(self.members) >= self._limits.members
            return ErrorCode.GROUP_MAX_SIZE_REACHED if full else ErrorCode.NONE
        error = self._identity_error(beat)
        if error or member is None:
            return error or ErrorCode.UNKNOWN_MEMBER_ID
        if beat.epoch == member.epoch:
            return ErrorCode.NONE
        # If the response with the new epoch was lost, the member sends its previous epoch again.
        repeated = beat.epoch == member.previous_epoch and beat.owned is not None and beat.owned <= member.assigned
        return ErrorCode.NONE if repeated else ErrorCode.FENCED_MEMBER_EPOCH

    def _identity_error(self, beat: Heartbeat) -> ErrorCode:
        """Return the error code if the instance id in a heartbeat belongs to another member, or to none."""
        if beat.instance_id is None:
            return ErrorCode.NONE
        static = self._static_member(beat.instance_id)
        if static is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if static.member_id == beat.member_id else ErrorCode.FENCED_INSTANCE_ID

    def _static_member(self, instance_id: str | None) -> ConsumerMember | None:
        if instance_id is None:
            return None
        return next((m for m in self.members.values() if m.instance_id == instance_id), None)

    def _returned(self, beat: Heartbeat) -> ConsumerMember | None:
        """Change the member id of a static member that rejoins. Return the member, or None if no such member exists."""
        member = self._static_member(beat.instance_id)
        if member is None:
            return None
        self.target[beat.member_id] = self.target.pop(member.member_id)
        del self.members[member.member_id]
        self.members[beat.member_id] = member
        self._owners.update(dict.fromkeys(member.assigned | member.revoking, beat.member_id))
        member.member_id, member.epoch, member.previous_epoch = beat.member_id, 0, 0
        member.client_id, member.client_host = beat.client_id, beat.client_host
        return member

    def _added(self, beat: Heartbeat) -> ConsumerMember:
        member = ConsumerMember(
            beat.member_id,
            beat.instance_id,
            beat.rack_id,
            beat.client_id,
            beat.client_host,
            beat.rebalance_timeout or SESSION_TIMEOUT,
            self._now() + SESSION_TIMEOUT,
        )
        self.members[beat.member_id] = member
        self.target[beat.member_id] = set()
        return member

    def _subscribe(self, member: ConsumerMember, beat: Heartbeat) -> bool:
        """Update the subscription of a member, and return whether the target assignment is outdated."""
        if beat.rebalance_timeout is not None:
            member.rebalance_timeout = beat.rebalance_timeout
        changed = member.epoch == 0 and member.previous_epoch == 0 and not member.topics
        if beat.topics is not None and beat.topics != member.topics:
            member.topics, changed = beat.topics, True
        if beat.assignor is not None and beat.assignor != member.assignor:
            member.assignor, changed = beat.assignor, True
        return changed

    def _topics_changed(self) -> bool:
        if self._now() - self._topics_checked < TOPICS_INTERVAL:
            return False
        self._topics_checked = self._now()
        return any(self._partitions_of(topic) != self._topics.get(topic, ()) for topic in self.subscribed_topics)

    def _bump(self) -> None:
        """Increment the group epoch, and compute a new target assignment."""
        self.generation = self.generation % 0x7FFFFFFF + 1
        votes = Counter(m.assignor for m in self.members.values() if m.assignor is not None)
        self.assignor = votes.most_common(1)[0][0] if votes else DEFAULT_ASSIGNOR
        self._topics = {t: found for t in sorted(self.subscribed_topics) if (found := self._partitions_of(t))}
        subscriptions = {member_id: member.topics for member_id, member in self.members.items()}
        self.target = ASSIGNORS[self.assignor](subscriptions, self._topics, self.target)

    def _reconcile(self, member: ConsumerMember, owned: frozenset[PartitionKey] | None) -> bool:
        """Move the assignment of a member closer to its target. Return whether the assignment has changed."""
        if member.revoking and owned is not None and not member.revoking & owned:
            self._release(member.revoking)
            member.revoking, member.revoke_deadline = set(), float("inf")
        if member.revoking:
            return False
        target = self.target[member.member_id]
        revoked = member.assigned - target
        if revoked:
            member.assigned -= revoked
            if owned is None or revoked & owned:
                member.revoking, member.revoke_deadline = revoked, self._now() + member.rebalance_timeout
                return True
            self._release(revoked)
        given = {p for p in target - member.assigned if p not in self._owners}
        member.assigned |= given
        self._owners.update(dict.fromkeys(given, member.member_id))
        if member.epoch != self.generation:
            member.previous_epoch, member.epoch = member.epoch, self.generation
        return bool(given or revoked)

    def _release(self, partitions: set[PartitionKey]) -> None:
        for partition in partitions:
            del self._owners[partition]

    def _remove(self, members: list[ConsumerMember]) -> None:
        for member in members:
            self._release(member.assigned | member.revoking)
            del self.members[member.member_id]
            del self.target[member.member_id]
        if members:
            self._bump()
