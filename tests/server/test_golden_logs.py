"""Read the golden logs from a server, and compare every record with the record that kafkafmt reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from golden_cases import CASES, LEGACY, Case
from serving import Client

import kafkafmt

Start = Callable[..., kafkafmt.server.Server]
COMMITTED = 1
EVERY_TOPIC = ["*", "__*", "__cluster_metadata"]
BROKER_GIVES_UP = ("compacted", "delete-records")
"""Cases in which a broker deleted the record with the largest timestamp of a segment.

The broker's ListOffsets response then contains no offset or the offset of a deleted record.
"""


def fields(record: Any) -> tuple[Any, ...]:
    return record.offset, record.timestamp, record.key, record.value, list(record.headers)


@pytest.mark.parametrize("case", [*CASES, *LEGACY], ids=str)
def test_every_record_is_served(case: Case, started: Start) -> None:
    log = kafkafmt.open([str(root) for root in case.roots])
    server = started(log, topics=EVERY_TOPIC)
    with Client(server.port) as client:
        for partition in log.partitions:
            expected = [fields(r) for r in partition.records(on_error="skip")]
            got = client.read_all(partition.topic, partition.partition, partition_max_bytes=2000)
            assert [fields(r) for r in got] == expected


@pytest.mark.parametrize("case", [c for c in CASES if c.transactional], ids=str)
def test_read_committed_omits_aborted_records(case: Case, started: Start) -> None:
    log = kafkafmt.open([str(root) for root in case.roots])
    server, committed = started(log, topics=EVERY_TOPIC), started(log, topics=EVERY_TOPIC, isolation="read_committed")
    with Client(server.port) as client, Client(committed.port) as other:
        for partition in log.partitions:
            expected = [fields(r) for r in partition.records(on_error="skip", isolation="read_committed")]
            got = client.read_all(partition.topic, partition.partition, COMMITTED, partition_max_bytes=2000)
            assert [fields(r) for r in got] == expected
            got = other.read_all(partition.topic, partition.partition, partition_max_bytes=2000)
            assert [fields(r) for r in got] == expected


@pytest.mark.parametrize("case", [c for c in CASES if not c.torn], ids=str)
def test_offsets_are_those_of_the_broker(case: Case, started: Start) -> None:
    server = started([str(root) for root in case.roots], topics=EVERY_TOPIC)
    served = {(t.name, n) for t in server.catalog.topics for n in t.partitions}
    with Client(server.port) as client:
        for (topic, number), answers in case.offsets().items():
            if (topic, number) not in served or answers["localLogStart"] != answers["logStartOffset"]:
                continue
            assert client.offset(topic, number, -2).offset == answers["logStartOffset"]
            assert client.offset(topic, number, -1).offset == answers["highWatermark"]
            assert client.offset(topic, number, -1, isolation_level=COMMITTED).offset == answers["lastStableOffset"]
            times = [(a["asked"], a) for a in answers.get("offsetsForTimes", ())]
            for asked, answer in [*times, (-3, answers["maxTimestamp"])]:
                found = answer["offset"]
                if case.name in BROKER_GIVES_UP and (found is None or found < answers["logStartOffset"]):
                    continue
                got = client.offset(topic, number, asked)
                wanted = [
                    -1 if answer[name] is None else answer[name] for name in ("offset", "timestamp", "leaderEpoch")
                ]
                assert [got.offset, got.timestamp, got.leader_epoch] == wanted, asked
