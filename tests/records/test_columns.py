"""Check that `columns_of` converts values exactly, or raises an error that names the column and the row."""

from __future__ import annotations

import array
import datetime
import decimal
import re
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import kafkafmt
from kafkafmt import read_records
from kafkafmt.records import Partitioner, build_columns, columns_of
from kafkafmt.types import HeaderSpans, Spans

MOST = 2**63 - 1
STRUCT = pa.struct([("key", pa.string()), ("value", pa.binary())])
DICTIONARY = pa.dictionary(pa.int8(), pa.string())
SWAPPED = pa.struct([("value", pa.binary()), ("key", pa.string())])
HEADERS = [[("a", b"1"), ("b", None)], None, [], [("", b"")]]
AS_READ = [(("a", b"1"), ("b", None)), (), (), (("", b""),)]


def dicts(rows: list[Any]) -> list[Any]:
    return [None if row is None else [dict(zip(("key", "value"), pair, strict=True)) for pair in row] for row in rows]


def headers_of(column: Any) -> list[Any]:
    return [r.headers for r in read_records(b"".join(build_columns(columns_of(headers=column))))]


TIMES: dict[str, tuple[Any, list[int]]] = {
    "uint64": (np.array([5, MOST], np.uint64), [5, MOST]),
    "big-endian": (np.array([5, 7], ">i8"), [5, 7]),
    "int8": (np.array([5, -1], np.int8), [5, -1]),
    "strided": (np.arange(6)[::2], [0, 2, 4]),
    "NumPy's integers": ([np.int32(5), np.uint64(7), None], [5, 7, -1]),
    "objects": (np.array([5, None, MOST], object), [5, -1, MOST]),
    "tuple": ((5, None), [5, -1]),
    "no rows": ([], []),
    "seconds": (np.array([5, "NaT"], "datetime64[s]"), [5000, -1]),
    "ten seconds": (np.array([5], "datetime64[10s]"), [50_000]),
    "minutes": (np.array([5], "datetime64[m]"), [300_000]),
    "days": (np.array(["1970-01-03"], "datetime64[D]"), [172_800_000]),
    "months": (np.array(["1970-02"], "datetime64[M]"), [2_678_400_000]),
    "years": (np.array(["1971", "NaT"], "datetime64[Y]"), [31_536_000_000, -1]),
    "nanoseconds": (np.array([5_999_999], "datetime64[ns]"), [5]),
    "largest": (np.array([MOST], "datetime64[ms]"), [MOST]),
    "date32": (pa.array([datetime.date(1970, 1, 3), None]), [172_800_000, -1]),
    "date64": (pa.array([datetime.date(1970, 1, 3), None], pa.date64()), [172_800_000, -1]),
    "Arrow's seconds": (pa.array([5, None, 0], pa.timestamp("s")), [5000, -1, 0]),
    "Arrow's nulls": (pa.nulls(2), [-1, -1]),
    "Arrow's uint64": (pa.array([MOST, None], pa.uint64()), [MOST, -1]),
    "Arrow's dictionary": (pa.array([7, 5, None, 7]).dictionary_encode(), [7, 5, -1, 7]),
    "Arrow's times, sliced": (pa.array([1, None, 3, 4], pa.timestamp("ms", "UTC"))[1:3], [-1, 3]),
    "chunks": (pa.chunked_array([[1], [], [None, 3]], pa.int64()), [1, -1, 3]),
    "pandas, nullable": (pd.Series([5, None], dtype="Int64"), [5, -1]),
    "pandas, Arrow": (pd.Series([5, 7], dtype="int64[pyarrow]"), [5, 7]),
    "polars, dates": (pl.Series([datetime.date(1970, 1, 2), None]), [86_400_000, -1]),
}


@pytest.mark.parametrize("kind", TIMES)
def test_timestamps_are_converted_exactly(kind: str) -> None:
    column, expected = TIMES[kind]
    found = columns_of(timestamp=column).timestamps
    assert found is not None
    assert found.dtype == np.int64
    assert found.tolist() == expected


