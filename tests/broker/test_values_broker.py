"""Decode what the serializers of Confluent's client sent to a real broker, with schemas that the broker stored too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import java_tools
import pytest
from command import inside
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from kafka_broker import Broker

import kafkafmt

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]
RECORDS = 300
AVRO = {
    "type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "long"}, {"name": "country", "type": ["null", "string"], "default": None},
        {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}, {"name": "n", "type": "int"}],
        }}},
    ],
}  # fmt: skip
NEWER = {**AVRO, "fields": [*AVRO["fields"], {"name": "gift", "type": "boolean", "default": False}]}
JSON = {
    "$schema": "http://json-schema.org/draft-07/schema#", "title": "Order", "type": "object", "properties": {
        "id": {"type": "integer"}, "country": {"type": ["null", "string"]},
        "lines": {"type": "array", "items": {"type": "object", "properties": {
            "sku": {"type": "string"}, "n": {"type": "integer"},
        }}},
    },
}  # fmt: skip
admin: Any = pytest.importorskip("confluent_kafka.admin")
CODECS = {"avro": "zstd", "proto": "lz4", "json": "gzip"}


def order(n: int) -> dict[str, Any]:
    lines = [{"sku": f"sku-{i}", "n": n * i} for i in range(n % 4)]
    return {"id": n * 10**10, "country": None if n % 3 == 0 else "DE", "lines": lines}


def message_class() -> Any:
    """Return the class of a Protobuf message with the fields of `order`, after another message of the same file."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Other").field.add(name="x", number=1, type="TYPE_INT32", label="LABEL_OPTIONAL")
    message = file.message_type.add(name="Order")
    line = message.nested_type.add(name="Line")
    line.field.add(name="sku", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    line.field.add(name="n", number=2, type="TYPE_INT32", label="LABEL_OPTIONAL")
    message.field.add(name="id", number=1, type="TYPE_INT64", label="LABEL_OPTIONAL")
    message.oneof_decl.add(name="_country")
    message.field.add(
        name="country", number=2, type="TYPE_STRING", label="LABEL_OPTIONAL", proto3_optional=True, oneof_index=0
    )
    message.field.add(name="lines", number=3, type="TYPE_MESSAGE", label="LABEL_REPEATED", type_name=".shop.Order.Line")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[Any]]]:
    """Return a log directory of a broker, and for each topic the values as the deserializers return them."""
    client = SchemaRegistryClient.new_client({"url": "mock://broker"})
    message = message_class()
    avro = [AvroSerializer(client, json.dumps(schema)) for schema in (AVRO, NEWER)]
    proto = ProtobufSerializer(message, client, {"use.deprecated.format": False})
    to_json = JSONSerializer(json.dumps(JSON), client)
    read_proto = ProtobufDeserializer(message, {"use.deprecated.format": False}, client)
    read = {"avro": AvroDeserializer(client), "json": JSONDeserializer(None, schema_registry_client=client)}
    expected: dict[str, list[Any]] = {topic: [] for topic in CODECS}
    with Broker(tmp_path_factory.mktemp("values")) as broker:
        servers: dict[str, Any] = {"bootstrap.servers": broker.bootstrap}
        client_of_broker = admin.AdminClient(servers)
        topics = [admin.NewTopic(topic, 1) for topic in CODECS]
        topics.append(admin.NewTopic("_schemas", 1, config={"cleanup.policy": "compact"}))
        for future in client_of_broker.create_topics(topics).values():
            future.result(30)
        for topic, codec in CODECS.items():
            context = SerializationContext(topic, MessageField.VALUE)
            producer = Producer(servers | {"acks": "all", "compression.type": codec, "linger.ms": 5})
            for n in range(RECORDS):
                if topic == "avro":
                    value = avro[n % 2]({**order(n), "gift": True} if n % 2 else order(n), context)
                elif topic == "proto":
                    value = proto(json_format.ParseDict(order(n), message()), context)
                else:
                    value = to_json(order(n) | {"extra": n}, context)
                producer.produce(topic, key=f"key-{n}", value=value)
                found = read_proto(value, context) if topic == "proto" else read[topic](value, context)
                expected[topic].append(found)
            assert producer.flush(60) == 0
        producer = Producer(servers | {"acks": "all"})
        for subject in client.get_subjects():
            for number in client.get_versions(subject):
                version = client.get_version(subject, number)
                key = {"keytype": "SCHEMA", "subject": subject, "version": number, "magic": 1}
                entry = {"subject": subject, "version": number, "id": version.schema_id, "deleted": False}
                entry |= {"schema": version.schema.schema_str, "schemaType": version.schema.schema_type}
                producer.produce("_schemas", key=json.dumps(key), value=json.dumps(entry))
        assert producer.flush(60) == 0
    return broker.log_dirs[0], expected


