"""Decode generated values of two compatible versions of a generated schema into the same columns."""

from __future__ import annotations

import io
from types import ModuleType
from typing import Any, NamedTuple

import fastavro
import pytest
from avro_schemas import encode, values, without_logical
from decoding_values import decode_columns, framed, registry_of, same
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strict_avro import StrictAvro

ON_CORES = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
WIDER = [
    ("int", "long", "long"),
    ("int", "float", "double"),
    ("int", "double", "double"),
    ("long", "float", "double"),
    ("long", "double", "double"),
    ("float", "double", "double"),
    ("string", "bytes", "bytes"),
    ("bytes", "string", "bytes"),
]
"""Type of a field in both versions, and in the columns of their union."""
SAME: list[tuple[Any, Any]] = [
    ("boolean", False),
    ("string", "ß"),
    ("bytes", "\u00ff\u0000"),
    ({"type": "long", "logicalType": "timestamp-micros"}, -1),
    ({"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2}, "\u0001\u00ff"),
    ({"type": "array", "items": "long"}, [1, -2]),
    ({"type": "map", "values": "string"}, {"a": "b"}),
    (["null", "double"], None),
    (["double", "null"], 1.5),
    ({"type": "record", "name": "Added", "fields": [{"name": "x", "type": "int", "default": 3}]}, {}),
    ({"type": "fixed", "name": "Four", "size": 4}, "\u00ff234"),
    ({"type": "enum", "name": "Small", "symbols": ["A", "B"]}, "B"),
]
"""Types, and a default for each."""


class Evolved(NamedTuple):
    """A field in two versions. None: the version does not have it. `common` is its type in the columns of both."""

    old: dict[str, Any] | None
    new: dict[str, Any] | None
    common: str | None = None


@st.composite
def fields(draw: st.DrawFn, name: str) -> Evolved:
    change = draw(st.sampled_from(["same", "wider", "nullable", "added", "removed", "renamed", "symbols"]))
    if change == "wider":
        old, new, common = draw(st.sampled_from(WIDER))
        return Evolved({"name": name, "type": old}, {"name": name, "type": new}, common)
    if change == "symbols":
        enum = {"type": "enum", "name": f"Enum_{name}"}
        kinds = [{**enum, "symbols": ["A", "B"]}, {**enum, "symbols": ["C", "B", "A"]}]
        return Evolved({"name": name, "type": kinds[0]}, {"name": name, "type": kinds[1]})
    type_, default = draw(st.sampled_from(SAME))
    if isinstance(type_, dict) and "name" in type_:  # each definition needs a name of its own
        type_ = {**type_, "name": f"{type_['name']}_{name}"}
    if change == "nullable" and not isinstance(type_, list):
        return Evolved({"name": name, "type": type_}, {"name": name, "type": ["null", type_]})
    with_default = {"name": name, "type": type_, "default": default}
    if change == "added":
        return Evolved(None, with_default)
    if change == "removed":
        return Evolved(with_default, None)
    if change == "renamed":
        return Evolved(
            {"name": f"old_{name}", "type": type_}, {"name": name, "type": type_, "aliases": [f"old_{name}"]}
        )
    return Evolved({"name": name, "type": type_}, {"name": name, "type": type_})


@st.composite
def versions(draw: st.DrawFn) -> tuple[list[Evolved], list[Evolved], list[Any]]:
    """Return the fields of the outer and of the inner record, and two schemas."""
    inner = [draw(fields(f"i{n}")) for n in range(draw(st.integers(0, 3)))]
    outer = [draw(fields(f"f{n}")) for n in range(draw(st.integers(0, 4)))]
    found = []
    for part in ("old", "new"):
        record = {"type": "record", "name": "Inner", "fields": [getattr(f, part) for f in inner if getattr(f, part)]}
        own: list[Any] = [getattr(f, part) for f in outer if getattr(f, part)]
        own.append({"name": "inner", "type": {"type": "array", "items": record}})
        if part == "new":
            own = draw(st.permutations(own))
        found.append({"type": "record", "name": "R", "fields": own})
    return outer, inner, found


def in_union(evolved: list[Evolved], number: int, schema: StrictAvro, value: dict[str, Any]) -> dict[str, Any]:
    """Return a value of a version as the columns of both versions have it."""
    found = {}
    for field in evolved:
        mine, last = (field.old, field.new)[number], field.new or field.old
        assert last is not None
        result: Any = None if mine is None else schema.column(mine["type"], value[mine["name"]])
        if field.common == "double":
            result = float(result)
        if field.common == "bytes" and isinstance(result, str):
            result = result.encode()
        found[last["name"]] = result
    return found


def ordered(value: Any) -> Any:
    """Return a value with the members of all structs sorted by name."""
    if isinstance(value, dict):
        return {name: ordered(value[name]) for name in sorted(value)}
    return [ordered(item) for item in value] if isinstance(value, list) else value


@given(data=st.data())
@settings(ON_CORES, max_examples=50)
def test_two_versions_share_columns(native: ModuleType, pure: ModuleType, data: Any) -> None:
    check(native, pure, data)


@pytest.mark.slow
@given(data=st.data())
@settings(ON_CORES, max_examples=1000)
def test_two_versions_share_columns_in_many_cases(native: ModuleType, pure: ModuleType, data: Any) -> None:
    check(native, pure, data)


def check(native: ModuleType, pure: ModuleType, data: Any) -> None:
    outer, inner, schemas = data.draw(versions())
    readers = [StrictAvro(schema) for schema in schemas]
    stored: list[bytes] = []
    union: list[Any] = []
    latest: list[Any] = []
    for number in data.draw(st.lists(st.integers(0, 1), min_size=1, max_size=4)):
        reader = readers[number]
        body = encode(schemas[number], data.draw(values(reader)))
        stored.append(framed(body, number + 1))
        value = reader.read(body)
        row = in_union(outer, number, reader, value)
        union.append({**row, "inner": [in_union(inner, number, reader, item) for item in value["inner"]]})
        mine, last = (fastavro.parse_schema(without_logical(schema)) for schema in (schemas[number], schemas[1]))
        try:
            resolved = fastavro.schemaless_reader(io.BytesIO(body), mine, last)
        except UnicodeDecodeError:  # bytes that are not a string
            latest.append(None)
        else:
            again = encode(without_logical(schemas[1]), as_bytes(schemas[1], resolved))
            latest.append(readers[1].column(schemas[1], readers[1].read(again)))
    names = [*(field.new or field.old or {} for field in outer), {"name": "inner"}]
    chosen = {name["name"]: None for name in names if data.draw(st.booleans())} or {"inner": None}
    for core in (native, pure):
        for schema, expected in (("union", union), ("latest", latest)):
            result = decode_columns(core, registry_of(*schemas), stored, schema)
            codes = [error and error[0] for error in result.errors]
            assert codes == [None if row is not None else "bad_utf8" for row in expected]
            assert same(ordered(result.values), ordered(expected)), (result.values, expected)
        result = decode_columns(core, registry_of(*schemas), stored, fields=chosen)
        few = [{name: row[name] for name in chosen} for row in union]
        assert same(ordered(result.values), ordered(few)), (result.values, few)


def as_bytes(schema: Any, value: Any) -> dict[str, Any]:
    """Return a value of fastavro with its defaults in the form of values. fastavro leaves those of bytes as texts."""
    found = {}
    for field in schema["fields"]:
        kind = field["type"]["type"] if isinstance(field["type"], dict) else field["type"]
        item = value[field["name"]]
        if kind in ("bytes", "fixed") and isinstance(item, str):
            item = item.encode("latin-1")
        if kind == "record":
            item = {"x": 3, **item}
        if kind == "array" and isinstance(field["type"]["items"], dict):
            item = [as_bytes(field["type"]["items"], inner) for inner in item]
        found[field["name"]] = item
    return found