WRONG_TIMES: dict[str, tuple[Any, type[Exception], str]] = {
    "uint64": (np.array([5, 2**64 - 1], np.uint64), ValueError, "row 1: 18446744073709551615"),
    "Python's integers": ([5, 2**63], ValueError, "row 1: 9223372036854775808"),
    "below 64 bits": ([-(2**63) - 1], ValueError, "row 0"),
    "far beyond": ([1, None, 2**200], ValueError, "row 2"),
    "seconds that overflow": (
        np.array([0, 2**62], "datetime64[s]"),
        ValueError,
        "row 1: 4611686018427387904 in datetime64.s",
    ),
    "days that overflow": (np.array([2**62], "datetime64[D]"), ValueError, "row 0"),
    "years that overflow": (np.array([2**60], "datetime64[Y]"), ValueError, "row 0"),
    "before 1970": (np.array([5, -1], "datetime64[ms]"), ValueError, "row 1: -1 in .* before 1970"),
    "a microsecond before 1970": (np.array([-1], "datetime64[us]"), ValueError, "row 0"),
    "Arrow's seconds": (pa.array([5, None, 2**62], pa.timestamp("s")), ValueError, "row 2"),
    "Arrow's lowest time": (pa.array([5, -(2**63)], pa.timestamp("ms")), ValueError, "row 1"),
    "Arrow's date before 1970": (pa.array([datetime.date(1969, 12, 31)]), ValueError, "row 0"),
    "Arrow's uint64": (pa.array([None, 2**64 - 1], pa.uint64()), ValueError, "row 1"),
    "floats": (np.array([1.0]), TypeError, "integers or times, not the NumPy type float64"),
    "a float in a list": ([1, 2.0], TypeError, "row 1: .* not float"),
    "NaN": (pd.Series([1, None]), TypeError, "float64"),
    "a bool in a list": ([1, True], TypeError, "row 1: .* not bool"),
    "bools": (np.array([True]), TypeError, "not the NumPy type bool"),
    "text": (["5"], TypeError, "row 0: .* not str"),
    "text, NumPy": (np.array(["5"]), TypeError, "not the NumPy type <U1"),
    "timedelta": (np.array([5], "timedelta64[ms]"), TypeError, "timedelta64"),
    "timedelta in a list": ([1, np.timedelta64(5, "ns")], TypeError, "row 1: .* not timedelta64"),
    "timedelta among objects": (np.array([np.timedelta64(5, "ns")], object), TypeError, "row 0: .* not timedelta64"),
    "decimals": ([decimal.Decimal(5)], TypeError, "row 0: .* not Decimal"),
    "datetimes": ([datetime.datetime(2020, 1, 1)], TypeError, "row 0: .* not datetime"),
    "two dimensions": (np.zeros((2, 2), np.int64), TypeError, "2 dimensions"),
    "Arrow's floats": (pa.array([1.0]), TypeError, "not the Arrow type double"),
    "Arrow's bools": (pa.array([True]), TypeError, "not the Arrow type bool"),
    "Arrow's text": (pa.array(["5"]), TypeError, "not the Arrow type string"),
    "Arrow's durations": (pa.array([5], pa.duration("ms")), TypeError, "not the Arrow type duration"),
    "Arrow's times of day": (pa.array([5], pa.time64("us")), TypeError, "not the Arrow type time64"),
    "Arrow's decimals": (pa.array([decimal.Decimal(5)]), TypeError, "not the Arrow type decimal"),
    "Arrow's lists": (pa.array([[5]]), TypeError, "not the Arrow type list"),
    "polars, floats": (pl.Series([1.0]), TypeError, "not the Arrow type double"),
}


