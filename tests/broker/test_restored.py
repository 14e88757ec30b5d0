"""Test a broker that serves made, rewritten and restored partitions.

An old broker writes transactions with several leader epochs, and group offsets are committed. Its
topics are rewritten, and restored into the directory of a new broker, which has created the topics.
A made topic is restored too. The new broker serves the partitions to a Java consumer and to a Python
consumer, and appends to them.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import java_tools
import pytest
from command import kafkafmt, report
from golden_cases import Rows, rows, same_rows
from kafka_broker import Broker
from python_consumer import consume_in_python

import kafkafmt as k

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]

PLAN = [
    "topic=orders partitions=2 count=1500 codec=zstd key=4 value=300 batch=4000 topic.segment.bytes=1048576",
    "topic=keyed count=60 key=1 id=third end=abort flush=5",
    "topic=keyed count=44 key=1 id=fourth end=commit flush=5 codec=gzip",
    "topic=keyed count=9 key=1 idempotent=true flush=3",
    "topic=cut count=200 flush=10 time=1700000000000",
    "topic=tx count=30 id=first end=abort flush=5",
    "topic=tx count=20 id=second end=commit flush=5",
    "topic=tx count=10 flush=5",
    "topic=tx count=7 id=first end=commit flush=5",
]
CREATED = [
    "topic=orders partitions=2 count=0",
    "topic=cut count=0",
    "topic=tx count=0",
    "topic=made partitions=3 count=0",
    "topic=keyed count=0",
]
TOPICS = ("cut", "keyed", "made", "orders", "tx")
UNTIL = 1_700_000_000_000 + 77
LEFTOVER = f"tx-0.{7:032x}-delete"
LEVELS = ("read_uncommitted", "read_committed")


@dataclass
class Restored:
    """What kafkafmt read from the copies, and what the new broker served, by isolation level."""

    expected: dict[str, Rows] = field(default_factory=dict)
    java: dict[str, Rows] = field(default_factory=dict)
    python: dict[str, Rows] = field(default_factory=dict)
    after: Rows = field(default_factory=dict)
    reset: str = ""
    data: Path = Path()
    refused: str = ""


def cat(path: Path, level: str, *flags: str) -> Rows:
    done = kafkafmt("cat", path, "--format", "json", "--bytes", "base64", "--isolation", level, *flags)
    assert done.returncode == 0, done.stderr
    return rows(done.stdout.splitlines())


def commit_in_python(broker: Broker, group: str, offsets: dict[tuple[str, int], int]) -> None:
    kafka = pytest.importorskip("kafka")
    from kafka.structs import OffsetAndMetadata

    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=group, enable_auto_commit=False)
    try:
        consumer.commit({kafka.TopicPartition(*at): OffsetAndMetadata(o, "", -1) for at, o in offsets.items()})
    finally:
        consumer.close()


def reset_offsets(broker: Broker, version: str, file: Path, groups: list[str]) -> str:
    """Run kafka-consumer-groups.sh with the CSV file, and return its output."""
    path = java_tools.classpath(f"org.apache.kafka:kafka-tools:{version}", f"org.apache.kafka:kafka_2.13:{version}")
    names = [word for group in groups for word in ("--group", group)]
    arguments = [
        "--bootstrap-server",
        broker.bootstrap,
        *names,
        "--reset-offsets",
        "--from-file",
        str(file),
        "--execute",
    ]
    main = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    done = subprocess.run(
        java_tools.command(main, *arguments, path=path, flags=["-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]),
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    return done.stdout + done.stderr


@pytest.fixture(scope="module", params=["4.3.1", pytest.param("3.9.2", marks=pytest.mark.full)])
def restored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restored]:
    pa = pytest.importorskip("pyarrow")
    scratch = tmp_path_factory.mktemp("restored")
    old, new = Broker(scratch / "old", version=request.param), Broker(scratch / "new", version=request.param)
    found = Restored(data=new.log_dirs[0])
    try:
        for plan in ([], PLAN, PLAN[-2:]):  # the leader epoch increases with each start
            old.start()
            old.produce(*plan or ["topic=tx count=1"])
            if plan is PLAN:
                commit_in_python(old, "billing", {("orders", 0): 700, ("cut", 0): 150})
                commit_in_python(old, "audit", {("cut", 0): 3})
            old.stop()
        identity = old.log_dirs[0] / "meta.properties"
        identity.write_text(identity.read_text().replace("kafkafmtTestCluster000", "kafkafmtOtherCluster00"))
        new.start()
        new.produce(*CREATED)
        found.refused = kafkafmt("restore", old.log_dirs[0], "--into", found.data).stderr
        new.stop()
        table = pa.table({"key": [b"k%d" % i for i in range(900)], "value": [b"v%d" % i for i in range(900)]})
        k.make(table, scratch / "made", topic="made", partitions=3, codec="zstd")
        k.rewrite(old.log_dirs[0], scratch / "rewritten", drop_key_regex="[02468]$", topics="orders")
        k.rewrite(old.log_dirs[0], scratch / "compacted", compact=True, codec="lz4", topics="keyed")
        for name in ("made", "rewritten", "compacted"):
            done = kafkafmt("restore", scratch / name, "--into", found.data)
            assert done.returncode == 0, done.stderr
        groups = scratch / "groups.csv"
        into = ("--into", found.data, "--groups-csv", groups)
        done = kafkafmt("restore", old.log_dirs[0], "-t", "tx", *into)
        assert done.returncode == 0, done.stderr
        done = kafkafmt("restore", old.log_dirs[0], "-t", "cut", "--until", UNTIL, *into)
        assert done.returncode == 0, done.stderr
        assert report(found.data)["ok"]
        for level in LEVELS:
            found.expected[level] = (
                cat(scratch / "made", level)
                | cat(scratch / "rewritten", level, "-t", "orders")
                | cat(scratch / "compacted", level, "-t", "keyed")
                | cat(old.log_dirs[0], level, "-t", "tx")
                | {at: r for at, r in cat(old.log_dirs[0], level, "-t", "cut").items() if r[0] < UNTIL}
            )
        (found.data / LEFTOVER).mkdir()  # as a killed restore leaves it
        (found.data / LEFTOVER / f"{0:020}.log").write_bytes(
            next(old.log_dirs[0].glob("orders-0/*.log")).read_bytes()[:777]
        )
        new.start()
        for level in LEVELS:
            found.java[level] = rows(new.consume(*TOPICS, committed=level == "read_committed"))
            found.python[level] = consume_in_python(new, level, TOPICS)
        found.reset = reset_offsets(new, request.param, groups, ["audit", "billing"])
        new.produce(*PLAN, "topic=made count=30")
        found.after = rows(new.consume(*TOPICS))
        new.stop()
        yield found
    finally:
        old.close()
        new.close()


@pytest.mark.parametrize("level", LEVELS)
def test_broker_serves_the_restored_records_to_both_clients(restored: Restored, level: str) -> None:
    assert len(restored.expected[level]) > 1000
    same_rows(restored.java[level], restored.expected[level])
    same_rows(restored.python[level], restored.expected[level])
    counts = Counter(at[0] for at in restored.expected[level])
    assert (counts["orders"], counts["keyed"]) == (750, 10)


def test_restored_partition_ends_before_the_given_time(restored: Restored) -> None:
    cut = [row[0] for at, row in restored.java["read_uncommitted"].items() if at[0] == "cut"]
    assert 0 < len(cut) < 200
    assert max(cut) == UNTIL - 1


def test_broker_appends_all_records_of_new_producers(restored: Restored) -> None:
    """The new cluster assigns the producer ids of the old cluster again."""
    assert restored.after.items() >= restored.java["read_uncommitted"].items()
    assert len(restored.after) - len(restored.java["read_uncommitted"]) == 1500 + 113 + 200 + 67 + 30


def test_broker_keeps_the_restored_directories(restored: Restored) -> None:
    names = {p.name for p in restored.data.iterdir()} - {LEFTOVER}
    assert not [n for n in names if n.endswith(("-stray", "-delete"))]
    assert report(restored.data)["ok"]


def test_running_broker_is_refused(restored: Restored) -> None:
    assert "has locked the log directory" in restored.refused


def test_kafka_tool_resets_the_offsets_of_the_csv_file(restored: Restored) -> None:
    """The offset of `billing` is after the end of the restored partition, so the end is written instead."""
    assert re.search(r"audit\s+cut\s+0\s+3\b", restored.reset)
    assert re.search(r"billing\s+cut\s+0\s+77\b", restored.reset)
