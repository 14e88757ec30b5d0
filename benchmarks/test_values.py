"""Measure decoding of Avro and JSON values into Arrow, compared with other libraries.

The values have the 5-byte prefix of Confluent's serializers and are in a buffer, as in a log.
kafkafmt decodes 16,384 of them at once. pyruhvro (Rust) gets a list of bytes without the prefix, and its
schema has doubles instead of decimals, because it has no decimals. fastavro returns dicts.

The JSON values have the same fields, as `json.dumps` writes them. The peers get a list of bytes, or an
Arrow column of strings, and the types of the columns. They use one thread.
"""

from __future__ import annotations

import io
import json
import random
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.json as pj
import pytest

from kafkafmt._backend import core
from kafkafmt.arrow.buffer_pool import shared_pool
from kafkafmt.registry import RegisteredSchema, SchemaRegistry
from kafkafmt.values.decoder import SideDecoder
from kafkafmt.values.json.infer import infer_type
from kafkafmt.values.json.writer import JsonWriter
from kafkafmt.values.plan import ValuePlan
from kafkafmt.values.types import Map, Record, Simple, ValueType
from kafkafmt.values.value_columns import DECIMAL_LIMITS, Captures, build_array, build_rest, columns_of
from kafkafmt.values.writers import SubjectWriters

VALUES, AT_ONCE = 30_000, 16_384
SIZES = ("5 fields", "30 fields")


def nullable(type_: Any) -> dict[str, Any]:
    return {"type": ["null", type_], "default": None}


def avro(name: str, **fields: Any) -> dict[str, Any]:
    members = [{"name": f, **(t if isinstance(t, dict) and "default" in t else {"type": t})} for f, t in fields.items()]
    return {"type": "record", "name": name, "fields": members}


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
SMALL = avro("Small", id="long", customer="string", amount="double", time=MILLIS, country=nullable("string"))
PART = avro("Part", sku="string", count="int", price="double")
LARGE = avro(
    "Large",
    **{f"number{i}": "long" for i in range(6)},
    **{f"count{i}": "int" for i in range(3)},
    **{f"text{i}": "string" for i in range(6)},
    **{f"note{i}": nullable("string") for i in range(2)},
    **{f"amount{i}": "double" for i in range(3)},
    discount=nullable("double"),
    weight="float",
    paid="boolean",
    created=MILLIS,
    day={"type": "int", "logicalType": "date"},
    state={"type": "enum", "name": "State", "symbols": ["NEW", "PAID", "SENT"]},
    tags={"type": "array", "items": "string"},
    attributes={"type": "map", "values": "string"},
    address=avro("Address", zip="string", latitude="double"),
    parts={"type": "array", "items": PART},
)
SCHEMAS = dict(zip(SIZES, (SMALL, LARGE), strict=True))


def value_of(schema: Any, rng: random.Random) -> Any:
    """Return a random value of a schema."""
    kind = schema if isinstance(schema, str) else schema[1] if isinstance(schema, list) else schema["type"]
    if isinstance(schema, list):
        return None if rng.random() < 0.4 else value_of(schema[1], rng)
    if kind == "record":
        return {field["name"]: value_of(field["type"], rng) for field in schema["fields"]}
    if kind == "array":
        return [value_of(schema["items"], rng) for _ in range(rng.randrange(4))]
    if kind == "map":
        return {name: value_of(schema["values"], rng) for name in rng.sample(["color", "size", "origin"], 2)}
    if kind == "enum":
        return rng.choice(schema["symbols"])
    simple: dict[str, Callable[[], Any]] = {
        "long": lambda: rng.randrange(10**10),
        "int": lambda: rng.randrange(20_000),
        "double": lambda: rng.random() * 1000,
        "float": lambda: rng.random(),
        "boolean": lambda: rng.random() < 0.5,
        "string": lambda: f"customer-{rng.randrange(10_000)}" + "é" * (rng.random() < 0.05),
    }
    return simple[kind]()


class Values(NamedTuple):
    schema: str
    bodies: list[bytes]
    source: bytes
    positions: Any
    lengths: Any


@cache
def values(size: str, versions: int = 1) -> Values:
    """Return values, whose schema ids are 0 to `versions` - 1 in turn."""
    schema = SCHEMAS[size]
    parsed, rng, bodies = fastavro.parse_schema(json.loads(json.dumps(schema))), random.Random(7), []
    for _ in range(VALUES):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, value_of(schema, rng))
        bodies.append(stream.getvalue())
    parts = [b"k" * 12 + b"\0" + (i % versions).to_bytes(4, "big") + body for i, body in enumerate(bodies)]
    ends = np.cumsum([len(part) for part in parts])
    lengths = np.array([len(part) - 12 for part in parts], np.int32)
    return Values(json.dumps(schema), bodies, b"".join(parts), ends - lengths, lengths)


def ours(size: str, fields: Sequence[str] | None = None, versions: int = 1) -> Callable[[], int]:
    """Return a function that decodes all values, or some of their fields."""
    given = values(size, versions)
    schemas = [RegisteredSchema(i, f"{i}", "t-value", i + 1, "AVRO", given.schema) for i in range(versions)]
    chosen = None if fields is None else dict.fromkeys(fields)
    decoder = SideDecoder(ValuePlan(SubjectWriters(SchemaRegistry(schemas), "t-value"), chosen), "value")
    offsets = np.arange(VALUES)

    def decode() -> int:
        rows = 0
        for start in range(0, VALUES, AT_ONCE):
            some = slice(start, start + AT_ONCE)
            decoder.add(given.source, given.positions[some], given.lengths[some], offsets[some])
            array, _, _ = decoder.finish()
            rows += len(array) - array.null_count
        return rows

    return decode


