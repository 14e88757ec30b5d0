"""Serve random logs with transactions and damage, and compare every record with the record in the log."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from serving import Client
from transactional_logs import damage, write_transactions

import kafkafmt
from kafkafmt.typing import Isolation

LEVELS: tuple[Isolation, ...] = ("read_uncommitted", "read_committed")
QUICK = 12
SEEDS = [pytest.param(seed, marks=() if seed < QUICK else pytest.mark.full) for seed in range(150)]
pytestmark = pytest.mark.filterwarnings("ignore::kafkafmt.StrayPartitionWarning")


def fields(record: Any) -> tuple[Any, ...]:
    return record.offset, record.timestamp, record.key, record.value


@pytest.mark.parametrize("seed", SEEDS)
def test_served_records_equal_the_records_of_the_log(seed: int, tmp_path: Path) -> None:
    chance = Random(seed)
    folder = write_transactions(tmp_path, chance)
    for _ in range(chance.randrange(3)):
        damage(folder, chance)
    if not list(folder.glob("*.log")):
        return
    partition = kafkafmt.open(tmp_path)["t", 0]
    start = partition.log_start_offset
    with kafkafmt.serve(tmp_path) as server, Client(server.port) as client:
        for level, isolation in enumerate(LEVELS):
            expected = [fields(r) for r in partition.records(on_error="skip", isolation=isolation)]
            for size in (1000, 50_000, 1 << 20):
                got = client.read_all("t", 0, level, partition_max_bytes=size)
                assert [fields(r) for r in got] == expected, (isolation, size)
            for offset in sorted(chance.sample(range(start, partition.next_offset + 1), 3)):
                data = client.fetch("t", 0, offset, partition_max_bytes=1)
                first = next(iter(kafkafmt.read_records(bytes(data.records or b""), start=offset)), None)
                wanted = next(partition.records(start=offset, on_error="skip"), None)
                assert first is None or (wanted is not None and fields(first) == fields(wanted)), offset
    with kafkafmt.serve(tmp_path, isolation="read_committed") as server, Client(server.port) as client:
        expected = [fields(r) for r in partition.records(on_error="skip", isolation="read_committed")]
        got = client.read_all("t", 0, partition_max_bytes=20_000)
        assert [fields(r) for r in got] == expected
