"""Check the conversion of columns into Record objects and values."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
from datetime import UTC, datetime
from types import ModuleType

import numpy as np
import pytest
from building import batch
from decoding import fields, required, scan

from kafkafmt.types import COLUMNS, RecordColumns

FIELDS = [
    (i, i, b"k%d" % i, b"v" * i if i % 3 else None, [(b"h", None), (b"i", b"%d" % i)][: i % 3]) for i in range(20)
]
DATA = batch(FIELDS, base_offset=5)


def decoded(
    core: ModuleType, data: bytearray | bytes = DATA, names: tuple[str, ...] = COLUMNS, capacity: int = 64
) -> RecordColumns:
    columns = RecordColumns(capacity, names)
    assert core.decode_records(data, scan(core, data)[0], columns) is None
    return columns


def test_records_have_their_fields(core: ModuleType) -> None:
    made = core.make_records(DATA, decoded(core))
    assert [r.offset for r in made] == list(range(5, 25))
    assert [r.timestamp - 1_700_000_000_000 for r in made] == list(range(20))
    assert {r.timestamp_type for r in made} == {0}
    assert [r.key for r in made] == [f[2] for f in FIELDS]
    assert [r.value for r in made] == [f[3] for f in FIELDS]
    assert [r.headers for r in made] == [tuple((k.decode(), v) for k, v in f[4]) for f in FIELDS]
    assert all(type(r) is core.Record for r in made)


def test_fields_of_missing_columns_are_none(core: ModuleType) -> None:
    columns = decoded(core, names=("offset", "value"))
    assert fields(core.make_records(DATA, columns)[1]) == (6, -1, -1, None, b"v", ())
    assert fields(core.make_records(DATA, decoded(core, names=("headers",)))[2]) == (
        -1,
        -1,
        -1,
        None,
        None,
        (("h", None), ("i", b"2")),
    )


def test_slice_of_rows_is_converted(core: ModuleType) -> None:
    columns = decoded(core)
    everything = core.make_records(DATA, columns)
    for start, stop in ((0, 20), (0, 0), (20, 20), (3, 9), (19, None), (0, None)):
        assert core.make_records(DATA, columns, start, stop) == everything[start:stop]


@pytest.mark.parametrize(
    ("start", "stop"), [(-1, None), (0, 21), (5, 4), (21, None), (0, -1), (2**70, None), (0, 2**70)]
)
def test_rows_beyond_the_last_are_a_value_error(core: ModuleType, start: int, stop: int | None) -> None:
    with pytest.raises(ValueError):
        core.make_records(DATA, decoded(core), start, stop)


def test_views_keep_the_buffer_alive(core: ModuleType) -> None:
    data = bytearray(DATA)
    made = core.make_records(data, decoded(core, data), views=True)
    assert isinstance(made[1].key, memoryview)
    assert made[1].key.readonly
    assert (made[2].key, made[2].value, made[0].value) == (b"k2", b"vv", None)
    assert isinstance(made[2].headers[1][1], memoryview)
    assert made[2].headers[0] == ("h", None)
    with pytest.raises(BufferError):
        data.clear()
    del made
    gc.collect()
    data.clear()


def test_copies_do_not_keep_the_buffer_alive(core: ModuleType) -> None:
    data = bytearray(DATA)
    made = core.make_records(data, decoded(core, data))
    data.clear()
    assert made[2].value == b"vv"


@pytest.mark.parametrize(
    ("raw", "text"), [(b"caf\xc3\xa9", "café"), (b"\xff\xfe", "\ufffd\ufffd"), (b"\xed\xa0\x80", "\ufffd"), (b"", "")]
)
def test_header_keys_are_text_as_in_java(core: ModuleType, raw: bytes, text: str) -> None:
    data = batch([(0, 0, None, None, [(raw, b"x")])])
    assert core.make_records(data, decoded(core, data))[0].headers == ((text, b"x"),)


def test_records_have_repr_equality_and_hash(core: ModuleType) -> None:
    a, b = (core.make_records(DATA, decoded(core)) for _ in range(2))
    assert a == b
    assert hash(a[2]) == hash(b[2])
    assert a[1] != a[2]
    assert a[1] != "text"
    assert repr(a[2]) == (
        "Record(offset=7, timestamp=1700000000002, timestamp_type=0, key=b'k2', value=b'vv', headers=(('h', None), ('i', b'2')))"
    )
    with pytest.raises(TypeError):
        a[1] < a[2]  # noqa: B015


def test_records_can_be_copied_and_pickled(core: ModuleType) -> None:
    one = core.make_records(DATA, decoded(core))[2]
    assert pickle.loads(pickle.dumps(one)) == one
    assert copy.copy(one) == one
    assert copy.deepcopy(one) == one


def test_record_can_be_constructed(core: ModuleType) -> None:
    one = core.Record(1, 2, -1, headers=(("h", None),), value=b"v")
    assert fields(one) == (1, 2, -1, None, b"v", (("h", None),))
    assert core.Record(1, 2, 0).headers == ()
    wrong = [(1, 2, 3, 4, 5, 6, 7, 8, 9)] + [("x", 2, 0)] * core.__name__.endswith("_core")
    for given in wrong:
        with pytest.raises(TypeError):
            core.Record(*given)


def test_fields_of_native_records_are_read_only(native: ModuleType) -> None:
    one = native.Record(1, 2, 0)
    for name in ("offset", "key", "headers", "new"):
        with pytest.raises(AttributeError):
            setattr(one, name, 1)


def test_values_are_returned_as_bytes_or_views(core: ModuleType) -> None:
    columns = decoded(core)
    expected = [f[3] for f in FIELDS]
    assert core.make_values(DATA, columns.value_position, columns.value_length, 20) == expected
    views = core.make_values(DATA, columns.value_position, columns.value_length, 5, True)
    assert views == expected[:5]
    assert isinstance(views[1], memoryview)
    assert core.make_values(DATA, columns.value_position, columns.value_length, 0) == []


@pytest.mark.parametrize("views", [True, False])
@pytest.mark.parametrize(("position", "length"), [(-1, 2), (0, 10**6), (2**62, 1), (-(2**63), 1)])
def test_spans_outside_the_buffer_are_a_value_error(core: ModuleType, position: int, length: int, views: bool) -> None:
    columns = decoded(core)
    required(columns.value_position)[3] = position
    required(columns.value_length)[3] = length
    with pytest.raises(ValueError):
        core.make_records(DATA, columns, 0, None, views)
    with pytest.raises(ValueError):
        core.make_values(DATA, columns.value_position, columns.value_length, 20, views)


@pytest.mark.parametrize(
    ("array", "row", "value"),
    [
        ("header_start", 2, -1),
        ("header_start", 2, 2**62),
        ("header_count", 2, 1000),
        ("header_key_length", 1, -1),
        ("header_key_position", 1, 10**9),
    ],
)
def test_header_spans_outside_the_arrays_are_a_value_error(core: ModuleType, array: str, row: int, value: int) -> None:
    columns = decoded(core)
    getattr(columns, array)[row] = value
    with pytest.raises(ValueError):
        core.make_records(DATA, columns)


def test_columns_without_positions_are_rejected(native: ModuleType) -> None:
    for name in ("key_position", "value_position", "header_start", "header_key_length", "header_value_position"):
        columns = decoded(native)
        setattr(columns, name, None)
        with pytest.raises(TypeError):
            native.make_records(DATA, columns)


def test_dropped_records_release_their_references(native: ModuleType) -> None:
    """The free list keeps 1024 records, so the test creates more."""
    marker = object()
    before = sys.getrefcount(marker)
    for _ in range(3):
        many = [native.Record(i, 0, 0, marker, marker, ()) for i in range(3000)]
        assert sys.getrefcount(marker) == before + 6000
        repr(many[0]), hash(many[0]), many[0] == many[1], many[0].__reduce__()
        del many
        assert sys.getrefcount(marker) == before


def test_conversion_leaks_no_memory(native: ModuleType) -> None:
    columns = decoded(native)
    wrong = decoded(native)
    required(wrong.value_length)[19] = 10**6

    def work() -> None:
        native.make_records(DATA, columns, views=True)
        native.make_records(DATA, columns)
        try:
            native.make_records(DATA, wrong)
        except ValueError:
            return
        raise AssertionError("accepted")

    for _ in range(50):
        work()
    blocks = sys.getallocatedblocks()
    for _ in range(500):
        work()
    assert sys.getallocatedblocks() - blocks < 200


def test_values_are_made_from_numpy_arrays(core: ModuleType) -> None:
    positions, lengths = np.array([0, 2, 4], np.int64), np.array([2, -1, 0], np.int32)
    assert core.make_values(np.frombuffer(b"abcd", np.uint8), positions, lengths, 3) == [b"ab", None, b""]


def test_records_have_the_given_place(core: ModuleType) -> None:
    made = core.make_records(DATA, decoded(core), topic="t", partition=3)
    assert {(r.topic, r.partition) for r in made} == {("t", 3)}
    assert {(r.topic, r.partition) for r in core.make_records(DATA, decoded(core))} == {(None, None)}
    assert made == core.make_records(DATA, decoded(core))
    assert repr(made[0]).endswith("headers=(), topic='t', partition=3)")
    for same in (pickle.loads(pickle.dumps(made[2])), copy.copy(made[2]), core.Record(**made[2].to_dict())):
        assert (same, same.topic, same.partition) == (made[2], "t", 3)
    topic = "".join(["a", "b"])
    held = sys.getrefcount(topic)
    some = core.make_records(DATA, decoded(core), topic=topic)
    assert sys.getrefcount(topic) == held + len(some)
    del some
    assert sys.getrefcount(topic) == held


def test_record_has_defaults(core: ModuleType) -> None:
    record = core.Record(key=b"k", value=b"v")
    assert fields(record) == (0, -1, 0, b"k", b"v", ())
    assert (record.topic, record.partition, record.datetime) == (None, None, None)
    assert list(record.to_dict()) == [
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestamp_type",
        "key",
        "value",
        "headers",
    ]


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (-1, None),
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (-1001, datetime(1969, 12, 31, 23, 59, 58, 999000, tzinfo=UTC)),
        (1_700_000_000_123, datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC)),
        (2**63 - 1, None),
        (-(2**63), None),
    ],
)
def test_datetime_is_the_timestamp_in_utc(core: ModuleType, timestamp: int, expected: datetime | None) -> None:
    assert core.Record(timestamp=timestamp).datetime == expected
