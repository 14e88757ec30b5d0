"""Decode Protobuf bodies that are invalid or unusual, and compare the verdicts of the cores and of the objects."""

from __future__ import annotations

import time
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from decoding_values import decode_columns, framed, registry_of, using, version
from protobuf_schemas import varint

from kafkafmt.registry import SchemaRegistry
from kafkafmt.values.decoder import SideDecoder
from kafkafmt.values.errors import ValueFault
from kafkafmt.values.plan import ValuePlan
from kafkafmt.values.protobuf.writer import ProtobufWriter
from kafkafmt.values.writers import SubjectWriters

TEXT = """\
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
message M {
  int32 n = 1;
  string s = 2;
  M child = 3;
  N inner = 4;
  repeated int32 many = 5;
  fixed64 wide = 6;
  map<string, N> map = 7;
  google.protobuf.Timestamp at = 8;
  google.protobuf.Duration took = 9;
  repeated Wide wide_ones = 10;
  oneof one { int32 x = 11; N y = 12; string z = 13; }
}
message N { int32 n = 1; string s = 2; N deeper = 3; }
message Wide { FIELDS }
""".replace("FIELDS", " ".join(f"int32 f{i} = {i};" for i in range(1, 200)))
START = 6  # the prefix and the message indexes
GROUPS = 'syntax = "proto2"; message M { optional group G = 1 { optional int32 n = 1; optional G g = 2; } }'


def registry(text: str = TEXT) -> SchemaRegistry:
    return registry_of(version(text=text, schema_type="PROTOBUF"))


def one(core: ModuleType, body: bytes, text: str = TEXT) -> Any:
    """Return the value of a body, or its error. The objects must have the same verdict."""
    result = decode_columns(core, registry(text), [framed(b"\0" + body)])
    try:
        ProtobufWriter(text).to_json(memoryview(b"\0" + body))
        fault = None
    except ValueFault as error:
        fault = error.code, error.position + 5
    assert result.errors == [fault]
    return result.errors[0] or result.values[0]