@pytest.mark.benchmark(group="Avro into Arrow", timer=time.process_time)
@pytest.mark.parametrize("size", SIZES)
def test_pyruhvro(compare: Callable[..., object], size: str) -> None:
    pyruhvro = pytest.importorskip("pyruhvro")
    given = values(size)
    compare(size, ours(size), "pyruhvro", lambda: pyruhvro.deserialize_array(given.bodies, given.schema).num_rows)


@pytest.mark.benchmark(group="Avro into Arrow", timer=time.process_time)
@pytest.mark.parametrize("size", SIZES)
def test_fastavro(compare: Callable[..., object], size: str) -> None:
    given = values(size)
    parsed = fastavro.parse_schema(json.loads(given.schema))
    compare(
        size,
        ours(size),
        "fastavro, dicts",
        lambda: sum(fastavro.schemaless_reader(io.BytesIO(body), parsed, None) is not None for body in given.bodies),
        rounds=3,
    )


@pytest.mark.benchmark(group="Avro into Arrow", timer=time.process_time)
def test_two_of_30_fields(compare: Callable[..., object]) -> None:
    compare("2 of 30 fields", ours(SIZES[1], ["number0", "text0"]), "all fields", ours(SIZES[1]))


@pytest.mark.benchmark(group="Avro into Arrow", timer=time.process_time)
def test_six_versions(compare: Callable[..., object]) -> None:
    compare("one schema id", ours(SIZES[0]), "six in turn", ours(SIZES[0], versions=6))


class JsonValues(NamedTuple):
    bodies: list[bytes]
    type: ValueType
    arrow: pa.Schema


@cache
def json_values(size: str) -> JsonValues:
    rng, bodies = random.Random(7), []
    for _ in range(VALUES):
        bodies.append(json.dumps(value_of(SCHEMAS[size], rng), ensure_ascii=False).encode())
    type_ = infer_type(bodies)
    assert isinstance(type_, Record)
    for field in type_.fields:
        if field.name == "attributes":
            field.type = Map(Simple("string"))
    # Peers have no maps: the three names of the attributes are members of a struct.
    attributes = pa.struct([(name, pa.string()) for name in ("color", "size", "origin")])
    arrow = columns_of(type_).arrow
    return JsonValues(
        bodies, type_, pa.schema([f.with_type(attributes) if f.name == "attributes" else f for f in arrow])
    )


def ours_json(size: str) -> Callable[[], int]:
    """Return a function that decodes all values, and looks for members without a column."""
    given = json_values(size)
    root, captures = columns_of(given.type), Captures()
    columns = [*root.walk(), root.add_rest()]
    program = JsonWriter(given.type).compile(root, captures, False)
    builder = core.ColumnBuilder(
        [c.kind for c in columns], [c.width for c in columns], [c.last for c in columns], [c.precision for c in columns],
        DECIMAL_LIMITS, shared_pool.take,
    )  # fmt: skip
    parts = [b"k" * 12 + body for body in given.bodies]
    ends = np.cumsum([len(part) for part in parts])
    lengths = np.array([len(body) for body in given.bodies], np.int32)
    source, which, faults = b"".join(parts), np.zeros(AT_ONCE, np.int32), np.empty((AT_ONCE, 3), np.int64)

    def decode() -> int:
        rows = 0
        for start in range(0, VALUES, AT_ONCE):
            size = lengths[start : start + AT_ONCE]
            position = (ends[start : start + AT_ONCE] - size).astype(np.int64)
            builder.decode([program], which[: len(size)], source, position, size, faults)
            buffers = builder.finish()
            array = build_array(root, buffers, captures)
            rows += len(array) - array.null_count
            assert root.rest is not None
            assert build_rest(root.rest, buffers, len(array)).null_count == len(array)
        return rows

    return decode


def duckdb_json(given: JsonValues) -> Callable[[], int]:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute("set threads = 1")
    connection.register("t", pa.table({"v": pa.array([body.decode() for body in given.bodies])}))
    ((structure,),) = connection.sql("select json_group_structure(v::json) from t").fetchall()
    query = f"select from_json(v, '{structure}') from t"
    return lambda: int(connection.sql(query).to_arrow_table().num_rows)


def pyarrow_json(given: JsonValues) -> Callable[[], int]:
    options = pj.ParseOptions(explicit_schema=given.arrow, unexpected_field_behavior="ignore")
    reading = pj.ReadOptions(use_threads=False, block_size=8 << 20)
    return lambda: int(pj.read_json(io.BytesIO(b"\n".join(given.bodies)), reading, options).num_rows)


def polars_json(given: JsonValues) -> Callable[[], int]:
    polars = pytest.importorskip("polars")
    texts = polars.Series([body.decode() for body in given.bodies])
    type_ = polars.Struct(polars.from_arrow(given.arrow.empty_table()).schema)
    return lambda: len(texts.str.json_decode(dtype=type_))


def orjson_json(given: JsonValues) -> Callable[[], int]:
    orjson = pytest.importorskip("orjson")
    type_ = pa.struct(given.arrow)
    return lambda: len(pa.array([orjson.loads(body) for body in given.bodies], type_))


JSON_PEERS = {
    "DuckDB from_json": duckdb_json,
    "pyarrow.json": pyarrow_json,
    "Polars json_decode": polars_json,
    "orjson, pa.array": orjson_json,
}


@pytest.mark.benchmark(group="JSON into Arrow", timer=time.process_time)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("peer", JSON_PEERS)
def test_json(compare: Callable[..., object], size: str, peer: str) -> None:
    compare(size, ours_json(size), peer, JSON_PEERS[peer](json_values(size)), rounds=5)
