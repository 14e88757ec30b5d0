"""Decode generated values of generated schemas on both cores, and compare them with two other readers."""

from __future__ import annotations

import io
import json
from types import ModuleType
from typing import Any

import fastavro
import pytest
from avro_schemas import encode, schemas, values, without_logical
from decoding_values import decode_columns, framed, registry_of, same
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strict_avro import StrictAvro

from kafkafmt.values.avro.objects import avro_to_json
from kafkafmt.values.avro.schema import parse_avro

ON_CORES = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


@given(data=st.data())
@settings(ON_CORES, max_examples=60)
def test_generated_values_equal_those_of_a_strict_reader(native: ModuleType, pure: ModuleType, data: Any) -> None:
    check(native, pure, data)


@pytest.mark.slow
@given(data=st.data())
@settings(ON_CORES, max_examples=1000)
def test_generated_values_equal_those_of_a_strict_reader_in_many_cases(
    native: ModuleType, pure: ModuleType, data: Any
) -> None:
    check(native, pure, data)


def check(native: ModuleType, pure: ModuleType, data: Any) -> None:
    schema = data.draw(schemas())
    reader = StrictAvro(schema)
    bodies = [encode(schema, data.draw(values(reader))) for _ in range(data.draw(st.integers(1, 4)))]
    read = [reader.read(body) for body in bodies]
    stripped = fastavro.parse_schema(without_logical(schema))
    for body, value in zip(bodies, read, strict=True):
        theirs = fastavro.schemaless_reader(io.BytesIO(body), stripped, None)
        assert same(theirs, reader.plain(schema, value))
        found = avro_to_json(parse_avro(json.dumps(schema)), memoryview(body))
        assert same(found, reader.json(schema, value))
        json.dumps(found, allow_nan=False)
    registry = registry_of(schema)
    expected = [reader.column(schema, value) for value in read]
    for core in (native, pure):
        result = decode_columns(core, registry, [framed(body) for body in bodies], batch=2)
        assert result.errors == [None] * len(bodies)
        for found, wanted in zip(result.values, expected, strict=True):
            assert same(found, wanted), (found, wanted)
