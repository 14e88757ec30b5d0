"""Test that kafkafmt and Kafka's Java consumer read the same records from a broker's files.

The broker runs twice. It is stopped cleanly after the first run. In the second run, it appends to
the same partitions, and then it is killed. After each run, the output of `kafkafmt cat` must equal
the records that the consumer returned.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import java_tools
import pytest
from golden_cases import Rows, rows, same_rows
from kafka_broker import Broker

TESTS = Path(__file__).resolve().parents[1]
pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

# The jobs of each run. Jobs with `mixed` content write null, empty and binary keys and values, and
# unusual headers.
PLAIN = [
    f"topic=mixed-{codec} partitions=2 codec={codec} content=mixed count=420 flush=60 time=1700000000000"
    for codec in CODECS
]
MANY = [
    f"topic=many codec={codec} value=300 key=10 headers=2 count=2000 topic.segment.bytes=1048576" for codec in CODECS
]
STAMPED = [
    f"topic=stamped codec={codec} count=50 time=1600000000000 topic.message.timestamp.type=LogAppendTime"
    for codec in CODECS
]
OTHER = [
    "topic=untidy.name_with-dashes-0 count=10 idempotent=false",
    "topic=large codec=lz4 content=random value=900000 count=4 linger=0",
    "topic=large codec=snappy value=500000 count=3 linger=0",
    "topic=never-written-to partitions=3",
]
TRANSACTIONS = [
    "topic=tx partitions=2 count=6 id=first end=open",
    "topic=tx count=5",
    "topic=tx count=8 id=second end=abort codec=zstd",
    "topic=tx count=4 id=first end=commit",
    "topic=tx count=4 id=third end=open partition=1",
    "topic=tx count=6 id=second end=abort partition=0",
    "topic=tx count=3 id=first end=commit",
]


@dataclass
class Run:
    """The files of a stopped broker, and the records that a consumer read from it."""

    log_dir: Path
    everything: Rows
    committed: Rows = field(default_factory=dict)


def run_broker(broker: Broker, plan: list[str], keep: Path) -> Run:
    """Start the broker, produce and consume. The caller stops the broker and copies its files to `keep`."""
    broker.start()
    broker.produce(*plan)
    topics = sorted({word.partition("=")[2] for line in plan for word in line.split() if word.startswith("topic=")})
    return Run(keep, rows(broker.consume(*topics)), rows(broker.consume(*topics, committed=True)))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Run]]:
    """Return the results of both runs, by the way in which the broker ended."""
    kept = tmp_path_factory.mktemp("kept")
    broker = Broker(settings={"log.index.size.max.bytes": "65536"})
    try:
        clean = run_broker(broker, PLAIN + MANY + STAMPED + OTHER, kept / "clean")
        broker.stop()
        shutil.copytree(broker.log_dirs[0], clean.log_dir)
        killed = run_broker(broker, PLAIN + MANY + TRANSACTIONS, kept / "killed")
        broker.kill()
        names = {f"{topic}-{partition}" for topic, partition, _ in killed.everything}
        for folder in (p for p in broker.log_dirs[0].iterdir() if p.is_dir() and p.name in names):
            shutil.copytree(folder, killed.log_dir / folder.name)
        yield {"clean": clean, "killed": killed}
    finally:
        broker.close()


def cat(log_dir: Path, *options: str) -> Rows:
    """Return the records that kafkafmt reads from a log directory."""
    argv = [sys.executable, "-m", "kafkafmt", "cat", str(log_dir), "--format", "json", "--bytes", "base64", *options]
    done = subprocess.run(
        argv, capture_output=True, encoding="utf-8", env=os.environ | {"PYTHONPATH": str(TESTS.parent)}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return rows(done.stdout.splitlines())


def test_broker_wrote_what_the_other_tests_need(runs: dict[str, Run]) -> None:
    """The other tests would be pointless if the broker had written nothing or ended differently."""
    clean, killed = runs["clean"], runs["killed"]
    assert (clean.log_dir / ".kafka_cleanshutdown").exists()
    assert len(clean.everything) == len(CODECS) * (420 + 2000 + 50) + 10 + 7
    assert len(killed.everything) == len(CODECS) * 2 * (420 + 2000) + 36
    assert len(list((clean.log_dir / "many-0").glob("*.log"))) > 1, "the log has only one segment"
    assert {row[1] for (topic, _, _), row in clean.everything.items() if topic == "stamped"} == {1}
    assert any((killed.log_dir / "tx-0").glob("*.txnindex")), "no aborted transaction was indexed"
    index = max((killed.log_dir / "many-0").glob("*.index"))
    assert index.stat().st_size == 65536, "a killed broker leaves its active index at full size"


def test_consumer_at_read_committed_omits_aborted_and_open_transactions(runs: dict[str, Run]) -> None:
    """Partition 0 contains aborted records, which a read_committed consumer omits.

    In partition 1, the consumer also omits all records after the start of the open transaction.
    """
    run = runs["killed"]
    committed = {at for at in run.committed if at[0] == "tx"}
    assert committed < {at for at in run.everything if at[0] == "tx"}
    # Transaction `first` was committed twice. The producer without transactions wrote one job.
    # Partition 0 contains the records with even numbers.
    assert sum(at[1] == 0 for at in committed) == 3 + 3 + 2 + 2
    assert sum(at[1] == 1 for at in committed) == 3 + 2 + 2


@pytest.mark.parametrize("end", ["clean", "killed"])
def test_cat_prints_what_the_consumer_returned(runs: dict[str, Run], end: str) -> None:
    same_rows(cat(runs[end].log_dir), runs[end].everything)


def test_cat_prints_one_topic_and_partition(runs: dict[str, Run]) -> None:
    run = runs["clean"]
    expected = {at: row for at, row in run.everything.items() if at[:2] == ("mixed-zstd", 1)}
    same_rows(cat(run.log_dir, "-t", "mixed-zstd", "-p", "1"), expected)


def test_cat_at_read_committed_prints_what_the_consumer_returned(runs: dict[str, Run]) -> None:
    run = runs["killed"]
    same_rows(cat(run.log_dir, "--isolation", "read_committed"), run.committed)
