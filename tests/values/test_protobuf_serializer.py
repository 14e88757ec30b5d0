"""Decode what the Protobuf serializers of Confluent's Python client wrote."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    header_schema_id_serializer,
    prefix_schema_id_serializer,
)
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from decoding_values import plain, using
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kafkafmt.registry import RegisteredSchema, SchemaRegistry
from kafkafmt.registry.models import SchemaReference
from kafkafmt.values.decoder import SideDecoder
from kafkafmt.values.plan import ValuePlan
from kafkafmt.values.protobuf import parsing
from kafkafmt.values.record_decoder import RecordDecoder
from kafkafmt.values.writers import SubjectWriters

PART = 'syntax = "proto3"; package shop; message Part { string sku = 1; }'
SHOP = """\
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "part.proto";
message First { int32 unused = 1; }
message Order {
  map<string, int32> counts = 1;
  message Line {
    Part part = 1; uint64 count = 2;
    message Note { string text = 1; }
  }
  repeated Line lines = 2;
  google.protobuf.Timestamp at = 3;
}
"""


class Written(NamedTuple):
    registry: SchemaRegistry
    values: list[bytes]
    headers: list[dict[str, bytes]]


@pytest.fixture(scope="module")
def classes() -> dict[str, Any]:
    """Return google.protobuf's classes of the messages, by their full names."""
    files = descriptor_pb2.FileDescriptorSet.FromString(parsing._compiled(SHOP, {"part.proto": PART})).file
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    names = ("shop.First", "shop.Order", "shop.Order.Line", "shop.Order.Line.Note")
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names}


def written(messages: list[Any], place: Callable[..., bytes]) -> Written:
    """Serialize messages of one class. The schema id is in the values or in headers."""
    client: Any = SchemaRegistryClient.new_client({"url": f"mock://{id(messages)}"})
    serialize = ProtobufSerializer(type(messages[0]), client, {"schema.id.serializer": place})
    values, headers = [], list[dict[str, bytes]]()
    for message in messages:
        context: Any = SerializationContext("t", MessageField.VALUE, {})
        values.append(serialize(message, context))
        headers.append(context.headers)
    versions = []
    for subject in client.get_subjects():
        for number in client.get_versions(subject):
            found = client.get_version(subject, number)
            references = tuple(SchemaReference(r.name, r.subject, r.version) for r in found.schema.references or ())
            versions.append(
                RegisteredSchema(
                    *(found.schema_id, found.guid, subject, number, "PROTOBUF", found.schema.schema_str, references)
                )
            )
    return Written(SchemaRegistry(versions), values, headers)


@pytest.mark.parametrize("place", [prefix_schema_id_serializer, header_schema_id_serializer])
@pytest.mark.parametrize("name", ["shop.Order", "shop.Order.Line", "shop.Order.Line.Note"])
def test_messages_of_the_serializer(
    core: ModuleType, classes: dict[str, Any], place: Callable[..., bytes], name: str
) -> None:
    kind = classes[name]
    rows: dict[str, list[Any]] = {
        "shop.Order": [
            {
                "counts": {"a": n},
                "lines": [{"part": {"sku": f"s{n}"}, "count": 2**63 + n}],
                "at": {"seconds": n, "nanos": 5000},
            }
            for n in range(3)
        ],
        "shop.Order.Line": [{"part": {"sku": "ß"}, "count": n} for n in range(3)],
        "shop.Order.Line.Note": [{"text": f"text {n}"} for n in range(3)],
    }
    expected = {
        "shop.Order": [
            {"counts": [("a", n)], "lines": [{"part": {"sku": f"s{n}"}, "count": 2**63 + n}], "at": n * 10**6 + 5}
            for n in range(3)
        ],
        **{name: rows[name] for name in ("shop.Order.Line", "shop.Order.Line.Note")},
    }
    given = written([kind(**row) for row in rows[name]], place)
    lengths = np.array(list(map(len, given.values)), np.int32)
    header_ids = {row: h["__value_schema_id"] for row, h in enumerate(given.headers) if h}
    assert bool(header_ids) == (place is header_schema_id_serializer)
    with using(core):
        decoder = SideDecoder(ValuePlan(SubjectWriters(given.registry, "t-value", message=name)), "value")
        positions = np.cumsum(lengths, dtype=np.int64) - lengths
        decoder.add(b"".join(given.values), positions, lengths, np.arange(3), header_ids)
        array, errors, _ = decoder.finish()
    assert errors.to_pylist() == [None] * 3
    assert plain(array) == expected[name]
    one = RecordDecoder(SubjectWriters(given.registry, "t-value"), "value")
    for value, headers, row in zip(given.values, given.headers, rows[name], strict=True):
        found = one.decode(value, list(headers.items()))
        assert found.error is None
        assert found.message == name
        wanted = {**row, "at": f"1970-01-01T00:00:0{row['at']['seconds']}.000005Z"} if "at" in row else row
        assert found.value == wanted


def test_indexes_in_headers_that_choose_no_message(core: ModuleType, classes: dict[str, Any]) -> None:
    given = written([classes["shop.Order.Line"](count=n) for n in range(4)], header_schema_id_serializer)
    header = given.headers[0]["__value_schema_id"][:17]
    tails = [b"\x04\x02\x02", b"\x04\x02\x0a", b"", b"\x00"]
    lengths = np.array(list(map(len, given.values)), np.int32)
    with using(core):
        decoder = SideDecoder(ValuePlan(SubjectWriters(given.registry, "t-value", message="Line")), "value")
        header_ids = {row: header + tail for row, tail in enumerate(tails)}
        decoder.add(
            b"".join(given.values), np.cumsum(lengths, dtype=np.int64) - lengths, lengths, np.arange(4), header_ids
        )
        array, errors, _ = decoder.finish()
    assert plain(array) == [{"part": None, "count": 0}, None, None, None]
    assert [error and error.partition(":")[0] for error in errors.to_pylist()] == [
        None,
        "bad_index",
        "truncated",
        "no_branch",
    ]
    one = RecordDecoder(SubjectWriters(given.registry, "t-value"), "value")
    found = [
        one.decode(value, [("__value_schema_id", h)])
        for value, h in zip(given.values, header_ids.values(), strict=True)
    ]
    assert [f.error and f.error.code for f in found] == [None, "bad_index", "truncated", None]
    assert [f.message for f in found] == ["shop.Order.Line", None, None, "shop.First"]