@pytest.mark.parametrize("kind", WRONG_TIMES)
def test_timestamps_that_would_change_are_rejected(kind: str) -> None:
    column, error, words = WRONG_TIMES[kind]
    with pytest.raises(error, match=f"timestamp.*{words}"):
        columns_of(timestamp=column)


@pytest.mark.parametrize(
    "scalar",
    [1.9, 5.0, "5", b"5", True, np.bool_(True), np.float64(5), 1j, decimal.Decimal(5), np.timedelta64(5, "ns")],
    ids=repr,
)
def test_scalar_timestamps_of_other_types_are_rejected(scalar: Any) -> None:
    with pytest.raises(TypeError, match="timestamp is"):
        columns_of(key=[b"k"], timestamp=scalar)


@pytest.mark.parametrize(
    "scalar", [2**63, -(2**63) - 1, np.uint64(2**64 - 1), np.datetime64(-1, "ms"), np.datetime64(2**62, "s")], ids=repr
)
def test_scalar_timestamps_that_do_not_fit_are_rejected(scalar: Any) -> None:
    with pytest.raises(ValueError, match="timestamp"):
        columns_of(key=[b"k"], timestamp=scalar)


@pytest.mark.parametrize(
    "scalar", [5, np.int8(5), np.uint64(5), np.datetime64(5, "ms"), np.datetime64(5999, "us")], ids=repr
)
def test_scalar_timestamp_is_that_of_all_records(scalar: Any) -> None:
    found = columns_of(key=[b"k"] * 3, timestamp=scalar).timestamps
    assert found is not None
    assert found.tolist() == [5, 5, 5]


@pytest.mark.parametrize("column", [[1, None], pa.array([1, None]), pa.nulls(2), np.array([1, None], object)], ids=type)
def test_null_offsets_are_rejected(column: Any) -> None:
    with pytest.raises(ValueError, match=r"offset, row [01]: an offset cannot be null"):
        columns_of(offset=column)


@pytest.mark.parametrize(
    "column",
    [
        np.array([1], "datetime64[ms]"),
        pa.array([1], pa.timestamp("ms")),
        [1.0],
        [True],
        [np.timedelta64(1, "ns")],
        ["1"],
        pa.array([1.0]),
        pa.array([b"1"]),
    ],
    ids=type,
)
def test_offsets_that_are_not_integers_are_rejected(column: Any) -> None:
    with pytest.raises(TypeError, match="offset"):
        columns_of(offset=column)


def test_offsets_that_do_not_fit_are_rejected() -> None:
    for column in (np.array([1, 2**63], np.uint64), [1, 2**63], pa.array([1, 2**63], pa.uint64())):
        with pytest.raises(ValueError, match="offset, row 1: 9223372036854775808 does not fit"):
            columns_of(offset=column)


HEADER_COLUMNS = {
    "tuples": HEADERS,
    "lists": [None if row is None else [list(pair) for pair in row] for row in HEADERS],
    "dicts": [None if row is None else dict(row) for row in HEADERS],
    "items": [None if row is None else dict(row).items() for row in HEADERS],
    "structs": pa.array(dicts(HEADERS), pa.list_(STRUCT)),
    "structs, fields swapped": pa.array(dicts(HEADERS), pa.list_(SWAPPED)),
    "large list": pa.array(dicts(HEADERS), pa.large_list(STRUCT)),
    "list view": pa.array(dicts(HEADERS), pa.list_view(STRUCT)),
    "large list view": pa.array(dicts(HEADERS), pa.large_list_view(SWAPPED)),
    "map": pa.array(HEADERS, pa.map_(pa.string(), pa.binary())),
    "sliced": pa.array(dicts([[("z", b"z")] * 3, *HEADERS, None]), pa.list_(STRUCT))[1:5],
    "list view, sliced": pa.array(dicts([[("z", b"z")] * 3, *HEADERS, None]), pa.list_view(STRUCT))[1:5],
    "map, sliced": pa.array([[("z", b"z")] * 3, *HEADERS, None], pa.map_(pa.string(), pa.binary()))[1:5],
    "other strings": pa.array(
        dicts(HEADERS), pa.list_(pa.struct([("key", pa.large_string()), ("value", pa.binary_view())]))
    ),
    "binary keys": pa.array(dicts(HEADERS), pa.list_(pa.struct([("key", pa.string_view()), ("value", pa.string())]))),
    "dictionary keys": pa.array(dicts(HEADERS), pa.list_(pa.struct([("key", DICTIONARY), ("value", pa.binary())]))),
    "chunks": pa.chunked_array(
        [pa.array(dicts(HEADERS[:1]), pa.list_(STRUCT)), pa.array(dicts(HEADERS[1:]), pa.list_(STRUCT))]
    ),
    "pandas": pd.Series(HEADERS),
    "polars": pl.Series(dicts(HEADERS), dtype=pl.List(pl.Struct({"key": pl.String, "value": pl.Binary}))),
    "objects": np.array([*HEADERS, 0], object)[:4],
}


