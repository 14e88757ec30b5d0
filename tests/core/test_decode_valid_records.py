"""Check that `decode_valid_records` skips the batches for which `decode_records` returns an error."""

from __future__ import annotations

import struct
import zlib
from types import ModuleType

import numpy as np
import pytest
from building import batch, record, simple_batch, sized
from decoding import rows_of, scan

from kafkafmt.constants import FAULT_COUNT, FAULT_MESSAGE_FIELDS, FAULT_TIMESTAMP, FAULTS
from kafkafmt.errors import KafkaFormatError, StructureError, TooLargeError
from kafkafmt.types import COLUMNS, CopiedColumns, RecordColumns

GOOD = [simple_batch([b"a", b"b"], 0), simple_batch([b"c"], 5), simple_batch([b"d"], 9)]
WRONG_COUNT = batch([record(value=b"x")], base_offset=2, count=1000)
NO_TIMESTAMP = batch([sized(b"\x00" + b"\xff" * 8)], base_offset=3)
BODY = struct.pack(">bbqi", 1, 0, 0, 256) + b"k" + struct.pack(">i", 1) + b"v"
WRONG_KEY = struct.pack(">qiI", 4, len(BODY) + 4, zlib.crc32(BODY)) + BODY
MIXED = [GOOD[0], WRONG_COUNT, NO_TIMESTAMP, WRONG_KEY, GOOD[1], WRONG_COUNT, GOOD[2], WRONG_COUNT]
EXPECTED = [(1, FAULT_COUNT), (2, FAULT_TIMESTAMP), (3, FAULT_MESSAGE_FIELDS), (5, FAULT_COUNT), (7, FAULT_COUNT)]


def one_by_one(
    core: ModuleType, data: bytes, columns: RecordColumns
) -> tuple[list[object], list[tuple[int, KafkaFormatError]]]:
    """Decode with `decode_records`. Skip each batch for which it returns an error."""
    table, _ = scan(core, data)
    rows: list[object] = []
    errors = []
    while columns.cursor[0] < len(table):
        error = core.decode_records(data, table, columns)
        rows += rows_of(columns)
        columns.clear()
        if error is not None:
            errors.append((int(columns.cursor[0]), error))
            columns.cursor[:] = columns.cursor[0] + 1, 0, 0, 0
    return rows, errors


@pytest.mark.parametrize("capacity", [1, 2, 64])
def test_faults_are_those_of_decode_records(core: ModuleType, capacity: int) -> None:
    data = b"".join(MIXED)
    table, _ = scan(core, data)
    expected, errors = one_by_one(core, data, RecordColumns(capacity, COLUMNS))
    columns, faults = RecordColumns(capacity, COLUMNS), np.empty((len(table), 3), np.int64)
    rows: list[object] = []
    found: list[list[int]] = []
    while columns.cursor[0] < len(table):
        count, error = core.decode_valid_records(data, table, columns, faults)
        assert error is None
        rows += rows_of(columns)
        found += faults[:count].tolist()
        columns.clear()
    assert rows == expected
    assert [(at, code) for at, code, _ in found] == EXPECTED
    assert [(at, FAULTS[code], position) for at, code, position in found] == [
        (at, error.message, error.position) for at, error in errors
    ]


def test_error_is_returned_if_faults_is_full(core: ModuleType) -> None:
    data = b"".join(MIXED)
    table, _ = scan(core, data)
    columns, faults = RecordColumns(64, COLUMNS), np.empty((2, 3), np.int64)
    count, error = core.decode_valid_records(data, table, columns, faults)
    assert (count, faults[:, 0].tolist()) == (2, [1, 2])
    assert isinstance(error, StructureError)
    assert columns.cursor[:2].tolist() == [3, 0]
    assert columns.rows == 2


def test_too_many_headers_are_returned_as_an_error(core: ModuleType) -> None:
    many = batch([record(value=b"x", headers=[(b"h", b"v")] * 3)], base_offset=2)
    data = b"".join([WRONG_COUNT, many, GOOD[1]])
    table, _ = scan(core, data)
    columns, faults = RecordColumns(64, COLUMNS), np.empty((3, 3), np.int64)
    columns.max_headers = 2
    count, error = core.decode_valid_records(data, table, columns, faults)
    assert count == 1
    assert isinstance(error, TooLargeError)
    assert columns.cursor[:2].tolist() == [1, 0]


def test_copied_columns_contain_only_valid_batches(core: ModuleType) -> None:
    data = b"".join(MIXED)
    table, _ = scan(core, data)
    columns, faults = CopiedColumns(64, COLUMNS, room=1), np.empty((8, 3), np.int64)
    count, error = core.decode_valid_records(data, table, columns, faults)
    found = rows_of(columns)
    while columns.cursor[0] < len(table):
        columns.rows = 0
        more, error = core.decode_valid_records(data, table, columns, faults)
        count += more
        found += rows_of(columns)
    assert error is None
    assert count == len(EXPECTED)
    assert [row[4] for row in found] == [b"a", b"b", b"c", b"d"]
