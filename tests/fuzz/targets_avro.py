"""Fuzz the decoding of Avro values into columns. The strict reader of the tests is the third voice."""

from __future__ import annotations

import json
import struct
from random import Random
from typing import Any

import numpy as np
from decoding_values import plain as items_of
from decoding_values import registry_of
from decoding_values import same as equal
from strict_avro import StrictAvro, StrictError

from kafkafmt.constants import VALUE_FAULTS
from kafkafmt.values import decoder, plan
from kafkafmt.values.avro.objects import avro_to_json
from kafkafmt.values.avro.schema import parse_avro
from kafkafmt.values.errors import ValueFault
from kafkafmt.values.writers import SubjectWriters

from .case import Case
from .mutate_bytes import mutate
from .outcome import check, same
from .target import target

SIMPLE: tuple[Any, ...] = (
    *("null", "boolean", "int", "long", "float", "double", "bytes", "string"),
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 0},
)
NAMED: tuple[Any, ...] = (
    {"type": "fixed", "size": 16, "logicalType": "uuid"},
    {"type": "fixed", "size": 3},
    {"type": "fixed", "size": 5, "logicalType": "decimal", "precision": 11},
    {"type": "enum", "symbols": ["A", "B", "C"]},
)


class _Maker:
    """Makes schemas and values from random numbers."""

    def __init__(self, chance: Random) -> None:
        self._chance, self._names = chance, 0
        self._open: list[str] = []

    def _name(self) -> str:
        self._names += 1
        return f"N{self._names}"

    def schema(self, depth: int) -> Any:
        kind = self._chance.randrange(8) if depth else self._chance.randrange(3)
        if kind == 0:
            return {**self._chance.choice(NAMED), "name": self._name()}
        if kind <= 2:
            return self._chance.choice(SIMPLE)
        if kind == 3:
            return {"type": "array", "items": self.schema(depth - 1)}
        if kind == 4:
            return {"type": "map", "values": self.schema(depth - 1)}
        if kind == 5:
            other = self.schema(depth - 1)
            return other if isinstance(other, list) or other == "null" else ["null", other]
        if kind == 6:
            few = {json.dumps(b): b for b in (self.schema(depth - 1) for _ in range(3)) if not isinstance(b, list)}
            kinds = {b if isinstance(b, str) else b.get("name", b["type"]): b for b in few.values()}
            decimals = [name for name, b in kinds.items() if isinstance(b, dict) and b.get("logicalType") == "decimal"]
            return [b for name, b in kinds.items() if name not in decimals[1:]] or ["null"]
        return self.record(depth)

    def record(self, depth: int) -> Any:
        name = self._name()
        self._open.append(name)
        fields = [{"name": f"f{i}", "type": self.schema(depth - 1)} for i in range(self._chance.randrange(4))]
        if self._chance.random() < 0.3:
            fields.append({"name": "again", "type": ["null", self._chance.choice(self._open)]})
        self._open.pop()
        return {"type": "record", "name": name, "fields": fields}

    def body(self, schema: StrictAvro, type_: Any, depth: int = 0) -> bytes:
        t, chance = schema.resolved(type_), self._chance
        if isinstance(t, list):
            number = 0 if depth > 8 else chance.randrange(len(t))
            return _varint(number) + self.body(schema, t[number], depth + 1)
        kind, logical = t["type"], t.get("logicalType")
        if kind == "record":
            return b"".join(self.body(schema, f["type"], depth + 1) for f in t["fields"])
        if kind in ("array", "map"):
            count = chance.choice((0, 1, 1, 2, 3)) if depth < 8 else 0
            inner = t["items" if kind == "array" else "values"]
            parts = [
                (b"" if kind == "array" else self._text()) + self.body(schema, inner, depth + 2) for _ in range(count)
            ]
            block = b"".join(parts)
            start = _varint(-count) + _varint(len(block)) if chance.random() < 0.3 else _varint(count)
            return start + block + _varint(0) if count else _varint(0)
        if kind in ("int", "long"):
            return _varint(
                chance.choice((0, 1, 63, 64, 86_399_999))
                if logical or chance.random() < 0.5
                else chance.getrandbits(31)
            )
        if kind == "string":
            return self._text()
        if kind == "bytes":
            raw = chance.randbytes(chance.choice((0, 1, 3, 20)))[: 3 if logical else None]
            return _varint(len(raw)) + raw
        if kind == "fixed":
            return b"\0" + chance.randbytes(t["size"] - 1)
        sizes = {"null": 0, "float": 4, "double": 8}
        return chance.randbytes(sizes[kind]) if kind in sizes else bytes([chance.randrange(2) << (kind == "enum")])

    def _text(self) -> bytes:
        raw = self._chance.choice(("", "a", "ß€😀", "x" * 8, "y" * 40)).encode()
        return _varint(len(raw)) + raw


