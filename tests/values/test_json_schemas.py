"""Translate JSON Schemas into types of columns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkafmt.values.errors import InvalidSchemaError
from kafkafmt.values.json.schema import parse_json_schema
from kafkafmt.values.merge import merge_types
from kafkafmt.values.types import Array, Map, Record, ValueType
from kafkafmt.values.value_columns import columns_of

TEXT, LONG = {"type": "string"}, {"type": "integer"}


def shape(type_: ValueType) -> Any:
    """Return a type as plain Python: the kind, {name: type}, [type], or ("map", type)."""
    if isinstance(type_, Record):
        return {field.name: shape(field.type) for field in type_.fields}
    if isinstance(type_, Array):
        return [shape(type_.items)]
    return ("map", shape(type_.values)) if isinstance(type_, Map) else type_.kind


def parsed(schema: Any, **references: Any) -> Any:
    texts = {name.replace("_", "."): json.dumps(reference) for name, reference in references.items()}
    return shape(parse_json_schema(json.dumps(schema), texts))


@pytest.mark.parametrize(
    ("schema", "type_"),
    [
        (True, "json"),
        ({}, "json"),
        (False, "json"),
        (LONG, "long"),
        ({"type": "number", "format": "double", "connect.type": "float64"}, "double"),
        ({"type": "string", "format": "date-time"}, "string"),
        ({"type": "boolean"}, "boolean"),
        ({"type": "null"}, "null"),
        ({"type": ["null", "string"]}, "string"),
        ({"type": ["integer", "number", "null"]}, "double"),
        ({"type": ["integer", "string"]}, "json"),
        ({"type": "any"}, "json"),
        ({"type": "object"}, "json"),
        ({"type": "object", "properties": {}}, "json"),
        ({"type": "object", "properties": {"a": LONG}}, {"a": "long"}),
        ({"properties": {"a": {}, "b": True}}, {"a": "json", "b": "json"}),
        ({"type": "object", "additionalProperties": LONG}, ("map", "long")),
        ({"type": "object", "additionalProperties": True}, "json"),
        ({"type": "object", "additionalProperties": {}}, "json"),
        ({"type": "object", "properties": {"a": LONG}, "additionalProperties": TEXT}, {"a": "long"}),
        ({"patternProperties": {"^x": LONG}, "additionalProperties": False}, ("map", "long")),
        ({"patternProperties": {"^x": LONG}}, "json"),
        ({"patternProperties": {"^x": LONG}, "additionalProperties": {"type": "number"}}, ("map", "double")),
        ({"type": "array"}, ["json"]),
        ({"type": "array", "items": TEXT}, ["string"]),
        ({"items": {"type": "object", "properties": {"a": LONG}}}, [{"a": "long"}]),
        ({"type": "array", "items": [LONG, {"type": "number"}]}, ["double"]),
        ({"type": "array", "items": [LONG, TEXT], "additionalItems": False}, ["json"]),
        ({"type": "array", "prefixItems": [LONG], "items": {"type": "number"}}, ["double"]),
        ({"enum": ["a", "b", None]}, "string"),
        ({"enum": [1, 2]}, "long"),
        ({"enum": [1, "a"]}, "json"),
        ({"enum": [1, 2**70]}, "double"),
        ({"const": True}, "boolean"),
        ({"type": "string", "enum": ["a"]}, "string"),
        ({"oneOf": [{"type": "null"}, LONG]}, "long"),
        ({"anyOf": [LONG, {"type": "null"}, {"type": "number"}]}, "double"),
        ({"oneOf": [LONG, TEXT]}, "json"),
        ({"oneOf": [LONG, {}]}, "json"),
        (
            {"oneOf": [{"properties": {"a": LONG}}, {"properties": {"b": TEXT, "a": LONG}}]},
            {"a": "long", "b": "string"},
        ),
        ({"oneOf": [{"properties": {"a": LONG}}, {"properties": {"a": TEXT}}]}, {"a": "json"}),
        ({"type": "object", "properties": {"a": LONG}, "oneOf": [{"required": ["a"]}, {}]}, {"a": "long"}),
        ({"properties": {"a": LONG}, "anyOf": [{"properties": {"b": TEXT}}, {}]}, {"a": "long", "b": "string"}),
        ({"allOf": [{"properties": {"a": LONG}}, {"properties": {"b": TEXT}}]}, {"a": "long", "b": "string"}),
        ({"type": "object", "allOf": [{"properties": {"a": LONG}}, {"required": ["a"]}]}, {"a": "long"}),
        ({"not": TEXT}, "json"),
    ],
)
def test_keywords_decide_the_type(schema: Any, type_: Any) -> None:
    assert parsed(schema) == type_


DRAFT_4 = {
    "$schema": "http://json-schema.org/draft-04/schema#",
    "id": "http://example.com/order.json",
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
        "customer": {"$ref": "#/definitions/customer"},
        "lines": {"type": "array", "items": {"$ref": "#line"}, "minItems": 1},
    },
    "definitions": {
        "customer": {"type": "object", "properties": {"name": {"type": "string"}, "tags": {"type": "array"}}},
        "line": {"id": "#line", "properties": {"sku": {"type": "string"}, "price": {"type": "number"}}},
    },
}
DRAFT_7 = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "id": {"oneOf": [{"type": "null", "title": "Not included"}, {"type": "integer"}], "connect.index": 0},
        "customer": {"oneOf": [{"type": "null"}, {"$ref": "#/definitions/Customer"}]},
        "lines": {"oneOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/definitions/Line"}}]},
    },
    "definitions": {
        "Customer": {"type": "object", "properties": {"name": {"type": "string"}, "tags": {"items": {}}}},
        "Line": {"allOf": [{"$ref": "#/definitions/Sku"}, {"properties": {"price": {"type": "number"}}}]},
        "Sku": {"type": "object", "properties": {"sku": {"type": "string"}}},
    },
}
DRAFT_2020 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "https://example.com/order",
    "type": "object",
    "properties": {
        "id": {"type": ["integer", "null"]},
        "customer": {"$ref": "customer"},
        "lines": {"type": "array", "items": {"$ref": "#line"}},
    },
    "$defs": {
        "c": {
            "$id": "customer",
            "type": "object",
            "properties": {"name": {"$ref": "#/$defs/name"}, "tags": {"type": "array", "items": True}},
            "$defs": {"name": {"type": "string"}},
        },
        "l": {"$anchor": "line", "type": "object", "properties": {"sku": {"const": "x"}, "price": {"type": "number"}}},
    },
    "unevaluatedProperties": False,
}
ORDER = {
    "id": "long",
    "customer": {"name": "string", "tags": ["json"]},
    "lines": [{"sku": "string", "price": "double"}],
}


@pytest.mark.parametrize("schema", [DRAFT_4, DRAFT_7, DRAFT_2020], ids=["draft 4", "draft 7", "2020-12"])
def test_drafts_have_the_same_types(schema: Any) -> None:
    assert parsed(schema) == ORDER


def test_references_are_found_by_name_and_by_id() -> None:
    money = {
        "$id": "https://example.com/money.json",
        "properties": {"amount": {"$ref": "#/$defs/n"}},
        "$defs": {"n": LONG},
    }
    other = {"definitions": {"a/b": {"$ref": "money.json"}}}
    schema = {
        "$id": "https://example.com/main.json",
        "properties": {
            "by_name": {"$ref": "money.json"},
            "part": {"$ref": "money.json#/$defs/n"},
            "by_id": {"$ref": "https://example.com/money.json"},
            "through": {"$ref": "other.json#/definitions/a~1b"},
        },
    }
    wanted = {"amount": "long"}
    found = parsed(schema, money_json=money, other_json=other)
    assert found == {"by_name": wanted, "part": "long", "by_id": wanted, "through": wanted}


def test_id_that_is_a_name_does_not_hide_definitions() -> None:
    schema = {
        "id": "root",
        "properties": {"a": {"id": "/properties/a", "$ref": "#/definitions/x"}},
        "definitions": {"x": LONG},
    }
    assert parsed(schema) == {"a": "long"}


def test_recursive_reference_is_json_text() -> None:
    node = {"properties": {"v": LONG, "next": {"$ref": "#"}, "all": {"items": {"$ref": "#/$defs/n"}}}}
    assert parsed(node | {"$defs": {"n": {"properties": {"n": {"$ref": "#/$defs/n"}, "w": TEXT}}}}) == {
        "v": "long",
        "next": "json",
        "all": [{"n": "json", "w": "string"}],
    }
    assert parsed({"$ref": "#"}) == "json"
    assert parsed({"$dynamicAnchor": "n", "properties": {"n": {"$dynamicRef": "#n"}, "a": LONG}}) == {
        "n": "json",
        "a": "long",
    }


def test_versions_are_merged() -> None:
    versions = [
        parse_json_schema(json.dumps({"properties": properties}))
        for properties in (
            {"a": LONG, "b": TEXT, "c": {"properties": {"x": LONG, "c": {"properties": {"y": LONG}}}}},
            {"a": {"type": "number"}, "b": LONG, "c": {"properties": {"y": TEXT}}, "d": {"type": ["null", "boolean"]}},
        )
    ]
    column = columns_of(merge_types(versions))
    c = "struct<x: int64, c: struct<y: int64>, y: string>"
    assert str(column.arrow) == f"struct<a: double, b: string, c: {c}, d: bool>"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '"a"',
        '{"type":"int"}',
        '{"type":1}',
        '{"properties":[]}',
        '{"properties":{"a":1}}',
        '{"allOf":{}}',
        '{"items":"a"}',
        '{"$ref":"#/x"}',
        '{"$ref":"other.json"}',
        '{"$ref":"#anchor"}',
        '{"enum":3}',
        '{"properties":{"\\ud800":{}}}',
        '{"$id":"http://[","properties":{"a":{"$ref":"x"}}}',
        '{"a":' * 100_000,
    ],
)
def test_invalid_schema_is_an_error(text: str) -> None:
    with pytest.raises(InvalidSchemaError):
        parse_json_schema(text)


def test_schema_that_is_too_large_or_too_deep_is_an_error() -> None:
    deep: Any = LONG
    for _ in range(66):
        deep = {"items": deep}
    with pytest.raises(InvalidSchemaError, match="levels"):
        parse_json_schema(json.dumps(deep))
    doubled: dict[str, Any] = {"x0": LONG}
    for i in range(40):
        doubled[f"x{i + 1}"] = {"properties": {name: {"$ref": f"#/definitions/x{i}"} for name in "ab"}}
    with pytest.raises(InvalidSchemaError, match="types"):
        parse_json_schema(json.dumps({"$ref": "#/definitions/x40", "definitions": doubled}))
