"""Infer types from JSON values."""

from __future__ import annotations

import json
from random import Random
from types import ModuleType
from typing import Any

import pytest
from json_texts import Maker, decode_json
from test_json_schemas import shape

from kafkafmt.values.json.infer import infer_type
from kafkafmt.values.value_columns import columns_of


def inferred(*texts: str) -> Any:
    return shape(infer_type(text.encode() for text in texts))


@pytest.mark.parametrize(
    ("texts", "type_"),
    [
        ([], "json"),
        (["json"], "json"),
        (["{", "nope", "1 2"], "json"),
        (["1", "null", "-5"], "long"),
        (["9223372036854775807", "9223372036854775808"], "double"),
        (["1", "1.5"], "double"),
        (["1.0"], "double"),
        (["1e999", "9" * 5000], "double"),
        (['"a"', "null"], "string"),
        (["true"], "boolean"),
        (["true", "1"], "json"),
        (['"1"', "1"], "json"),
        (["[]", "[1, null]", "[2.5]"], ["double"]),
        (["[]"], ["json"]),
        (['[1, "a"]'], ["json"]),
        (["{}"], "json"),
        (['{"a": 1}', '{"b": {"c": [true]}}', '{"a": null}'], {"a": "long", "b": {"c": ["boolean"]}}),
        (['{"a": {}}', '{"a": {"b": 1}}'], {"a": {"b": "long"}}),
        (['{"a": {"b": 1}}', '{"a": [1]}', '{"b": 2}'], {"a": "json", "b": "long"}),
    ],
)
def test_type_holds_all_values(texts: list[str], type_: Any) -> None:
    assert inferred(*texts) == type_


def test_objects_with_very_many_members_are_maps_or_json_text() -> None:
    assert inferred(json.dumps({f"k{i}": i for i in range(1000)}))["k999"] == "long"
    texts = [json.dumps({"m": {f"k{i}": i}}) for i in range(1001)]
    assert inferred(*texts) == {"m": ("map", "long")}
    assert inferred(*texts, '{"m": {"z": 0.5}}') == {"m": ("map", "double")}
    assert inferred(*texts, '{"m": {"z": "a"}}') == {"m": "json"}
    nested = [json.dumps([{f"k{i}": {"x": 1}}, {f"l{i}": {"y": [2]}}]) for i in range(1001)]
    assert inferred(*nested) == [("map", {"x": "long", "y": ["long"]})]
    both = [json.dumps({"a": {f"k{i}": {f"x{i}": 1}}}) for i in range(2500)]
    assert inferred(*both) == {"a": ("map", ("map", "long"))}


def test_object_with_too_many_columns_is_json_text() -> None:
    wide = {f"k{i}": i for i in range(900)}
    assert inferred(json.dumps({f"o{i}": wide for i in range(20)} | {"a": 1})) == "json"
    assert inferred(json.dumps({"big": {f"o{i}": wide for i in range(20)}, "a": 1})) == {"big": "json", "a": "long"}


def test_values_fit_the_type_that_is_inferred_from_them(core: ModuleType) -> None:
    for seed in range(60):
        maker = Maker(Random(seed), repeats=False)
        made = maker.type(4)
        bodies = [maker.document(made) for _ in range(8)]
        type_ = infer_type(bodies)
        columns_of(type_)
        result = decode_json(core, type_, bodies)
        for body, error, rest in zip(bodies, result.errors, result.rest, strict=True):
            assert error is None, (body, error)
            assert rest is None, (body, rest)
