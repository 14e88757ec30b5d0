"""Measure building of batches compared with aiokafka's C builder.

Records are added one by one, many at a time, or from columns.

kafkafmt and aiokafka build batches of 16 KiB with CRCs from the records of input a, and discard
them.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import inputs
import numpy as np
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

import kafkafmt
from kafkafmt import build_batches
from kafkafmt.records import BatchBuilder, build_columns, columns_of

LIMIT = 16384


@functools.cache
def records() -> list[tuple[bytes | None, bytes | None, int]]:
    return [(r.key, r.value, r.timestamp) for r in kafkafmt.read_records(inputs.make("a"))]


def peer() -> int:
    def builder() -> Any:
        return DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, LIMIT)

    batch, offset, size = builder(), 0, 0
    for key, value, timestamp in records():
        if batch.append(offset, timestamp, key, value, []) is None:
            size += len(batch.build())
            batch, offset = builder(), 0
            batch.append(offset, timestamp, key, value, [])
        offset += 1
    assert size + len(batch.build()) > 100 * len(records())
    return len(records())


def one_by_one() -> int:
    builder, size = BatchBuilder(max_bytes=LIMIT), 0
    for key, value, timestamp in records():
        if not builder.append(key, value, timestamp):
            size += len(builder.finish())
            builder.append(key, value, timestamp)
    return counted(size + len(builder.finish()))


def many_at_once() -> int:
    return counted(sum(map(len, build_batches(records(), LIMIT))))


def columns() -> Callable[[], int]:
    keys, values, times = zip(*records(), strict=True)
    record_columns = columns_of(key=keys, value=values, timestamp=np.array(times))
    return lambda: counted(sum(map(len, build_columns(record_columns, LIMIT))))


def counted(size: int) -> int:
    assert size > 100 * len(records())
    return len(records())


@pytest.mark.benchmark(group="building batches", timer=time.process_time)
@pytest.mark.parametrize("case", ["a, one record at a time", "a, many at a time", "a, from columns"])
def test_build(compare: Callable[..., object], case: str) -> None:
    ours = one_by_one if "one" in case else many_at_once if "many" in case else columns()
    compare(case, ours, "aiokafka", peer)
