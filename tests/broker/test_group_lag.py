"""Compare `kafkafmt groups` with the output of kafka-consumer-groups of a running broker."""

from __future__ import annotations

import json
from pathlib import Path

import java_tools
import pytest
from command import kafkafmt
from kafka_broker import VERSION, Broker

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]

COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
PLAN = (
    "topic=orders partitions=2 count=40 value=20",
    "topic=payments count=25 value=20 codec=zstd",
    "topic=payments id=tx count=5 end=commit",
)
COMMITS = [("billing", "orders:0", 7), ("billing", "payments:0", 30), ("reports", "orders", 12)]


def test_lag_equals_that_of_kafka_consumer_groups(tmp_path: Path) -> None:
    path = java_tools.classpath(f"org.apache.kafka:kafka-tools:{VERSION}", f"org.apache.kafka:kafka_2.13:{VERSION}")
    with Broker(tmp_path / "broker") as broker:

        def groups(*arguments: object) -> str:
            given = ("--bootstrap-server", broker.bootstrap, *arguments)
            return java_tools.run(COMMAND, *given, path=path, flags=broker.jvm)

        broker.produce(*PLAN)
        for group, topic, offset in COMMITS:
            reset = ("--reset-offsets", "--to-offset", offset, "--execute")
            groups("--group", group, "--topic", topic, *reset)
        expected = described(groups("--describe", "--all-groups"))
        running = listed(broker.log_dirs[0])
    assert len(expected) == 4
    assert running == expected
    assert listed(broker.log_dirs[0]) == expected


def described(output: str) -> set[tuple[str, ...]]:
    """Return group, topic, partition, offset, log end and lag from the output of kafka-consumer-groups."""
    words = [line.split() for line in output.splitlines()]
    return {tuple(row[:6]) for row in words if len(row) > 6 and row[0] != "GROUP"}


def listed(directory: Path) -> set[tuple[str, ...]]:
    done = kafkafmt("groups", directory, "--format", "json")
    assert done.returncode == 0, done.stderr
    names = ("group", "topic", "partition", "offset", "log_end_offset", "lag")
    return {tuple(str(c[name]) for name in names) for c in json.loads(done.stdout)["offsets"]}
