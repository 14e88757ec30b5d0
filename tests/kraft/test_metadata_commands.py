"""Test the script that recreates topics, configs, quotas and ACLs, with names that attack the shell.

Programs with the names of Kafka's tools record the arguments that the script passes to them.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from zlib import crc32

import pytest
from metadata_logs import MetadataLog, record, uuid

import kafkafmt as k

HOSTILE = [
    "$(touch pwned)",
    "`touch pwned`",
    "a'; touch pwned; '",
    'a"; touch pwned; "',
    "a\ntouch pwned\n#",
    "a b\tc",
    "--delete",
    "-x",
    "${HOME}",
    "*",
    "~",
    "\\",
    "!!",
    "#",
    "größe 😀",
    "\x1b(0\x07",
]
TOOLS = ("topics", "configs", "acls")
RECORDER = '#!/bin/sh\nfor a in "$(basename "$0")" "$@"; do printf "%s\\0" "$a"; done >> calls; printf "\\0" >> calls\n'
SERVER = ["--bootstrap-server", "h:1"]


def topic(name: str, partitions: int = 1) -> list[bytes]:
    number = uuid(crc32(name.encode()))
    made = [record("TopicRecord", name=name, topic_id=number)]
    at = {"topic_id": number, "replicas": [1, 2], "isr": [1], "leader": 1}
    return made + [record("PartitionRecord", partition_id=n, **at) for n in range(partitions)]


def config(kind: int, resource: str, name: str, value: str) -> bytes:
    return record("ConfigRecord", resource_type=kind, resource_name=resource, name=name, value=value)


def acl(number: int, kind: int, name: str, **changes: object) -> bytes:
    fields = {"pattern_type": 3, "principal": "User:a", "host": "*", "operation": 3, "permission_type": 3} | changes
    return record("AccessControlEntryRecord", id=uuid(number), resource_type=kind, resource_name=name, **fields)


def script_of(folder: Path, *records: bytes) -> str:
    MetadataLog(folder).append(*records)
    return k.metadata(folder).commands()


def calls(folder: Path, script: str, suffix: str = "") -> list[list[str]]:
    """Run a script that calls fake tools. Return the arguments of each call."""
    for tool in TOOLS:
        program = folder / f"kafka-{tool}{suffix}"
        program.write_text(RECORDER)
        program.chmod(0o755)
    (folder / "script").write_text(script)
    done = subprocess.run(
        ["sh", "script", *SERVER], cwd=folder, capture_output=True, text=True, env=os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (folder / "pwned").exists()
    output = folder / "calls"
    if not output.exists():
        return []
    return [call.split("\0") for call in output.read_text().split("\0\0")[:-1]]


@pytest.mark.parametrize("suffix", ["", ".sh"])
def test_topic_is_created_with_its_partitions_replicas_and_configs(tmp_path: Path, suffix: str) -> None:
    values = [*topic("orders", 3), config(2, "orders", "cleanup.policy", "compact,delete")]
    values += [config(2, "orders", "empty", ""), config(2, "orders", "equal", "a=b"), *topic("__consumer_offsets")]
    script = script_of(tmp_path / "data", *values)
    assert calls(tmp_path, script, suffix) == [
        [f"kafka-topics{suffix}", *SERVER, "--create", "--if-not-exists", "--topic=orders", "--partitions=3", "--replication-factor=2", "--config=cleanup.policy=compact,delete"],
        [f"kafka-configs{suffix}", *SERVER, "--alter", "--entity-type=topics", "--entity-name=orders", "--add-config=empty="],
        [f"kafka-configs{suffix}", *SERVER, "--alter", "--entity-type=topics", "--entity-name=orders", "--add-config=equal=[a=b]"],
    ]  # fmt: skip
    assert "# topics that brokers create: __consumer_offsets" in script


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_name_reaches_the_tools_unchanged(tmp_path: Path, name: str) -> None:
    entity = [{"entity_type": "user", "entity_name": name}]
    script = script_of(
        tmp_path / "data",
        *topic(name),
        config(32, name, "consumer.session.timeout.ms", "1"),
        config(4, "1", "some.value", name),
        record("ClientQuotaRecord", entity=entity, key="request_percentage", value=12.5),
        acl(1, 3, name, principal=f"User:{name}", host=name),
    )
    made = calls(tmp_path, script)
    assert [call[1:3] for call in made] == [SERVER] * 5
    assert [[argument for argument in call if name in argument] for call in made] == [
        [f"--topic={name}"],
        [f"--allow-principal=User:{name}", f"--allow-host={name}", f"--group={name}"],
        [f"--entity-name={name}"],
        [f"--add-config=some.value={name}"],
        [f"--entity-name={name}"],
    ]


def test_configs_of_other_resources_are_altered(tmp_path: Path) -> None:
    script = script_of(
        tmp_path / "data",
        config(4, "", "log.cleaner.threads", "2"),
        config(4, "3", "listener.list", "a,b"),
        config(4, "3", "ssl.key.password", "hidden"),
        config(8, "3", "kafka.server", "DEBUG"),
        config(16, "metrics", "interval.ms", "1000"),
    )
    head = ["kafka-configs", *SERVER, "--alter"]
    assert calls(tmp_path, script) == [
        [*head, "--entity-type=brokers", "--entity-default", "--add-config=log.cleaner.threads=2"],
        [*head, "--entity-type=brokers", "--entity-name=3", "--add-config=listener.list=[a,b]"],
        [*head, "--entity-type=client-metrics", "--entity-name=metrics", "--add-config=interval.ms=1000"],
    ]
    assert "# broker 3: set ssl.key.password yourself; its value is hidden\n" in script
    assert "# log levels of the brokers 3\n" in script


def test_quotas_name_each_part_of_the_entity(tmp_path: Path) -> None:
    both = [{"entity_type": "user", "entity_name": "u"}, {"entity_type": "client-id", "entity_name": None}]
    address = [{"entity_type": "ip", "entity_name": "::1"}]
    script = script_of(
        tmp_path / "data",
        record("ClientQuotaRecord", entity=both, key="producer_byte_rate", value=1048576.0),
        record("ClientQuotaRecord", entity=address, key="connection_creation_rate", value=2.5),
    )
    head = ["kafka-configs", *SERVER, "--alter"]
    assert calls(tmp_path, script) == [
        [*head, "--entity-type=ips", "--entity-name=::1", "--add-config=connection_creation_rate=2.5"],
        [*head, "--entity-type=users", "--entity-name=u", "--entity-type=clients", "--entity-default", "--add-config=producer_byte_rate=1048576"],
    ]  # fmt: skip


def test_acls_that_differ_in_the_operation_share_a_command(tmp_path: Path) -> None:
    script = script_of(
        tmp_path / "data",
        acl(1, 2, "orders", operation=10, pattern_type=4),
        acl(2, 2, "orders", operation=4, pattern_type=4),
        acl(3, 4, "kafka-cluster", permission_type=2, host="10.0.0.1", operation=12),
        acl(4, 5, "tx", operation=15),
    )
    head = ["kafka-acls", *SERVER, "--add"]
    assert calls(tmp_path, script) == [
        [*head, "--deny-principal=User:a", "--deny-host=10.0.0.1", "--operation=IdempotentWrite", "--cluster", "--resource-pattern-type=literal"],
        [*head, "--allow-principal=User:a", "--allow-host=*", "--operation=DescribeConfigs", "--operation=Write", "--topic=orders", "--resource-pattern-type=prefixed"],
        [*head, "--allow-principal=User:a", "--allow-host=*", "--operation=TwoPhaseCommit", "--transactional-id=tx", "--resource-pattern-type=literal"],
    ]  # fmt: skip


def test_names_that_the_tools_would_change_become_comments(tmp_path: Path) -> None:
    """Kafka's tools strip blanks and remove brackets, and an argument cannot contain NUL."""
    entity = [{"entity_type": "user", "entity_name": "a\0"}]
    script = script_of(
        tmp_path / "data",
        *topic(" x"),
        config(4, "1", "brackets", "[a]"),
        config(4, "1", "bad,name", "1"),
        record("ClientQuotaRecord", entity=entity, key="request_percentage", value=1.0),
        acl(1, 3, "x\n"),
        acl(2, 9, "unknown type"),
        acl(3, 2, "t", principal="nobody"),
    )
    assert calls(tmp_path, script) == []
    comments = [line for line in script.splitlines() if line.startswith("# ") and "cannot represent" in line]
    assert len(comments) == 7
    assert all(comment.isprintable() for comment in comments)


def test_script_without_arguments_prints_its_usage(tmp_path: Path) -> None:
    (tmp_path / "script").write_text(script_of(tmp_path / "data", *topic("orders")))
    done = subprocess.run(["sh", tmp_path / "script"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--bootstrap-server HOST:PORT" in done.stderr