@pytest.mark.parametrize("kind", HEADER_COLUMNS)
def test_headers_are_converted_exactly(package: ModuleType, kind: str) -> None:
    assert headers_of(HEADER_COLUMNS[kind]) == AS_READ


def test_fixed_size_lists_of_headers_are_converted(package: ModuleType) -> None:
    rows: list[list[tuple[str, bytes | None]] | None] = [
        [("a", b"1"), ("b", None)],
        [("c", b""), ("d", b"2")],
        None,
        [("e", b"3"), ("f", b"4")],
    ]
    column = pa.array(dicts(rows), pa.list_(STRUCT, 2))
    expected = [tuple(row or ()) for row in rows]
    assert headers_of(column) == expected
    assert headers_of(column[1:]) == expected[1:]


def test_all_null_headers_are_none(package: ModuleType) -> None:
    assert headers_of(pa.nulls(2)) == [(), ()]
    assert headers_of(pa.array([None, None], pa.list_(STRUCT))) == [(), ()]
    assert headers_of(pa.array([None], pa.map_(pa.string(), pa.binary()))) == [()]
    assert columns_of(headers=pa.array([], pa.list_(STRUCT))).rows == 0


def test_null_header_structures_are_rejected() -> None:
    for kind in (pa.list_(STRUCT), pa.large_list(STRUCT), pa.list_view(STRUCT), pa.list_(SWAPPED, 2)):
        rows = [[{"key": "a", "value": b"1"}] * 2, None, [{"key": "a", "value": b"1"}, None]]
        with pytest.raises(ValueError, match="headers, row 2: a header cannot be null"):
            columns_of(headers=pa.array(rows, kind))
        assert columns_of(headers=pa.array(rows, kind)[:2]).rows == 2  # the null is not among these rows


