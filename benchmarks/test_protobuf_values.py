"""Measure decoding of Protobuf values into Arrow, compared with ptars (Rust).

The values have the 5-byte prefix of Confluent's serializers and are in a buffer, as in a log.
kafkafmt decodes 16,384 of them at once. ptars gets lists of 16,384 bytes without the prefix.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from test_values import AT_ONCE, SCHEMAS, SIZES, VALUES, value_of

from kafkafmt.registry import RegisteredSchema, SchemaRegistry
from kafkafmt.values.decoder import SideDecoder
from kafkafmt.values.plan import ValuePlan
from kafkafmt.values.protobuf import parsing
from kafkafmt.values.writers import SubjectWriters

PROTO = """\
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Small { int64 id = 1; string customer = 2; double amount = 3; int64 time = 4; optional string country = 5; }
enum State { NEW = 0; PAID = 1; SENT = 2; }
message Address { string zip = 1; double latitude = 2; }
message Part { string sku = 1; int32 count = 2; double price = 3; }
message Large {
  int64 number0 = 1; int64 number1 = 2; int64 number2 = 3; int64 number3 = 4; int64 number4 = 5; int64 number5 = 6;
  int32 count0 = 7; int32 count1 = 8; int32 count2 = 9; string text0 = 10; string text1 = 11; string text2 = 12;
  string text3 = 13; string text4 = 14; string text5 = 15; optional string note0 = 16; optional string note1 = 17;
  double amount0 = 18; double amount1 = 19; double amount2 = 20; optional double discount = 21; float weight = 22;
  bool paid = 23; google.protobuf.Timestamp created = 24; int32 day = 25; State state = 26; repeated string tags = 27;
  map<string, string> attributes = 28; Address address = 29; repeated Part parts = 30;
}
"""


class ProtobufValues(NamedTuple):
    descriptor: Any
    decode: Callable[[], int]
    bodies: list[bytes]


@cache
def protobuf_values(size: str) -> ProtobufValues:
    """Return values of a message, and a function that decodes all of them with kafkafmt."""
    pool, name, rng = descriptor_pool.DescriptorPool(), SCHEMAS[size]["name"], random.Random(7)
    for file in descriptor_pb2.FileDescriptorSet.FromString(parsing._compiled(PROTO, {})).file:
        pool.AddSerializedFile(file.SerializeToString())
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    bodies = []
    for _ in range(VALUES):
        given = {k: v for k, v in value_of(SCHEMAS[size], rng).items() if v is not None}
        if "created" in given:
            given["created"] = {"seconds": given["created"]}
        bodies.append(kind(**given).SerializeToString())
    prefix = b"k" * 12 + b"\0\0\0\0\1" + (b"\0" if name == "Small" else b"\2\6")
    parts = [prefix + body for body in bodies]
    ends, lengths = np.cumsum([len(part) for part in parts]), np.array([len(part) - 12 for part in parts], np.int32)
    source, offsets = b"".join(parts), np.arange(VALUES)
    positions = (ends - lengths).astype(np.int64)
    registry = SchemaRegistry([RegisteredSchema(1, None, "t-value", 1, "PROTOBUF", PROTO)])
    decoder = SideDecoder(ValuePlan(SubjectWriters(registry, "t-value", message=name)), "value")

    def decode() -> int:
        rows = 0
        for start in range(0, VALUES, AT_ONCE):
            some = slice(start, start + AT_ONCE)
            decoder.add(source, positions[some], lengths[some], offsets[some])
            array, *_ = decoder.finish()
            rows += len(array) - array.null_count
        return rows

    return ProtobufValues(kind.DESCRIPTOR, decode, bodies)


@pytest.mark.benchmark(group="Protobuf into Arrow", timer=time.process_time)
@pytest.mark.parametrize("size", SIZES)
def test_ptars(compare: Callable[..., object], size: str) -> None:
    ptars = pytest.importorskip("ptars")
    given = protobuf_values(size)
    handler = ptars.HandlerPool([given.descriptor.file]).get_for_message(given.descriptor)
    parts = [given.bodies[start : start + AT_ONCE] for start in range(0, VALUES, AT_ONCE)]
    compare(size, given.decode, "ptars", lambda: sum(handler.list_to_record_batch(part).num_rows for part in parts))
