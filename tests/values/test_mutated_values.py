"""Decode mutated values on both cores, and compare the verdicts with those of a strict reader."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest
from avro_schemas import encode, schemas, values
from decoding_values import decode_columns, framed, registry_of, same
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strict_avro import StrictAvro, StrictError

from kafkafmt.values.avro.objects import avro_to_json
from kafkafmt.values.avro.schema import parse_avro
from kafkafmt.values.errors import ValueFault

ON_CORES = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
VARINTS = [
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # the smallest long
    b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # the largest long
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00",  # zero
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x10",
    b"\x01",
    b"\x80",
]


@st.composite
def mutated(draw: st.DrawFn, body: bytes) -> bytes:
    found = bytearray(body)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(found)))
        change = draw(st.sampled_from(["flip", "set", "insert", "cut", "tail"]))
        if change in ("flip", "set") and at < len(found):
            found[at] = found[at] ^ 1 << draw(st.integers(0, 7)) if change == "flip" else draw(st.integers(0, 255))
        elif change == "insert":
            found[at:at] = draw(st.sampled_from(VARINTS))
        elif change == "cut":
            del found[at:]
        else:
            found += draw(st.binary(min_size=1, max_size=4))
    return bytes(found)


@given(data=st.data())
@settings(ON_CORES, max_examples=60)
def test_verdict_and_value_equal_those_of_a_strict_reader(native: ModuleType, pure: ModuleType, data: Any) -> None:
    check(native, pure, data)


@pytest.mark.slow
@given(data=st.data())
@settings(ON_CORES, max_examples=1000)
def test_verdict_and_value_equal_those_of_a_strict_reader_in_many_cases(
    native: ModuleType, pure: ModuleType, data: Any
) -> None:
    check(native, pure, data)


def check(native: ModuleType, pure: ModuleType, data: Any) -> None:
    schema = data.draw(schemas())
    reader = StrictAvro(schema)
    whole = encode(schema, data.draw(values(reader)))
    bodies = [whole[:cut] for cut in range(len(whole) + 1)][-50:]
    bodies += [data.draw(mutated(whole)) for _ in range(5)]
    expected: list[Any] = []
    faults: list[tuple[str, int] | None] = []
    type_ = parse_avro(json.dumps(schema))
    for body in bodies:
        try:
            expected.append(reader.column(schema, reader.read(body)))
            faults.append(None)
        except StrictError as error:
            expected.append(None)
            faults.append((error.code, error.position))
        try:
            avro_to_json(type_, memoryview(body))
            fault = None
        except ValueFault as error:
            fault = error.code, error.position
        assert fault == faults[-1]
    stored = [framed(body) for body in bodies]
    wanted = [fault and (fault[0], fault[1] + 5) for fault in faults]
    for core in (native, pure):
        result = decode_columns(core, registry_of(schema), stored)
        assert result.errors == wanted
        assert result.raw == [body if fault else None for body, fault in zip(stored, faults, strict=True)]
        for found, value in zip(result.values, expected, strict=True):
            assert same(found, value), (found, value)
