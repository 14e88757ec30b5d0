"""Decode what the serializers of Confluent's Python client wrote, and compare it with their deserializers."""

from __future__ import annotations

import datetime
import json
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from decoded_logs import write_log
from decoding_values import version

import kafkafmt

UTC = datetime.UTC
KEY = {"type": "string"}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "clock", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "token", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "note", "type": ["null", "string"]},
        {"name": "raw", "type": "bytes"},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "weights", "type": {"type": "map", "values": "double"}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": "int"}],
                },
            },
        },
    ],
}
NEWER = {**ORDER, "fields": [*ORDER["fields"], {"name": "country", "type": ["null", "string"], "default": None}]}


def order(n: int) -> dict[str, Any]:
    return {
        "id": n * 10**12 - 1,
        "amount": Decimal(n * 12345 - 7).scaleb(-2),
        "at": datetime.datetime(2026, 1, 2, 3, 4, 5, 678000 + n * 1000, UTC),
        "day": datetime.date(2026, 1, 1) + datetime.timedelta(n),
        "clock": datetime.time(23, 59, n, 999),
        "token": uuid.UUID(int=n),
        "state": "NEW" if n % 2 else "PAID",
        "note": None if n % 3 else f"größe {n}",
        "raw": bytes(range(n % 9)),
        "hash": b"hash",
        "weights": {"a": n / 7} if n % 2 else {},
        "lines": [{"sku": f"s{i}", "count": i} for i in range(n % 4)],
    }


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any], list[Any]]:
    """Return a log directory, and the keys and values of its records as the deserializers return them."""
    client = SchemaRegistryClient.new_client({"url": "mock://values"})
    key_context, value_context = (SerializationContext("t", field) for field in (MessageField.KEY, MessageField.VALUE))
    make_key = AvroSerializer(client, json.dumps(KEY))
    serializers = [AvroSerializer(client, json.dumps(schema)) for schema in (ORDER, NEWER)]
    records: list[tuple[bytes | None, bytes | None]] = []
    for n in range(40):
        value = {**order(n), "country": "DE"} if n % 2 else order(n)
        records.append((make_key(f"key {n}", key_context), serializers[n % 2](value, value_context)))
    records.append((records[0][0], None))
    versions = [
        version(schema, number, client.lookup_schema(subject, Schema(json.dumps(schema), "AVRO")).schema_id, subject)
        for subject, number, schema in (("t-key", 1, KEY), ("t-value", 1, ORDER), ("t-value", 2, NEWER))
    ]
    read = AvroDeserializer(client)
    keys = [read(key, key_context) for key, _ in records]
    values = [read(value, value_context) for _, value in records]
    return write_log(tmp_path_factory.mktemp("written"), records, versions), keys, values


def comparable(value: Any) -> Any:
    """Return a value of the deserializer as pyarrow returns it."""
    if isinstance(value, dict):
        found = {name: comparable(item) for name, item in value.items()}
        return list(found.items()) if set(found) <= {"a"} else found
    if isinstance(value, list):
        return [comparable(item) for item in value]
    return str(value) if isinstance(value, uuid.UUID) else value


def test_table_equals_the_deserializer(written: tuple[Path, list[Any], list[Any]]) -> None:
    path, keys, values = written
    table = kafkafmt.open(path)["t"].to_arrow(decode=True)
    table.validate(full=True)
    assert table["key"].to_pylist() == keys
    found = table["value"].to_pylist()
    assert found[-1] is None
    assert values[-1] is None
    for mine, theirs in zip(found[:-1], values[:-1], strict=True):
        assert mine == {"country": None, **comparable(theirs)}
    assert table["value_error"].null_count == table["value_raw"].null_count == 41


def test_latest_schema_equals_the_deserializer(written: tuple[Path, list[Any], list[Any]]) -> None:
    path, _, values = written
    found = kafkafmt.open(path)["t"].to_arrow(["value"], decode=True, schema="latest")["value"].to_pylist()
    assert [row and row["country"] for row in found] == [value and value.get("country") for value in values]
