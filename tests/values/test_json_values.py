"""Decode generated and mutated JSON texts on both cores, and compare them with a strict use of json.loads."""

from __future__ import annotations

import json
from random import Random
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from json_texts import Maker, Misfit, check_bodies, decode_json, loads_exactly, mutated, strict

from kafkafmt.values.json.objects import json_to_object
from kafkafmt.values.types import Array, Field, Map, Record, Simple, ValueType

ON_CORES = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
SEEDS = st.integers(0, 2**64)


def check(native: ModuleType, pure: ModuleType, seed: int) -> None:
    chance = Random(seed)
    maker = Maker(chance, valid=chance.random() < 0.5)
    type_ = maker.record(4) if chance.random() < 0.7 else maker.type(4)
    bodies = [maker.document(type_) for _ in range(4)]
    check_bodies([native, pure], type_, bodies + [mutated(body, chance) for body in bodies for _ in range(3)])


@given(seed=SEEDS)
@settings(ON_CORES, max_examples=150)
def test_verdict_value_and_rest_equal_those_of_json_loads(native: ModuleType, pure: ModuleType, seed: int) -> None:
    check(native, pure, seed)


@pytest.mark.full
@given(seed=SEEDS)
@settings(ON_CORES, max_examples=2000)
def test_verdict_value_and_rest_equal_those_of_json_loads_in_many_cases(
    native: ModuleType, pure: ModuleType, seed: int
) -> None:
    check(native, pure, seed)


def merge(value: Any, rest: Any) -> Any:
    """Merge a rest into a value. In the place of arrays, the rest has objects with indexes."""
    if isinstance(rest, dict) and isinstance(value, dict):
        return {name: merge(value.get(name), rest.get(name)) for name in value | rest}
    if isinstance(rest, dict) and isinstance(value, list):
        return [merge(item, rest.get(str(i))) for i, item in enumerate(value)]
    return value if rest is None else rest


def as_json(value: Any, type_: ValueType) -> Any:
    """Return the value of a column as JSON. Numbers are floats."""
    if value is None:
        return None
    if isinstance(type_, Record):
        return {field.name: as_json(value[field.name], field.type) for field in type_.fields}
    if isinstance(type_, Array):
        return [as_json(item, type_.items) for item in value]
    if isinstance(type_, Map):
        return {name: as_json(item, type_.values) for name, item in value}
    return (
        json.loads(value, parse_int=float) if type_.kind == "json" else float(value) if type_.kind == "long" else value
    )


def with_all_fields(value: Any, type_: ValueType | None) -> Any:
    """Add the missing fields of a type to a value, as null."""
    if isinstance(value, dict) and isinstance(type_, Record):
        types = {field.name: field.type for field in type_.fields}
        return {name: with_all_fields(value.get(name), types.get(name)) for name in value | types}
    if isinstance(value, dict) and isinstance(type_, Map):
        return {name: with_all_fields(item, type_.values) for name, item in value.items()}
    if isinstance(value, list) and isinstance(type_, Array):
        return [with_all_fields(item, type_.items) for item in value]
    return value


PART = Record("/p/[]", [Field("sku", Simple("string")), Field("n", Simple("long"))])
ORDER = Record(
    "",
    [
        Field("id", Simple("long")),
        Field("customer", Record("/customer", [Field("name", Simple("string"))])),
        Field("parts", Array(PART)),
        Field("places", Map(Record("/places/*", [Field("x", Simple("double"))]))),
    ],
)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ('{"id":1}', None),
        ('{"id":1,"vip" : [1.50 , "\\u0041"]}', '{"vip":[1.50 , "\\u0041"]}'),
        ('{"customer":{"name":"a","vip":true},"x":1e3}', '{"customer":{"vip":true},"x":1e3}'),
        ('{"x":1,"customer":{"vip":true,"y":2},"id":4,"z":{}}', '{"x":1,"customer":{"vip":true,"y":2},"z":{}}'),
        (
            '{"parts":[{"sku":"a"},{"sku":"b","q":1},{"r":null}],"places":{"k":{"x":1,"y":2},"\\u00e9":{"y":3}}}',
            '{"parts":{"1":{"q":1},"2":{"r":null}},"places":{"k":{"y":2},"\\u00e9":{"y":3}}}',
        ),
        ('{"customer":null,"u":null}', '{"u":null}'),
        ('{"\\u0069d":7,"i\\u0064x":8}', '{"i\\u0064x":8}'),
        ('{"customer":{"a":1},"customer":{"b":2}}', '{"customer":{"b":2}}'),
        ('{"customer":{"a":1},"x":1,"customer":{"b":2}}', '{"x":1,"customer":{"b":2}}'),
        ('{"x":1,"customer":{"a":1},"y":2,"customer":null}', '{"x":1,"y":2}'),
        ('{"customer":{"a":1},"customer":{"name":"n"}}', None),
        ('{"parts":[{"a":1}],"parts":[{},{"b":2}],"parts":[]}', None),
        ('{"u":1,"u":2}', '{"u":1,"u":2}'),
    ],
)
def test_members_without_a_column_are_in_the_rest(core: ModuleType, text: str, rest: str | None) -> None:
    result = decode_json(core, ORDER, [b'{"id":0}', text.encode(), b"{}", b"null", None])
    assert result.errors == [None] * 5
    assert result.rest == [None, rest, None, None, None]


