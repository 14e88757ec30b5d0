"""Test a broker that starts on the merged directory of several replicas.

A broker writes plain and transactional records, and is killed. Two copies of its directory are
damaged in different places. One of them also gets a divergent end of an old leader epoch.
`kafkafmt salvage --replicas merge` merges the copies, and a second broker serves the result.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import java_tools
import pytest
from building import split
from command import kafkafmt
from golden_cases import Rows, rows, same_rows
from kafka_broker import Broker

import kafkafmt as k

pytestmark = [
    pytest.mark.broker,
    pytest.mark.full,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]

PLAN = [
    "topic=plain partitions=2 count=2000 codec=zstd value=900 batch=4000 content=random topic.segment.bytes=1048576",
    "topic=plain count=2000 codec=none value=900 batch=4000",
    "topic=tx count=30 id=first end=abort flush=5",
    "topic=tx count=20 id=second end=commit flush=5",
    "topic=tx count=10 flush=5",
]
EPOCH_AT = 12


def cat(path: Path, *flags: str) -> Rows:
    done = kafkafmt("cat", path, "--format", "json", "--bytes", "base64", *flags)
    assert done.returncode == 0, done.stderr
    return rows(done.stdout.splitlines())


def damage(root: Path, chosen: int) -> None:
    """Damage every third batch of the topics, beginning with batch number `chosen`."""
    for path in [*root.glob("plain-*/*.log"), *root.glob("tx-*/*.log")]:
        batches = split(path.read_bytes())
        for i in range(chosen, len(batches), 3):
            batches[i] = batches[i][:40] + bytes([batches[i][40] ^ 1]) + batches[i][41:]
        path.write_bytes(b"".join(batches))


def raise_epochs(root: Path) -> None:
    """Set the leader epoch of the last batches of plain-0 to 5. The CRC of a batch does not cover it."""
    folder = root / "plain-0"
    last = max(folder.glob("*.log"))
    batches = split(last.read_bytes())
    base = next(k.iter_batches(batches[-2])).base_offset
    changed = [b[:EPOCH_AT] + (5).to_bytes(4, "big") + b[EPOCH_AT + 4 :] for b in batches[-2:]]
    last.write_bytes(b"".join([*batches[:-2], *changed]))
    (folder / "leader-epoch-checkpoint").write_text(f"0\n2\n0 0\n5 {base}\n")


def diverge(root: Path, offset: int) -> None:
    """Replace the batches of plain-0 from an offset on with different records of leader epoch 0."""
    folder = root / "plain-0"
    last = max(folder.glob("*.log"))
    kept = [b for b in split(last.read_bytes()) if next(k.iter_batches(b)).last_offset < offset]
    other = [k.build_batch([(b"divergent", b"x")] * 300, base_offset=offset, leader_epoch=0)]
    last.write_bytes(b"".join([*kept, *other]))
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")


def test_broker_serves_the_merge_of_damaged_and_divergent_replicas(tmp_path: Path) -> None:
    first, second = Broker(tmp_path / "first"), Broker(tmp_path / "second")
    try:
        first.start()
        first.produce(*PLAN)
        first.kill()
        source = first.log_dirs[0]
        raise_epochs(source)
        expected, committed = cat(source), cat(source, "--isolation", "read_committed")
        copies = [tmp_path / f"replica-{i}" for i in range(3)]
        for copy in copies:
            shutil.copytree(source, copy)
        epoch_start = int((source / "plain-0" / "leader-epoch-checkpoint").read_text().split()[-1])
        diverge(copies[2], epoch_start)
        for i, copy in enumerate(copies):
            damage(copy, i)
        done = kafkafmt("salvage", *copies, "--replicas", "merge", "--output", second.log_dirs[0], "--format", "json")
        assert done.returncode == 0, done.stderr
        merged = {(p["topic"], p["partition"]): p for p in json.loads(done.stdout)["partitions"]}
        assert {Path(s["path"]).parent for s in merged["plain", 0]["sources"]} >= set(copies[:2])
        assert [s["first_offset"] for s in merged["plain", 0]["diverged"]] == [epoch_start]
        second.start()
        same_rows(rows(second.consume("plain", "tx")), expected)
        same_rows(rows(second.consume("plain", "tx", committed=True)), committed)
        assert len(committed) < len(expected) == 4060
        second.produce("topic=plain count=50")
        second.stop()
        assert len(cat(second.log_dirs[0])) == 4110
    finally:
        first.close()
        second.close()
