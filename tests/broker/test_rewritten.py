"""Test brokers that mount a rewritten log directory, without `restore`.

A broker writes plain and transactional records with keys, and stops. `rewrite` copies its whole log
directory, including the metadata log, `meta.properties` and the topic ids. A broker then runs on the
copy, and serves it to a Java consumer and to a Python consumer. The expected records are those that a
Java consumer read from the first broker.
"""

from __future__ import annotations

import re
from base64 import b64decode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import java_tools
import pytest
from command import kafkafmt, report
from golden_cases import RowKey, Rows, rows, same_rows
from kafka_broker import Broker
from python_consumer import consume_in_python

import kafkafmt as k

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]

PLAN = (
    "topic=orders partitions=2 count=1500 codec=zstd key=4 value=300 batch=4000 topic.segment.bytes=1048576",
    "topic=orders count=4000 codec=none key=4 value=900 batch=4000 content=random seed=2",
    "topic=keyed count=60 key=1 id=third end=abort flush=5",
    "topic=keyed count=44 key=1 id=fourth end=commit flush=5 codec=gzip",
    "topic=keyed count=9 key=1 flush=3",
    "topic=tx count=30 key=2 id=first end=abort flush=5",
    "topic=tx count=20 key=2 id=second end=commit flush=5 seed=2",
    "topic=tx count=10 key=2 flush=5 seed=3",
    "topic=tx count=7 key=2 id=first end=commit flush=5 seed=4",
)
MORE = ("topic=orders count=60 key=4", "topic=tx count=15 key=2 id=first", "topic=keyed count=5 key=1")
TOPICS = ("keyed", "orders", "tx")
LEVELS = ("read_uncommitted", "read_committed")
DROPPED = "[02468]$"
CHANGES: dict[str, dict[str, Any]] = {
    "drop": {"drop_key_regex": DROPPED, "codec": "zstd", "level": 3},
    "compact": {"compact": True, "codec": "lz4"},
}


def without_dropped_keys(found: Rows) -> Rows:
    return {at: row for at, row in found.items() if not re.search(DROPPED, b64decode(row[2]).decode())}


def latest_of_each_key(found: Rows) -> Rows:
    latest: dict[tuple[str, int, str], RowKey] = {}
    for at, row in sorted(found.items()):
        latest[at[0], at[1], row[2]] = at
    return {at: found[at] for at in latest.values()}


@dataclass
class Mounted:
    """Expected records, and records that both clients read from the broker on the copy, by isolation level."""

    expected: dict[str, Rows] = field(default_factory=dict)
    java: dict[str, Rows] = field(default_factory=dict)
    python: dict[str, Rows] = field(default_factory=dict)
    after: Rows = field(default_factory=dict)
    data: Path = Path()


@pytest.fixture(
    scope="module",
    params=[
        ("4.3.1", "drop"),
        pytest.param(("4.3.1", "compact"), marks=pytest.mark.full),
        pytest.param(("3.9.2", "drop"), marks=pytest.mark.full),
        pytest.param(("3.9.2", "compact"), marks=pytest.mark.full),
    ],
    ids="-".join,
)
def mounted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mounted:
    version, change = request.param
    scratch = tmp_path_factory.mktemp("rewritten")
    found = Mounted()
    with Broker(scratch / "first", version=version) as broker:
        broker.produce(*PLAN)
        original = {level: rows(broker.consume(*TOPICS, committed=level == "read_committed")) for level in LEVELS}
        source = broker.log_dirs[0]
    second = Broker(scratch / "second", version=version)
    found.data = second.log_dirs[0]
    k.rewrite(source, found.data, **CHANGES[change])
    for level in LEVELS:  # compaction removes the records of aborted transactions
        if change == "drop":
            found.expected[level] = without_dropped_keys(original[level])
        else:
            found.expected[level] = latest_of_each_key(original["read_committed"])
        assert 0 < len(found.expected[level]) < len(original[level])
    with second:
        for level in LEVELS:
            found.java[level] = rows(second.consume(*TOPICS, committed=level == "read_committed"))
            found.python[level] = consume_in_python(second, level, TOPICS)
        second.produce(*MORE)
        found.after = rows(second.consume(*TOPICS))
    return found


@pytest.mark.parametrize("level", LEVELS)
def test_both_clients_read_the_records_that_were_not_removed(mounted: Mounted, level: str) -> None:
    same_rows(mounted.java[level], mounted.expected[level])
    same_rows(mounted.python[level], mounted.expected[level])


def test_kafkafmt_reads_the_same_records_and_finds_no_damage(mounted: Mounted) -> None:
    topics = [word for topic in TOPICS for word in ("-t", topic)]
    done = kafkafmt("cat", mounted.data, *topics, "--format", "json", "--bytes", "base64")
    assert done.returncode == 0, done.stderr
    same_rows(rows(done.stdout.splitlines()), mounted.after)
    assert report(mounted.data)["ok"]


def test_broker_appends_to_the_rewritten_partitions(mounted: Mounted) -> None:
    before = mounted.java["read_uncommitted"]
    assert mounted.after.items() >= before.items()
    assert len(mounted.after) - len(before) == 60 + 15 + 5
    assert not [p.name for p in mounted.data.iterdir() if p.name.endswith(("-stray", "-delete"))]
