"""Read committed offsets, and consumer groups with their members, from `__consumer_offsets`.

The topic is compacted: only the latest record of each key is valid, and a null value deletes its
key. `read_group_state` can also return an earlier state, unless compaction has removed its records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, NamedTuple

from ...errors import KafkaFormatError
from ...internal_topics.decode import CoordinatorRecord, UnknownTypeError, read_coordinator_record, read_member
from ..findings import Damage
from ..reading import PartitionLog
from .group_records import COMMIT, GROUPS_TOPIC, latest, latest_at

GROUPS = {2: "classic", 3: "consumer", 11: "share", 17: "streams"}
MEMBERS = {5: "consumer", 10: "share", 19: "streams"}


class CommittedOffset(NamedTuple):
    """An offset that a consumer group has committed for a partition. Times are in ms since 1970-01-01 UTC."""

    group: str
    topic: str
    partition: int
    offset: int  # of the next record that the group will read
    leader_epoch: int | None  # of the last record that was read; None if the commit does not contain it
    metadata: str  # text that the consumer added
    commit_timestamp: int
    expire_timestamp: int | None  # None if not in the commit, as after Kafka 2.0
    log_end_offset: int | None = None  # None if the partition was not found or cannot be read
    lag: int | None = None  # `log_end_offset` minus `offset`


class Member(NamedTuple):
    member_id: str
    instance_id: str | None  # ``group.instance.id`` of a static member
    client_id: str
    client_host: str
    # subscribed ones; None if the format is unknown, because the protocol type is not `consumer`
    topics: list[str] | None


@dataclass
class Group:
    group: str
    type: str  # "classic", "consumer", "share" or "streams"
    epoch: int  # of a classic group, the generation; -1 if only members are known
    protocol_type: str | None = None  # of a classic group
    protocol: str | None = None  # assignor of a classic group
    members: list[Member] = field(default_factory=list)


@dataclass
class GroupState:
    """State of all consumer groups."""

    offsets: list[CommittedOffset]  # by group, topic and partition
    groups: list[Group]  # by name
    unreadable: int = 0  # number of records whose key or value cannot be decoded

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """Return a dict that maps (topic, partition) to the offset that the group has committed."""
        return {(c.topic, c.partition): c.offset for c in self.offsets if c.group == group}


def read_group_state(
    logs: Iterable[PartitionLog],
    on_damage: Callable[[PartitionLog, Damage], None] | None = None,
    at: int | None = None,
) -> GroupState:
    """Read the state of all consumer groups from the partitions of `__consumer_offsets`, at `at` (ms) or now."""
    # Without `on_damage`, damage raises DamagedLogError. Commits that had expired at `at` are omitted.
    state = GroupState([], [])
    commits: list[CommittedOffset] = []
    groups: dict[tuple[str, str], Group] = {}
    members: dict[tuple[str, str], list[Member]] = {}
    for log in logs:
        report = None if on_damage is None else partial(on_damage, log)
        for key, value in latest(log, report) if at is None else latest_at(log, at, report):
            try:
                record = read_coordinator_record(GROUPS_TOPIC, key, value)
            except UnknownTypeError:
                continue
            except KafkaFormatError:
                state.unreadable += 1
                continue
            assert record.value is not None
            if record.type == COMMIT:
                commit = _commit(record.key, record.value)
                if at is None or commit.expire_timestamp is None or commit.expire_timestamp > at:
                    commits.append(commit)
            elif record.type in GROUPS:
                group = _group(record)
                groups[group.group, group.type] = group
            elif record.type in MEMBERS:
                members.setdefault((record.key.group_id, MEMBERS[record.type]), []).append(_member(record))
    for member_of, found in members.items():
        groups.setdefault(member_of, Group(*member_of, -1)).members += found
    state.offsets = sorted(commits, key=lambda c: c[:3])
    state.groups = [groups[name] for name in sorted(groups)]
    return state


def _commit(key: Any, value: Any) -> CommittedOffset:
    return CommittedOffset(
        key.group,
        key.topic,
        key.partition,
        value.offset,
        None if value.leader_epoch < 0 else value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        None if value.expire_timestamp < 0 else value.expire_timestamp,
    )


def _group(record: CoordinatorRecord) -> Group:
    key, value = record.key, record.value
    if record.type != 2:
        return Group(key.group_id, GROUPS[record.type], value.epoch)
    members = [_classic_member(m, value.protocol_type) for m in value.members]
    return Group(key.group, "classic", value.generation, value.protocol_type, value.protocol, members)


def _classic_member(m: Any, protocol_type: str) -> Member:
    found = read_member(m.subscription, "Subscription") if protocol_type == "consumer" else None
    topics = None if found is None else getattr(found[0], "topics", None)
    return Member(m.member_id, m.group_instance_id, m.client_id, m.client_host, topics)


def _member(record: CoordinatorRecord) -> Member:
    m = record.value
    topics = getattr(m, "subscribed_topic_names", None)
    return Member(record.key.member_id, getattr(m, "instance_id", None), m.client_id, m.client_host, topics)


def groups_dict(offsets: Iterable[CommittedOffset], groups: Iterable[Group]) -> dict[str, Any]:
    """Return the JSON object that ``kafkafmt groups --format json`` prints."""
    rows = [asdict(g) | {"members": [m._asdict() for m in g.members]} for g in groups]
    return {"offsets": [c._asdict() for c in offsets], "groups": rows}