def nested(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body


@pytest.mark.parametrize(
    ("body", "code", "position"),
    [
        (b"\x08", "truncated", 0),
        (b"\x08\x80", "truncated", 0),
        (b"\x08\x01\x08" + b"\x80" * 10 + b"\x01", "bad_number", 2),
        (b"\x08" + b"\xff" * 9, "truncated", 0),
        (b"\x12\x05abcd", "truncated", 0),
        (b"\x12\x02\xff\xfe", "bad_utf8", 0),
        (b"\x12\x80\x80\x80\x80\x80\x00", "bad_length", 0),
        (b"\x12\xff\xff\xff\xff\x7f", "truncated", 0),
        (b"\x00\x01", "bad_index", 0),
        (b"\x04", "bad_index", 0),
        (b"\x0e", "bad_index", 0),
        (b"\x0f", "bad_index", 0),
        (b"\x0c", "bad_index", 0),
        (b"\x08\x01\xff\xff\xff\xff\x1f\x00", "bad_index", 2),
        (b"\x08\x01\x88\x80\x80\x80\x80\x00\x00", "bad_index", 2),
        (b"\x22\x02\x12\x05", "truncated", 2),
        (b"\x22\x03\x12\x01\xff", "bad_utf8", 2),
        (b"\x31\x01\x02", "truncated", 0),
        (b"\x2a\x02\x01\x80", "truncated", 0),
        (b"\xa3\x06\x08\x01", "truncated", 0),
        (b"\xa3\x06\x08\x01\x9c\x06", "bad_index", 0),
        (nested(7, b"\x0a\x01\xff"), "bad_utf8", 2),
        (nested(8, b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "bad_number", 0),
        (nested(8, b"\x10" + varint(10**9)), "bad_number", 0),
        (nested(8, b"\x08" + varint(9223372036854)), "bad_number", 0),
        (nested(9, b"\x08\x01\x10" + varint(2**64 - 1)), "bad_number", 0),
        (nested(9, b"\x10" + varint(10**9)), "bad_number", 0),
        (nested(3, nested(2, b"\xff")), "bad_utf8", 2),
        (nested(3, nested(8, b"\x10" + varint(10**9))), "bad_number", 2),
    ],
)
def test_invalid_body(core: ModuleType, body: bytes, code: str, position: int) -> None:
    assert one(core, body) == (code, START + position)


def test_body_that_is_cut_at_every_byte(core: ModuleType) -> None:
    inner = b"\x08\x05\x12\x02ab"
    parts = [
        *(b"\x08\x96\x01", b"\x12\x05hello", nested(3, inner), nested(4, inner), b"\x2a\x03\x01\x96\x01"),
        *(b"\x28\x07", b"\x31" + bytes(8), nested(7, b"\x0a\x01k" + nested(2, inner)), nested(8, b"\x08\x01\x10\x02")),
        *(b"\xa3\x06\x08\x01\xa4\x06", b"\x58\x01"),
    ]
    body = b"".join(parts)
    ends = {sum(map(len, parts[:i])) for i in range(len(parts) + 1)}
    bodies = [body[:cut] for cut in range(len(body) + 1)]
    result = decode_columns(core, registry(), [framed(b"\0" + cut) for cut in bodies])
    writer = ProtobufWriter(TEXT)
    for cut, error in enumerate(result.errors):
        if cut in ends:
            assert error is None
        else:
            start = max(end for end in ends if end < cut)
            assert isinstance(error, tuple)
            assert error[0] == "truncated"
            assert START + start <= error[1] < START + cut
        try:
            writer.to_json(memoryview(b"\0" + body[:cut]))
            fault = None
        except ValueFault as found:
            fault = found.code, found.position + 5
        assert fault == error
    assert result.raw == [None if cut in ends else framed(b"\0" + bodies[cut]) for cut in range(len(bodies))]


@pytest.mark.parametrize("number", [3, 4])
def test_nesting_is_limited(core: ModuleType, number: int) -> None:
    for depth, error in ((64, None), (65, "too_deep"), (5000, "too_deep")):
        body = b""
        for _ in range(depth - 1):
            body = nested(3, body)
        body = nested(number, body)
        found = one(core, body)
        assert (found[0] if isinstance(found, tuple) else None) == error


@pytest.mark.parametrize(("depth", "error"), [(64, None), (65, "too_deep"), (100_000, "too_deep")])
def test_nesting_of_groups_is_limited(core: ModuleType, depth: int, error: str | None) -> None:
    for text in (TEXT, GROUPS):
        number = 100 if text is TEXT else 1
        starts = varint(number << 3 | 3) + b"\x13" * (depth - 1)
        ends = b"\x14" * (depth - 1) + varint(number << 3 | 4)
        found = one(core, starts + ends, text)
        assert (found[0] if isinstance(found, tuple) else None) == error


def test_group_is_a_message(core: ModuleType) -> None:
    value = one(core, b"\x0b\x08\x05\x10\x06\x0c\x0b\x08\x07\x0c", GROUPS)
    assert value == {"g": {"n": 7, "g": None}}
    assert one(core, b"\x0b\x08\x05", GROUPS) == ("truncated", START)
    assert one(core, b"\x0b\x08\x05\x14", GROUPS) == ("bad_index", START + 3)
    assert one(core, b"\x0a\x02\x08\x05", GROUPS) == {"g": None}  # not a group, and therefore unknown


def test_later_parts_of_a_message_are_merged(core: ModuleType) -> None:
    parts = [b"\x08\x01\x12\x01a", b"\x08\x02", b"\x12\x01b" + nested(3, b"\x08\x09"), nested(3, b"\x12\x01c")]
    body = b"".join(nested(4, part) for part in parts)
    deeper = '{"n": 9, "s": "c", "deeper": null}'
    assert one(core, body)["inner"] == {"n": 2, "s": "b", "deeper": deeper}
    times = nested(8, b"\x08\x05") + nested(8, b"\x10" + varint(3_000_999)) + nested(8, b"\x08\x07")
    assert one(core, times)["at"] == 7_003_000
    negative = varint(2**64 - 5)
    times = nested(9, b"\x08" + negative) + nested(9, b"\x10" + varint(2**64 - 3_000_999)) + nested(9, b"")
    assert one(core, times)["took"] == -5_003_000


def test_last_member_of_a_oneof_wins(core: ModuleType) -> None:
    def members(body: bytes) -> tuple[Any, ...]:
        found = one(core, body)
        return tuple(found[name] for name in "xyz")

    y = {"n": 0, "s": "", "deeper": None}
    assert members(b"\x58\x05" + nested(12, b"\x08\x01")) == (None, {**y, "n": 1}, None)
    assert members(nested(12, b"\x08\x01") + nested(13, b"s")) == (None, None, "s")
    assert members(nested(12, b"\x08\x01") + nested(12, b"\x12\x01b")) == (None, {**y, "n": 1, "s": "b"}, None)
    assert members(nested(12, b"\x08\x01") + b"\x58\x05" + nested(12, b"\x12\x01b")) == (None, {**y, "s": "b"}, None)
    assert members(nested(13, b"s") + b"\x58\x00") == (0, None, None)


def test_member_of_a_oneof_that_is_not_chosen_nulls_the_others(core: ModuleType) -> None:
    body = framed(b"\0\x58\x05" + nested(12, b""))
    assert decode_columns(core, registry(), [body], fields={"x": None}).values == [{"x": None}]


def test_last_entry_of_a_map_wins(core: ModuleType) -> None:
    for count in (3, 400):
        entries = [nested(7, nested(1, b"%d" % (i % 100)) + nested(2, b"\x08" + varint(i))) for i in range(count)]
        found = one(core, b"".join(entries) + nested(7, b"\x12\x00"))["map"]
        expected = {str(i % 100): i for i in range(count)} | {"": 0}
        assert {key: value["n"] for key, value in found} == expected
        assert len(found) == len(expected)


def test_rows_around_a_map_with_equal_keys(core: ModuleType) -> None:
    entry = nested(7, nested(1, b"a"))
    stored = [framed(b"\0" + entry * n) for n in (1, 3, 0, 2)] + [None, framed(b"\0" + entry + b"\0")]
    result = decode_columns(core, registry(), stored, fields={"map": None})
    assert [row and len(row["map"]) for row in result.values] == [1, 1, 0, 1, None, None]


def test_fields_that_are_not_chosen_are_not_decoded(core: ModuleType) -> None:
    body = framed(b"\0\x12\x01\xff\x08\x05" + nested(4, b"\x0f"))
    result = decode_columns(core, registry(), [body], fields={"n": None})
    assert (result.errors, result.values) == ([None], [{"n": 5}])


def test_unknown_fields_are_counted(core: ModuleType) -> None:
    with using(core):
        decoder = SideDecoder(ValuePlan(SubjectWriters(registry(), "t-value")), "value")
        bodies = [
            b"\xa0\x06\x01" * 3,
            b"\xa0\x06\x01\x0f",
            nested(4, b"\x0d" + bytes(4)),
            b"\x08\x01",
            b"\x12\x01a" * 2,
        ]
        stored = [framed(b"\0" + body) for body in bodies]
        sizes = np.array(list(map(len, stored)), np.int32)
        decoder.add(b"".join(stored), np.cumsum(sizes, dtype=np.int64) - sizes, sizes, np.arange(len(stored)))
        assert decoder._builder.unknown_fields == 4


def test_number_of_an_enum_without_a_symbol_is_its_text(core: ModuleType) -> None:
    text = 'syntax = "proto3"; enum E { ZERO = 0; TWO = 2; ALSO = 70000; } message M { E e = 1; repeated E many = 2; }'
    minus = varint(2**64 - 1)
    body = b"\x08\x01\x12" + varint(6 + len(minus)) + b"\x02\x02" + minus + b"\xf0\xa2\x04\x05"
    assert one(core, body, text) == {"e": "1", "many": ["TWO", "TWO", "-1", "ALSO", "5"]}
    stored = [framed(b"\0\x08" + varint(n)) for n in (2, 5, 2**64 - 7, 0, 2**32 + 2)]
    result = decode_columns(core, registry(text), stored)
    assert [row["e"] for row in result.values] == ["TWO", "5", "-7", "ZERO", "TWO"]


def test_number_that_a_closed_enum_does_not_know_is_an_unknown_field(core: ModuleType) -> None:
    text = """syntax = "proto2"; enum E { ZERO = 0; TWO = 2; }
    message M { optional E e = 1; repeated E many = 2; map<string, E> map = 3; oneof o { E x = 4; int32 y = 5; } }"""
    entries = nested(3, b"\x0a\x01a\x10\x09") + nested(3, b"\x0a\x01b\x10\x02") + nested(3, b"\x0a\x01c")
    body = b"\x08\x02\x08\x07\x12\x03\x00\x09\x02" + entries + b"\x28\x05\x20\x09"
    expected = {"e": "TWO", "many": ["ZERO", "TWO"], "map": [("b", "TWO"), ("c", "ZERO")], "x": None, "y": 5}
    assert one(core, body, text) == expected
    few = decode_columns(core, registry(text), [framed(b"\0" + body)], fields={"y": None})
    assert few.values == [{"y": 5}]


def test_many_empty_messages_with_many_columns_are_too_large(core: ModuleType) -> None:
    start = time.process_time()
    found = decode_columns(core, registry(), [framed(b"\0" + b"\x52\x00" * 100_000)], fields={"n": None})
    assert found.values == [{"n": 0}]
    if core.__name__.endswith("_core"):
        result = decode_columns(core, registry(), [framed(b"\0" + b"\x52\x00" * 100_000)], fields={"wide_ones": None})
        assert result.errors[0] is not None
        assert result.errors[0][0] == "too_large"
    assert time.process_time() - start < 20


def test_message_in_many_parts_takes_linear_time(core: ModuleType) -> None:
    start = time.process_time()
    parts = nested(4, nested(3, b"\x08\x01")) * 2000 + nested(7, nested(1, b"k")) * 2000
    assert one(core, parts)["inner"]["n"] == 0
    assert time.process_time() - start < 20
