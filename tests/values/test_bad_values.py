"""Decode values that are broken on purpose. Each has an error of its own, and its neighbors are decoded."""

from __future__ import annotations

import time
from types import ModuleType
from typing import Any

import pytest
from avro_schemas import encode
from decoding_values import decode_columns, framed, registry_of, version

from kafkafmt.values.record_decoder import RecordDecoder
from kafkafmt.values.writers import SubjectWriters

HUGE = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
LEAST = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
TOO_LONG = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0}
BIG_DECIMAL = {**DECIMAL, "precision": 76}
FIXED_DECIMAL = {"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 4}
ARRAY = {"type": "array", "items": "int"}
MAP = {"type": "map", "values": "int"}
NULLS = {"type": "array", "items": "null"}
EMPTY = {"type": "record", "name": "Empty", "fields": []}
TIME = {"type": "int", "logicalType": "time-millis"}
MICROS = {"type": "long", "logicalType": "time-micros"}


def big(number: int) -> bytes:
    raw = number.to_bytes(40, "big", signed=True)
    return bytes([2 * len(raw)]) + raw


@pytest.mark.parametrize(
    ("type_", "body", "code", "position"),
    [
        ("string", b"\x01", "bad_length", 0),
        ("string", LEAST, "bad_length", 0),
        ("string", HUGE, "truncated", 0),
        ("string", TOO_LONG, "bad_number", 0),
        ("string", b"\x80" * 10 + b"\x01", "bad_number", 0),
        ("string", b"\x80" * 9, "truncated", 0),
        ("string", b"", "truncated", 0),
        ("string", b"\x02", "truncated", 0),
        ("bytes", HUGE, "truncated", 0),
        ("bytes", b"\x03", "bad_length", 0),
        ("string", b"\x02\xff", "bad_utf8", 0),
        ("string", b"\x04\xc0\x80", "bad_utf8", 0),
        ("string", b"\x06\xed\xa0\x80", "bad_utf8", 0),
        ("string", b"\x08\xf4\x90\x80\x80", "bad_utf8", 0),
        ("string", b"\x04\xe2\x82", "bad_utf8", 0),
        ("string", b"\x28" + b"x" * 19 + b"\xc3", "bad_utf8", 0),
        ("int", b"\x80\x80\x80\x80\x10", "bad_number", 0),
        ("int", HUGE, "bad_number", 0),
        ("long", TOO_LONG, "bad_number", 0),
        ("boolean", b"\x02", "bad_number", 0),
        ("float", b"\0\0\0", "truncated", 0),
        ("double", b"\0" * 7, "truncated", 0),
        ("null", b"\0", "trailing_bytes", 0),
        ("long", b"\x02\x02", "trailing_bytes", 1),
        (ENUM, b"\x04", "bad_index", 0),
        (ENUM, b"\x01", "bad_index", 0),
        (ENUM, HUGE, "bad_number", 0),
        (["null", "int"], b"\x04\x02", "bad_index", 0),
        (["null", "int"], b"\x01\x02", "bad_index", 0),
        (["null", "int"], b"\x02" + HUGE, "bad_number", 0),
        (["null", "int", "string"], b"\x06", "bad_index", 0),
        (["null", "int", "string"], LEAST, "bad_index", 0),
        (["null", "int", "string"], b"\x04\x02\xff", "bad_utf8", 1),
        (["null"], b"\x02", "bad_index", 0),
        (DECIMAL, big(10**38), "bad_number", 0),
        (DECIMAL, big(-(10**38)), "bad_number", 0),
        (DECIMAL, big(2**127), "bad_number", 0),
        (DECIMAL, big(2**128), "bad_number", 0),
        (BIG_DECIMAL, big(10**76), "bad_number", 0),
        (BIG_DECIMAL, big(-(10**76)), "bad_number", 0),
        (BIG_DECIMAL, big(2**255), "bad_number", 0),
        (FIXED_DECIMAL, b"\x27\x10", "bad_number", 0),
        (FIXED_DECIMAL, b"\x27", "truncated", 0),
        (TIME, b"\x01", "bad_number", 0),
        (TIME, b"\x80\xf0\xb2\x52", "bad_number", 0),
        (MICROS, HUGE, "bad_number", 0),
        (ARRAY, LEAST, "bad_length", 0),
        (ARRAY, HUGE, "truncated", 0),
        (ARRAY, b"\x01\x01", "bad_length", 0),
        (ARRAY, b"\x01" + HUGE, "truncated", 0),
        (ARRAY, b"\x02\x02\x04\x02", "truncated", 2),
        (ARRAY, b"\x02\x02", "truncated", 2),
        (ARRAY, b"\x04\x02", "truncated", 0),
        (MAP, b"\x02\x02a", "truncated", 3),
        (MAP, b"\x02\x02\xff\x02\x00", "bad_utf8", 1),
        (NULLS, b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", "too_large", 0),  # 2^62 items
        (NULLS, HUGE, "too_large", 0),
        (NULLS, b"\x80\x40" * 2 + b"\0", "too_large", 2),  # two blocks of 4,096 items
        ({"type": "array", "items": EMPTY}, b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", "too_large", 0),
    ],
)  # fmt: skip
def test_broken_value_has_an_error_with_a_position(
    core: ModuleType, type_: Any, body: bytes, code: str, position: int
) -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "first", "type": "string"}, {"name": "x", "type": type_}],
    }
    first = b"\x06abc"
    stored = framed(first + body)
    result = decode_columns(core, registry_of(schema), [None, stored, None, stored])
    assert result.errors == [None, (code, position + 9), None, (code, position + 9)]
    assert result.values == [None] * 4
    assert result.raw == [None, stored, None, stored]
    error = RecordDecoder(SubjectWriters(registry_of(schema), "t-value"), "value").decode(stored).error
    assert error is not None
    assert (error.code, error.position) == (code, position + 9)
    alone = decode_columns(core, registry_of(type_), [framed(body)])
    assert alone.errors == [(code, position + 5)]