WRONG_HEADERS = {
    "strings": (pa.array([["a", "b"]]), TypeError, "fields key and value, not the Arrow type string"),
    "string of fixed lists": (pa.array([["a", "b"]], pa.list_(pa.string(), 2)), TypeError, "fields key and value"),
    "other fields": (pa.array([[{"k": "a", "v": b""}]]), TypeError, "fields key and value"),
    "one field": (pa.array([[{"key": "a"}]]), TypeError, "fields key and value"),
    "three fields": (pa.array([[{"key": "a", "value": b"", "more": 1}]]), TypeError, "fields key and value"),
    "field twice": (
        pa.array([[]], pa.list_(pa.struct([("key", pa.string()), ("key", pa.string())]))),
        TypeError,
        "fields key and value",
    ),
    "structs without a list": (
        pa.array([{"key": "a", "value": b""}]),
        TypeError,
        "maps or lists of structs, not the Arrow type struct",
    ),
    "text": (pa.array(["a"]), TypeError, "not the Arrow type string"),
    "numbers": (
        pa.array([[{"key": "a", "value": 5}]]),
        TypeError,
        r"\(values\) is an Arrow array of int64; it must be binary or string",
    ),
    "a string a row": (["ab"], TypeError, "row 0"),
    "bytes a row": ([None, b"ab"], TypeError, "row 1"),
    "a number a row": ([5], TypeError, "row 0"),
    "NaN": ([float("nan")], TypeError, "row 0"),
    "strings for pairs": ([[], ["ab"]], TypeError, r"row 1: a header must be a \(key, value\) tuple, not 'ab'"),
    "dicts for pairs": ([[{"key": "a", "value": b""}]], TypeError, "row 0: a header must be"),
    "three items": ([[("a", b"", 1)]], TypeError, "row 0: a header must be"),
    "a null pair": ([[None]], TypeError, "row 0: a header must be"),
    "a null key": ([[("a", b""), (None, b"")]], TypeError, "row 0: a header key cannot be null"),
    "a number for a key": ([[], [(5, b"")]], TypeError, r"headers \(keys\), row 1"),
    "text for a value": ([[], [("a", b""), ("a", "text")]], TypeError, r"headers \(values\), row 1: .* not str"),
    "a number for a value": ([{"a": 5}], TypeError, r"headers \(values\), row 0: .* not int"),
    "a lone surrogate": ([[("\ud800", b"")]], ValueError, "row 0: .* UTF-8"),
}


@pytest.mark.parametrize("kind", WRONG_HEADERS)
def test_headers_that_would_change_are_rejected(kind: str) -> None:
    column, error, words = WRONG_HEADERS[kind]
    with pytest.raises(error, match=words):
        columns_of(headers=column)


BINARY: dict[str, tuple[Any, list[bytes | None]]] = {
    "dictionary": (pa.array([b"a", None, b"b"]).dictionary_encode(), [b"a", None, b"b"]),
    "dictionary of views": (pa.array(["a", None], pa.dictionary(pa.int8(), pa.string())), [b"a", None]),
    "large, sliced": (pa.array([b"x", b"a", None], pa.large_binary())[1:], [b"a", None]),
    "views, sliced": (pa.array([b"x", b"a" * 30, None], pa.binary_view())[1:], [b"a" * 30, None]),
    "no chunks": (pa.chunked_array([], pa.binary()), []),
    "memoryviews": ([memoryview(b"abc")[1:], bytearray(b"x"), np.frombuffer(b"yz", np.uint8)], [b"bc", b"x", b"yz"]),
    "signed bytes": ([array.array("b", [1, 2])], [b"\1\2"]),
    "NumPy's bytes": ([np.bytes_(b"ab")], [b"ab"]),
    "rows without width": (np.zeros((2, 0), np.uint8), [b"", b""]),
}


@pytest.mark.parametrize("kind", BINARY)
def test_keys_and_values_are_converted_exactly(package: ModuleType, kind: str) -> None:
    column, expected = BINARY[kind]
    data = b"".join(build_columns(columns_of(key=column, value=column)))
    assert [(r.key, r.value) for r in read_records(data)] == [(v, v) for v in expected]


WRONG_BINARY: dict[str, Any] = {
    "text": [b"a", "text"],
    "NumPy's text": np.array(["a"]),
    "NumPy's text in a list": [b"a", np.str_("a")],
    "integers": [b"a", 5],
    "NumPy's integers": np.array([1, 2]),
    "NumPy's integers in a list": [b"a", np.int64(5)],
    "bytes in one dimension": np.array([1, 2], np.uint8),
    "rows of larger numbers": np.zeros((2, 2), np.int64),
    "S in two dimensions": np.array([[b"a"]]),
    "floats": np.array([1.0]),
    "times": np.array([1], "datetime64[s]"),
    "words in a list": [b"a", array.array("i", [1])],
    "NaN": [b"a", float("nan")],
    "lists": [b"a", [1]],
    "masked arrays": [b"a", np.ma.MaskedArray(np.array([1, 2], np.uint8), mask=[True, False])],
    "Python objects of Polars": pl.Series([object(), None]),
    "a set": {b"a", b"b"},
    "a frozen set": frozenset([b"a", b"b"]),
    "a pandas DataFrame": pd.DataFrame({"a": [b"a"]}),
    "a Polars DataFrame": pl.DataFrame({"a": [b"a"]}),
    "an Arrow table": pa.table({"a": [b"a"]}),
    "an Arrow record batch": pa.record_batch({"a": [b"a"]}),
    "Arrow's integers": pa.array([5]),
    "Arrow's floats": pa.array([1.0]),
    "Arrow's bools": pa.array([True]),
    "Arrow's lists": pa.array([[b"a"]]),
    "Arrow's list views": pa.array([[b"a"]], pa.list_view(pa.binary())),
    "Arrow's structs": pa.array([{"a": b"a"}]),
    "Arrow's decimals": pa.array([decimal.Decimal(5)]),
}


