"""Read the golden logs with Java consumers of Kafka 0.9 to 4.4, and run Kafka's tools of two versions."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import java_tools
import pytest
from golden_cases import BY_NAME, CASES, LEGACY, Case
from handler_calls import INTERNAL

import kafkafmt
from kafkafmt.typing import Isolation

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn exist"),
]

Start = Callable[..., kafkafmt.server.Server]
Row = list[Any]
SOURCE = Path(__file__).parent / "ReadServed.java"
LEVELS: tuple[Isolation, ...] = ("read_uncommitted", "read_committed")
SHORT = [
    BY_NAME["kafka-4.3.1/codecs"],
    BY_NAME["kafka-4.3.1/transactions"],
    BY_NAME["kafka-4.3.1/torn"],
    next(case for case in LEGACY if str(case) == "legacy/0.10.2.2-mixed"),
]
ZSTD = ("codec-mixed", "codec-recompressed", "codec-zstd", "compact-zstd", "idempotent", "append-zstd")
"""Topics that contain batches compressed with zstd."""
NESTED = "nested"
"""A topic with wrapper messages in wrapper messages. Consumers before 0.11 also read the inner messages."""


class Client(NamedTuple):
    """A version of Kafka's Java client, and whether it supports zstd, record format 2 and timestamps."""

    version: str
    zstd: bool = True
    format_2: bool = True
    timestamps: bool = True


CLIENTS = [
    Client("4.4.0"),
    Client("4.3.1"),
    Client("3.9.2"),
    Client("2.8.2"),
    Client("1.1.1", zstd=False),
    Client("0.11.0.3", zstd=False),
    Client("0.10.2.2", zstd=False, format_2=False),
    Client("0.10.0.1", zstd=False, format_2=False),
    Client("0.9.0.1", zstd=False, format_2=False, timestamps=False),
]
DEFAULT = ("3.9.2", "0.10.2.2")
TESTED = [
    pytest.param(client, cases, marks=() if cases is SHORT and client.version in DEFAULT else pytest.mark.full)
    for client in CLIENTS
    for cases in (SHORT, [*CASES, *LEGACY])
]


def text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def expected(client: Client, partition: kafkafmt.Partition, isolation: Isolation) -> list[Row]:
    """Return the records of a partition. Fields that the client does not support are None."""
    return [
        [
            r.offset,
            r.timestamp if client.timestamps else None,
            text(r.key),
            text(r.value),
            [[text(key.encode()), text(value)] for key, value in r.headers] if client.format_2 else None,
        ]
        for r in partition.records(on_error="skip", isolation=isolation)
    ]


def readable(client: Client, topic: str) -> bool:
    """Return whether the client can read all batches of a topic."""
    return (client.zstd or topic not in ZSTD) and (client.format_2 or topic != NESTED)


@pytest.mark.parametrize(
    ("client", "cases"), TESTED, ids=lambda value: value.version if isinstance(value, Client) else f"{len(value)} logs"
)
def test_client_reads_every_record(client: Client, cases: Sequence[Case], started: Start) -> None:
    wanted: list[tuple[kafkafmt.Partition, Isolation]] = []
    lines: list[str] = []
    for case in cases:
        log = kafkafmt.open([str(root) for root in case.roots])
        server = started(log, internal=True)
        for isolation in LEVELS if client.format_2 else LEVELS[:1]:
            for p in log.partitions:
                end = p.next_offset if isolation == LEVELS[0] else p.last_stable_offset
                if end > p.log_start_offset and readable(client, p.topic):
                    wanted.append((p, isolation))
                    fields = server.address, isolation, p.topic, p.partition, p.log_start_offset, end
                    lines.append("\t".join(map(str, fields)))
    path = java_tools.classpath(f"org.apache.kafka:kafka-clients:{client.version}")
    output = java_tools.run(
        "ReadServed", path=java_tools.compile_java([SOURCE], path), flags=java_tools.FAST_START, stdin="\n".join(lines)
    )
    found: list[list[Row]] = [[] for _ in wanted]
    for number, *row in map(json.loads, output.splitlines()):
        found[number].append(row)
    assert len(wanted) > 10
    for (partition, isolation), rows in zip(wanted, found, strict=True):
        assert rows == expected(client, partition, isolation), (partition, isolation)


@pytest.mark.parametrize("version", ["4.3.1", "3.9.2"])
def test_tools_describe_the_served_directory(version: str, started: Start) -> None:
    server = started(INTERNAL)

    def run(name: str, *args: object) -> list[list[str]]:
        return java_tools.run_tool(f"org.apache.kafka.tools.{name}", server.address, *args, version=version)

    assert run("TopicCommand", "--list") == [["sink"], ["source"]]
    _, *partitions = run("TopicCommand", "--describe", "--topic", "source")
    assert [(row[3], row[5]) for row in partitions] == [("0", "1"), ("1", "1"), ("2", "1")]
    assert run("GetOffsetShell") == [["sink:0:5"], *([f"source:{number}:30"] for number in range(3))]
    assert run("GetOffsetShell", "--topic", "source", "--time", "-2") == [[f"source:{n}:0"] for n in range(3)]
    assert ["classic-static", "Empty"] in run("consumer.group.ConsumerGroupCommand", "--list", "--state")
    assert run("TransactionsCommand", "describe", "--transactional-id", "state-open")[1][:5] == [
        "1", "state-open", "4", "0", "Ongoing"
    ]  # fmt: skip
    producers = run("TransactionsCommand", "describe-producers", "--topic", "sink", "--partition", "0")[1:]
    assert [(row[0], row[-1]) for row in producers] == [("1", "None"), ("2", "None"), ("4", "4")]
    count = "--messages" if version == "3.9.2" else "--num-records"
    performance = run("ConsumerPerformance", "--topic", "source", count, 90, "--timeout", 20_000)
    assert "".join(performance[-1]).split(",")[4] == "90"
