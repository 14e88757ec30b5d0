"""Test groups whose members are separate processes. The tests kill and restart these processes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import group_member
import pytest
from handler_calls import INTERNAL
from kafka import KafkaAdminClient, KafkaConsumer
from kafka.errors import KafkaError

import kafkafmt

pytestmark = pytest.mark.slow

Start = Callable[..., kafkafmt.server.Server]
CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka")
PARTITIONS = [0, 1, 2]
"""The partition numbers of the topic "source". Each partition contains 30 records."""
WAIT = 30.0


class MemberProcess:
    """A process that runs `group_member` with one client library.

    Attributes
    ----------
    partitions : list of int
        The partitions that are assigned to the member.
    committed : dict of int to int
        The last committed offset of each partition.
    """

    def __init__(self, client: str, address: str, *options: str) -> None:
        self.partitions: list[int] = []
        self.committed: dict[int, int] = {}
        self.assignments = 0
        command = [sys.executable, group_member.__file__, client, address, "g", "source", *options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event: dict[str, Any] = json.loads(line)
            if "partitions" in event:
                self.partitions = event["partitions"]
                self.assignments += 1
            else:
                partition, offset = event["committed"]
                self.committed[partition] = offset

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


Member = Callable[..., MemberProcess]


@pytest.fixture
def member() -> Iterator[Member]:
    """Return a function that starts a member process. All processes are killed after the test."""
    processes: list[MemberProcess] = []

    def start(client: str, address: str, *options: str) -> MemberProcess:
        processes.append(MemberProcess(client, address, *options))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()


def wait_for(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end, "the condition was not fulfilled in time"
        time.sleep(0.05)


def share_all(*members: MemberProcess) -> bool:
    """Return whether each partition is assigned to exactly one of the members."""
    return sorted(p for m in members for p in m.partitions) == PARTITIONS


def last_commits(members: list[MemberProcess]) -> dict[int, int]:
    """Return the highest offset that any member has committed, by partition."""
    return {p: max(m.committed.get(p, 0) for m in members) for p in PARTITIONS}


def test_group_of_different_clients_rebalances_after_sigkill(started: Start, member: Member) -> None:
    server = started(INTERNAL)
    members = [member(client, server.address) for client in CLIENTS]
    wait_for(lambda: share_all(*members) and all(len(m.partitions) == 1 for m in members))
    while len(members) > 1:
        members.pop(0).kill()
        wait_for(lambda: share_all(*members))
    [last] = members
    wait_for(lambda: last.partitions == PARTITIONS)


def test_members_of_the_consumer_protocol_share_the_partitions(started: Start, member: Member) -> None:
    server = started(INTERNAL)
    members = [member("confluent-consumer", server.address) for _ in range(3)]
    wait_for(lambda: share_all(*members) and all(len(m.partitions) == 1 for m in members))
    wait_for(lambda: last_commits(members) == dict.fromkeys(PARTITIONS, 30))


@pytest.mark.full
@pytest.mark.parametrize("client", CLIENTS)
def test_group_of_one_client_library_rebalances_after_sigkill(started: Start, member: Member, client: str) -> None:
    server = started(INTERNAL)
    members = [member(client, server.address) for _ in range(4)]
    wait_for(lambda: share_all(*members) and sum(m.assignments > 0 for m in members) >= 3)
    while len(members) > 1:
        members.pop(0).kill()
        wait_for(lambda: share_all(*members))


def test_commits_survive_a_restart_with_a_groups_file(tmp_path: Path) -> None:
    options: dict[str, Any] = {"groups_file": tmp_path / "groups"}

    def read(server: kafkafmt.server.Server, count: int) -> list[tuple[int, int]]:
        consumer = KafkaConsumer(
            "source",
            bootstrap_servers=server.address,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=1,
        )
        found: list[tuple[int, int]] = []
        end = time.monotonic() + WAIT
        while len(found) < count and time.monotonic() < end:
            for records in consumer.poll(500).values():
                found += [(r.partition, r.offset) for r in records]
        consumer.commit()
        consumer.close()
        return found

    with kafkafmt.serve(INTERNAL, **options) as server:
        first = read(server, 40)
    with kafkafmt.serve(INTERNAL, **options) as server:
        second = read(server, 50)
    assert sorted(first + second) == [(p, o) for p in PARTITIONS for o in range(30)]


def test_member_continues_after_a_restart_of_the_server(tmp_path: Path, member: Member) -> None:
    groups = tmp_path / "groups"
    with kafkafmt.serve(INTERNAL, groups_file=groups) as server:
        port = server.port
        process = member("confluent-kafka", server.address)
        wait_for(lambda: process.committed == dict.fromkeys(PARTITIONS, 30))
    assert process.assignments == 1
    process.committed.clear()
    with kafkafmt.serve(INTERNAL, port=port, groups_file=groups) as server:
        wait_for(lambda: process.assignments > 1 and process.partitions == PARTITIONS)
        admin = KafkaAdminClient(bootstrap_servers=server.address)
        offsets = admin.list_group_offsets({"g": None})["g"]
        admin.close()
    assert {tp.partition: o.offset for tp, o in offsets.items()} == dict.fromkeys(PARTITIONS, 30)
    assert process.committed == {}


def test_restarted_static_member_causes_no_rebalance(started: Start, member: Member) -> None:
    server = started(INTERNAL)
    first = member("confluent-kafka", server.address, "one")
    second = member("confluent-kafka", server.address, "two")
    wait_for(lambda: share_all(first, second) and first.partitions and second.partitions)
    changes, partitions = first.assignments, second.partitions
    second.kill()
    again = member("confluent-kafka", server.address, "two")
    wait_for(lambda: again.assignments)
    assert again.partitions == partitions
    assert first.assignments == changes


USERS = "alice:{PLAIN}secret\n"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_authenticates(started: Start, tmp_path: Path, mechanism: str) -> None:
    users = tmp_path / "users"
    users.write_text(USERS)
    server = started(INTERNAL, users=users)

    def topics(password: str) -> set[str]:
        consumer = KafkaConsumer(
            bootstrap_servers=server.address,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="alice",
            sasl_plain_password=password,
            bootstrap_timeout_ms=10_000 if password == "secret" else 500,
        )
        found = set(consumer.topics())
        consumer.close()
        return found

    assert topics("secret") == {"sink", "source"}
    with pytest.raises(KafkaError):
        topics("wrong")
    expected = f"authentication of user 'alice' with {mechanism} failed: the user or the password is wrong"
    assert {m.partition("connection closed: ")[2] for m in server.messages} == {expected}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_authenticates(started: Start, tmp_path: Path, mechanism: str) -> None:
    import confluent_kafka
    from confluent_kafka.admin import AdminClient

    users = tmp_path / "users"
    users.write_text(USERS)
    server = started(INTERNAL, users=users)

    def admin(password: str) -> AdminClient:
        return AdminClient(
            {
                "bootstrap.servers": server.address,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism,
                "sasl.username": "alice",
                "sasl.password": password,
                "log_level": 0,
            }
        )

    assert set(admin("secret").list_topics(timeout=10).topics) == {"sink", "source"}
    with pytest.raises(confluent_kafka.KafkaException):
        admin("wrong").list_topics(timeout=1)
    assert any("authentication" in m and mechanism in m for m in server.messages)


def test_client_without_authentication_is_disconnected(started: Start, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text(USERS)
    server = started(INTERNAL, users=users)
    with pytest.raises(KafkaError):
        KafkaConsumer(bootstrap_servers=server.address, bootstrap_timeout_ms=500)
    wait_for(lambda: any("before authentication" in m for m in server.messages))