@pytest.mark.parametrize("kind", WRONG_BINARY)
@pytest.mark.parametrize("name", ["key", "value"])
def test_keys_and_values_of_other_types_are_rejected(kind: str, name: str) -> None:
    column = WRONG_BINARY[kind]
    with pytest.raises(TypeError, match=name + (", row 1" if isinstance(column, list) else "")):
        columns_of(**{name: column})


def test_partitioner_rejects_the_same_columns() -> None:
    for column in (np.array(["a"]), [b"a", 5], pa.array([5])):
        with pytest.raises(TypeError, match="keys"):
            Partitioner(3).column(column)
    assert Partitioner(3).column([b"a", None]).tolist()[0] == Partitioner(3).partition(b"a")


def test_partitioner_rejects_python_objects_of_polars() -> None:
    with pytest.raises(TypeError, match="keys is a Polars Series of Python objects"):
        Partitioner(3).column(pl.Series([object()]))


def test_tables_are_rejected_as_timestamps_and_offsets() -> None:
    for table in (pd.DataFrame({"a": [1]}), pl.DataFrame({"a": [1]}), pa.table({"a": [1]}), {1}):
        for name in ("timestamp", "offset"):
            with pytest.raises(TypeError, match=f"{name} must be a column"):
                columns_of(**{name: table})


def test_columns_of_a_scalar_array_are_rejected() -> None:
    for name in ("key", "headers", "offset"):
        with pytest.raises(TypeError, match=f"{name} must be a column"):
            columns_of(**{name: np.array(5)})


@pytest.mark.parametrize("name", ["key", "value", "timestamp", "headers", "offset"])
def test_masked_arrays_are_rejected(name: str) -> None:
    dtype: Any = np.int64 if name in ("timestamp", "offset") else object
    column = np.ma.MaskedArray(np.zeros(2, dtype), mask=[False, True])
    with pytest.raises(TypeError, match=f"{name} is a masked array"):
        columns_of(**{name: column})


def test_partitioner_rejects_masked_arrays() -> None:
    with pytest.raises(TypeError, match="keys is a masked array"):
        Partitioner(3).column(np.ma.MaskedArray(np.array([b"a", b"b"], object), mask=[False, True]))


def test_columns_of_an_arrow_table_are_built_unchanged(package: ModuleType) -> None:
    records = [(b"k", None, 5, [("a", b"1"), ("a", None)]), (None, b"v", -1, [])]
    data = kafkafmt.build_batch(records)
    names = ["key", "value", "timestampMillis", "headers", "offset"]
    made = columns_of(*kafkafmt.to_arrow(data, names).columns)
    assert b"".join(build_columns(made)) == data


FOREIGN = {
    "big-endian": (">i8", ">i4"),
    "unsigned": ("u8", "u4"),
    "small": ("i2", "i1"),
    "large lengths": ("i8", "i8"),
}


