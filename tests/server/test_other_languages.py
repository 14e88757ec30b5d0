"""Read golden logs through the server with franz-go (Go) and rskafka (Rust), which are built by the test."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from golden_cases import BY_NAME, CASES, LEGACY, Case
from serving import Client

import kafkafmt
from kafkafmt import protocol
from kafkafmt.typing import Isolation

HERE = Path(__file__).parent
BUILD_SECONDS = 900
READ_SECONDS = 90
LEVELS: tuple[Isolation, ...] = ("read_uncommitted", "read_committed")
GROUP = "two-members"
LATEST_TIME = 2**63 // 10**6
"""The last timestamp in ms that franz-go can represent. It computes with nanoseconds in an int64."""
LOG_APPEND_TIME = 1
UNREADABLE_TIMES = ("kafka-3.9.2/codecs", "kafka-4.3.1/codecs")
"""Logs with timestamps that rskafka cannot represent. It refuses their batches."""
Start = Callable[..., kafkafmt.server.Server]
Row = tuple[str, int, int, int | None, bytes | None, bytes | None]
pytestmark = pytest.mark.full
needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="go not found: install Go")
needs_cargo = pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo not found: install Rust")


def built(name: str, command: list[str], program: str, folder: Path) -> str:
    """Build a copy of the client's sources, and return the path of the program."""
    copy = folder / name
    shutil.copytree(HERE / name, copy)
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=BUILD_SECONDS)
    assert done.returncode == 0, done.stderr
    return str(copy / program)


@pytest.fixture(scope="module")
def franz(tmp_path_factory: pytest.TempPathFactory) -> str:
    command = ["go", "build", "-buildvcs=false", "-o", "franz", "."]
    return built("franz", command, "franz", tmp_path_factory.mktemp("go"))


@pytest.fixture(scope="module")
def rskafka(tmp_path_factory: pytest.TempPathFactory) -> str:
    return built("rskafka", ["cargo", "build"], "target/debug/rskafka-client", tmp_path_factory.mktemp("rust"))


def expected(log: kafkafmt.Log, isolation: Isolation, has_time: Callable[[kafkafmt.Record], bool]) -> list[Row]:
    """Return the records that a client should read, with timestamp None if `has_time` returns False."""
    return sorted(
        (p.topic, p.partition, r.offset, r.timestamp if has_time(r) else None, r.key, r.value)
        for p in log.partitions
        for r in p.records(on_error="skip", isolation=isolation)
    )


def without_times(found: list[Row], want: list[Row]) -> list[Row]:
    """Replace the timestamps that the client cannot read with None, as in `want`."""
    absent = {row[:3] for row in want if row[3] is None}
    return [(*row[:3], None, *row[4:]) if row[:3] in absent else row for row in found]


def representable(record: kafkafmt.Record) -> bool:
    return record.timestamp < LATEST_TIME


def create_time(record: kafkafmt.Record) -> bool:
    """Return whether rskafka reads the timestamp. It ignores the timestamps that a broker has set."""
    return record.timestamp_type != LOG_APPEND_TIME


def run(program: str, *arguments: object) -> list[dict[str, Any]]:
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=READ_SECONDS)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def decoded(value: Any) -> bytes | None:
    return value if value is None else base64.b64decode(value) if isinstance(value, str) else bytes(value)


def rows(found: list[dict[str, Any]]) -> list[Row]:
    return sorted(
        (r["topic"], r["partition"], r["offset"], r["timestamp"], decoded(r["key"]), decoded(r["value"])) for r in found
    )


@needs_go
@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("case", [*CASES, *LEGACY], ids=str)
def test_franz_go_reads_every_record(case: Case, isolation: Isolation, franz: str, started: Start) -> None:
    log = kafkafmt.open([str(root) for root in case.roots])
    server, want = started(log, internal=True), expected(log, isolation, representable)
    partitions = [f"{p.topic}/{p.partition}" for p in log.partitions]
    found = rows(run(franz, server.address, isolation, len(want), "", *partitions))
    assert without_times(found, want) == want


@needs_go
@pytest.mark.parametrize("isolation", LEVELS)
def test_franz_go_group_divides_the_partitions(isolation: Isolation, franz: str, started: Start) -> None:
    log = kafkafmt.open([str(root) for root in BY_NAME["kafka-4.3.1/transactions"].roots])
    server, want = started(log), expected(log, isolation, representable)
    partitions = [f"{p.topic}/{p.partition}" for p in log.partitions]
    found = run(franz, server.address, isolation, len(want), GROUP, *partitions)
    assert rows(found) == want
    readers = {(r["topic"], r["partition"]): r["member"] for r in found}
    assert all(readers[r["topic"], r["partition"]] == r["member"] for r in found)
    assert set(readers.values()) == {0, 1}
    ends = {(p.topic, p.partition): p.next_offset for p in log.partitions}
    last = {(topic, partition): offset + 1 for topic, partition, offset, *_ in want}
    make = protocol.OffsetFetchRequest
    wanted = [make.OffsetFetchRequestGroup(group_id=GROUP, topics=None)]
    with Client(server.port) as client:
        (group,) = client.ask(make(groups=wanted), 8).groups
    committed = {(t.name, p.partition_index): p.committed_offset for t in group.topics for p in t.partitions}
    assert committed.keys() == last.keys()
    assert all(last[at] <= committed[at] <= ends[at] for at in last)


@needs_cargo
@pytest.mark.parametrize(
    "case", [c for c in [*CASES, *LEGACY] if not c.transactional and str(c) not in UNREADABLE_TIMES], ids=str
)
def test_rskafka_reads_every_record(case: Case, rskafka: str, started: Start) -> None:
    log = kafkafmt.open([str(root) for root in case.roots])
    server, want = started(log, internal=True), expected(log, LEVELS[0], create_time)
    last = {(topic, partition): offset + 1 for topic, partition, offset, *_ in want}
    partitions = [
        f"{p.topic}/{p.partition}/{p.log_start_offset}/{last.get((p.topic, p.partition), 0)}" for p in log.partitions
    ]
    assert without_times(rows(run(rskafka, server.address, *partitions)), want) == want
