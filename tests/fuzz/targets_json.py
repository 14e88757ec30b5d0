"""Fuzz the decoding of JSON values into columns. `json.loads` is the third voice."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from json_texts import Maker, check_bodies, decode_json, mutated

from kafkafmt import _backend
from kafkafmt.values.errors import InvalidSchemaError, ValueFault
from kafkafmt.values.json.infer import infer_type
from kafkafmt.values.json.objects import json_to_object
from kafkafmt.values.json.schema import parse_json_schema
from kafkafmt.values.types import Record, Simple
from kafkafmt.values.value_columns import columns_of

from .case import Case
from .mutate_bytes import mutate
from .outcome import check, same
from .target import target


def json_case(chance: Random) -> Case:
    seed = chance.getrandbits(32)
    maker = Maker(Random(seed), valid=False)
    type_ = maker.record(3) if seed % 4 else maker.type(3)
    blobs = {}
    for i in range(chance.choice((1, 3, 10))):
        body = maker.document(type_)
        if chance.random() < 0.6:
            body = mutated(body, chance) if chance.random() < 0.5 else mutate(chance, body)
        blobs[str(i)] = body
    return Case({"type": seed, "copies": 200 if chance.random() < 0.05 else 1}, blobs)


@target("json-columns", json_case, quick=100)
def json_columns(case: Case) -> Any:
    """Check verdicts, values and rests of several values, with and without projection, and of inferred columns."""
    seed, bodies = case.params["type"], list(case.blobs.values())
    maker = Maker(Random(seed))
    type_ = maker.record(3) if seed % 4 else maker.type(3)
    (result,) = check_bodies([_backend.core], type_, bodies)
    texts = decode_json(_backend.core, Simple("json"), bodies)
    for body, error in zip(bodies, texts.errors, strict=True):
        try:
            json_to_object(memoryview(body))
            same(None, error, "verdict of json_to_object")
        except ValueFault as fault:
            same((fault.code, fault.position), error, "verdict of json_to_object")
    copies = decode_json(_backend.core, type_, bodies * case.params["copies"])
    same(copies.errors, result.errors * case.params["copies"], "errors of the copies")
    same(copies.rest, result.rest * case.params["copies"], "rests of the copies")
    if isinstance(type_, Record):
        name = type_.fields[0].name
        few = decode_json(_backend.core, type_, bodies, fields={name: None})
        for row, (error, value) in enumerate(zip(few.errors, few.values, strict=True)):
            whole = result.values[row]
            check(result.errors[row] is not None or error is None, f"only one field is invalid: {error}")
            check(whole is None or repr(value) == repr({name: whole[name]}), f"{value!r:.200} of {whole!r:.200}")
    inferred = infer_type(bodies)
    columns_of(inferred)
    decode_json(_backend.core, inferred, bodies)
    return result.errors, result.rest, repr(result.values)


WORDS = (
    "type", "properties", "items", "additionalProperties", "patternProperties", "allOf", "oneOf", "anyOf", "$ref", "$id",
    "id", "$anchor", "$dynamicRef", "enum", "const", "prefixItems", "additionalItems", "definitions",
)  # fmt: skip
REFERENCES = (
    "#",
    "#/definitions/a",
    "#/properties/b",
    "#a",
    "a",
    "other.json",
    "other.json#/definitions/a",
    "http://x/a",
    "//[",
)


def schema(chance: Random, depth: int) -> Any:
    if not depth or chance.random() < 0.1:
        return chance.choice(
            (True, False, {}, {"type": "integer"}, {"type": "string"}, {"$ref": chance.choice(REFERENCES)})
        )
    found: dict[str, Any] = {}
    for word in chance.sample(WORDS, chance.randint(1, 3)):
        inner = schema(chance, depth - 1)
        if chance.random() < 0.05:
            found[word] = chance.choice((None, 1, "a", [], {}, inner))
        elif word == "type":
            kinds = ["null", "integer", "number", "string", "object", "array", "boolean"]
            found[word] = chance.choice((chance.choice(kinds), chance.sample(kinds, 2)))
        elif word in ("properties", "patternProperties", "definitions"):
            found[word] = {name: schema(chance, depth - 1) for name in chance.sample("abc", chance.randrange(3))}
        elif word in ("allOf", "oneOf", "anyOf", "prefixItems"):
            found[word] = [schema(chance, depth - 1) for _ in range(chance.randrange(3))]
        elif word in ("$ref", "$dynamicRef"):
            found[word] = chance.choice(REFERENCES)
        elif word in ("$id", "id", "$anchor"):
            found[word] = chance.choice(("a", "#a", "http://x/a", "//["))
        elif word in ("enum", "const"):
            found[word] = [1, None, "a"][: chance.randrange(4)] if word == "enum" else chance.choice((None, 1, "a", {}))
        else:
            found[word] = inner
    return found


def schema_case(chance: Random) -> Case:
    text = json.dumps(schema(chance, chance.randint(1, 5))).encode()
    other = json.dumps(schema(chance, 3)).encode()
    return Case({}, {"schema": mutate(chance, text) if chance.random() < 0.2 else text, "other": other})


@target("json-schemas", schema_case, quick=100)
def json_schemas(case: Case) -> Any:
    """Check that a schema gives columns or an error."""
    text, other = (case.blobs[name].decode(errors="surrogateescape") for name in ("schema", "other"))
    try:
        type_ = parse_json_schema(text, {"other.json": other})
    except InvalidSchemaError as error:
        return str(error)
    column = columns_of(type_)
    decode_json(_backend.core, type_, [b"{}", b"[]", b"null", b"1", b'{"a":{"b":[1]}}'])
    return str(column.arrow)
