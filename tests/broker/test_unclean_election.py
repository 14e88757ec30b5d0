"""Compare and merge the diverged replicas of a real cluster after an unclean leader election.

Broker 1 leads, and the others are stopped. Records that only broker 1 has are then produced, and it
is killed. Broker 2 becomes leader although it lacks these records, and gets other records at the same
offsets. Broker 3 follows it for a while. `kafkafmt diff` and `kafkafmt salvage --replicas merge` read
copies of the three directories. After that, all brokers start again, and a consumer reads what the
cluster serves.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import java_tools
import pytest
from building import split
from command import kafkafmt
from golden_cases import Rows, rows, same_rows
from kafka_cluster import NODES, Cluster

import kafkafmt as k

pytestmark = [
    pytest.mark.broker,
    pytest.mark.full,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]

TOPICS = ("orders", "tx")
ORDERS = "topic=orders partitions=2 batch=2000 content=random value=200 idempotent=false"
SHARED = (
    f"{ORDERS} replicas=3 count=600 codec=zstd acks=1 topic.segment.bytes=1048576",
    "topic=tx replicas=3 count=30 id=first end=abort flush=5",
    "topic=tx count=20 id=second end=commit flush=5",
    f"{ORDERS} count=200 acks=all seed=2",
    "topic=tx count=10 acks=all seed=2",
)
"""Records that all brokers have: 400 in each partition of `orders`."""
LOST = (
    f"{ORDERS} count=150 acks=1 seed=3",
    f"{ORDERS} count=50 acks=all seed=4",
    "topic=tx count=15 id=third end=abort flush=5 seed=3",
    "topic=tx count=7 seed=4",
)
"""Records that only broker 1 has. It also keeps the only usable replica of `__transaction_state`.

