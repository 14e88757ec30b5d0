"""Read the golden logs through the server, and compare every record with a direct reading."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from golden_cases import CASES, Case
from serving import Client

import kafkafmt

Start = Callable[..., kafkafmt.Server]
COMMITTED = 1


def fields(record: Any) -> tuple[Any, ...]:
    return record.offset, record.timestamp, record.key, record.value, list(record.headers)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_record_is_served(case: Case, started: Start) -> None:
    log = kafkafmt.open([str(root) for root in case.roots])
    server = started(log, internal=True)
    with Client(server.port) as client:
        for partition in log.partitions:
            expected = [fields(r) for r in partition.records(on_error="skip")]
            got = client.read_all(partition.topic, partition.partition, partition_max_bytes=2000)
            assert [fields(r) for r in got] == expected


@pytest.mark.parametrize("case", [c for c in CASES if c.transactional], ids=str)
def test_read_committed_omits_aborted_records(case: Case, started: Start) -> None:
    log = kafkafmt.open([str(root) for root in case.roots])
    server = started(log, internal=True)
    with Client(server.port) as client:
        for partition in log.partitions:
            expected = [fields(r) for r in partition.records(on_error="skip", isolation="read_committed")]
            got = client.read_all(partition.topic, partition.partition, COMMITTED, partition_max_bytes=2000)
            assert [fields(r) for r in got] == expected
            committed = started(log, internal=True, isolation="read_committed")
            with Client(committed.port) as other:
                got = other.read_all(partition.topic, partition.partition, partition_max_bytes=2000)
                assert [fields(r) for r in got] == expected