@pytest.mark.parametrize("types", FOREIGN)
def test_spans_of_other_integers_are_converted(package: ModuleType, types: str) -> None:
    positions, lengths = (np.array([n], kind) for n, kind in zip((3, 4), FOREIGN[types], strict=True))
    keys = Spans(b"0123456789", positions, lengths)
    headers = HeaderSpans(np.array([0], FOREIGN[types][0]), np.array([1], FOREIGN[types][1]), keys, keys)
    data = b"".join(build_columns(columns_of(key=keys, headers=headers)))
    assert [(r.key, r.headers) for r in read_records(data)] == [(b"3456", (("3456", b"3456"),))]
    assert kafkafmt.records.Partitioner(7).column(keys).tolist() == [kafkafmt.records.Partitioner(7).partition(b"3456")]


@pytest.mark.parametrize("kind", ["f8", "c16", "?", "S8", "M8[ms]", "O"])
def test_spans_that_are_not_integers_are_rejected(package: ModuleType, kind: str) -> None:
    good, wrong = np.array([1], np.int64), np.array([1]).astype(kind)
    lengths = good.astype(np.int32)
    for spans in (Spans(b"0123456789", wrong, lengths), Spans(b"0123456789", good, wrong)):
        with pytest.raises(
            TypeError, match=rf"key \((positions|lengths)\) is an array of {re.escape(str(wrong.dtype))}.*must be int"
        ):
            columns_of(key=spans)
        with pytest.raises(TypeError, match="keys"):
            kafkafmt.records.Partitioner(7).column(spans)
        with pytest.raises(TypeError, match=r"headers \(values\)"):
            columns_of(headers=HeaderSpans(good, lengths, Spans(b"0", good, lengths), spans))
    with pytest.raises(TypeError, match=r"headers \(starts\)"):
        columns_of(headers=HeaderSpans(wrong, lengths, Spans(b"0", good, lengths), Spans(b"0", good, lengths)))
    with pytest.raises(TypeError, match="offset"):
        columns_of(offset=np.array([1 + 0j]))


def test_null_header_key_is_reported_before_a_later_wrong_span(package: ModuleType) -> None:
    lengths = np.array([-1, 1], np.int32)
    keys, values = Spans(b"k", np.array([0, 99]), lengths), Spans(b"v", np.array([0, 0]), lengths)
    columns = columns_of(headers=HeaderSpans(np.array([0]), np.array([2], np.int32), keys, values))
    with pytest.raises(kafkafmt.InvalidError, match="a header key is null"):
        list(build_columns(columns))


@pytest.mark.filterwarnings("error")
def test_spans_with_strides_are_copied(package: ModuleType) -> None:
    keys = Spans(b"0123456789", np.array([3, 0, 5])[::2], np.array([2, 0, 1], np.int32)[::2])
    headers = HeaderSpans(np.array([0, 9, 1])[::2], np.array([1, 9, 1], np.int32)[::2], keys, keys)
    data = b"".join(build_columns(columns_of(key=keys, headers=headers)))
    assert [(r.key, r.headers) for r in read_records(data)] == [(b"34", (("34", b"34"),)), (b"5", (("5", b"5"),))]
    assert len(kafkafmt.records.Partitioner(7).column(keys)) == 2
    assert (
        columns_of(timestamp=np.zeros(0, complex)).rows
        == columns_of(key=Spans(b"", np.zeros(0), np.zeros(0))).rows  # type: ignore[arg-type]
        == 0
    )


def test_spans_that_do_not_fit_are_rejected(package: ModuleType) -> None:
    good, lengths = np.array([1]), np.array([1], np.int32)
    with pytest.raises(ValueError, match=r"key \(positions\), row 0: 18446744073709551615 does not fit into int64"):
        columns_of(key=Spans(b"0123456789", np.array([2**64 - 1], np.uint64), lengths))
    with pytest.raises(ValueError, match=r"key \(lengths\), row 0: 4294967297 does not fit into int32"):
        columns_of(key=Spans(b"0123456789", good, np.array([2**32 + 1])))
