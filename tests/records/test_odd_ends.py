"""Check that a batch is data if its CRC is valid and its records are complete, although its compressed data ends oddly."""

from __future__ import annotations

import gzip
from types import ModuleType

import lz4.frame
import numpy as np
import pytest
from building import message
from odd_batches import batch_of, batches_that_java_refuses, batches_with_odd_ends

import kafkafmt
from kafkafmt import KafkaFormatError, build_batch, read_records
from kafkafmt.constants import BATCH_HEADER_SIZE
from kafkafmt.records import RecordReader, iter_tables
from kafkafmt.records.batch_errors import BatchErrors

NAMES = list(batches_with_odd_ends())


@pytest.mark.parametrize("name", NAMES)
def test_records_of_a_batch_with_an_odd_end_are_read(package: ModuleType, name: str) -> None:
    batch, java_reads = batches_with_odd_ends()[name]
    before, after = (
        bytes(build_batch([(None, b"before")], base_offset=99)),
        bytes(build_batch([(None, b"after")], base_offset=140)),
    )
    data = before + batch + after
    assert [record.offset for record in read_records(data)] == list(range(99, 141))
    table = np.concatenate([table.copy() for table in iter_tables(data)])
    for on_error in (None, BatchErrors(), lambda *_: pytest.fail("no error is expected")):
        reader = RecordReader(("offset", "value"))
        offsets: list[int] = []
        for chunk in reader.read(data, table, on_error):
            assert chunk.columns.offset is not None
            offsets += chunk.columns.offset[: chunk.columns.rows].tolist()
        assert offsets == list(range(99, 141))
        found = reader.take_odd_ends()
        assert [(odd.position, odd.java_reads) for odd in found] == [(len(before), java_reads)]
        assert reader.take_odd_ends() == []


def test_small_and_large_batches_with_odd_ends_are_read_together(package: ModuleType) -> None:
    parts, offset = [], 0
    for size in (1, 3000):
        for batch, _ in batches_with_odd_ends(count=3, size=size).values():
            for data in (batch, bytes(build_batch([(None, b"x")], codec="gzip"))):
                moved = bytearray(data)
                moved[:8] = offset.to_bytes(8, "big")
                offset += int(np.frombuffer(data[57:61], ">i4")[0])
                parts.append(bytes(moved))
    assert [record.offset for record in read_records(b"".join(parts))] == list(range(offset))


@pytest.mark.parametrize("name", NAMES)
def test_batch_is_damaged_if_records_are_missing(package: ModuleType, name: str) -> None:
    """The header states one record more than the data contains."""
    batch, _ = batches_with_odd_ends()[name]
    header = bytearray(batch[:BATCH_HEADER_SIZE])
    header[60] += 1
    with pytest.raises(KafkaFormatError) as error:
        list(read_records(batch_of(0, batch[BATCH_HEADER_SIZE:], bytes(header))))
    assert "left over" not in error.value.message
    assert error.value.position == 0


def test_decompressed_bytes_after_the_last_record_are_damage(package: ModuleType) -> None:
    plain = bytes(build_batch([(None, b"value")] * 4))
    frame = lz4.frame.compress(plain[BATCH_HEADER_SIZE:] + b"rest", block_linked=False, store_size=False)
    with pytest.raises(KafkaFormatError, match="end mark"):
        list(read_records(batch_of(3, frame[:-4], plain)))


def test_wrapper_message_with_an_odd_end_is_read(package: ModuleType) -> None:
    inner = b"".join(message(1, None, b"v%d" % i, offset=i) for i in range(3))
    for payload in (gzip.compress(inner)[:-8], gzip.compress(inner) + b"\x1f\x8b"):
        data = message(1, None, payload, offset=12, attributes=1)
        assert [(r.offset, r.value) for r in read_records(data)] == [(10, b"v0"), (11, b"v1"), (12, b"v2")]


def test_batches_with_odd_ends_are_read_into_arrow(package: ModuleType) -> None:
    for batch, _ in batches_with_odd_ends().values():
        assert kafkafmt.to_arrow(batch)["offset"].to_pylist() == list(range(100, 140))


def test_check_reports_what_java_does_not_read(package: ModuleType) -> None:
    for name, (batch, java_reads) in batches_with_odd_ends().items():
        problems = kafkafmt.check_batches(batch).problems
        assert [p.code for p in problems] == ([] if java_reads else ["refused_by_kafka"]), name
    for name, batch in batches_that_java_refuses().items():
        assert "refused_by_kafka" in [p.code for p in kafkafmt.check_batches(batch).problems], name
