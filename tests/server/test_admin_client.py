"""Make the calls of kafka-ui and AKHQ to a server with Kafka's Admin client."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import java_tools
import pytest
from handler_calls import INTERNAL

import kafkafmt
from kafkafmt.server.handlers import Handler, HandlerSet, RequestContext

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn exist"),
]
SOURCE = Path(__file__).with_name("AdminCalls.java")
REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "serve-apis.md"
VERSIONS = ("4.3.1",)
READ_ONLY = "PolicyViolationException: kafkafmt serve is read-only"
ERRORS = {
    "describeAcls": "SecurityDisabledException: kafkafmt serve has no authorizer",
    "describeMetadataQuorum": "UnsupportedVersionException: The node does not support DESCRIBE_QUORUM",
    "describeDelegationToken": "UnsupportedVersionException: The node does not support DESCRIBE_DELEGATION_TOKEN",
    "describeShareGroups": "UnsupportedVersionException: The node does not support SHARE_GROUP_DESCRIBE",
    "describeStreamsGroups": "UnsupportedVersionException: The node does not support STREAMS_GROUP_DESCRIBE",
    "createTopics": READ_ONLY,
    "deleteTopics": READ_ONLY,
    "createPartitions": READ_ONLY,
    "deleteRecords": "PolicyViolationException",
    "incrementalAlterConfigs": READ_ONLY,
}
"""The calls that fail, and the start of the error."""
RESULTS = {
    "describeCluster": "(id: 1 ",
    "listTopics": "[sink, source]",
    "describeTopics": "partition=2, leader=127.0.0.1:",
    "describeConfigsOfTopic": "26 entries",
    "describeConfigsOfBroker": "11 entries",
    "listGroups": "groupId='classic-static', type=Classic",
    "listConsumerGroups": "groupId='classic-static'",
    "describeConsumerGroups": "groupId=classic-static",
    "describeClassicGroups": "groupId=classic-static",
    "listConsumerGroupOffsets": "source-2=OffsetAndMetadata{offset=20",
    "listOffsets.EarliestSpec": "offset=0, timestamp=-1",
    "listOffsets.LatestSpec": "offset=30, timestamp=-1",
    "listOffsets.MaxTimestampSpec": "offset=29, timestamp=1700000000029",
    "listOffsets.TimestampSpec": "offset=0, timestamp=1700000000000",
    "listOffsets.EarliestLocalSpec": "offset=0, timestamp=-1",
    "listOffsets.LatestTieredSpec": "offset=-1, timestamp=-1",
    "describeLogDirs": "source-2=ReplicaInfo(size=791",
    "describeReplicaLogDirs": "currentReplicaLogDir=/",
    "describeClientQuotas": "{}",
    "describeUserScramCredentials": "{}",
    "listTransactions": "transactionalId='state-open', producerId=4, transactionState=Ongoing",
    "describeTransactions": "state-open=TransactionDescription(coordinatorId=1, state=Ongoing, producerId=4",
    "describeProducers": "ProducerState(producerId=0, producerEpoch=0, lastSequence=29",
    "describeFeatures": "finalizedFeatures:{}",
    "listPartitionReassignments": "{}",
    "listConfigResources": "ConfigResource(type=TOPIC, name='source')",
    "alterConsumerGroupOffsets": "null",
    "deleteConsumerGroupOffsets": "null",
    "deleteConsumerGroups": "null",
}
"""The calls that succeed, and a part of the result."""
MOST_EQUAL_REQUESTS = 3
"""Largest number of equal requests. A client that waits repeats its request about ten times until its timeout."""
LOOK_UPS = (3, 10, 18)
"""Keys of Metadata, FindCoordinator and ApiVersions, with which the client finds a broker or a coordinator. Several calls send the same request."""


class Answer(NamedTuple):
    kind: str
    milliseconds: int
    text: str


class Waits:
    """Records signs of a waiting client: repeated requests, and timers that expire while a request is handled."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[int, str]] = Counter()
        """Number of equal requests, by API key and body."""
        self.expired: list[int] = []
        """The API key of each request during which a timer expired."""
        self._handled: ContextVar[int | None] = ContextVar("handled", default=None)

    def record(self, patch: pytest.MonkeyPatch) -> None:
        """Record the requests to all servers that are started later."""
        find, call_at = HandlerSet.find, asyncio.BaseEventLoop.call_at

        def recording_find(handlers: HandlerSet, key: int, version: int) -> Handler | None:
            handler = find(handlers, key, version)

            async def recorded(body: Any, context: RequestContext) -> Any:
                assert handler is not None
                self.requests[key, repr(body)] += 1
                token = self._handled.set(key)
                try:
                    return await handler(body, context)
                finally:
                    self._handled.reset(token)

            return None if handler is None else recorded

        def recording_call_at(loop: Any, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
            key = self._handled.get()

            def expire(*args: Any) -> None:
                if key is not None:
                    self.expired.append(key)
                callback(*args)

            return call_at(loop, when, expire, *args, context=context)

        patch.setattr(HandlerSet, "find", recording_find)
        patch.setattr(asyncio.BaseEventLoop, "call_at", recording_call_at)


WAITS = Waits()


@pytest.fixture(scope="module", params=VERSIONS)
def answers(request: pytest.FixtureRequest) -> dict[str, Answer]:
    version = request.param
    path = java_tools.classpath(f"org.apache.kafka:kafka-tools:{version}", f"org.apache.kafka:kafka_2.13:{version}")
    path = java_tools.compile_java([SOURCE], path)
    with pytest.MonkeyPatch.context() as patch:
        WAITS.record(patch)
        with kafkafmt.serve(INTERNAL) as server:
            output = java_tools.run("AdminCalls", server.address, "source", "classic-static", "state-open", path=path)
    lines = [line.split("\t", 3) for line in output.splitlines()]
    return {name: Answer(kind, int(milliseconds), text) for name, kind, milliseconds, text in lines}


def test_calls_of_the_admin_client_are_complete(answers: dict[str, Answer]) -> None:
    assert answers.keys() == ERRORS.keys() | RESULTS.keys()


@pytest.mark.parametrize("call", RESULTS)
def test_call_of_the_admin_client_returns_a_result(answers: dict[str, Answer], call: str) -> None:
    assert (answers[call].kind, RESULTS[call] in answers[call].text) == ("result", True), answers[call]


@pytest.mark.parametrize("call", ERRORS)
def test_call_of_the_admin_client_fails_with_a_clear_error(answers: dict[str, Answer], call: str) -> None:
    assert (answers[call].kind, answers[call].text[: len(ERRORS[call])]) == ("error", ERRORS[call])


def test_no_call_of_the_admin_client_waits(answers: dict[str, Answer]) -> None:
    assert not any("TimeoutException" in answer.text for answer in answers.values())
    assert WAITS.expired == []
    of_groups = sum("Group" in name for name in answers)  # each of these calls looks up the same coordinator
    limits = dict.fromkeys(LOOK_UPS, of_groups)
    repeated = {key: count for key, count in WAITS.requests.items() if count > limits.get(key[0], MOST_EQUAL_REQUESTS)}
    assert repeated == {}


def test_reference_lists_the_result_of_each_call(answers: dict[str, Answer]) -> None:
    documented: dict[str, str] = {}

    section = REFERENCE.read_text().split("## Calls of Kafka's AdminClient")[1].split("\n## ")[0]
    for row in [line for line in section.splitlines() if line.startswith("| `")]:
        names, result = (cell.strip() for cell in row.strip("|").split("|"))
        documented |= dict.fromkeys(names.replace("`", "").split(", "), result)
    found = {name.split(".")[0].removesuffix("OfTopic").removesuffix("OfBroker"): a for name, a in answers.items()}
    assert documented.keys() == found.keys()
    for name, answer in found.items():
        error = answer.text.split(":")[0].removesuffix("Exception")
        assert (error in documented[name]) if answer.kind == "error" else ("Exception" not in documented[name]), name
