"""Decode what the group coordinator stores in `__consumer_offsets`: committed offsets, and groups
with their members.

The topic is compacted: the latest record of each key counts, and a record without a value deletes
its key. Offsets committed in a transaction count once the transaction is committed, at the position
where they were written, not at that of the marker. A coordinator that loads the topic does the
same. It also reads past a transaction that is still open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, NamedTuple

from ...errors import KafkaFormatError
from ...internal_topics.decode import (
    CoordinatorRecord,
    UnknownTypeError,
    read_coordinator_record,
    read_member,
)
from .models import Damage
from .partition import OnDamage, PartitionLog

GROUPS_TOPIC = "__consumer_offsets"
COMMIT = 1
COMMIT_KEY, OLD_COMMIT_KEY = b"\0\1", b"\0\0"
"""First bytes of the keys of offset commits. The other fields of both versions are equal."""
GROUPS = {2: "classic", 3: "consumer", 11: "share", 17: "streams"}
MEMBERS = {5: "consumer", 10: "share", 19: "streams"}


class CommittedOffset(NamedTuple):
    """An offset that a consumer group committed for a partition.

    Attributes
    ----------
    group, topic : str
        The group, and the topic of the partition.
    partition : int
        Number of the partition.
    offset : int
        The next offset that the group reads.
    leader_epoch : int or None
        Leader epoch of the last record that was read. None if the commit has none.
    metadata : str
        Text that the consumer added.
    commit_timestamp : int
        Time of the commit, in milliseconds since 1970-01-01 UTC.
    expire_timestamp : int or None
        Time at which the commit expires, in milliseconds. None unless the commit itself has one (up
        to Kafka 2.0).
    """

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int | None
    metadata: str
    commit_timestamp: int
    expire_timestamp: int | None


class Member(NamedTuple):
    """A member of a consumer group.

    Attributes
    ----------
    member_id : str
        Id of the member.
    instance_id : str or None
        ``group.instance.id`` of a static member; None for other members.
    client_id, client_host : str
        The client and its address.
    topics : list of str or None
        Topics that the member subscribed to. None if they cannot be decoded, because the protocol
        is not `consumer`.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    topics: list[str] | None


@dataclass
class Group:
    """A consumer group.

    Attributes
    ----------
    group : str
        Name of the group.
    type : str
        "classic", "consumer", "share" or "streams".
    epoch : int
        Epoch of the group; the generation of a classic group. -1 if only members are stored.
    protocol_type, protocol : str or None
        Protocol type and assignor of a classic group; None for other types.
    members : list of Member
        The members.
    """

    group: str
    type: str
    epoch: int
    protocol_type: str | None = None
    protocol: str | None = None
    members: list[Member] = field(default_factory=list)


@dataclass
class GroupState:
    """The latest state of the groups.

    Attributes
    ----------
    offsets : list of CommittedOffset
        Committed offsets, ordered by group, topic and partition.
    groups : list of Group
        Groups, ordered by name.
    unreadable : int
        Number of records whose key or value cannot be decoded.
    """

    offsets: list[CommittedOffset]
    groups: list[Group]
    unreadable: int = 0


def read_group_state(
    logs: Iterable[PartitionLog], on_damage: Callable[[PartitionLog, Damage], None] | None = None
) -> GroupState:
    """Return the latest state in partitions of `__consumer_offsets`.

    Damage is passed to `on_damage` with its log, or raised as DamagedLogError if `on_damage` is
    None.
    """
    state = GroupState([], [])
    commits: list[CommittedOffset] = []
    groups: dict[tuple[str, str], Group] = {}
    members: dict[tuple[str, str], list[Member]] = {}
    for log in logs:
        for key, value in _latest(log, None if on_damage is None else partial(on_damage, log)):
            try:
                record = read_coordinator_record(GROUPS_TOPIC, key, value)
            except UnknownTypeError:
                continue
            except KafkaFormatError:
                state.unreadable += 1
                continue
            assert record.value is not None
            if record.type == COMMIT:
                commits.append(_commit(record.key, record.value))
            elif record.type in GROUPS:
                group = _group(record)
                groups[group.group, group.type] = group
            elif record.type in MEMBERS:
                members.setdefault((record.key.group_id, MEMBERS[record.type]), []).append(_member(record))
    for at, found in members.items():
        groups.setdefault(at, Group(*at, -1)).members += found
    state.offsets = sorted(commits, key=lambda c: c[:3])
    state.groups = [groups[at] for at in sorted(groups)]
    return state


def _latest(log: PartitionLog, on_damage: OnDamage | None) -> Iterator[tuple[bytes, bytes]]:
    """Return an iterator of keys and values: the latest value of each key that was not deleted.

    Keys are in the order of their latest records. Keys of old commits are converted to today's.
    """
    latest: dict[bytes, bytes | None] = {}
    for record in log.records(committed=True, past_open=True, on_damage=on_damage):
        key = record.key or b""
        if key[:2] == OLD_COMMIT_KEY:
            key = COMMIT_KEY + key[2:]
        latest.pop(key, None)
        latest[key] = record.value
    return ((key, value) for key, value in latest.items() if value is not None)


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