def test_value_and_rest_together_are_the_whole_value(core: ModuleType) -> None:
    rests = 0
    for seed in range(200):
        maker = Maker(Random(seed))
        type_ = maker.record(3)
        bodies = [maker.document(type_) for _ in range(3)]
        result = decode_json(core, type_, bodies)
        for body, value, text in zip(bodies, result.values, result.rest, strict=True):
            rest = None if text is None else json.loads(text, parse_int=float)
            whole = with_all_fields(json.loads(body, parse_int=float), type_)
            assert merge(as_json(value, type_), rest) == whole
            rests += text is not None
    assert rests > 100


def test_rest_of_an_invalid_value_is_null(core: ModuleType) -> None:
    bodies = [b'{"x":1}', b'{"x":1,"id":"a"}', b'{"x":2,"customer":{"y":1}', b'{"x":3}x', b'{"x":4}']
    result = decode_json(core, ORDER, bodies, batch=2)
    assert result.rest == ['{"x":1}', None, None, None, '{"x":4}']
    assert [error and error[0] for error in result.errors] == [None, "no_branch", "truncated", "trailing_bytes", None]


def test_columns_grow_while_values_and_rests_are_read(core: ModuleType) -> None:
    bodies = []
    for i in range(3000):
        other = b',"u":"%s"' % (b"x" * 40) if i % 5 else b""
        parts = b",".join(b'{"sku":"%d","n":%d%s}' % (i, k, other) for k in range(i % 4))
        bodies.append(b'{"id":%d,"parts":[%s],"customer":{"name":"%s","v":%d}}' % (i, parts, b"n\\u00e9" * (i % 30), i))
    result = decode_json(core, ORDER, bodies, batch=1024)
    assert result.errors == [None] * len(bodies)
    for i, (value, text) in enumerate(zip(result.values, result.rest, strict=True)):
        rest = loads_exactly(text or "")
        assert value["id"] == i
        assert value["customer"] == {"name": "né" * (i % 30)}
        assert [part["n"] for part in value["parts"]] == list(range(i % 4))
        assert rest["customer"] == {"v": str(i)}
        assert len(rest.get("parts", {})) == (i % 4 if i % 5 else 0)


def test_fields_that_are_not_chosen_are_skipped(core: ModuleType) -> None:
    body = b'{"id":"not a number","customer":{"name":"n","vip":1},"u":1}'
    result = decode_json(core, ORDER, [body], fields={"customer": {"name": None}})
    assert result.values == [{"customer": {"name": "n"}}]
    assert (result.errors, result.rest) == ([None], [None])
    body = b'{"parts":[{"sku":1,"n":2,"u":3},{}],"places":{"k":{"x":"no number"}},"customer":[]}'
    chosen = {"parts": {"n": None}, "places": {"x": None}}
    assert decode_json(core, ORDER, [body], fields={"parts": chosen["parts"]}).values == [
        {"parts": [{"n": 2}, {"n": None}]}
    ]
    assert decode_json(core, ORDER, [body], fields=chosen).errors == [("no_branch", body.index(b'"no'))]


def test_many_members_are_found_in_any_order(core: ModuleType) -> None:
    names = [f"member {i}" for i in range(3000)]
    type_ = Record("", [Field(name, Simple("long")) for name in names])
    order = list(range(3000))
    Random(1).shuffle(order)
    body = "{" + ",".join(f'"member {i}":{i}' for i in order) + ',"member 3000":0}'
    result = decode_json(core, type_, [body.encode(), b"{}"])
    assert result.values[0] == {name: i for i, name in enumerate(names)}
    assert result.values[1] == dict.fromkeys(names)
    assert result.rest == ['{"member 3000":0}', None]


def test_json_text_is_kept_exactly(core: ModuleType) -> None:
    type_ = Record("", [Field("j", Simple("json"))])
    texts = ['{"a" : 1.0e5,\n"a":2}', "1e999", '"\\u00e9\\/"', "[ ]", "true", "-0.0", "123456789012345678901234567890"]
    bodies = [f'{{"j": {text} }}'.encode() for text in texts]
    result = decode_json(core, type_, [*bodies, b'{"j":null}', b"{}"])
    assert [value["j"] for value in result.values] == [*texts, None, None]


def test_object_for_json_has_the_verdict_of_the_core(core: ModuleType) -> None:
    for seed in range(300):
        chance = Random(seed)
        maker = Maker(chance)
        body = maker.document(Simple("json"))
        body = mutated(body, chance) if seed % 3 else body
        error = decode_json(core, Simple("json"), [body]).errors[0]
        try:
            json_to_object(memoryview(body))
            found = None
        except Exception as fault:
            found = fault.code, fault.position  # type: ignore[attr-defined]
        assert found == error
        try:
            strict(body)
            valid = True
        except Misfit:
            valid = False
        assert valid == (error is None)
