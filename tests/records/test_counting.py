"""Check that `count_records` returns the number of records that `RecordReader.read` yields."""

from __future__ import annotations

import numpy as np
import pytest

from kafkafmt._backend import core
from kafkafmt.errors import KafkaFormatError
from kafkafmt.records import RecordReader, build_batch
from kafkafmt.records.reader import count_records
from kafkafmt.types import BATCH_DTYPE, BatchTable
from kafkafmt.typing import Codec


def batches(compression: Codec) -> tuple[bytes, BatchTable]:
    counts = (3, 1, 4)
    parts, offset = [], 100
    for n in counts:
        parts.append(build_batch([(b"k", b"v%d" % i) for i in range(n)], base_offset=offset, codec=compression))
        offset += n
    data, table = b"".join(parts), np.empty(len(counts), BATCH_DTYPE)
    core.scan_batches(data, table)
    return data, table


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize(("first_offset", "expected"), [(0, 8), (100, 8), (102, 6), (104, 4), (200, 0)])
def test_count_is_the_number_of_records_that_are_read(compression: Codec, first_offset: int, expected: int) -> None:
    data, table = batches(compression)
    reader = RecordReader(("offset",), capacity=2, first_offset=first_offset)
    assert count_records(reader, data, table, core.summarize_batches(table)) == expected
    assert sum(chunk.columns.rows for chunk in reader.read(data, table)) == expected


def test_count_raises_the_error_of_read() -> None:
    data, table = batches("none")
    damaged = bytearray(data)
    damaged[int(table["payload_position"][1])] ^= 1
    errors = []
    reader = RecordReader(("offset",))
    for function in (
        lambda: count_records(reader, damaged, table, core.summarize_batches(table)),
        lambda: [*reader.read(damaged, table)],
    ):
        with pytest.raises(KafkaFormatError) as caught:
            function()
        errors.append((str(caught.value), caught.value.position, caught.value.base_offset, caught.value.resume))
    assert errors[0] == errors[1]
