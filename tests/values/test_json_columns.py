"""Decode values that columns have as JSON text: recursive ones, and those of types without a common one."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest
from avro_schemas import encode
from decoding_values import decode_columns, framed, registry_of

NODE: dict[str, Any] = {
    "type": "record",
    "name": "Node",
    "fields": [
        {"name": "text", "type": "string"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 1}},
        {"name": "at", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "next", "type": ["null", "Node"]},
    ],
}


def node(text: str = "x", price: bytes = b"\x01", at: int = 1, following: Any = None) -> dict[str, Any]:
    return {"text": text, "price": price, "at": at, "next": following}


def test_recursive_field_is_json_text(core: ModuleType) -> None:
    bodies = [encode(NODE, node("a", following=node("ß", following=node("c")))), encode(NODE, node("b"))]
    values = decode_columns(core, registry_of(NODE), [framed(body) for body in bodies]).values
    assert json.loads(values[0]["next"]) == {
        "text": "ß",
        "price": "0.1",
        "at": "00:00:00.001",
        "next": {"text": "c", "price": "0.1", "at": "00:00:00.001", "next": None},
    }
    assert values[1]["next"] is None


@pytest.mark.parametrize(
    ("inner", "code", "position"),
    [
        ({"price": b"\x7f"}, "bad_number", 13),
        ({"at": 86_400_000}, "bad_number", 15),
        ({"at": -1}, "bad_number", 15),
        ({"text": "?"}, "bad_utf8", 11),
    ],
    ids=["decimal", "time", "negative time", "text"],
)
def test_invalid_value_inside_json_text_is_an_error_of_its_record(
    core: ModuleType, inner: dict[str, Any], code: str, position: int
) -> None:
    body = encode(NODE, node(following=node(**inner))).replace(b"?", b"\xff")
    good = framed(encode(NODE, node(following=node())))
    result = decode_columns(core, registry_of(NODE), [good, framed(body), good])
    assert result.errors == [None, (code, position), None]
    assert result.values[1] is None
    assert result.raw == [None, framed(body), None]
    assert result.values[2]["next"] is not None


def test_fields_that_are_not_chosen_are_not_checked(core: ModuleType) -> None:
    body = encode(NODE, node(following=node("?"))).replace(b"?", b"\xff")
    result = decode_columns(core, registry_of(NODE), [framed(body)], fields={"at": None})
    assert result.errors == [None]
    assert result.values == [{"at": 1}]


def test_types_without_a_common_one_become_json_text(core: ModuleType) -> None:
    versions = [
        {"type": "record", "name": "R", "fields": [{"name": "x", "type": type_}]}
        for type_ in ("int", "string", ["null", "boolean"], {"type": "array", "items": "float"})
    ]
    given = [7, 'a"b', None, [0.5, float("nan")]]
    stored = [framed(encode(s, {"x": x}), i) for i, (s, x) in enumerate(zip(versions, given, strict=True), 1)]
    values = decode_columns(core, registry_of(*versions), stored).values
    assert [value["x"] for value in values] == ["7", '"a\\"b"', None, '[0.5, "NaN"]']


def test_null_of_a_union_in_json_text_is_null(core: ModuleType) -> None:
    versions = [
        {"type": "record", "name": "R", "fields": [{"name": "x", "type": ["null", "string", number]}]}
        for number in ("int", {"type": "int", "logicalType": "date"})
    ]
    stored = [framed(encode(versions[0], {"x": x}), 1) for x in (None, "a", 3)]
    values = decode_columns(core, registry_of(*versions), stored).values
    assert [value["x"] for value in values] == [None, '{"string": "a"}', '{"int": 3}']


def test_deepest_values_that_the_core_accepts_become_json_text(core: ModuleType) -> None:
    leaf: Any = "int"
    for level in range(40):
        leaf = {"type": "record", "name": f"L{level}", "fields": [{"name": "f", "type": leaf}]}
    tree = {
        "type": "record",
        "name": "Tree",
        "fields": [{"name": "leaf", "type": leaf}, {"name": "kids", "type": {"type": "array", "items": "Tree"}}],
    }

    def body(levels: int) -> bytes:
        return b"\2\2" * levels + b"\2\0" + b"\0" * levels

    result = decode_columns(core, registry_of(tree), [framed(body(n)) for n in (0, 1, 63, 64, 65, 10_000)])
    assert result.errors[:4] == [None] * 4
    assert [error and error[0] for error in result.errors[4:]] == ["too_deep", "too_deep"]
    assert json.loads(result.values[3]["kids"][0])["kids"][0]["kids"]


def test_empty_items_in_json_text_count_with_the_whole_value(core: ModuleType) -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "text", "type": "string"},
            {"name": "nulls", "type": {"type": "array", "items": "null"}},
            {"name": "next", "type": ["null", "R"]},
        ],
    }
    inner = {"text": "", "nulls": [None] * 5000, "next": None}
    stored = framed(encode(schema, {"text": "x" * 2000, "nulls": [], "next": inner}))
    result = decode_columns(core, registry_of(schema), [stored])
    assert result.errors == [None]
    assert len(json.loads(result.values[0]["next"])["nulls"]) == 5000
