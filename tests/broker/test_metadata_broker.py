"""Compare `kafkafmt.metadata` with what a running broker says about its topics, configs, ACLs and quorum.

Kafka's Admin client creates topics, configs, ACLs, quotas and SCRAM users, and describes them, as
`kafka-topics`, `kafka-configs`, `kafka-acls` and `kafka-metadata-quorum` do. After the broker has
stopped, its metadata log must contain the same state at the high watermark. The script of
`--as commands` then recreates this state on a second broker.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import java_tools
import pytest
from command import inside
from kafka_broker import Broker

import kafkafmt as k

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "metadata.log.max.record.bytes.between.snapshots": "1500",
    "broker.rack": "rack-1",
}
TOOLS = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "acls": "org.apache.kafka.tools.AclCommand",
}


class Described(NamedTuple):
    """What the broker said, and the state of its directory after it stopped."""

    said: dict[str, Any]
    state: k.reports.ClusterMetadata
    directory: Path


@pytest.fixture(scope="module", params=[False, True], ids=["static", "dynamic"])
def described(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Described:
    folder = tmp_path_factory.mktemp("first")
    with Broker(folder, SETTINGS, dynamic_quorum=request.param) as broker:
        broker.java("MetadataAdmin.java", broker.bootstrap, "create")
        said = json.loads(broker.java("MetadataAdmin.java", broker.bootstrap, "describe"))
    state = k.metadata(broker.log_dirs[0], at=said["quorum"]["high_watermark"])
    return Described(said, state, broker.log_dirs[0])


def rows(values: list[dict[str, Any]], names: list[str]) -> list[tuple[Any, ...]]:
    """Return some attributes of rows, in an order that does not depend on the source."""
    return sorted((tuple(row[name] for name in names) for row in values), key=repr)


@pytest.mark.parametrize("view", ["acls", "quotas", "scram", "features"])
def test_table_equals_what_the_broker_described(described: Described, view: str) -> None:
    said = described.said[view]
    assert len(said) >= 3
    assert rows(described.state.to_dict(view)[view], list(said[0])) == rows(said, list(said[0]))


def test_topics_equal_what_the_broker_described(described: Described) -> None:
    names = ("partition", "leader", "replicas", "isr")
    found = [
        topic | {"partitions": [{name: p[name] for name in names} for p in topic["partitions"]]}
        for topic in described.state.to_dict("topics")["topics"]
    ]
    assert found == described.said["topics"]
    assert [t["name"] for t in found] == ["-dash", "orders", "pay.ments_1-x"]


def test_configs_equal_what_the_broker_described(described: Described) -> None:
    names = ["resource_type", "resource_name", "name", "value"]
    found = described.state.to_dict("configs")["configs"]
    said = described.said["configs"]
    assert rows(found, names) == rows(said, names)
    assert len(said) == 10
    hidden = [c["name"] for c in found if c["sensitive"]]
    assert hidden == ["vendor.password"]
    assert set(hidden) <= {c["name"] for c in said if c["sensitive"]}


def test_brokers_and_quorum_equal_what_the_broker_described(described: Described) -> None:
    said, state = described.said, described.state
    (broker,) = state.brokers
    (listener,) = broker.endpoints
    row = {"id": broker.id, "host": listener.host, "port": listener.port, "rack": broker.rack, "fenced": broker.fenced}
    assert [row] == said["brokers"]
    info = state.info
    assert info.cluster_id == said["quorum"]["cluster_id"]
    assert (info.quorum_leader_id, info.leader_epoch) == (said["quorum"]["leader_id"], said["quorum"]["leader_epoch"])
    assert info.end_offset == info.committed_offset == said["quorum"]["high_watermark"]
    dynamic = state.voters[0].directory_id is not None
    assert [v.id for v in state.voters] == [v["id"] for v in said["voters"]]
    if dynamic:
        assert [v.directory_id for v in state.voters] == [v["directory_id"] for v in said["voters"]]
        found = [
            {"id": v.id, "name": e.name, "host": e.host, "port": e.port} for v in state.voters for e in v.endpoints
        ]
        assert found == said["listeners"]
    assert dynamic == any(f.name == "kraft.version" and f.level == 1 for f in state.features)


def test_directory_of_the_broker_is_replayed_without_problems(described: Described) -> None:
    states = [k.metadata(described.directory), described.state]
    for state in states:
        assert (state.problems, state.damaged, state.messages) == ((), (), ())
    assert states[0].info.snapshot is not None
    assert states[0].brokers[0].fenced
    secrets = [f"hidden-{n}" for n in range(1, 6)]
    assert not [s for s in secrets if s in inside("metadata", described.directory, "--format", "json").stdout]


def test_dump_of_the_metadata_log_equals_kafkas(described: Described) -> None:
    """Check the control records of the log, such as the leader change of a dynamic quorum."""
    path = java_tools.classpath("org.apache.kafka:kafka-tools:4.3.1", "org.apache.kafka:kafka_2.13:4.3.1")
    log = described.directory / "__cluster_metadata-0" / f"{0:020}.log"
    flags = ("--cluster-metadata-decoder", "--files", log)
    expected = java_tools.run("org.apache.kafka.tools.DumpLogSegments", *flags, path=path)
    assert "LeaderChange" in expected
    assert inside("dump", *flags).stdout == expected


@pytest.mark.full
def test_script_recreates_topics_configs_quotas_and_acls(described: Described, tmp_path: Path) -> None:
    script = inside("metadata", described.directory, "--as", "commands")
    assert script.returncode == 0
    (tmp_path / "script.sh").write_text(script.stdout)
    path = java_tools.classpath("org.apache.kafka:kafka-tools:4.3.1", "org.apache.kafka:kafka_2.13:4.3.1")
    for tool, main in TOOLS.items():
        program = tmp_path / f"kafka-{tool}.sh"
        command = java_tools.command(main, path=path, flags=["-Xshare:auto", "-XX:TieredStopAtLevel=1"])
        program.write_text(f'#!/bin/sh\nexec {" ".join(command)} "$@"\n')
        program.chmod(0o755)
    with Broker(tmp_path / "second", SETTINGS, cluster_id="kafkafmtOtherCluster00") as broker:
        done = subprocess.run(
            ["sh", tmp_path / "script.sh", "--bootstrap-server", broker.bootstrap],
            cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    recreated = k.metadata(broker.log_dirs[0])
    assert len(recreated.topics) == 3
    found = described.state.diff(recreated, views=["topics", "configs", "acls", "quotas"])
    assert [d.key["name"] for d in found.differences] == ["vendor.password"]  # its value is hidden
    assert "set vendor.password yourself" in script.stdout