@pytest.mark.parametrize(
    ("type_", "body", "expected"),
    [
        (DECIMAL, big(10**38 - 1), 10**38 - 1),
        (DECIMAL, big(-(10**38) + 1), -(10**38) + 1),
        (DECIMAL, b"\0", 0),
        (BIG_DECIMAL, big(10**76 - 1), 10**76 - 1),
        (BIG_DECIMAL, big(-(10**76) + 1), -(10**76) + 1),
        (FIXED_DECIMAL, b"\xd8\xf1", -9999),
        (TIME, b"\xfe\xef\xb2\x52", 86_399_999),
        (NULLS, b"\x80\x40\0", [None] * 4096),
        ({"type": "array", "items": EMPTY}, b"\x04\0", [{}, {}]),
        (ARRAY, b"\x01\x02\x02\x01\x04\x04\0", [1, 2]),
        ("long", b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 0),
        ({"type": "fixed", "name": "Z", "size": 0}, b"", b""),
        (EMPTY, b"", {}),
    ],
)
def test_values_at_a_limit_are_decoded(core: ModuleType, type_: Any, body: bytes, expected: Any) -> None:
    result = decode_columns(core, registry_of(type_), [framed(body), None, framed(body)])
    assert result.errors == [None] * 3
    assert result.values == [expected, None, expected]


def test_neighbors_of_broken_values_are_decoded(core: ModuleType) -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": {"type": "array", "items": ["null", "string"]}}, {"name": "b", "type": "int"}],
    }
    value = {"a": ["x" * 30, None, "ß"], "b": 7}
    whole = framed(encode(schema, value))
    stored: list[bytes | None] = []
    for cut in range(len(whole)):
        stored += [whole, whole[:cut]]
    for batch in (0, 1, 7):
        result = decode_columns(core, registry_of(schema), stored, batch=batch)
        assert result.values == [value, None] * len(whole)
        assert all(error is not None for error in result.errors[1::2])
        assert result.errors[::2] == [None] * len(whole)


def test_many_rows_and_long_values_enlarge_the_columns(core: ModuleType) -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "s", "type": "string"},
            {"name": "b", "type": ["null", "boolean"]},
            {"name": "l", "type": {"type": "array", "items": {"type": "map", "values": "long"}}},
            {"name": "u", "type": ["int", "string", "null"]},
        ],
    }
    values: list[dict[str, Any]] = [
        {
            "s": "ß" * (n % 97),
            "b": None if n % 3 == 0 else n % 2 == 0,
            "l": [{"k": n, "": -n}] * (n % 4),
            "u": ("int", n) if n % 2 else ("string", str(n)),
        }
        for n in range(3000)
    ]
    stored = [framed(encode(schema, value)) for value in values]
    stored[1500] = stored[1500][:-1]
    result = decode_columns(core, registry_of(schema), stored, batch=1000)
    assert [row for row, error in enumerate(result.errors) if error is not None] == [1500]
    for row, (found, value) in enumerate(zip(result.values, values, strict=True)):
        if row != 1500:
            kind, branch = value["u"]
            expected = {**value, "u": {"int": None, "string": None} | {kind: branch}}
            expected["l"] = [list(entry.items()) for entry in value["l"]]
            assert found == expected