def _varint(number: int) -> bytes:
    left, out = (number << 1) ^ (number >> 63), bytearray()
    while left > 127:
        out.append(left & 127 | 128)
        left >>= 7
    return bytes([*out, left])


def avro_case(chance: Random) -> Case:
    maker = _Maker(chance)
    schema = maker.record(chance.randint(1, 4)) if chance.random() < 0.8 else maker.schema(3)
    reader, blobs = StrictAvro(schema), {}
    for i in range(chance.choice((1, 3, 10))):
        body = maker.body(reader, schema)
        if chance.random() < 0.6:
            body = mutate(chance, body)
        blobs[str(i)] = struct.pack(">bi", 0, 1) + body
    if chance.random() < 0.1:
        blobs["framing"] = chance.choice((b"", b"\0\0\0\0", b"\0\0\0\0\2\0", b"\1" + bytes(20)))
    return Case({"schema": schema, "copies": chance.choice((1, 1, 500))}, blobs)


@target("avro-columns", avro_case, quick=100)
def avro_columns(case: Case) -> Any:
    """Check verdicts, positions, values and the Arrow array of several values, with and without projection."""
    schema = case.params["schema"]
    reader, type_, stored = StrictAvro(schema), parse_avro(json.dumps(schema)), list(case.blobs.values())
    expected, errors = [], []
    for raw in stored:
        value, error = None, "other"
        if raw.startswith(b"\0\0\0\0\1"):
            try:
                value, error = reader.column(schema, reader.read(raw[5:])), ""
            except StrictError as found:
                error = f"{found.code} at byte {found.position + 5}"
            try:
                avro_to_json(type_, memoryview(raw)[5:])
                same("", error, "verdict of avro_to_json")
            except ValueFault as fault:
                same(f"{fault.code} at byte {fault.position + 5}", error, "verdict of avro_to_json")
                check(fault.code in VALUE_FAULTS, fault.code)
        expected.append(value)
        errors.append(error)
    array, texts, _ = _decoded(schema, stored * case.params["copies"], None)
    for row, (text, value) in enumerate(zip(texts[: len(stored)], items_of(array)[: len(stored)], strict=True)):
        if errors[row] != "other":
            same(text or "", errors[row], "error")
        check(text is not None or equal(value, expected[row]), f"{value!r:.200} is not {expected[row]!r:.200}")
    same(texts, texts[: len(stored)] * case.params["copies"], "errors of the copies")
    if isinstance(schema, dict) and schema["type"] == "record":
        for field in [f["name"] for f in schema["fields"]][:1]:
            few, some, _ = _decoded(schema, stored, {field: None})
            for row, (text, value) in enumerate(zip(some, items_of(few), strict=True)):
                whole = expected[row]
                check(whole is None or text is None, f"only one field is invalid: {text}")
                check(whole is None or equal(value, {field: whole[field]}), f"{value!r:.200} of {whole!r:.200}")
    return texts, repr(items_of(array))


def _decoded(schema: Any, stored: list[bytes], fields: Any) -> tuple[Any, list[str | None], Any]:
    found = decoder.SideDecoder(plan.ValuePlan(SubjectWriters(registry_of(schema), "t-value"), fields), "value")
    sizes = np.array([len(raw) for raw in stored], np.int32)
    positions = np.cumsum(sizes, dtype=np.int64) - sizes
    found.add(b"".join(stored), positions, sizes, np.arange(len(stored), dtype=np.int64))
    array, texts, raw = found.finish()
    array.validate(full=True)
    return array, texts.to_pylist(), raw
