"""Check that JSON schemas, inference and decoding take time that is linear in the size of their input."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from json_texts import decode_json

from kafkafmt import _pure
from kafkafmt.values.json.infer import infer_type
from kafkafmt.values.json.schema import parse_json_schema
from kafkafmt.values.types import Array, Field, Record, Simple

from .growth import grows_linearly, lines_of

PART = Record("/a/[]", [Field("x", Simple("long"))])
TYPE = Record("", [Field("x", Simple("long")), Field("a", Array(PART)), Field("r", Record("/r", PART.fields))])


def wide(n: int) -> Any:
    return {
        "properties": {f"p{i}": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/d"}]} for i in range(n)},
        "$defs": DEFINED,
    }


def alternatives(n: int) -> Any:
    return {"anyOf": [{"properties": {f"p{i}": {"type": "integer"}, "q": {"type": "string"}}} for i in range(n)]}


DEFINED = {"d": {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "number"}}}}}


@pytest.mark.parametrize("make", [wide, alternatives])
def test_schemas_grow_linearly(make: Callable[[int], Any]) -> None:
    def work(n: int) -> Counter[str]:
        text = json.dumps(make(n))
        return lines_of(lambda: parse_json_schema(text))

    grows_linearly(100, work)


def test_inference_grows_linearly() -> None:
    def work(n: int) -> Counter[str]:
        values = [json.dumps({f"m{i}": {"x": [i, None]}, "y": i}).encode() for i in range(n)]
        return lines_of(lambda: infer_type(values))

    grows_linearly(1500, work)


@pytest.mark.parametrize(
    "make",
    [
        lambda n: b'{"x":1%s}' % (b',"u":[{}]' * n),
        lambda n: b'{"x":1%s}' % (b',"r":{"x":2,"u":3}' * n),
        lambda n: b'{"a":[%s{}]}' % (b'{"x":1,"u":2},' * n),
        lambda n: b'{"x":1,"u":[%s{}]}' % (b"[1.5e3,null]," * n),
        lambda n: b'{"x":1,"u":"%s"}' % (rb"\u00e9" * n),
    ],
    ids=["unknown members", "same member", "items with a rest", "skipped items", "escapes"],
)
def test_decoding_grows_linearly(make: Callable[[int], bytes]) -> None:
    def work(n: int) -> Counter[str]:
        body = make(n)
        return lines_of(lambda: decode_json(_pure, TYPE, [body]))

    grows_linearly(100, work)