def plain(value: Any) -> Any:
    """Return a message as a dict with the names of its fields. Absent fields with presence are None."""
    lines = [{"sku": line.sku, "n": line.n} for line in value.lines]
    return {"id": value.id, "country": value.country if value.HasField("country") else None, "lines": lines}


def test_avro(written: tuple[Path, dict[str, list[Any]]]) -> None:
    path, expected = written
    table = kafkafmt.open(path)["avro"].to_arrow(decode={"key": "string", "value": "auto"})
    assert table["key"].to_pylist() == [f"key-{n}" for n in range(RECORDS)]
    assert table["value"].to_pylist() == [{"gift": None, **value} for value in expected["avro"]]
    lines = inside("cat", path, "-t", "avro", "--decode", "--format", "json").stdout.splitlines()
    assert [json.loads(line)["value"] for line in lines] == expected["avro"]


def test_protobuf(written: tuple[Path, dict[str, list[Any]]]) -> None:
    path, expected = written
    table = kafkafmt.open(path)["proto"].to_arrow(decode=True)
    assert table["value"].to_pylist() == list(map(plain, expected["proto"]))
    lines = list(
        map(json.loads, inside("cat", path, "-t", "proto", "--decode", "--format", "json").stdout.splitlines())
    )
    assert [line["value"] for line in lines] == list(map(plain, expected["proto"]))
    assert {line["value_schema"]["message"] for line in lines} == {"shop.Order"}


def test_json(written: tuple[Path, dict[str, list[Any]]]) -> None:
    path, expected = written
    table = kafkafmt.open(path)["json"].to_arrow(decode=True)
    rest = [json.loads(text) for text in table["value_rest"].to_pylist()]
    assert [value | more for value, more in zip(table["value"].to_pylist(), rest, strict=True)] == expected["json"]
    lines = inside("cat", path, "-t", "json", "--decode", "--format", "json").stdout.splitlines()
    assert [json.loads(line)["value"] for line in lines] == expected["json"]


@pytest.mark.parametrize("topic", list(CODECS))
def test_export_and_stats(written: tuple[Path, dict[str, list[Any]]], tmp_path: Path, topic: str) -> None:
    import pyarrow.parquet as pq

    path, _ = written
    done = inside("export", path, "-t", topic, "--decode", "--engine", "local", "-O", tmp_path / "out.parquet")
    assert done.returncode == 0, done.stderr
    assert pq.read_table(tmp_path / "out.parquet")["value"].to_pylist() == (
        kafkafmt.open(path)[topic].to_arrow(["value"], decode=True)["value"].to_pylist()
    )
    (stats,) = kafkafmt.stats(path, topics=topic, decode=True).topics
    assert stats.decoded is not None
    assert (stats.decoded["value"].records, stats.decoded["value"].undecodable) == (RECORDS, 0)
    ranges = {field.name: (field.min, field.max) for field in stats.decoded["value"].fields}
    assert ranges["value.id"] == (0, (RECORDS - 1) * 10**10)
    assert sum(use.records for use in stats.decoded["value"].by_schema) == RECORDS
