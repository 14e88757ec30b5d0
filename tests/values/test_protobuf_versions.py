"""Decode Protobuf values of several versions of a schema into the same columns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from decoded_logs import write_log
from decoding_values import Columns, decode_columns, framed, registry_of, version
from protobuf_schemas import varint

import kafkafmt
from kafkafmt.values.plan import ValuePlan
from kafkafmt.values.writers import SubjectWriters


def proto(fields: str, number: int, more: str = "") -> Any:
    return version(text=f'syntax = "proto3"; message M {{ {fields} }} {more}', number=number, schema_type="PROTOBUF")


def both(core: ModuleType, old: str, new: str, bodies: tuple[bytes, bytes], **given: Any) -> Columns:
    """Decode a value of each of two versions."""
    registry = registry_of(proto(old, 1), proto(new, 2))
    return decode_columns(core, registry, [framed(b"\0" + body, i) for i, body in enumerate(bodies, 1)], **given)


ONE, TEXT = b"\x08\x01", b"\x0a\x01x"
HALF = b"\x0d\x00\x00\x00\x3f"
LARGE = b"\x08" + varint(2**64 - 1)


@pytest.mark.parametrize(
    ("old", "new", "bodies", "type_", "values"),
    [
        ("int32", "int64", (LARGE, LARGE), pa.int64(), [-1, -1]),
        ("sint32", "int64", (LARGE, ONE), pa.int64(), [-(2**31), 1]),
        ("int32", "uint32", (LARGE, LARGE), pa.int64(), [-1, 2**32 - 1]),
        ("uint32", "int64", (LARGE, LARGE), pa.int64(), [2**32 - 1, -1]),
        ("uint32", "uint64", (LARGE, LARGE), pa.uint64(), [2**32 - 1, 2**64 - 1]),
        ("fixed32", "sfixed64", (HALF, b"\x09" + b"\xff" * 8), pa.int64(), [0x3F000000, -1]),
        ("sfixed32", "double", (b"\x0d" + b"\xff" * 4, b"\x09" + bytes(8)), pa.float64(), [-1.0, 0.0]),
        ("float", "double", (HALF, b"\x09" + bytes(8)), pa.float64(), [0.5, 0.0]),
        ("int32", "float", (LARGE, HALF), pa.float64(), [-1.0, 0.5]),
        ("uint64", "double", (LARGE, b""), pa.float64(), [2.0**64, 0.0]),
        ("sint64", "double", (ONE, b""), pa.float64(), [-1.0, 0.0]),
        ("string", "bytes", (TEXT, b"\x0a\x01\xff"), pa.binary(), [b"x", b"\xff"]),
        ("int64", "uint64", (LARGE, LARGE), pa.string(), ["-1", "18446744073709551615"]),
        ("bool", "int32", (ONE, ONE), pa.string(), ["true", "1"]),
        ("int32", "string", (b"", b""), pa.string(), ["0", '""']),
        ("int32", "string", (b"\x08\x01\x08\x02", b"\x0a\x01a\x0a\x01b"), pa.string(), ["2", '"b"']),
        ("optional int32", "string", (b"", TEXT), pa.string(), [None, '"x"']),
        ("int32", "repeated int32", (ONE, b"\x0a\x02\x01\x02\x08\x03"), pa.string(), ["1", "[1, 2, 3]"]),
        ("repeated int32", "repeated string", (b"\x0a\x02\x01\x02\x08\x03", TEXT), pa.list_(pa.string()),
         [["1", "2", "3"], ['"x"']]),
        ("map<string, int32>", "map<int32, int32>", (b"\x0a\x05\x0a\x01a\x10\x05", b"\x0a\x04\x08\x01\x10\x02"),
         pa.string(), ['{"a": 5}', '{"1": 2}']),
        ("map<string, int32>", "map<string, int64>", (b"\x0a\x05\x0a\x01a\x10\x05", b"\x0a\x00"),
         pa.map_(pa.string(), pa.int64()), [[("a", 5)], [("", 0)]]),
        ("repeated int32", "repeated int64", (b"\x0a\x02\x01\x02\x08\x03", b"\x0a\x01\x04"), pa.list_(pa.int64()),
         [[1, 2, 3], [4]]),
        ("int32", "optional int32", (b"", b""), pa.int32(), [0, None]),
        ("M", "int32", (b"\x0a\x00\x0a\x02\x0a\x00", ONE), pa.string(), ['{"f": {"f": null}}', "1"]),
    ],
)  # fmt: skip
def test_types_of_a_field_in_two_versions(
    core: ModuleType, old: str, new: str, bodies: tuple[bytes, bytes], type_: pa.DataType, values: list[Any]
) -> None:
    result = both(core, f"{old} f = 1;", f"{new} f = 1;", bodies)
    assert result.array.type.field("f").type == type_
    assert result.errors == [None, None]
    assert [row["f"] for row in result.values] == values


def test_renamed_field_has_one_column(core: ModuleType) -> None:
    result = both(core, "int32 a = 1; string b = 2;", "string b = 2; int64 renamed = 1;", (b"\x08\x05", b"\x08\x06"))
    assert result.values == [{"renamed": 5, "b": ""}, {"renamed": 6, "b": ""}] or result.values == [
        {"b": "", "renamed": 5},
        {"b": "", "renamed": 6},
    ]
    latest = both(core, "int64 a = 1;", "int64 renamed = 1;", (b"\x08\x05", b"\x08\x06"), schema="latest")
    assert latest.values == [{"renamed": 5}, {"renamed": 6}]


def test_name_that_moved_to_another_number_has_one_column(core: ModuleType) -> None:
    result = both(core, "int32 a = 1; int32 b = 2;", "int32 b = 1;", (b"\x08\x05\x10\x06", b"\x08\x07"))
    assert result.values == [{"a": 5, "b": 6}, {"a": None, "b": 7}]


def test_field_that_a_version_lacks(core: ModuleType) -> None:
    old, new = (
        "int32 a = 1; int32 gone = 2;",
        "int32 a = 1; string s = 3; optional int32 o = 4; repeated M m = 5; E e = 6;",
    )
    more = "enum E { ZERO = 0; }"
    registry = registry_of(proto(old, 1), proto(new, 2, more))
    stored = [framed(b"\0\x08\x05\x10\x06\x1a\x00", 1)]
    union = decode_columns(core, registry, stored).values
    assert union == [{"a": 5, "gone": 6, "s": None, "o": None, "m": None, "e": None}]
    latest = decode_columns(core, registry, stored, "latest").values
    assert latest == [{"a": 5, "s": "", "o": None, "m": [], "e": "ZERO"}]
    assert decode_columns(core, registry, stored, 1).values == [{"a": 5, "gone": 6}]


def test_symbols_of_all_versions(core: ModuleType) -> None:
    one, two = "enum E { A = 0; B = 1; }", "enum E { A = 0; C = 2; D = 1; }"
    registry = registry_of(proto("E e = 1;", 1, one), proto("E e = 1;", 2, two))
    stored = [framed(b"\0\x08" + bytes([n]), i) for i in (1, 2) for n in range(3)]
    result = decode_columns(core, registry, stored)
    assert [row["e"] for row in result.values] == ["A", "B", "2", "A", "D", "C"]
    latest = decode_columns(core, registry, stored, "latest")
    assert [row["e"] for row in latest.values] == ["A", "1", "2", "A", "D", "C"]


def test_schema_that_cannot_be_read_as_the_chosen_one(core: ModuleType) -> None:
    result = both(core, "int64 f = 1;", "int32 f = 1;", (ONE, ONE), schema="latest")
    assert result.values == [None, {"f": 1}]
    assert "the int64 f cannot be read as int" in str(result.errors[0])


def test_avro_and_protobuf_in_one_subject(core: ModuleType) -> None:
    avro = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
            {"name": "m", "type": {"type": "map", "values": "int"}},
            {"name": "n", "type": "int"},
        ],
    }
    text = "E e = 1; map<int32, int32> m = 2; uint32 n = 3;"
    registry = registry_of(version(avro, 1), proto(text, 2, "enum E { A = 0; }"))
    stored = [framed(b"\x02\x00\x06", 1), framed(b"\0\x08\x07\x18\x05", 2)]
    result = decode_columns(core, registry, stored)
    assert result.values == [{"e": '"B"', "m": "{}", "n": 3}, {"e": "7", "m": "{}", "n": 5}]


def test_message_that_only_some_versions_have(core: ModuleType) -> None:
    old = version(text='syntax = "proto3"; message Old { int32 a = 1; }', number=1, schema_type="PROTOBUF")
    new = version(
        text='syntax = "proto3"; message Head {} message New { int32 b = 1; }', number=2, schema_type="PROTOBUF"
    )
    plan = ValuePlan(SubjectWriters(registry_of(old, new), "t-value", message="New"))
    assert plan.root.arrow == pa.struct([("b", pa.int32())])
    assert "there is no message New: the only message is Old" in str(plan.program_of(1))


def test_unknown_number_in_a_map_of_two_versions(core: ModuleType) -> None:
    head = 'syntax = "proto2"; enum E { ZERO = 0; } message M '
    texts = [head + "{ map<string, E> m = 1; }", head + "{ map<string, string> m = 1; }"]
    registry = registry_of(*(version(text=text, number=i, schema_type="PROTOBUF") for i, text in enumerate(texts, 1)))
    entries = b"\x0a\x05\x0a\x01a\x10\x07" + b"\x0a\x05\x0a\x01b\x10\x00" + b"\x0a\x03\x0a\x01c"
    result = decode_columns(core, registry, [framed(b"\0" + entries, 1)])
    assert result.values == [{"m": [("b", '"ZERO"'), ("c", '"ZERO"')]}]


def test_log_with_protobuf_values(tmp_path: Path, package: ModuleType) -> None:
    versions = [proto("int32 a = 1;", 1), proto("int64 renamed = 1; string b = 2;", 2)]
    named = [replace(v, subject="t-value", schema_id=v.version) for v in versions]
    records = [
        (b"k", framed(b"\0\x08\x05", 1)),
        (b"k", None),
        (b"k", framed(b"\0\x08\x06\x12\x01x", 2)),
        (b"k", b"\0\0\0\0\1"),
    ]
    topic = kafkafmt.open(write_log(tmp_path / "log", records, named))["t"]
    table = topic.to_arrow(["value"], decode="value")
    assert table["value"].to_pylist() == [{"renamed": 5, "b": None}, None, {"renamed": 6, "b": "x"}, None]
    assert table["value_error"].to_pylist() == [None, None, None, "truncated at byte 5"]
    assert topic.to_arrow(["value.b"], decode="value")["value"].to_pylist()[2] == {"b": "x"}