Kafka never elects an unclean leader for this topic, so no transactions follow.
"""
REPLACING = (f"{ORDERS} count=120 acks=1 seed=5", "topic=tx count=9 flush=2 seed=5")
FOLLOWED = (f"{ORDERS} count=80 acks=all seed=6", "topic=tx count=11 acks=all flush=2 seed=6")
LAST = (f"{ORDERS} count=40 acks=1 codec=lz4 seed=7", "topic=tx count=5 seed=7")
"""Records that only broker 2 has."""
DIVERGENCE = 400


@dataclass
class Outcome:
    """Copies of the three directories before recovery, and the records that the cluster served after it."""

    scratch: Path
    copies: dict[int, Path] = field(default_factory=dict)
    recovered: dict[int, Path] = field(default_factory=dict)
    served: dict[str, Rows] = field(default_factory=dict)


def cat(path: Path, level: str = "read_uncommitted", names: tuple[str, ...] = TOPICS) -> Rows:
    topics = [word for topic in names for word in ("-t", topic)]
    done = kafkafmt("cat", path, "--format", "json", "--bytes", "base64", "--isolation", level, *topics)
    assert done.returncode == 0, done.stderr
    return rows(done.stdout.splitlines())


@pytest.fixture(scope="module", params=["4.3.1", "3.9.2"])
def outcome(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    found = Outcome(tmp_path_factory.mktemp("unclean"))
    with Cluster(found.scratch / "cluster", version=request.param) as cluster:
        one, two, three = (cluster.brokers[n] for n in NODES)

        def copy(node: int) -> None:
            found.copies[node] = found.scratch / f"copy-{node}"
            shutil.copytree(cluster.brokers[node].log_dirs[0], found.copies[node])

        cluster.produce(*SHARED)
        two.stop()
        three.stop()
        cluster.wait_until(*TOPICS, leader=1, in_sync={1})
        cluster.produce(*LOST)
        one.kill()
        copy(1)
        two.start()
        cluster.wait_until(*TOPICS, leader=2, in_sync={2})
        cluster.produce(*REPLACING)
        three.start()
        cluster.wait_until(*TOPICS, leader=2, in_sync={2, 3})
        cluster.produce(*FOLLOWED)
        three.stop()
        cluster.wait_until(*TOPICS, leader=2, in_sync={2})
        cluster.produce(*LAST)
        two.kill()
        copy(2)
        copy(3)
        two.start()
        one.start()
        three.start()
        cluster.wait_until(*TOPICS, leader=2, in_sync=set(NODES))
        for level in ("read_uncommitted", "read_committed"):
            found.served[level] = rows(cluster.consume(*TOPICS, committed=level == "read_committed"))
        for node in (three, one, two):
            node.stop()
        found.recovered = {n: cluster.brokers[n].log_dirs[0] for n in NODES}
    yield found
    shutil.rmtree(found.scratch)


def compare(*copies: Path) -> tuple[int, dict[tuple[str, int], Any]]:
    """Run `diff`. Return its exit code, and a dict from (topic, partition) to the JSON object of the partition."""
    topics = [word for topic in TOPICS for word in ("-t", topic)]
    done = kafkafmt("diff", *copies, *topics, "--format", "json")
    report = json.loads(done.stdout)
    return done.returncode, {(p["topic"], p["partition"]): p for p in report["partitions"]}


def first_difference(a: Rows, b: Rows, topic: str, partition: int) -> int:
    """Return the lowest offset at which the records `a` and `b` of a partition differ."""
    places = [at for at in a.keys() | b.keys() if at[:2] == (topic, partition)]
    return min(at[2] for at in places if a.get(at) != b.get(at))


def test_diff_finds_the_first_offset_of_diverged_replicas(outcome: Outcome) -> None:
    code, partitions = compare(*outcome.copies.values())
    assert code == 1
    assert [partitions["orders", p]["first_difference"] for p in (0, 1)] == [DIVERGENCE] * 2
    one, two = cat(outcome.copies[1]), cat(outcome.copies[2])
    assert first_difference(one, two, "orders", 0) == DIVERGENCE
    assert partitions["tx", 0]["first_difference"] == first_difference(one, two, "tx", 0)
    kinds = {d["kind"] for d in partitions["orders", 0]["differences"]}
    assert {"records_differ", "leader_epoch_checkpoint_differs", "missing"} <= kinds


def test_shorter_follower_differs_only_by_missing_offsets(outcome: Outcome) -> None:
    code, partitions = compare(outcome.copies[2], outcome.copies[3])
    assert code == 1
    for partition in (0, 1):
        differences = partitions["orders", partition]["differences"]
        found = [(d["kind"], d["first_offset"], d["last_offset"]) for d in differences]
        assert found == [("missing", 500, 519)]


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_merge_has_the_records_that_the_cluster_serves_after_recovery(outcome: Outcome, level: str) -> None:
    merged = outcome.scratch / f"merged-{level}"
    topics = [word for topic in TOPICS for word in ("-t", topic)]
    flags = (*topics, "--replicas", "merge", "--output", merged, "--format", "json")
    done = kafkafmt("salvage", *outcome.copies.values(), *flags)
    assert done.returncode == 0, done.stderr
    served = outcome.served[level]
    assert sum(at[0] == "orders" for at in served) == 1040
    same_rows(cat(merged, level), served)
    partitions = {(p["topic"], p["partition"]): p for p in json.loads(done.stdout)["partitions"]}
    for partition in (0, 1):
        (diverged,) = partitions["orders", partition]["diverged"]
        assert (Path(diverged["path"]).parent, diverged["first_offset"]) == (outcome.copies[1], DIVERGENCE)


def damage(root: Path, remainder: int) -> int:
    """Corrupt every third batch of `orders` that all replicas have, and return the number of these batches."""
    count = 0
    for log in sorted(root.glob("orders-*/*.log")):
        batches = split(log.read_bytes())
        for i in range(remainder, len(batches), 3):
            if next(k.iter_batches(batches[i])).last_offset < DIVERGENCE:
                batches[i] = batches[i][:-1] + bytes([batches[i][-1] ^ 8])
                count += 1
        log.write_bytes(b"".join(batches))
    return count


def test_merge_of_damaged_diverged_replicas_has_the_same_records(outcome: Outcome) -> None:
    copies = [outcome.scratch / f"damaged-{n}" for n in NODES]
    for remainder, (copy, source) in enumerate(zip(copies, outcome.copies.values(), strict=True)):
        shutil.copytree(source, copy)
        assert damage(copy, remainder) > 5
    merged = outcome.scratch / "merged-damaged"
    done = kafkafmt("salvage", *copies, "-t", "orders", "--replicas", "merge", "-O", merged, "--format", "json")
    assert done.returncode == 0, done.stderr
    served = {at: row for at, row in outcome.served["read_uncommitted"].items() if at[0] == "orders"}
    same_rows(cat(merged, names=("orders",)), served)
    for partition in json.loads(done.stdout)["partitions"]:
        if partition["topic"] == "orders":
            assert {Path(s["path"]).parent for s in partition["sources"]} >= set(copies[1:])


def test_replicas_are_equal_after_recovery(outcome: Outcome) -> None:
    code, partitions = compare(*outcome.recovered.values())
    assert [p["differences"] for p in partitions.values()] == [[]] * 3
    assert code == 0