def test_deep_data_is_an_error(core: ModuleType) -> None:
    chain = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
    endless = {"type": "record", "name": "N", "fields": [{"name": "next", "type": "N"}]}
    for schema in (chain, endless):
        registry = registry_of(schema)
        stored = framed(b"\x02" * 10_000 + b"\0")
        result = decode_columns(core, registry, [stored, framed(b"\0")])
        assert result.errors[0] is not None
        assert result.errors[0][0] == "too_deep"
        error = RecordDecoder(SubjectWriters(registry, "t-value"), "value").decode(stored).error
        assert error is not None
        assert error.code == "too_deep"


@pytest.mark.parametrize("raw", [b"", b"\0", b"\0\0\0\0", b"\x01" * 16, b"\x02\0\0\0\1\0", b"{}", b"\x01"])
def test_value_without_a_schema_id(core: ModuleType, raw: bytes) -> None:
    result = decode_columns(core, registry_of("int"), [raw, framed(b"\x02")])
    assert result.errors == ["no_schema_id: it does not begin with a schema id", None]
    assert result.values == [None, 1]
    assert result.raw == [raw, None]


@pytest.mark.parametrize("schema_id", [0, 2, 1023, 1024, 2**20, 2**31 - 1, 2**31, 2**32 - 1])
def test_unknown_id(core: ModuleType, schema_id: int) -> None:
    result = decode_columns(core, registry_of("int"), [framed(b"\x02", schema_id), framed(b"\x02")])
    assert result.errors == [f"unknown_schema: there is no schema with id {schema_id}", None]
    assert result.values == [None, 1]


@pytest.mark.parametrize("schema_id", [0, 5000, 2**20 - 1, 2**20, 2**31 - 1])
def test_known_id(core: ModuleType, schema_id: int) -> None:
    result = decode_columns(core, registry_of(version("int", schema_id=schema_id)), [framed(b"\x02", schema_id)] * 3)
    assert result.errors == [None] * 3
    assert result.values == [1] * 3


def test_guid_stands_for_an_id(core: ModuleType) -> None:
    guid = "00112233-4455-6677-8899-aabbccddeeff"
    registry = registry_of(version("int", guid=guid))
    prefix = b"\1" + bytes.fromhex(guid.replace("-", ""))
    other = b"\1" + bytes(16)
    stored = [prefix + b"\x02", framed(b"\x04"), prefix + b"\x80", other + b"\x02", prefix[:-1]]
    result = decode_columns(core, registry, stored)
    assert result.values == [1, 2, None, None, None]
    assert result.errors == [
        None,
        None,
        ("truncated", 17),
        "unknown_schema: there is no schema with GUID '00000000-0000-0000-0000-000000000000'",
        "no_schema_id: it does not begin with a schema id",
    ]


def test_two_texts_under_one_id(core: ModuleType) -> None:
    registry = registry_of(version("int", 1, 1), version("string", 1, 5, "a-value"), version("bytes", 1, 5, "b-value"))
    result = decode_columns(core, registry, [framed(b"\x02", 5), framed(b"\x02", 1)])
    assert str(result.errors[0]).startswith("unknown_schema: id 5 is ambiguous, because different schemas have it: ")
    assert result.values == [None, 1]


@pytest.mark.parametrize(
    ("other", "error"),
    [
        (version("long", 2, error="encrypted"), "encrypted: schema 2 is encrypted"),
        (
            version(text="syntax", number=2, schema_type="PROTOBUF"),
            "invalid_schema: version 2 of subject t-value is invalid: the schema is not base64: ",
        ),
        (version(text="{", number=2), "invalid_schema: version 2 of subject t-value is invalid: "),
    ],
)
def test_schema_that_cannot_be_used(core: ModuleType, other: Any, error: str) -> None:
    registry = registry_of(version("int"), other)
    result = decode_columns(core, registry, [framed(b"\x02", 2), None, framed(b"\x02")])
    assert str(result.errors[0]).startswith(error)
    assert result.errors[1:] == [None, None]
    assert result.values == [None, None, 1]
    found = RecordDecoder(SubjectWriters(registry, "t-value"), "value").decode(framed(b"\x02", 2)).error
    assert found is not None
    assert (f"{found.code}: {found.message}", found.position) == (result.errors[0], None)


def test_array_of_wide_rows_without_bytes_ends_soon(core: ModuleType) -> None:
    wide = {"type": "record", "name": "W", "fields": [{"name": f"f{i}", "type": "null"} for i in range(100)]}
    start = time.process_time()
    result = decode_columns(core, registry_of({"type": "array", "items": wide}), [framed(b"\x80\x3e\0")])
    assert result.errors == [None]
    assert time.process_time() - start < 20
