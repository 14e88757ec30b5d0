"""Read schemas that are broken, or made to take very long. Each is refused with an error that says why."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from decoding_values import decode_columns, framed, registry_of, version

from kafkafmt.registry import SchemaReference
from kafkafmt.values.avro.schema import parse_avro
from kafkafmt.values.errors import InvalidSchemaError
from kafkafmt.values.record_decoder import RecordDecoder
from kafkafmt.values.writers import SubjectWriters


@pytest.fixture(autouse=True)
def _soon() -> Iterator[None]:
    """Check that a test takes little processor time."""
    start = time.process_time()
    yield
    assert time.process_time() - start < 20


def fixed(**given: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "size": 4, **given}


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({}, "not a type"),
        (5, "not a type"),
        (None, "not a type"),
        ("nothing", "'nothing' is not defined"),
        ({"type": "nothing"}, "'nothing' is not defined"),
        ({"type": "array"}, "no valid items"),
        ({"type": "map"}, "no valid values"),
        ({"type": "fixed", "name": "F"}, "no valid size"),
        (fixed(size=-1), "size of F is -1"),
        (fixed(size=2**31), "size of F is 2147483648"),
        (fixed(size=1.5), "no valid size"),
        (fixed(size=True), "no valid size"),
        ({"type": "fixed", "size": 4}, "no valid name"),
        ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "two equal symbols"),
        ({"type": "enum", "name": "E", "symbols": "AB"}, "symbols is"),
        ({"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}, "not a symbol"),
        ({"type": "enum", "name": "E", "symbols": ["A"], "default": []}, "not a symbol"),
        ({"type": "record", "name": "R"}, "no valid fields"),
        (record({"name": "x"}), "no valid type"),
        (record({"type": "int"}), "no valid name"),
        (record("x"), "not an object"),
        (record({"name": "x", "type": "int"}, {"name": "x", "type": "int"}), "two fields 'x'"),
        (record({"name": "x", "type": record(name="R")}), "defined twice"),
        (record({"name": "x", "type": "int", "aliases": 5}), "aliases is 5"),
        (record({"name": "\ud800", "type": "int"}), "not valid Unicode"),
        ({"type": "enum", "name": "E", "symbols": ["\ud800"]}, "not valid Unicode"),
        (record(name="\ud800"), "not valid Unicode"),
        (["int", ["null"]], "contains a union"),
        (["int", "int"], "two branches of the same type"),
        ([fixed(), fixed()], "defined twice"),
    ],
)
def test_invalid_schema(schema: Any, message: str) -> None:
    with pytest.raises(InvalidSchemaError, match=message):
        parse_avro(json.dumps(schema))


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "\x00", '{"type": ' * 10_000 + '"int"' + "}" * 10_000])
def test_text_that_is_not_a_schema(text: str) -> None:
    with pytest.raises(InvalidSchemaError):
        parse_avro(text)


def test_deep_schema_is_refused(core: ModuleType) -> None:
    for levels, valid in ((60, True), (100, False), (10_000, False)):
        text = '"int"'
        for level in range(levels):
            text = f'{{"type": "record", "name": "R{level}", "fields": [{{"name": "f", "type": {text}}}]}}'
        if valid:
            result = decode_columns(core, registry_of(version(text=text)), [framed(b"\x02")])
            assert result.errors == [None]
        else:
            with pytest.raises(ValueError, match=r"cannot be decoded: .* invalid: "):
                decode_columns(core, registry_of(version(text=text)), [framed(b"\x02")])
            error = (
                RecordDecoder(SubjectWriters(registry_of(version(text=text)), "t-value"), "value")
                .decode(framed(b"\x02"))
                .error
            )
            assert error is not None
            assert error.code == "invalid_schema"


@pytest.mark.parametrize(
    "logical",
    [
        {"precision": 10**18},
        {"precision": 10**9, "scale": 10**9},
        {"size": 2**31 - 1, "precision": 3},
        {"size": 0, "precision": 1},
        {"precision": 10},
        {"precision": 0},
        {"precision": 3, "scale": 4},
        {"precision": 3, "scale": -1},
        {"precision": "3"},
        {},
    ],
)
def test_wrong_decimal_is_ignored(logical: dict[str, Any]) -> None:
    found = parse_avro(json.dumps(fixed(logicalType="decimal", **logical)))
    assert (getattr(found, "logical", None) is None) == ("size" not in logical or logical["size"] == 0)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "logicalType": "decimal", "precision": 3},
        {"type": "long", "logicalType": "date"},
        {"type": "int", "logicalType": "timestamp-millis"},
        {"type": "int", "logicalType": ["date"]},
        {"type": "int", "logicalType": "ours"},
        {"type": "bytes", "logicalType": "decimal", "precision": 77},
        {"type": "bytes", "logicalType": "uuid"},
    ],
)
def test_wrong_logical_type_is_ignored(schema: Any) -> None:
    assert getattr(parse_avro(json.dumps(schema)), "logical", None) is None


def test_ten_thousand_fields(core: ModuleType) -> None:
    fields = [{"name": f"f{i}", "type": ["null", "int"]} for i in range(9_999)]
    versions = [record(*fields), record(*fields[::-1])]
    stored = [framed(b"\0" * 9_999, 1), framed(b"\x02\x0a" + b"\0" * 9_998, 2), framed(b"\0" * 9_998)]
    result = decode_columns(core, registry_of(*versions), stored)
    assert result.errors == [None, None, ("truncated", 5 + 9_998)]
    assert result.array.field(9_998).to_pylist() == [None, 5, None]


def test_more_columns_than_allowed(core: ModuleType) -> None:
    schema = record(*({"name": f"f{i}", "type": "int"} for i in range(10_001)))
    registry = registry_of(schema)
    with pytest.raises(ValueError, match="the schema needs 10002 columns; the limit is 10000"):
        decode_columns(core, registry, [])
    result = decode_columns(core, registry, [framed(b"\x04" * 10_001)], fields={"f7": None, "f10000": None})
    assert result.values == [{"f7": 2, "f10000": 2}]


def doubling(levels: int, leaf: Any) -> Any:
    """Return a schema whose size doubles with each level, because each type is used twice."""
    schema: Any = leaf
    for level in range(levels):
        inner = schema["name"] if isinstance(schema, dict) else schema
        schema = record({"name": "a", "type": schema}, {"name": "b", "type": inner}, name=f"R{level}")
    return schema


@pytest.mark.parametrize("leaf", ["int", "null"])
def test_schema_that_grows_exponentially_is_refused(core: ModuleType, leaf: str) -> None:
    registry = registry_of(doubling(50, leaf), "int")
    result = decode_columns(core, registry, [framed(b"", 1), framed(b"\x02", 2)])
    assert str(result.errors[0]).startswith("invalid_schema: ")
    assert result.values == [None, 1]
    error = RecordDecoder(SubjectWriters(registry, "t-value"), "value").decode(framed(b"", 1)).error
    assert error is not None
    assert error.code == "invalid_schema"


def test_records_that_all_contain_each_other(core: ModuleType) -> None:
    count = 8
    names = [f"R{i}" for i in range(count)]
    schema: Any = None
    for i in reversed(range(count)):
        fields = [{"name": f"f{j}", "type": ["null", names[j]]} for j in range(count)]
        if schema is not None:
            fields.insert(0, {"name": "next", "type": ["null", schema]})
        schema = record(*fields, name=names[i])
    with pytest.raises(ValueError, match="columns; the limit is"):
        decode_columns(core, registry_of(schema), [framed(b"\0\0")])
    assert (
        RecordDecoder(SubjectWriters(registry_of(schema), "t-value"), "value").decode(framed(b"\0" * 9)).error is None
    )


def test_wide_fixed_type(core: ModuleType) -> None:
    schema = record({"name": "wide", "type": fixed(size=2**31 - 1)}, {"name": "x", "type": "int"})
    error = RecordDecoder(SubjectWriters(registry_of(schema), "t-value"), "value").decode(framed(b"abc")).error
    assert error is not None
    assert error.code == "truncated"
    with pytest.raises(ValueError, match="F"):
        decode_columns(core, registry_of(schema), [framed(b"abc"), None])
    result = decode_columns(core, registry_of(schema), [framed(b"abc"), None], fields={"x": None})
    assert result.errors == [("truncated", 5), None]


def test_references(core: ModuleType) -> None:
    other = version({"type": "record", "name": "n.O", "fields": [{"name": "x", "type": "int"}]}, 1, 7, "other")
    schema = record({"name": "o", "type": "n.O"})
    uses = version(schema, 1, references=(SchemaReference("n.O", "other", 1),))
    result = decode_columns(core, registry_of(uses, other), [framed(b"\x04")])
    assert result.values == [{"o": {"x": 2}}]


def test_circular_and_missing_references(core: ModuleType) -> None:
    schema = record({"name": "o", "type": "n.O"})
    circle = [
        version(schema, 1, references=(SchemaReference("n.O", "a", 1),)),
        version("int", 1, 8, "a", references=(SchemaReference("x", "b", 1),)),
        version("long", 1, 9, "b", references=(SchemaReference("y", "a", 1),)),
    ]
    itself = version(schema, 2, references=(SchemaReference("n.O", "t-value", 2),), guid="2")
    missing = version(schema, 3, references=(SchemaReference("n.O", "gone", 4),), guid="3")
    registry = registry_of(*circle, itself, missing, version("int", 4))
    result = decode_columns(core, registry, [framed(b"\x04", i) for i in (1, 2, 3, 4)])
    for error, text in zip(result.errors, ["refers to itself", "refers to itself", "gone"], strict=False):
        assert str(error).startswith("invalid_schema: ")
        assert text in str(error)
    assert result.values == [None, None, None, 2]
