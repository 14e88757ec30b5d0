"""Test the guide "From a damaged directory to a new cluster" by running its commands with real brokers."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import java_tools
import pytest
from building import split
from command import kafkafmt, report
from golden_cases import Rows, rows, same_rows
from kafka_broker import Broker

import kafkafmt as k

TESTS = Path(__file__).resolve().parents[1]
pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]

GUIDE = TESTS.parent / "docs" / "from-a-damaged-directory-to-a-new-cluster.md"
PLAN = [
    "topic=orders partitions=3 count=2000 codec=zstd value=300 batch=4000 content=random topic.segment.bytes=1048576",
    "topic=tx count=30 id=first end=abort flush=5",
    "topic=tx count=20 id=second end=commit flush=5",
    "topic=tx count=10 flush=5",
    "topic=tx count=7 id=first end=commit flush=5",
]
TOOLS = {
    "kafka-storage.sh": "kafka.tools.StorageTool",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
}


@dataclass
class Guided:
    """The broker that the guide's commands filled, and the output of these commands."""

    broker: Broker
    salvaged: Path
    printed: str


def steps() -> list[str]:
    """Return the command blocks of the guide, without the one that sets variables."""
    return re.findall(r"^```sh\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)[1:]


def write_scripts(folder: Path, version: str) -> None:
    """Write scripts with the names of Kafka's scripts. They run Kafka's classes from Maven."""
    path = java_tools.classpath(f"org.apache.kafka:kafka-tools:{version}", f"org.apache.kafka:kafka_2.13:{version}")
    folder.mkdir()
    flags = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-Xmx512m", "-XX:TieredStopAtLevel=1"]
    texts = {
        name: f'exec {shlex.join(java_tools.command(main, path=path, flags=flags))} "$@"'
        for name, main in TOOLS.items()
    }
    server = shlex.join(java_tools.command("kafka.Kafka", path=path, flags=flags))
    texts["kafka-server-start.sh"] = f'nohup {server} "$2" > broker.log 2>&1 < /dev/null & echo $! > broker.pid'
    texts["kafka-server-stop.sh"] = (
        'pid=$(cat broker.pid); kill "$pid"; while kill -0 "$pid" 2> /dev/null; do sleep 0.2; done'
    )
    for name, text in texts.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)


def damage(data: Path) -> None:
    """Corrupt a batch in the middle of a log, and an abort marker that the transaction index lists."""
    log = max((data / "orders-0").glob("*.log"))
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 8
    log.write_bytes(content)
    (log,) = (data / "tx-0").glob("*.log")
    batches = split(log.read_bytes())
    marker = next(i for i, b in enumerate(batches) if next(k.iter_batches(b)).is_control)
    batches[marker] = batches[marker][:40] + bytes(8) + batches[marker][48:]
    log.write_bytes(b"".join(batches))


@pytest.fixture(scope="module", params=["4.3.1", "3.9.2"])
def guided(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guided]:
    scratch = tmp_path_factory.mktemp("guide")
    write_scripts(scratch / "bin", request.param)
    old, new = Broker(scratch / "old", version=request.param), Broker(scratch / "new", version=request.param)
    try:
        for _ in range(2):  # the leader epoch is higher in the second run
            old.start()
            old.produce(*PLAN)
            commit = ["--bootstrap-server", old.bootstrap, "--group", "billing", "--topic", "orders", "--reset-offsets"]
            subprocess.run(
                [scratch / "bin" / "kafka-consumer-groups.sh", *commit, "--to-offset", "1234", "--execute"], check=True
            )
            old.stop()
        damage(old.log_dirs[0])
        config = new._configure()
        variables = {
            "BROKEN": old.log_dirs[0],
            "SALVAGED": scratch / "salvaged",
            "DATA": new.log_dirs[0],
            "CONFIG": config,
        }
        environment = os.environ | {name: str(value) for name, value in variables.items()} | {
            "BROKER": new.bootstrap,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(TESTS.parent),
        }  # fmt: skip
        printed = ""
        for step in steps():
            shell = ["bash", "-eu", "-o", "pipefail", "-c", step]
            done = subprocess.run(
                shell,
                cwd=scratch,
                env=environment,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=False,
            )
            printed += done.stdout + done.stderr
            assert done.returncode == 0 or "console-consumer" in step, (step, done.stdout, done.stderr)
        yield Guided(new, scratch / "salvaged", printed)
    finally:
        if (scratch / "broker.pid").exists():
            subprocess.run(["bash", "-c", "kill -9 $(cat broker.pid)"], cwd=scratch, check=False, capture_output=True)
        old.close()
        new.close()


def cat(path: Path, *flags: str) -> Rows:
    done = kafkafmt("cat", path, "--format", "json", "--bytes", "base64", "-t", "orders", "-t", "tx", *flags)
    return rows(done.stdout.splitlines())


def test_guide_ends_with_a_broker_that_serves_the_intact_records(guided: Guided) -> None:
    served = rows(guided.broker.consume("orders", "tx"))
    same_rows(served, cat(guided.salvaged))
    assert len(served) > 4000


def test_guide_ends_with_a_broker_that_hides_aborted_records(guided: Guided) -> None:
    committed = rows(guided.broker.consume("orders", "tx", committed=True))
    same_rows(committed, cat(guided.salvaged, "--isolation", "read_committed"))
    assert len([at for at in committed if at[0] == "tx"]) == 2 * (20 + 10 + 7)


def test_guide_warns_of_no_partition_and_shows_the_records(guided: Guided) -> None:
    assert "StrayPartitionWarning" not in guided.printed
    assert not list(guided.broker.log_dirs[0].glob("*-stray"))
    assert "restored tx-0: 1 lost transaction marker restored" in guided.printed


def test_guide_restores_the_offsets_of_a_consumer_group(guided: Guided) -> None:
    assert re.search(r"orders\s+\d\s+1234", guided.printed)


def test_directory_filled_by_the_guide_has_no_finding(guided: Guided) -> None:
    assert report(guided.salvaged)["ok"]
    epochs = {
        p.name: (p / "leader-epoch-checkpoint").read_text().split()[2]
        for p in guided.broker.log_dirs[0].glob("orders-*")
    }
    assert set(epochs.values()) <= {"0", "1", "2", "3"}
