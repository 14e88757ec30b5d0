"""Test how `kafkafmt.metadata` rebuilds the state of a cluster from records, snapshots and logs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from building import split
from golden_cases import GOLDEN
from metadata_logs import START, MetadataLog, kraft_version, leader_change, record, uuid, voters

import kafkafmt as k
from kafkafmt.kraft import replay
from kafkafmt.messages.as_json import uuid_text

T = {"topic_id": uuid(1)}
ID = uuid_text(uuid(1))
TOPIC = record("TopicRecord", name="orders", topic_id=uuid(1))
PARTITION = record(
    "PartitionRecord", **T, partition_id=0, replicas=[1, 2], isr=[1, 2], leader=1, leader_epoch=3, partition_epoch=5,
    directories=[uuid(11), uuid(12)],
)  # fmt: skip
BROKER = record(
    "RegisterBrokerRecord", broker_id=1, broker_epoch=7, incarnation_id=uuid(2), rack="r1", fenced=True,
    end_points=[{"name": "CLIENT", "host": "h", "port": 9092, "security_protocol": 1}],
    features=[{"name": "metadata.version", "min_supported_version": 7, "max_supported_version": 30}], log_dirs=[uuid(11)],
)  # fmt: skip
ACL = record(
    "AccessControlEntryRecord", id=uuid(5), resource_type=2, resource_name="orders", pattern_type=4, principal="User:a",
    host="*", operation=10, permission_type=3,
)  # fmt: skip


def config(name: str, value: str | None, resource: str = "orders", kind: int = 2) -> bytes:
    return record("ConfigRecord", resource_type=kind, resource_name=resource, name=name, value=value)


def state_of(tmp_path: Path, *records: bytes, **options: Any) -> k.reports.ClusterMetadata:
    MetadataLog(tmp_path).append(*records)
    return k.metadata(tmp_path, **options)


def only(rows: tuple[Any, ...]) -> Any:
    (row,) = rows
    return row


def test_topic_contains_its_partitions(tmp_path: Path) -> None:
    state = state_of(tmp_path, TOPIC, PARTITION)
    assert state.to_dict("topics") == {
        "topics": [
            {
                "name": "orders",
                "topic_id": ID,
                "partitions": [
                    {
                        "partition": 0,
                        "leader": 1,
                        "leader_epoch": 3,
                        "partition_epoch": 5,
                        "replicas": [1, 2],
                        "isr": [1, 2],
                        "adding_replicas": [],
                        "removing_replicas": [],
                        "elr": [],
                        "last_known_elr": [],
                        "directories": [uuid_text(uuid(11)), uuid_text(uuid(12))],
                        "leader_recovery_state": "RECOVERED",
                    }
                ],
            }
        ]
    }


def test_partition_change_keeps_null_fields(tmp_path: Path) -> None:
    change = record("PartitionChangeRecord", **T, partition_id=0, isr=[2])
    (p,) = state_of(tmp_path, TOPIC, PARTITION, change).partitions
    assert (p.leader, p.leader_epoch, p.partition_epoch, p.replicas, p.isr) == (1, 3, 6, (1, 2), (2,))


@pytest.mark.parametrize("leader", [-1, 1, 2])
def test_partition_change_with_a_leader_increases_the_leader_epoch(tmp_path: Path, leader: int) -> None:
    change = record("PartitionChangeRecord", **T, partition_id=0, leader=leader)
    (p,) = state_of(tmp_path, TOPIC, PARTITION, change).partitions
    assert (p.leader, p.leader_epoch, p.partition_epoch) == (leader, 4, 6)


def test_partition_change_replaces_replicas_directories_and_elr(tmp_path: Path) -> None:
    change = record(
        "PartitionChangeRecord", **T, partition_id=0, replicas=[3], adding_replicas=[3], removing_replicas=[1, 2],
        directories=[uuid(13)], eligible_leader_replicas=[2], last_known_elr=[1], leader_recovery_state=1,
    )  # fmt: skip
    p = only(state_of(tmp_path, TOPIC, PARTITION, change).partitions)
    assert (p.replicas, p.adding_replicas, p.removing_replicas) == ((3,), (3,), (1, 2))
    assert (p.directories, p.elr, p.last_known_elr) == ((uuid_text(uuid(13)),), (2,), (1,))
    assert p.leader_recovery_state == "RECOVERING"


@pytest.mark.parametrize("topic", ["orders", ""])
def test_clear_elr_clears_one_topic_or_all(tmp_path: Path, topic: str) -> None:
    change = record("PartitionChangeRecord", **T, partition_id=0, eligible_leader_replicas=[2], last_known_elr=[1])
    p = only(state_of(tmp_path, TOPIC, PARTITION, change, record("ClearElrRecord", topic_name=topic)).partitions)
    assert (p.elr, p.last_known_elr, p.partition_epoch) == ((), (), 7)


def test_removed_topic_loses_its_partitions_and_configs(tmp_path: Path) -> None:
    other = record("TopicRecord", name="orders", topic_id=uuid(2))
    state = state_of(
        tmp_path, TOPIC, PARTITION, config("retention.ms", "1"), record("RemoveTopicRecord", topic_id=uuid(1)), other
    )
    assert [(t.name, t.topic_id, t.partitions) for t in state.topics] == [("orders", uuid_text(uuid(2)), ())]
    assert state.configs == ()


def test_config_without_value_deletes_the_config(tmp_path: Path) -> None:
    state = state_of(tmp_path, config("a", "1"), config("b", ""), config("a", None), config("a", "2", "", 4))
    assert [(c.resource_type, c.resource_name, c.name, c.value) for c in state.configs] == [
        ("broker", "", "a", "2"),
        ("topic", "orders", "b", ""),
    ]


def test_acl_is_listed_with_kafkas_names_until_it_is_removed(tmp_path: Path) -> None:
    state = state_of(tmp_path, ACL, record("RemoveAccessControlEntryRecord", id=uuid(5)))
    assert state.acls == ()
    acl = only(k.metadata(tmp_path, at=1).acls)
    assert acl.to_dict() == {
        "id": uuid_text(uuid(5)),
        "resource_type": "TOPIC",
        "resource_name": "orders",
        "pattern_type": "PREFIXED",
        "principal": "User:a",
        "host": "*",
        "operation": "DESCRIBE_CONFIGS",
        "permission": "ALLOW",
    }


def test_broker_is_fenced_unfenced_changed_and_unregistered(tmp_path: Path) -> None:
    at = {"id": 1, "epoch": 7}
    log = MetadataLog(tmp_path)
    log.append(BROKER, record("UnfenceBrokerRecord", **at), record("FenceBrokerRecord", **at))
    change = {"broker_id": 1, "broker_epoch": 7}
    log.append(
        record("BrokerRegistrationChangeRecord", **change, fenced=-1, in_controlled_shutdown=1, log_dirs=[uuid(9)])
    )
    log.append(record("UnregisterBrokerRecord", broker_id=1, broker_epoch=7))
    states = [k.metadata(tmp_path, at=n) for n in range(1, 6)]
    assert [[b.fenced for b in s.brokers] for s in states] == [[True], [False], [True], [False], []]
    last = only(states[3].brokers)
    assert last.in_controlled_shutdown
    assert (last.log_dirs, last.rack, last.epoch) == ((uuid_text(uuid(9)),), "r1", 7)
    assert [e.to_dict() for e in last.endpoints] == [
        {"name": "CLIENT", "host": "h", "port": 9092, "security_protocol": "SSL"}
    ]
    assert all(s.exit_code == 0 for s in states)


def test_controller_is_registered_and_unregistered(tmp_path: Path) -> None:
    made = record("RegisterControllerRecord", controller_id=3, incarnation_id=uuid(4), zk_migration_ready=True)
    state = state_of(tmp_path, made, record("UnregisterControllerRecord", controller_id=3))
    assert state.controllers == ()
    assert [(c.id, c.zk_migration_ready) for c in k.metadata(tmp_path, at=1).controllers] == [(3, True)]


def test_quota_of_an_entity_is_changed_and_removed(tmp_path: Path) -> None:
    entity = [{"entity_type": "client-id", "entity_name": "c"}, {"entity_type": "user", "entity_name": None}]
    address = [{"entity_type": "ip", "entity_name": "::1"}]
    state = state_of(
        tmp_path,
        record("ClientQuotaRecord", entity=entity, key="producer_byte_rate", value=1.5),
        record("ClientQuotaRecord", entity=entity[::-1], key="producer_byte_rate", value=2.0),
        record("ClientQuotaRecord", entity=address, key="connection_creation_rate", value=3.0),
        record("ClientQuotaRecord", entity=address, key="connection_creation_rate", remove=True),
    )
    assert [q.to_dict() for q in state.quotas] == [
        {"user": "", "client_id": "c", "ip": None, "key": "producer_byte_rate", "value": 2.0}
    ]


def test_quota_that_is_not_finite_is_text_in_json(tmp_path: Path) -> None:
    entity = [{"entity_type": "user", "entity_name": "u"}]
    values = [record("ClientQuotaRecord", entity=entity, key=text, value=float(text)) for text in ("inf", "nan")]
    assert [q.to_dict()["value"] for q in state_of(tmp_path, *values).quotas] == ["inf", "nan"]


def test_scram_user_is_listed_without_credentials(tmp_path: Path) -> None:
    secret = {"salt": b"SALTSALT", "stored_key": b"STOREDKEY", "server_key": b"SERVERKEY"}
    users = [record("UserScramCredentialRecord", name=n, mechanism=m, iterations=8192, **secret) for n, m in (("b", 2), ("a", 1))]  # fmt: skip
    state = state_of(tmp_path, *users, record("RemoveUserScramCredentialRecord", name="b", mechanism=2))
    assert [s.to_dict() for s in state.scram] == [{"user": "a", "mechanism": "SCRAM-SHA-256", "iterations": 8192}]


def test_feature_with_level_0_is_removed(tmp_path: Path) -> None:
    levels = [("group.version", 1), ("share.version", 1), ("group.version", 0), ("metadata.version", 30)]
    state = state_of(tmp_path, *(record("FeatureLevelRecord", name=n, feature_level=v) for n, v in levels))
    assert [f.to_dict() for f in state.features] == [
        {"name": "metadata.version", "level": 30},
        {"name": "share.version", "level": 1},
    ]


def test_producer_ids_tokens_and_migration_state_are_kept(tmp_path: Path) -> None:
    token = {"owner": "User:o", "requester": "User:q", "renewers": ["User:r"], "issue_timestamp": 1, "max_timestamp": 3}
    state = state_of(
        tmp_path,
        record("ProducerIdsRecord", broker_id=1, broker_epoch=7, next_producer_id=3000),
        record("ZkMigrationStateRecord", zk_migration_state=2),
        record("DelegationTokenRecord", **token, expiration_timestamp=2, token_id="t"),
        record("DelegationTokenRecord", **token, expiration_timestamp=2, token_id="u"),
        record("RemoveDelegationTokenRecord", token_id="u"),
        record("NoOpRecord"),
    )
    assert (state.info.next_producer_id, state.info.zk_migration_state) == (3000, "PRE_MIGRATION")
    assert [(t.token_id, t.owner, t.renewers) for t in state.delegation_tokens] == [("t", "User:o", ("User:r",))]


# --- transactions of the metadata log


@pytest.mark.parametrize(("end", "names"), [("End", ["orders"]), ("Abort", [])])
def test_transaction_is_applied_only_if_it_ends(tmp_path: Path, end: str, names: list[str]) -> None:
    state = state_of(
        tmp_path,
        record("BeginTransactionRecord", name="create"),
        TOPIC,
        PARTITION,
        record(f"{end}TransactionRecord"),
        config("a", "1"),
    )
    assert [t.name for t in state.topics] == names
    assert len(state.configs) == 1
    assert state.exit_code == 0


def test_open_transaction_is_not_applied_and_reported(tmp_path: Path) -> None:
    state = state_of(tmp_path, config("a", "1"), record("BeginTransactionRecord"), TOPIC)
    assert (state.topics, len(state.configs), state.exit_code) == ((), 1, 0)
    assert "the transaction that begins at offset 1 is incomplete; its records were not applied" in state.messages


# --- snapshots


def test_newest_snapshot_is_loaded_and_the_log_after_it_replayed(tmp_path: Path) -> None:
    log = MetadataLog(tmp_path)
    log.append(TOPIC, config("a", "1"), config("b", "2"))
    log.snapshot(1, [TOPIC])
    log.snapshot(2, [TOPIC, config("from", "snapshot")])
    state = k.metadata(tmp_path)
    assert {c.name for c in state.configs} == {"from", "b"}
    assert (state.info.snapshot, state.info.end_offset) == (f"{2:020}-0000000001.checkpoint", 3)
    assert k.metadata(tmp_path, at=1).configs == ()


def test_log_that_starts_at_the_snapshot_is_complete(tmp_path: Path) -> None:
    log = MetadataLog(tmp_path, start=10)
    log.append(config("b", "2"))
    log.snapshot(10, [TOPIC])
    state = k.metadata(tmp_path)
    assert ([t.name for t in state.topics], len(state.configs), state.info.end_offset) == (["orders"], 1, 11)


def test_snapshot_is_read_alone(tmp_path: Path) -> None:
    log = MetadataLog(tmp_path)
    log.append(config("b", "2"))
    path = log.snapshot(1, [TOPIC])
    assert (len(k.metadata(path).topics), k.metadata(path).configs) == (1, ())
    log.log.unlink()
    assert k.metadata(tmp_path).to_dict("topics") == k.metadata(path).to_dict("topics")


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "flipped bit": lambda data: data[:150] + bytes([data[150] ^ 1]) + data[151:],
    "truncated batch": lambda data: data[:-5],
    "missing footer": lambda data: b"".join(split(data)[:-1]),
    "missing header": lambda data: b"".join(split(data)[1:]),
    "empty": lambda data: b"",
    "garbage": lambda data: b"x" * 500,
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_snapshot_is_replaced_by_an_older_one_or_the_log(tmp_path: Path, kind: str) -> None:
    log = MetadataLog(tmp_path)
    log.append(TOPIC, config("a", "1"), config("b", "2"))
    path = log.snapshot(2, [TOPIC])
    path.write_bytes(DAMAGE[kind](path.read_bytes()))
    state = k.metadata(tmp_path)
    assert ({c.name for c in state.configs}, state.info.snapshot, state.exit_code) == ({"a", "b"}, None, 0)
    assert any("snapshot not used" in m and path.name in m for m in state.messages)


def test_snapshot_that_cannot_be_read_is_replaced_by_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = MetadataLog(tmp_path)
    log.append(TOPIC, config("a", "1"))
    path = log.snapshot(2, [TOPIC])

    def deleted(name: Path) -> None:
        raise FileNotFoundError(2, "No such file or directory", str(name))

    monkeypatch.setattr(replay, "FileView", deleted)
    state = k.metadata(tmp_path)
    assert (len(state.configs), state.exit_code) == (1, 0)
    assert state.messages == (f"snapshot not used: {path}: No such file or directory",)
    with pytest.raises(FileNotFoundError):
        k.metadata(path)


def test_log_without_start_and_without_usable_snapshot_is_applied(tmp_path: Path) -> None:
    def check(missing: str, topics: int = 0) -> k.reports.ClusterMetadata:
        state = k.metadata(tmp_path)
        assert only(state.problems).message == f"the log does not contain {missing}"
        assert ([c.name for c in state.configs], len(state.topics), state.exit_code) == (["b"], topics, 1)
        return state

    log = MetadataLog(tmp_path, start=10)
    log.append(config("b", "2"))
    check("offsets 0 to 9")
    path = log.snapshot(10, [TOPIC])
    path.write_bytes(path.read_bytes()[:-5])
    assert "snapshot not used" in check("offsets 0 to 9").messages[0]
    log.snapshot(7, [TOPIC])
    check("offsets 7 to 9", topics=1)
    path.unlink()
    check("offsets 7 to 9", topics=1)
    with pytest.raises(k.MetadataRangeError, match="older than the oldest snapshot"):
        k.metadata(tmp_path, at=3)


# --- damage and contradictions


def broken_log(tmp_path: Path) -> MetadataLog:
    """Write a log of six records, and damage the fourth."""
    log = MetadataLog(tmp_path)
    log.append(*(config(f"c{n}", "1") for n in range(3)))
    start = log.log.stat().st_size
    log.append(*(config(f"c{n}", "1") for n in range(3, 6)))
    data = bytearray(log.log.read_bytes())
    data[start + 70] ^= 1
    log.log.write_bytes(data)
    return log


def test_replay_ends_before_damage(tmp_path: Path) -> None:
    broken_log(tmp_path)
    state = k.metadata(tmp_path)
    assert [c.name for c in state.configs] == ["c0", "c1", "c2"]
    assert ([d.first_offset for d in state.damaged], state.info.end_offset, state.exit_code) == ([3], 3, 1)
    assert any("only records before offset 3 were applied" in m for m in state.messages)


def test_replay_ends_before_the_first_of_many_damaged_batches(tmp_path: Path) -> None:
    log = MetadataLog(tmp_path)
    ends = []
    for n in range(20):
        log.append(config(f"c{n}", "1"))
        ends.append(log.log.stat().st_size)
    data = bytearray(log.log.read_bytes())
    for n in range(2, 20, 3):
        data[ends[n] - 1] ^= 1
    log.log.write_bytes(data)
    state = k.metadata(tmp_path)
    assert [c.name for c in state.configs] == ["c0", "c1"]
    assert ([d.first_offset for d in state.damaged], state.info.end_offset, state.exit_code) == ([2], 2, 1)


def test_state_before_damage_is_complete(tmp_path: Path) -> None:
    broken_log(tmp_path)
    state = k.metadata(tmp_path, at=3)
    assert (len(state.configs), state.damaged, state.exit_code) == (3, (), 0)


def test_state_after_damage_is_complete_if_a_later_snapshot_exists(tmp_path: Path) -> None:
    broken_log(tmp_path).snapshot(5, [TOPIC])
    state = k.metadata(tmp_path)
    assert ([c.name for c in state.configs], state.damaged, state.exit_code) == (["c5"], (), 0)


def test_records_after_missing_offsets_are_applied(tmp_path: Path) -> None:
    log = MetadataLog(tmp_path)
    log.append(TOPIC)
    log.next_offset = 4
    log.append(config("b", "2"))
    log.next_offset = 9
    log.append(config("c", "3"))
    state = k.metadata(tmp_path)
    assert [(p.offset, p.message) for p in state.problems] == [
        (1, "the log does not contain offsets 1 to 3"),
        (5, "the log does not contain offsets 5 to 8"),
    ]
    assert [c.name for c in state.configs] == ["b", "c"]
    assert (state.info.end_offset, state.exit_code) == (10, 1)


@pytest.mark.parametrize(
    ("at", "missing", "names"),
    [
        (1, [], []),
        (2, ["offset 1"], []),
        (4, ["offsets 1 to 3"], []),
        (5, ["offsets 1 to 3"], ["b"]),
        (7, ["offsets 1 to 3", "offsets 5 to 6"], ["b"]),
    ],
)
def test_state_at_an_offset_names_missing_offsets_before_it(
    tmp_path: Path, at: int, missing: list[str], names: list[str]
) -> None:
    log = MetadataLog(tmp_path)
    log.append(TOPIC)
    log.next_offset = 4
    log.append(config("b", "2"))
    log.next_offset = 9
    log.append(config("c", "3"))
    state = k.metadata(tmp_path, at=at)
    assert [p.message for p in state.problems] == [f"the log does not contain {offsets}" for offsets in missing]
    assert [c.name for c in state.configs] == names
    assert (state.info.end_offset, state.exit_code) == (at, bool(missing))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([PARTITION], "PartitionRecord was not applied: there is no topic with id"),
        ([TOPIC, record("PartitionChangeRecord", **T, partition_id=4)], "topic orders has no partition 4"),
        ([record("RemoveTopicRecord", topic_id=uuid(1))], "there is no topic with id"),
        ([record("FenceBrokerRecord", id=1, epoch=7)], "broker 1 is not registered"),
        ([BROKER, record("FenceBrokerRecord", id=1, epoch=8)], "broker 1 has epoch 7, but the record names epoch 8"),
        ([record("RemoveAccessControlEntryRecord", id=uuid(1))], "there is no ACL with id"),
        ([record("EndTransactionRecord")], "a transaction ends, but none has begun"),
        ([b"\x01\x63\x00"], "a record cannot be decoded: record type 99 is unknown"),
        ([b""], "a record cannot be decoded"),
    ],
)
def test_contradicting_record_is_skipped_and_reported(tmp_path: Path, values: list[bytes], message: str) -> None:
    state = state_of(tmp_path, *values, config("b", "2"))
    assert message in only(state.problems).message
    assert (state.problems[0].offset, len(state.configs), state.exit_code) == (len(values) - 1, 1, 1)


# --- selection of a state


def test_at_time_includes_records_of_this_time(tmp_path: Path) -> None:
    log = MetadataLog(tmp_path)
    log.append(*(config(f"c{n}", "1") for n in range(4)))
    log.snapshot(3, [config("snapshot", "1")])
    assert [c.name for c in k.metadata(tmp_path, at_time=START + 1000).configs] == ["c0", "c1"]
    assert [c.name for c in k.metadata(tmp_path, at_time=START + 1999).configs] == ["c0", "c1"]
    moment = datetime.fromtimestamp((START + 2000) / 1000, UTC)
    assert [c.name for c in k.metadata(tmp_path, at_time=moment).configs] == ["snapshot"]
    assert [c.name for c in k.metadata(tmp_path, at_time=START + 99_000).configs] == ["c3", "snapshot"]


def test_state_outside_of_the_files_is_an_error(tmp_path: Path) -> None:
    log = MetadataLog(tmp_path, start=10)
    log.append(TOPIC)
    log.snapshot(10, [])
    with pytest.raises(k.MetadataRangeError, match="offset 12 is after the end of the metadata log, 11"):
        k.metadata(tmp_path, at=12)
    selections: list[dict[str, Any]] = [{"at": 9}, {"at_time": START + 8000}]
    for earlier in selections:
        with pytest.raises(k.MetadataRangeError, match=r"older than the oldest snapshot, 0+10-0000000001\.checkpoint"):
            k.metadata(tmp_path, **earlier)
    assert len(k.metadata(tmp_path, at=11).topics) == 1


@pytest.mark.parametrize("arguments", [{"at": -1}, {"at": 1, "at_time": 1}, {"at_time": datetime(2026, 1, 1)}])
def test_wrong_argument_is_refused(tmp_path: Path, arguments: dict[str, Any]) -> None:
    MetadataLog(tmp_path).append(TOPIC)
    with pytest.raises(ValueError, match="at"):
        k.metadata(tmp_path, **arguments)


# --- voters and what is committed


def test_voters_come_from_the_voters_record(tmp_path: Path) -> None:
    log = MetadataLog(tmp_path)
    log.snapshot(0, controls=[kraft_version(1), voters(1)], epoch=0)
    log.append_control(leader_change(1, [1], version=1), voters(1, 2), leader_change(1, [1, 2], version=1))
    state = k.metadata(tmp_path)
    assert [(v.id, v.directory_id, v.source) for v in state.voters] == [
        (n, uuid_text(uuid(n)), "voters record") for n in (1, 2)
    ]
    assert [e.to_dict() for e in state.voters[1].endpoints] == [
        {"name": "CONTROLLER", "host": "host-2", "port": 9093, "security_protocol": None}
    ]
    assert [f.to_dict() for f in state.features] == [{"name": "kraft.version", "level": 1}]
    assert state.problems == ()


def test_voters_of_a_static_quorum_come_from_the_leader_change(tmp_path: Path) -> None:
    log = MetadataLog(tmp_path)
    log.append_control(leader_change(2, [3, 1, 2]))
    assert [(v.id, v.directory_id, v.source) for v in k.metadata(tmp_path).voters] == [
        (n, None, "leader change") for n in (1, 2, 3)
    ]


def test_records_after_the_newest_snapshot_may_be_uncommitted(tmp_path: Path) -> None:
    log = MetadataLog(tmp_path)
    log.append_control(leader_change(2, [1, 2, 3]))
    log.append(TOPIC, config("a", "1"))
    log.snapshot(2, [TOPIC], [])
    state = k.metadata(tmp_path)
    assert (state.info.committed_offset, state.info.end_offset) == (2, 3)
    assert "offset 2 of the metadata log may be uncommitted" in state.messages
    assert k.metadata(tmp_path, at=2).messages == ()


def test_quorum_with_one_voter_commits_every_record(tmp_path: Path) -> None:
    log = MetadataLog(tmp_path)
    log.append_control(leader_change(1, [1]))
    log.append(TOPIC, epoch=4)
    state = k.metadata(tmp_path)
    assert (state.info.committed_offset, state.info.leader_epoch, state.messages) == (2, 4, ())


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"leaderId": "x", "currentVoters": [1, {"voterId": true}]}', "[" * 9999]
)
def test_damaged_quorum_state_is_ignored(tmp_path: Path, text: str) -> None:
    log = MetadataLog(tmp_path)
    log.append(TOPIC)
    (log.path / "quorum-state").write_text(text)
    state = k.metadata(tmp_path)
    assert (len(state.topics), state.voters, state.info.quorum_leader_id, state.exit_code) == (1, (), None, 0)


def test_quorum_state_that_cannot_be_read_is_ignored(tmp_path: Path) -> None:
    log = MetadataLog(tmp_path)
    log.append(TOPIC)
    (log.path / "quorum-state").mkdir()
    messages: list[str] = []
    state = k.metadata(tmp_path, on_message=messages.append)
    assert (len(state.topics), state.exit_code) == (1, 0)
    assert [m for m in messages if m.endswith("quorum-state: ignored: quorum-state is a directory, not a file")]


def test_quorum_state_and_meta_properties_are_shown(tmp_path: Path) -> None:
    log = MetadataLog(tmp_path)
    log.append(TOPIC)
    quorum = {"leaderId": 2, "leaderEpoch": 9, "currentVoters": [{"voterId": 2}]}
    (log.path / "quorum-state").write_text(json.dumps(quorum))
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=4\n")
    info = k.metadata(tmp_path).info
    assert (info.cluster_id, info.node_id, info.quorum_leader_id, info.quorum_leader_epoch) == ("abc", 4, 2, 9)
    assert [(v.id, v.source) for v in k.metadata(tmp_path).voters] == [(2, "quorum-state")]


# --- paths


def test_paths_of_the_same_log_give_the_same_state(tmp_path: Path) -> None:
    log = MetadataLog(tmp_path / "node")
    log.append(TOPIC)
    copied = tmp_path / "other"
    log.path.rename(copied)
    (copied / "quorum-state").write_text("{}")
    named = k.metadata(copied)
    copied.rename(log.path)
    found = [k.metadata(p) for p in (tmp_path / "node", log.path, log.log, tmp_path / "no*")]
    assert [s.topics for s in found] == [named.topics] * 4


def test_archive_gives_the_same_state(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    source = GOLDEN / "kafka-4.3.1" / "internal" / "log"
    archive = shutil.make_archive(str(tmp_path / "log"), "zip", source.parent, "log")
    assert k.metadata(archive).to_dict() == k.metadata(source).to_dict()


def test_path_without_metadata_log_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    for path in (tmp_path, tmp_path / "orders-0"):
        with pytest.raises(k.NoLogError, match="there is no __cluster_metadata-0; KRaft nodes"):
            k.metadata(path)
    with pytest.raises(FileNotFoundError):
        k.metadata(tmp_path / "missing")
    (tmp_path / "__cluster_metadata-0").mkdir()
    with pytest.raises(k.NoLogError):
        k.metadata(tmp_path)


def test_input_is_not_written_to(tmp_path: Path) -> None:
    log = MetadataLog(tmp_path)
    log.append(TOPIC)
    log.snapshot(1, [TOPIC])
    before = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in log.path.iterdir()}
    k.metadata(tmp_path)
    assert {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in log.path.iterdir()} == before
    assert os.listdir(tmp_path) == ["__cluster_metadata-0"]


# --- logs of real brokers


@pytest.mark.parametrize("version", ["kafka-3.9.2", "kafka-4.3.1"])
def test_every_snapshot_of_a_golden_log_is_the_state_of_the_log_before_it(version: str, tmp_path: Path) -> None:
    """Kafka wrote the snapshots. The state at their offset, replayed from the whole log, must be the same."""
    source = GOLDEN / version / "internal" / "log" / "__cluster_metadata-0"
    replayed = tmp_path / "__cluster_metadata-0"
    replayed.mkdir()
    (replayed / f"{0:020}.log").write_bytes((source / f"{0:020}.log").read_bytes())
    snapshots = sorted(source.glob("*.checkpoint"))
    assert len(snapshots) >= 7
    for snapshot in snapshots:
        expected, found = k.metadata(snapshot), k.metadata(tmp_path, at=int(snapshot.name[:20]))
        assert found.info.snapshot is None
        assert len(expected.topics) > 0
        for view in ("topics", "configs", "acls", "brokers", "quotas", "scram", "features", "controllers"):
            assert found.view(view) == expected.view(view), (snapshot.name, view)
        assert found.info.next_producer_id == expected.info.next_producer_id
        assert found.info.timestamp == expected.info.timestamp


@pytest.mark.parametrize("version", ["kafka-3.9.2", "kafka-4.3.1"])
def test_golden_log_is_replayed_without_problems(version: str) -> None:
    state = k.metadata(GOLDEN / version / "internal" / "log")
    ids = {}
    for folder in sorted((GOLDEN / version / "internal" / "log").glob("*-*/partition.metadata")):
        ids[folder.parent.name.rpartition("-")[0]] = folder.read_text().split()[-1]
    del ids["__cluster_metadata"]
    assert {t.name: t.topic_id for t in state.topics} == ids
    assert (state.problems, state.messages, state.exit_code) == ((), (), 0)
    assert [v.id for v in state.voters] == [1]
