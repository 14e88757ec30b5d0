"""Run Kafka's own tools for groups and transactions against the server."""

from __future__ import annotations

from collections.abc import Callable

import java_tools
import pytest
from handler_calls import INTERNAL

import kafkafmt

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn exist"),
]

VERSION = "4.3.1"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"

Start = Callable[..., kafkafmt.server.Server]


def tool(server: kafkafmt.server.Server, main: str, *args: object) -> list[list[str]]:
    """Run a Kafka tool, and return the words of each line of its output."""
    return java_tools.run_tool(main, server.address, *args, version=VERSION)


def lags(server: kafkafmt.server.Server, group: str) -> dict[tuple[str, str], tuple[str, str, str]]:
    """Return the committed offset, end offset and lag of each partition from `ConsumerGroupCommand`."""
    header, *rows = tool(server, GROUPS, "--describe", "--group", group)
    assert header[1:6] == ["TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    return {(row[1], row[2]): (row[3], row[4], row[5]) for row in rows}


def test_consumer_groups_tool_describes_and_resets_groups(started: Start) -> None:
    server = started(INTERNAL)
    partitions = [("source", str(number)) for number in range(3)]
    assert lags(server, "classic-static") == dict.fromkeys(partitions, ("20", "30", "10"))
    reset = ("--reset-offsets", "--group", "classic-static", "--topic", "source", "--to-offset", 7, "--execute")
    assert len(tool(server, GROUPS, *reset)) == 4
    consumed = tool(
        server, CONSUMER, "--topic", "source", "--group", "classic-static", "--max-messages", 69, "--timeout-ms", 20_000
    )
    assert sorted(consumed) == sorted([["value", str(n), "of", "30"] for _ in range(3) for n in range(7, 30)])
    assert lags(server, "classic-static") == dict.fromkeys(partitions, ("30", "30", "0"))


def test_console_consumer_uses_the_consumer_protocol(started: Start) -> None:
    server = started(INTERNAL)
    options = ("--topic", "source", "--group", "new", "--from-beginning", "--max-messages", 90, "--timeout-ms", 20_000)
    consumed = tool(server, CONSUMER, *options, "--command-property", "group.protocol=consumer")
    assert sorted(consumed) == sorted([["value", str(n), "of", "30"] for _ in range(3) for n in range(30)])
    assert lags(server, "new") == {("source", str(number)): ("30", "30", "0") for number in range(3)}


def test_transactions_tool_lists_the_stored_states(started: Start) -> None:
    _header, *rows = tool(started(INTERNAL), TRANSACTIONS, "list")
    assert [(row[0], row[2], row[3]) for row in rows] == [
        ("state-aborted", "2", "CompleteAbort"),
        ("state-committed", "1", "CompleteCommit"),
        ("state-empty", "3", "Empty"),
        ("state-open", "4", "Ongoing"),
    ]
