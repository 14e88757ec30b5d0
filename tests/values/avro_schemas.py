"""Strategies for Avro schemas and their values."""

from __future__ import annotations

import io
from typing import Any

import fastavro
from hypothesis import strategies as st
from strict_avro import StrictAvro

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
LOGICAL = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "timestamp-nanos": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "local-timestamp-nanos": "long",
    "uuid": "string",
}
RANGES = {
    "int": (-(2**31), 2**31 - 1),
    "long": (-(2**63), 2**63 - 1),
    "time-millis": (0, 86_399_999),
    "time-micros": (0, 86_399_999_999),
}


class _Names:
    def __init__(self) -> None:
        self.count = 0
        self.open: list[str] = []

    def new(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"


@st.composite
def schemas(draw: st.DrawFn, depth: int = 4) -> Any:
    """Return a schema as JSON. Its root is a record in most cases."""
    names = _Names()
    return draw(_record(depth, names)) if draw(st.integers(0, 4)) else draw(_type(depth, names))


@st.composite
def _record(draw: st.DrawFn, depth: int, names: _Names) -> Any:
    name = names.new("R")
    names.open.append(name)
    fields = [{"name": f"f{i}", "type": draw(_type(depth - 1, names))} for i in range(draw(st.integers(0, 4)))]
    if draw(st.integers(0, 3)) == 0:
        again = draw(st.sampled_from(names.open))
        fields.append(
            {
                "name": "again",
                "type": draw(st.sampled_from([["null", again], {"type": "array", "items": again}, ["string", again]])),
            }
        )
    names.open.pop()
    return {"type": "record", "name": name, "fields": fields}


@st.composite
def _simple(draw: st.DrawFn, names: _Names) -> Any:
    choice = draw(st.integers(0, 5))
    if choice <= 1:
        return draw(st.sampled_from(PRIMITIVES))
    if choice == 2:
        logical = draw(st.sampled_from(sorted(LOGICAL)))
        return {"type": LOGICAL[logical], "logicalType": logical}
    if choice == 3:
        return {"type": "enum", "name": names.new("E"), "symbols": [f"S{i}" for i in range(draw(st.integers(1, 5)))]}
    if choice == 4:
        kind = draw(st.sampled_from(["plain", "uuid", "duration", "decimal"]))
        size = {"uuid": 16, "duration": 12}.get(kind) or draw(st.sampled_from([1, 2, 7, 16, 17, 40]))
        found = {"type": "fixed", "name": names.new("F"), "size": size}
        if kind == "decimal":
            precision = draw(st.integers(1, min(len(str(2 ** (8 * size - 1) - 1)) - 1, 76)))
            found |= {"precision": precision, "scale": draw(st.integers(0, precision))}
        return found if kind == "plain" else {**found, "logicalType": kind}
    precision = draw(st.sampled_from([1, 2, 9, 38, 39, 76]))
    scale = draw(st.integers(0, precision))
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


@st.composite
def _type(draw: st.DrawFn, depth: int, names: _Names) -> Any:
    choice = draw(st.integers(0, 7)) if depth > 0 else 0
    if choice <= 2:
        return draw(_simple(names))
    if choice == 3:
        return {"type": "array", "items": draw(_type(depth - 1, names))}
    if choice == 4:
        return {"type": "map", "values": draw(_type(depth - 1, names))}
    if choice == 5:
        return draw(_record(depth, names))
    if choice == 6:
        other = draw(_type(depth - 1, names).filter(lambda t: not isinstance(t, list) and t != "null"))
        return ["null", other] if draw(st.booleans()) else [other, "null"]
    branches = [draw(_type(depth - 1, names)) for _ in range(draw(st.integers(1, 5)))]
    return _distinct(branches)


def _distinct(branches: list[Any]) -> list[Any]:
    """Return the branches that a union can have together, so that each has its own name."""
    found: dict[str, Any] = {}
    for branch in branches:
        if isinstance(branch, list):
            continue
        name = branch if isinstance(branch, str) else branch.get("name", branch["type"])
        logical = branch.get("logicalType", "") if isinstance(branch, dict) else ""
        # Decimals of one scale, and the two types of UUIDs, share a member.
        label = logical if logical in ("decimal", "uuid") else name
        found.setdefault(label, branch)
    kinds = [b if isinstance(b, str) else b.get("name", b["type"]) for b in found.values()]
    return [b for i, b in enumerate(found.values()) if kinds.index(kinds[i]) == i] or ["null"]


@st.composite
def values(draw: st.DrawFn, schema: StrictAvro, type_: Any = None, depth: int = 6) -> Any:
    """Return a value of a schema for fastavro. Values of logical types are those of the type below."""
    t = schema.resolved(schema.schema if type_ is None else type_)
    if isinstance(t, list):
        # A recursive type ends with the branch that is not recursive, which is the first one.
        branch = schema.resolved(t[0] if depth <= 0 else draw(st.sampled_from(t)))
        return branch.get("name", branch["type"]), draw(values(schema, branch, depth - 1))
    kind, logical = t["type"], t.get("logicalType")
    if kind == "record":
        return {f["name"]: draw(values(schema, f["type"], depth - 1)) for f in t["fields"]}
    if kind == "array":
        return [draw(values(schema, t["items"], depth - 2)) for _ in range(draw(st.integers(0, 3)) if depth > 0 else 0)]
    if kind == "map":
        keys = draw(st.lists(st.text(max_size=4), max_size=3, unique=True)) if depth > 0 else []
        return {key: draw(values(schema, t["values"], depth - 2)) for key in keys}
    if kind == "enum":
        return draw(st.sampled_from(t["symbols"]))
    if kind == "null":
        return None
    if kind == "boolean":
        return draw(st.booleans())
    if kind in ("int", "long"):
        low, high = RANGES.get(logical or kind, RANGES[kind])
        return draw(st.one_of(st.integers(low, high), st.sampled_from([low, high, max(low, -1), 0, 1])))
    if kind in ("float", "double"):
        return draw(st.floats(width=32 if kind == "float" else 64))
    if kind == "string":
        return str(draw(st.uuids())) if logical == "uuid" else draw(st.text(max_size=40))
    if logical == "decimal":
        number = draw(st.integers(-(10 ** t["precision"]) + 1, 10 ** t["precision"] - 1))
        size = t["size"] if kind == "fixed" else number.bit_length() // 8 + 1 + draw(st.sampled_from([0, 0, 1, 40]))
        return number.to_bytes(size, "big", signed=True)
    if kind == "fixed":
        return draw(st.binary(min_size=t["size"], max_size=t["size"]))
    return draw(st.binary(max_size=40))


def encode(schema: Any, value: Any) -> bytes:
    """Return a value as fastavro encodes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def without_logical(type_: Any) -> Any:
    """Return a schema without its logical types."""
    if isinstance(type_, list):
        return [without_logical(branch) for branch in type_]
    if not isinstance(type_, dict):
        return type_
    omitted = ("logicalType", "precision", "scale")
    found = {name: value for name, value in type_.items() if name not in omitted}
    for part in ("items", "values", "type"):
        if part in found:
            found[part] = without_logical(found[part])
    if "fields" in found:
        found["fields"] = [{**f, "type": without_logical(f["type"])} for f in found["fields"]]
    return found
