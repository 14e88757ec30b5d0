"""Check the decoding of records: fields, unusual valid records, and the positions of errors."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from building import (
    ABORT,
    COMMIT,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    batch,
    control_batch,
    empty_batch,
    long_varint,
    mutate,
    record,
    simple_batch,
    sized,
    varint,
)
from decoding import MAX, MIN, decode, decode_steps, records, required, scan, what

from kafkafmt.constants import FAULTS
from kafkafmt.errors import StructureError
from kafkafmt.types import COLUMNS, CopiedColumns, RecordColumns

T0 = 1_700_000_000_000


def test_every_field_of_a_record_is_decoded(core: ModuleType) -> None:
    # length 18, attributes, timestamp delta 5, offset delta 1, key k1, value abc, two headers: h: x
    # and i: null
    payload = bytes.fromhex("24 00 0a 02 04 6b31 06 616263 04 02 68 02 78 02 69 01")
    data = batch(payload=payload, count=1, last_offset_delta=1, max_timestamp=T0 + 5)
    (row,), error = decode(core, data)
    assert error is None
    assert row == (1, T0 + 5, 0, (66, 2), (69, 3), [(74, 1, 76, 1), (78, 1, 80, -1)])
    assert data[66:68] + data[69:72] + data[74:75] + data[76:77] + data[78:79] == b"k1abchxi"
    assert records(core, data) == [(1, T0 + 5, 0, b"k1", b"abc", (("h", b"x"), ("i", None)))]


def test_null_differs_from_empty(core: ModuleType) -> None:
    fields = [
        (0, 0, None, None, ()),
        (1, 0, b"", b"", ((b"", b""),)),
        (2, 0, b"k", None, ((b"h", None),)),
        (3, 0, None, b"v", ()),
    ]
    assert [r[3:] for r in records(core, batch(fields))] == [
        (None, None, ()),
        (b"", b"", (("", b""),)),
        (b"k", None, (("h", None),)),
        (None, b"v", ()),
    ]


@pytest.mark.parametrize("null", [-1, -2, -64, -65, -(2**31)])
def test_every_negative_length_means_null(core: ModuleType, null: int) -> None:
    def one(delta: int) -> bytes:
        body = (
            b"\x00" + varint(0) + varint(delta) + varint(null) + varint(null) + varint(1) + sized(b"h") + varint(null)
        )
        return varint(len(body)) + body

    data = batch([one(0), one(1), record(2, 0, b"k", b"v" * 60)])
    rows, error = decode(core, data)
    assert error is None
    assert [(row[3][1], row[4][1], [h[3] for h in row[5]]) for row in rows] == [(-1, -1, [-1])] * 2 + [(1, 60, [])]


def test_repeated_header_keys_keep_their_order(core: ModuleType) -> None:
    headers = ((b"b", b"1"), (b"a", b"2"), (b"b", b"3"), (b"", None))
    assert records(core, batch([(0, 0, None, b"v", headers)]))[0][5] == (
        ("b", b"1"),
        ("a", b"2"),
        ("b", b"3"),
        ("", None),
    )


def test_create_time_is_the_base_plus_the_delta(core: ModuleType) -> None:
    fields = [(0, -5, None, b"a", ()), (1, 0, None, b"b", ()), (2, 2**40, None, b"c", ())]
    assert [r[1:3] for r in records(core, batch(fields))] == [(T0 - 5, 0), (T0, 0), (T0 + 2**40, 0)]


def test_timestamps_wrap_as_in_java(core: ModuleType) -> None:
    fields = [(0, 2**63 - 1, None, b"a", ()), (1, -(2**63), None, b"b", ())]
    wrapped = [(T0 + 2**63 - 1) - 2**64, T0 - 2**63]
    assert [r[1] for r in records(core, batch(fields, max_timestamp=0))] == wrapped


def test_log_append_time_is_that_of_the_batch(core: ModuleType) -> None:
    fields = [(0, 1, None, b"a", ()), (1, 99, None, b"b", ())]
    data = batch(fields, flags=LOG_APPEND_TIME, max_timestamp=T0 + 1000)
    assert [r[1:3] for r in records(core, data)] == [(T0 + 1000, 1)] * 2
    assert [r[2] for r in records(core, data, names=("timestamp_type",))] == [1, 1]


def test_timestamp_deltas_are_relative_to_the_delete_horizon(core: ModuleType) -> None:
    fields = [(0, -700, None, b"a", ()), (1, 5, None, b"b", ())]
    data = batch(fields, flags=DELETE_HORIZON, base_timestamp=T0 + 10_000)
    assert [r[1:3] for r in records(core, data)] == [(T0 + 9_300, 0), (T0 + 10_005, 0)]


def test_batches_without_records_have_no_rows(core: ModuleType) -> None:
    data = empty_batch(0, 9) + simple_batch([b"a"], 10) + empty_batch(11, 4)
    assert [r[0] for r in records(core, data)] == [10]
    assert decode(core, empty_batch(5, 3)) == ([], None)


def test_offsets_may_have_gaps(core: ModuleType) -> None:
    data = batch([(2, 0, None, b"a", ()), (7, 0, None, b"b", ())], base_offset=100, last_offset_delta=9)
    assert [r[0] for r in records(core, data)] == [102, 107]


def test_control_batches_are_decoded_like_others(core: ModuleType) -> None:
    data = control_batch(ABORT, base_offset=5) + control_batch(COMMIT, base_offset=6)
    assert [(r[0], r[3], r[4]) for r in records(core, data)] == [
        (5, b"\x00\x00\x00\x00", bytes(6)),
        (6, b"\x00\x00\x00\x01", bytes(6)),
    ]


def test_offsets_near_the_limit_of_64_bits_wrap(core: ModuleType) -> None:
    data = batch([(i, 0, None, b"a", ()) for i in range(3)], base_offset=2**63 - 4)
    assert [r[0] for r in records(core, data)] == [2**63 - 4, 2**63 - 3, 2**63 - 2]
    wrapped = batch([(0, 0, None, b"a", ()), (1, 0, None, b"b", ())], base_offset=2**63 - 1)
    assert [r[0] for r in records(core, wrapped)] == [2**63 - 1, -(2**63)]
    assert [r[0] for r in records(core, wrapped, end_offset=2**63 - 1)] == [-(2**63)]


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_varints_with_padding_are_read(core: ModuleType, size: int) -> None:
    def one(delta: int) -> bytes:
        body = b"\x00" + long_varint(3, size) + long_varint(delta, size) + long_varint(1, size) + b"k"
        body += (
            long_varint(2, size) + b"vw" + long_varint(1, size) + long_varint(1, size) + b"h" + long_varint(-1, size)
        )
        return long_varint(len(body), size) + body

    data = batch([one(i) for i in range(9)], last_offset_delta=8, max_timestamp=T0 + 3)
    assert records(core, data) == [(i, T0 + 3, 0, b"k", b"vw", (("h", None),)) for i in range(9)]


@pytest.mark.parametrize("size", [2, 3, 4, 5])
@pytest.mark.parametrize("extra", [b"", b"x"])
def test_header_count_of_zero_with_padding_is_read(core: ModuleType, size: int, extra: bytes) -> None:
    body = b"\x00" + varint(0) + varint(0) + sized(b"k") + sized(b"vw") + long_varint(0, size) + extra
    # The native core reads the last records of a buffer in a different way.
    for others in (0, 8):
        data = batch([varint(len(body)) + body, *(record(i, value=b"x" * 50) for i in range(1, 1 + others))])
        rows, error = decode(core, data)
        if extra:
            assert error is not None
            assert (rows, error.message) == ([], "bytes are left over at the end of a record")
        else:
            assert error is None
            assert len(rows) == 1 + others


def test_attributes_of_a_record_are_ignored(core: ModuleType) -> None:
    assert len(records(core, batch([record(0, 0, b"k", b"v", attributes=0xFF), record(1, value=b"x" * 50)]))) == 2


FIELDS = [(i, i, b"key%d" % i, b"value%d" % i, [(b"h%d" % j, b"x" * j) for j in range(i % 4)]) for i in range(40)]


@pytest.mark.parametrize("names", ["", "offset", "timestamp timestamp_type", "key", "value", "headers", "offset value"])
def test_columns_not_requested_are_none(core: ModuleType, names: str) -> None:
    data = batch(FIELDS) + batch(FIELDS, base_offset=40)
    full, _ = decode(core, data)
    requested = names.split()
    rows, error = decode(core, data, names=requested, capacity=100)
    assert error is None
    assert len(rows) == 80
    for row, whole in zip(rows, full, strict=True):
        for name, got, expected in zip(COLUMNS, row, whole, strict=True):
            assert got == (expected if name in requested else None)


@pytest.mark.parametrize(
    ("first", "end"), [(0, 80), (13, 14), (39, 41), (41, 39), (79, MAX), (MIN, 1), (80, 90), (-5, 0), (45, 71)]
)
@pytest.mark.parametrize("capacity", [3, 1000])
def test_only_offsets_in_the_range_are_decoded(core: ModuleType, first: int, end: int, capacity: int) -> None:
    data = batch(FIELDS) + batch(FIELDS, base_offset=40)
    rows, error = decode(core, data, first=first, end=end, capacity=capacity)
    assert error is None
    assert [row[0] for row in rows] == [o for o in range(80) if first <= o < end]
    assert rows == [row for row in decode(core, data)[0] if first <= row[0] < end]


@pytest.mark.parametrize("capacity", [1, 2, 7, 39, 40, 41, 79, 80, 81])
@pytest.mark.parametrize("header_capacity", [1, 3, 500])
def test_result_does_not_depend_on_capacity(core: ModuleType, capacity: int, header_capacity: int) -> None:
    data = batch(FIELDS) + empty_batch(40) + batch(FIELDS, base_offset=41)
    rows, error = decode(core, data, capacity=capacity, header_capacity=header_capacity)
    assert error is None
    assert rows == decode(core, data, capacity=1000)[0]


def test_batch_is_delivered_completely_if_it_fits(core: ModuleType) -> None:
    data = b"".join(batch(FIELDS[:n], base_offset=100 * n) for n in (4, 5, 9, 12))
    steps = [(len(rows), cursor) for rows, _, cursor in decode_steps(core, data, scan(core, data)[0], capacity=10)]
    assert [(n, cursor[:2]) for n, cursor in steps] == [(9, (2, 0)), (9, (3, 0)), (10, (3, 10)), (2, (4, 0))]


def test_rows_are_appended_to_existing_ones(core: ModuleType) -> None:
    data = batch(FIELDS[:5])
    columns = RecordColumns(16, COLUMNS, 64)
    for n in (1, 2, 3):
        assert core.decode_records(data, scan(core, data)[0], columns) is None
        assert columns.rows == 5 * n
        columns.cursor[:] = 0
    assert required(columns.offset)[:15].tolist() == list(range(5)) * 3
    assert required(columns.header_start)[5] == columns.headers // 3
    assert core.decode_records(data, scan(core, data)[0], columns) is None
    assert (columns.rows, columns.cursor[0]) == (15, 0)


def test_header_arrays_grow_for_a_single_record(core: ModuleType) -> None:
    data = batch([(0, 0, None, b"a", ()), (1, 0, None, b"b", [(b"h", b"%d" % i) for i in range(1000)])])
    columns = RecordColumns(8, COLUMNS, 16)
    table = scan(core, data)[0]
    assert core.decode_records(data, table, columns) is None
    assert (columns.rows, columns.cursor[1], columns.header_capacity) == (1, 1, 16)
    columns.clear()
    assert core.decode_records(data, table, columns) is None
    assert (columns.rows, columns.headers, columns.header_capacity) == (1, 1000, 1024)


def spoiled(*bodies: bytes, **fields: Any) -> bytes:
    """Return a batch with a valid header and CRC, in which only the records are corrupted."""
    return batch(payload=b"".join(bodies), **{"count": len(bodies), "last_offset_delta": 99, **fields})


def bad(name: str) -> bytes:
    """Return a corrupted record whose offset delta is 1."""
    null = varint(-1)
    return {
        "length": b"\xff\xff\xff\xff\xff\x00" + bytes(9),
        "record end": varint(5000),
        "negative length": varint(-7) + bytes(20),
        "no attributes": varint(0),
        "timestamp": sized(b"\x00" + b"\x80" * 9),
        "offset": sized(b"\x00\x00" + b"\x80"),
        "key": sized(b"\x00\x00\x02" + varint(99) + b"abcdef"),
        "value": sized(b"\x00\x00\x02" + null + varint(99) + b"abcdef"),
        "no value": sized(b"\x00\x00\x02" + null),
        "header count": sized(b"\x00\x00\x02" + null + null + varint(99) + b"abc"),
        "negative header count": sized(b"\x00\x00\x02" + null + null + varint(-1) + b"abc"),
        "header key": sized(b"\x00\x00\x02" + null + null + varint(1) + varint(9) + b"abc"),
        "null header key": sized(b"\x00\x00\x02" + null + null + varint(1) + null + null),
        "header value": sized(b"\x00\x00\x02" + null + null + varint(1) + sized(b"h") + varint(9) + b"abc"),
        "rest": record(1, 0, b"k", b"v", extra=b"more"),
        "rest after headers": record(1, 0, b"k", b"v", [(b"h", b"x")], extra=b"more"),
    }[name]


CODES = {
    "length": 2, "record end": 3, "negative length": 3, "no attributes": 4, "timestamp": 4, "offset": 5, "key": 6,
    "value": 7, "no value": 7, "header count": 8, "negative header count": 8, "header key": 9, "null header key": 9,
    "header value": 10, "rest": 11, "rest after headers": 11,
}  # fmt: skip


@pytest.mark.parametrize("capacity", [1, 2, 50])
@pytest.mark.parametrize("followed", [True, False], ids=["in the middle", "at the end"])
@pytest.mark.parametrize("name", CODES)
def test_error_in_a_record_has_a_code_and_a_position(
    core: ModuleType, name: str, followed: bool, capacity: int
) -> None:
    good = simple_batch([b"good"], 3)
    first = record(0, 0, b"k", b"v" * 30)
    rest = [record(2, 0, None, b"x" * 100)] if followed else []
    data = good + spoiled(first, bad(name), *rest, base_offset=50)
    rows, error = decode(core, data, capacity=capacity)
    assert [row[0] for row in rows] == [3]
    place = len(good) + 61 + len(first)
    message = f"{FAULTS[CODES[name]]} (position {place}, batch at offset 50)"
    assert what(error) == ("StructureError", place, 50, None, message)


@pytest.mark.parametrize("names", ["", "offset", "timestamp", "key", "value", "offset key", "key value", "headers"])
@pytest.mark.parametrize("followed", [True, False], ids=["in the middle", "at the end"])
@pytest.mark.parametrize("name", CODES)
def test_error_in_a_record_does_not_depend_on_the_columns(
    core: ModuleType, name: str, followed: bool, names: str
) -> None:
    first = record(0, 0, b"k", b"v" * 30)
    rest = [record(2, value=b"x" * 100)] if followed else []
    data = spoiled(first, bad(name), *rest)
    rows, error = decode(core, data, names=tuple(names.split()))
    assert rows == []
    assert error is not None
    assert (error.position, error.message) == (61 + len(first), FAULTS[CODES[name]])


@pytest.mark.parametrize("copied", [True, False], ids=["copied", "spans"])
def test_header_arrays_stay_empty_if_headers_are_not_requested(core: ModuleType, copied: bool) -> None:
    data = batch([(i, 0, b"k", b"v", ((b"h", b"x"),) * 3) for i in range(50)])
    columns = (CopiedColumns if copied else RecordColumns)(7, ("offset", "key"))
    table, offsets = scan(core, data)[0], []
    while columns.cursor[0] < len(table):
        assert core.decode_records(data, table, columns) is None
        assert columns.headers == 0
        offsets += required(columns.offset)[: columns.rows].tolist()
        columns.clear()
    assert offsets == list(range(50))


@pytest.mark.parametrize("count", [-1, -(2**31), 3, 2**31 - 1])
def test_impossible_record_count_is_an_error(core: ModuleType, count: int) -> None:
    data = spoiled(record(0, value=b"v"), record(1), count=count)
    rows, error = decode(core, data)
    assert rows == []
    assert isinstance(error, StructureError)
    assert error.position == 61
    assert FAULTS[1] in str(error) or count == 3


def test_record_count_that_leaves_bytes_is_an_error(core: ModuleType) -> None:
    first = record(0, value=b"v")
    _, error = decode(core, spoiled(first, record(1), count=1))
    assert isinstance(error, StructureError)
    assert (error.position, error.message) == (61 + len(first), FAULTS[12])


def test_decoding_continues_after_a_corrupted_batch(core: ModuleType) -> None:
    data = batch(FIELDS[:3]) + spoiled(bad("key")) + batch(FIELDS[:4], base_offset=10)
    table = scan(core, data)[0]
    columns = RecordColumns(50)
    assert core.decode_records(data, table, columns).position == len(batch(FIELDS[:3])) + 61
    assert (columns.rows, columns.cursor[:2].tolist()) == (3, [1, 0])
    columns.cursor[0] += 1
    assert core.decode_records(data, table, columns) is None
    assert required(columns.offset)[:7].tolist() == [0, 1, 2, 10, 11, 12, 13]


def test_no_record_of_a_corrupted_batch_is_delivered(core: ModuleType) -> None:
    """Capacities and the position of an error are not compared."""
    data = spoiled(*(record(i, 0, b"k", b"v") for i in range(30)), bad("key"))
    for capacity in (1, 4, 30, 31, 100):
        rows, error = decode(core, data, capacity=capacity)
        assert rows == []
        assert isinstance(error, StructureError)
        assert error.message == FAULTS[6]


ODD_DELTAS = {
    "one-based": ([1, 2, 3], 2),
    "zeros": ([0, 0, 0], 2),
    "descending": ([2, 1, 0], 2),
    "negative": ([-1, 0, 2**31 - 1], 2),
    "beyond the header": ([0, 1, 2], 0),
    "lowest": ([-(2**31), 300, -300], 2),
}


@pytest.mark.parametrize("capacity", [1, 2, 50])
@pytest.mark.parametrize("name", ODD_DELTAS)
def test_offset_is_base_plus_delta_whatever_the_delta_is(core: ModuleType, name: str, capacity: int) -> None:
    deltas, last = ODD_DELTAS[name]
    odd = batch([record(d, 0, b"k", b"%d" % d) for d in deltas], base_offset=50, last_offset_delta=last)
    high = batch([record(d) for d in deltas], base_offset=2**63 - 3, last_offset_delta=last)
    data = simple_batch([b"a", b"b"], 3) + odd + high + simple_batch([b"c"], 90)
    expected = [
        3,
        4,
        *(50 + d for d in deltas),
        *((n + 2**63) % 2**64 - 2**63 for n in (2**63 - 3 + d for d in deltas)),
        90,
    ]
    rows, error = decode(core, data, capacity=capacity)
    assert error is None
    assert [row[0] for row in rows] == expected


@pytest.mark.parametrize("copied", [True, False], ids=["copied", "spans"])
@pytest.mark.parametrize("name", ODD_DELTAS)
def test_odd_offsets_are_filtered_one_by_one_and_flagged(core: ModuleType, name: str, copied: bool) -> None:
    deltas, last = ODD_DELTAS[name]
    records = [record(d, 0, b"k%d" % d, b"v" * i, [(b"h", b"x")] * (i % 2)) for i, d in enumerate(deltas)]
    data = batch(records, base_offset=50, last_offset_delta=last) + simple_batch([b"c"] * 9, 53) + bytes(64)
    every = [50 + d for d in deltas] + list(range(53, 62))
    for first, end in ((-(2**63), None), (50, None), (50, 53), (51, 52), (0, 51), (53, 60), (10**9, None)):
        for names in (("offset",), ("offset", "key", "value"), ("offset", "key", "value", "headers")):
            columns = (CopiedColumns if copied else RecordColumns)(100, names, 100)
            assert core.decode_records(data, scan(core, data)[0], columns, first, end) is None
            expected = [n for n in every if first <= n and (end is None or n < end)]
            assert required(columns.offset)[: columns.rows].tolist() == expected
            assert columns.odd_offsets
            columns = (CopiedColumns if copied else RecordColumns)(100, names, 100)
            core.decode_plain_batches(data, columns, 0, None, first, end)
            found = required(columns.offset)[: columns.rows].tolist()
            assert found == expected[: len(found)]
    columns = RecordColumns(100)
    assert core.decode_records(data, scan(core, data)[0][1:], columns) is None
    assert not columns.odd_offsets


def test_other_magic_is_not_supported(core: ModuleType) -> None:
    data = simple_batch([b"a"]) * 2
    table = scan(core, data)[0]
    table["magic"][1] = 3
    rows, error = decode(core, data, table)
    assert len(rows) == 1
    at = len(data) // 2
    assert what(error) == (
        "UnsupportedError",
        at,
        0,
        None,
        f"magic 3 is not supported (position {at}, batch at offset 0)",
    )


def test_payload_can_be_in_another_buffer(core: ModuleType) -> None:
    """After decompression, the positions in a row refer to another buffer."""
    one, two = batch(FIELDS[:3]), batch(FIELDS[3:5], last_offset_delta=50)
    table = scan(core, one + two)[0]
    arena = b"##" + two[61:] + b"###" + one[61:]
    table["payload_position"] = [len(arena) - len(one) + 61, 2]
    assert [r[4] for r in records(core, arena, table)] == [f[3] for f in FIELDS[:5]]


@pytest.mark.parametrize(
    ("position", "size"), [(-1, 5), (0, -1), (0, 10**6), (10**6, 0), (2**63 - 1, 1), (-(2**63), 1)]
)
def test_payload_outside_the_buffer_is_a_value_error(core: ModuleType, position: int, size: int) -> None:
    data = simple_batch([b"a"]) * 2
    table = scan(core, data)[0]
    table["payload_position"][1], table["payload_size"][1] = position, size
    with pytest.raises(ValueError, match="row 1 of the table"):
        core.decode_records(data, table, RecordColumns(8))


@pytest.mark.parametrize("cursor", [(-1, 0, 0, 0), (0, -1, 61, 0), (0, 1, 60, 0), (0, 1, 2**62, 0), (0, 6, 61, 0)])
def test_cursor_outside_the_table_is_a_value_error(core: ModuleType, cursor: tuple[int, int, int, int]) -> None:
    data = batch(FIELDS[:5])
    columns = RecordColumns(3)
    columns.cursor[:] = cursor
    with pytest.raises(ValueError, match="cursor"):
        core.decode_records(data, scan(core, data)[0], columns)


def test_columns_with_a_wrong_state_are_rejected(native: ModuleType) -> None:
    data = batch(FIELDS[:5])
    table = scan(native, data)[0]

    def assert_rejected(kind: type[Exception] = ValueError, **changes: Any) -> None:
        columns = RecordColumns(8)
        for name, value in changes.items():
            setattr(columns, name, value)
        with pytest.raises(kind):
            native.decode_records(data, table, columns)

    assert_rejected(capacity=9)
    assert_rejected(header_capacity=1000)
    assert_rejected(rows=9)
    assert_rejected(rows=-1)
    assert_rejected(headers=-1)
    assert_rejected(offset=np.zeros(7, "i8"))
    assert_rejected(offset=np.zeros(8, "i4"))
    assert_rejected(offset=np.zeros(16, "i8")[::2])
    assert_rejected(offset=np.zeros(65, "u1")[1:].view("i8"))
    assert_rejected(cursor=np.zeros(3, "i8"))
    assert_rejected(TypeError, cursor=None)
    for name in ("key_position", "value_position", "header_start", "header_key_position", "header_value_length"):
        assert_rejected(TypeError, **{name: None})


def test_changed_record_byte_raises_only_kafka_format_errors(core: ModuleType) -> None:
    data = batch(FIELDS[:6])
    for at in range(61, len(data)):
        for value in (0x00, 0x01, 0x7F, 0x80, 0xFF):
            rows, error = decode(core, mutate(data, at, bytes([value]), repair=True))
            assert error is None or (isinstance(error, StructureError) and rows == [])


@pytest.mark.parametrize(("stated", "late"), [(89, True), (90, False), (91, False)])
@pytest.mark.parametrize("first", [MIN, 2])
def test_timestamp_after_the_maximum_of_the_header_is_noted(
    core: ModuleType, stated: int, late: bool, first: int
) -> None:
    data = batch([record(0, 0), record(1, 90), record(2, 3)], base_timestamp=0, max_timestamp=stated)
    table, columns = scan(core, data)[0], RecordColumns(10, ("offset", "timestamp"))
    assert core.decode_records(data, table, columns, first) is None
    assert columns.late_times == (late and first == MIN)
