"""Decode topics with JSON values by the schemas of a registry."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from avro_schemas import encode
from command import inside
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from decoded_logs import write_log
from decoding_values import decode_columns, framed, registry_of, version

import kafkafmt
from kafkafmt.registry.models import SchemaReference as Reference

CUSTOMER = {"type": "object", "properties": {"name": {"type": "string"}}}
FIRST = {"type": "object", "properties": {"id": {"type": "integer"}, "customer": CUSTOMER, "x": {"type": "integer"}}}
SECOND = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "total": {"type": ["number", "null"]}, "x": {"type": "string"}},
}
VERSIONS = [version(schema, number, schema_type="JSON") for number, schema in enumerate((FIRST, SECOND), 1)]
STORED = [
    framed(b'{"id": 1, "customer": {"name": "a", "vip": true}, "x": 7}', 1),
    framed(b'{"id": 2, "total": 1.5, "x": "y", "new": [1]}', 2),
    framed(b'{"id": "3"}', 2),
    None,
    framed(b"null", 1),
]


def test_union_has_the_fields_of_all_versions(core: ModuleType) -> None:
    result = decode_columns(core, registry_of(*VERSIONS), STORED)
    assert result.values == [
        {"id": 1, "customer": {"name": "a"}, "x": "7", "total": None},
        {"id": 2, "customer": None, "x": '"y"', "total": 1.5},
        None,
        None,
        None,
    ]
    assert result.errors == [None, None, ("no_branch", 12), None, None]
    assert result.raw == [None, None, STORED[2], None, None]


def test_latest_version_decides_the_columns(core: ModuleType) -> None:
    result = decode_columns(core, registry_of(*VERSIONS), STORED[:2], schema="latest")
    assert result.values == [None, {"id": 2, "total": 1.5, "x": "y"}]
    assert result.errors == [("no_branch", (STORED[0] or b"").index(b"7}")), None]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [(b"k", value) for value in STORED]
    return write_log(tmp_path_factory.mktemp("json"), rows, VERSIONS)


def test_table_has_the_rest_after_the_value(log: Path) -> None:
    table = kafkafmt.open(log)["t"].to_arrow(["offset", "value"], decode=True)
    assert table.schema.names == ["offset", "value", "value_rest", "value_error", "value_raw"]
    rest = ['{"customer":{"vip":true}}', '{"new":[1]}', None, None, None]
    assert table["value_rest"].to_pylist() == rest
    assert table.schema.field("value_rest").type == pa.string()
    table.validate(full=True)
    batches = kafkafmt.open(log)["t"].to_batches(["value"], decode=True, schema="latest")
    assert [row for batch in batches for row in batch["value_rest"].to_pylist()][1] == '{"new":[1]}'


def test_chosen_fields_have_no_rest(log: Path) -> None:
    table = kafkafmt.open(log)["t"].to_arrow(["value.id"], decode=True)
    assert table.schema.names == ["value", "value_error", "value_raw"]
    assert [row and row["id"] for row in table["value"].to_pylist()] == [1, 2, None, None, None]
    assert kafkafmt.open(log)["t"].to_arrow(["value.total"], decode=True)["value"][2].as_py() == {"total": None}


def test_polars_scan_has_the_rest(log: Path) -> None:
    pytest.importorskip("polars")
    frame = kafkafmt.open(log)["t"].to_polars(["value"], decode=True)
    assert frame["value_rest"].to_list()[:2] == ['{"customer":{"vip":true}}', '{"new":[1]}']


def test_export_has_the_rest(log: Path, tmp_path: Path) -> None:
    kafkafmt.export(log, tmp_path / "out", topics=["t"], decode=True, engine="local")
    tables = [pq.read_table(file) for file in (tmp_path / "out").rglob("*.parquet")]
    (table,) = [table for table in tables if "value" in table.schema.names]
    assert table["value_rest"].to_pylist()[:2] == ['{"customer":{"vip":true}}', '{"new":[1]}']


def test_decode_values_returns_the_rest() -> None:
    batch = kafkafmt.decode_values(STORED, registry=registry_of(*VERSIONS), subject="t-value")
    assert batch.schema.names == ["value", "value_rest", "value_error", "value_raw"]
    assert batch["value_rest"].to_pylist()[1] == '{"new":[1]}'


def test_cat_prints_the_whole_value(log: Path) -> None:
    done = inside("cat", log, "-t", "t", "--decode", "--format", "json")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["value"] for line in lines] == [value and json.loads(value[5:]) for value in STORED]
    assert lines[0]["value_schema"]["type"] == "JSON"


def test_text_that_is_not_json_is_undecodable_in_cat(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log", [(b"k", framed(b'{"id": 01}'))], VERSIONS)
    done = inside("cat", path, "-t", "t", "--decode", "--format", "json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["value_error"] == {
        "error": "bad_json",
        "message": "bad_json at byte 13",
        "position": 13,
    }


def test_values_of_avro_and_json_are_not_mixed(core: ModuleType) -> None:
    avro = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    registry = registry_of(VERSIONS[0], version(avro, 2))
    stored = [STORED[0], framed(encode(avro, {"id": 5}), 2)]
    union = decode_columns(core, registry, stored)
    assert [value and value["id"] for value in union.values] == [1, 5]
    latest = decode_columns(core, registry, stored, schema="latest")
    assert latest.values == [None, {"id": 5}]
    assert str(latest.errors[0]).startswith("invalid_schema: schema 1 cannot be read as the chosen one")


def test_json_text_of_avro_and_json_is_in_one_column(core: ModuleType) -> None:
    avro = {"type": "record", "name": "R", "fields": [{"name": "x", "type": ["null", "string"]}]}
    stored = [STORED[0], *(framed(encode(avro, {"x": x}), 2) for x in ("a", None)), framed(b'{"x":null,"u":1}')]
    result = decode_columns(core, registry_of(VERSIONS[0], version(avro, 2)), stored)
    assert [value["x"] for value in result.values] == ["7", '"a"', None, None]


def test_columns_that_json_does_not_have_are_an_error(core: ModuleType) -> None:
    avro = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "bytes"}]}
    result = decode_columns(
        core, registry_of(version({"properties": {}}, 1, schema_type="JSON"), version(avro, 2)), STORED[:1]
    )
    assert result.errors == [None]
    number = version({"properties": {"b": {"type": "integer"}}}, 1, schema_type="JSON")
    result = decode_columns(core, registry_of(number, version(avro, 2)), STORED[:1])
    assert str(result.errors[0]).startswith("invalid_schema")


ORDER: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "amount": {"type": "number"},
        "customer": {"$ref": "customer.json"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "weights": {"type": "object", "additionalProperties": {"type": "number"}},
        "note": {"oneOf": [{"type": "null"}, {"type": "string"}]},
    },
}


def order(n: int) -> dict[str, Any]:
    return {
        "id": n * 10**15,
        "amount": n / 7,
        "customer": {"name": f"größe {n}"},
        "tags": [f"t{i}" for i in range(n % 3)],
        "weights": {"a": n / 3} if n % 2 else {},
        "note": None if n % 2 else 'quote " and \\',
    } | ({"extra": {"n": n}} if n % 5 == 0 else {})


def test_values_of_the_serializer_of_confluent_are_decoded(core: ModuleType) -> None:
    client = SchemaRegistryClient.new_client({"url": "mock://json-values"})
    client.register_schema("customer", Schema(json.dumps(CUSTOMER), "JSON"))
    reference = SchemaReference("customer.json", "customer", 1)
    schema = Schema(json.dumps(ORDER), "JSON", [reference])
    make = JSONSerializer(schema, client)
    context = SerializationContext("t", MessageField.VALUE)
    stored = [make(order(n), context) for n in range(20)]
    schema_id = client.lookup_schema("t-value", schema).schema_id
    read = JSONDeserializer(schema, schema_registry_client=client)
    assert [read(value, context) for value in stored] == [order(n) for n in range(20)]
    own = version(ORDER, 1, schema_id, schema_type="JSON", references=(Reference("customer.json", "customer", 1),))
    registry = registry_of(own, version(CUSTOMER, 1, 77, "customer", schema_type="JSON"))
    result = decode_columns(core, registry, stored)
    assert result.errors == [None] * 20
    for n, value in enumerate(result.values):
        wanted = order(n)
        wanted.pop("extra", None)
        assert value == wanted | {"weights": list(wanted["weights"].items())}
