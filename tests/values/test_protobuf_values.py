"""Decode random Protobuf bodies on both cores, and compare verdicts and values with google.protobuf."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from types import ModuleType
from typing import Any

import pytest
from decoding_values import decode_columns, framed, registry_of, version
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from protobuf_schemas import Maker, alike, as_json, column

from kafkafmt.values.errors import ValueFault
from kafkafmt.values.protobuf.writer import ProtobufWriter

ON_CORES = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
seeds = st.integers(0, 2**32)


@given(seed=seeds)
@settings(ON_CORES, max_examples=60)
def test_values_equal_those_of_protobuf(native: ModuleType, pure: ModuleType, seed: int) -> None:
    check(native, pure, seed, mutates=False)


@given(seed=seeds)
@settings(ON_CORES, max_examples=60)
def test_verdict_on_mutated_values_equals_that_of_protobuf(native: ModuleType, pure: ModuleType, seed: int) -> None:
    check(native, pure, seed, mutates=True)


@pytest.mark.full
@given(seed=seeds, mutates=st.booleans())
@settings(ON_CORES, max_examples=1000)
def test_values_and_verdicts_equal_those_of_protobuf_in_many_cases(
    native: ModuleType, pure: ModuleType, seed: int, mutates: bool
) -> None:
    check(native, pure, seed, mutates)


def check(native: ModuleType, pure: ModuleType, seed: int, mutates: bool) -> None:
    chance = Random(seed)
    maker = Maker(chance, proto2=False if mutates else None)
    schema = maker.schema
    bodies = [maker.body() for _ in range(20)]
    if mutates:
        bodies = [mutated(chance, body) for body in bodies]
    parsed = [schema.parse(body) for body in bodies]
    expected = [None if message is None else column(message) for message in parsed]
    registry = registry_of(version(text=schema.text, schema_type="PROTOBUF"))
    stored = [framed(b"\0" + body) for body in bodies]
    results = [decode_columns(core, registry, stored) for core in (native, pure)]
    assert results[0].errors == results[1].errors
    for mine, other in zip(results[0].values, results[1].values, strict=True):
        assert repr(mine) == repr(other)
    if mutates and ("map_entry" in str(schema.file) or "protobuf.Struct" in str(schema.file)):
        expected = results[0].values  # the oracle drops map entries with unknown fields
    refusals = {"bad_number"}
    if any(not m.field for top in schema.file.message_type for m in (top, *_nested(top))):
        refusals.add("bad_index")  # the oracle does not read the content of messages without fields
    writer = ProtobufWriter(schema.text)
    for i, (body, message) in enumerate(zip(bodies, parsed, strict=True)):
        error = results[0].errors[i]
        try:
            found = writer.to_json(memoryview(b"\0" + body))
            fault = None
        except ValueFault as problem:
            fault = problem.code, problem.position + 5
        assert fault == error
        if message is None:
            assert error is not None, body.hex()
        elif error is not None:  # times have ranges
            assert mutates, (error, body.hex())
            assert error[0] in refusals, (error, body.hex())
        else:
            for result in results:
                assert alike(result.values[i], expected[i]), (result.values[i], expected[i], body.hex())
            if not mutates:
                assert alike(found, as_json(message)), (found, as_json(message))


def _nested(message: Any) -> Iterator[Any]:
    for nested in message.nested_type:
        yield nested
        yield from _nested(nested)


def mutated(chance: Random, body: bytes) -> bytes:
    found = bytearray(body)
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        at = chance.randint(0, len(found))
        change = chance.randrange(5)
        if change < 2 and at < len(found):
            found[at] = found[at] ^ 1 << chance.randrange(8) if change else chance.randrange(256)
        elif change == 2:
            found[at:at] = chance.choice(VARINTS)
        elif change == 3:
            del found[at:]
        else:
            found += chance.randbytes(chance.randint(1, 4))
    return bytes(found)


VARINTS: list[Any] = [
    b"\xff" * 9 + b"\x01",
    b"\xff" * 9 + b"\x7f",
    b"\xff" * 10 + b"\x01",
    b"\x80\x80\x80\x80\x00",
    b"\x80\x80\x80\x80\x80\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x1f",
    b"\x0b",
    b"\x0c",
    b"\x00",
    b"\x07",
]
