"""Decode bodies of values with the package, and convert Arrow arrays to plain values."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from strict_avro import JsonText

import kafkafmt.values.avro.program
import kafkafmt.values.json.program
import kafkafmt.values.protobuf.program  # noqa: F401 - `using` patches the modules that are loaded
from kafkafmt.registry import RegisteredSchema, SchemaRegistry
from kafkafmt.registry.models import schema_guid
from kafkafmt.values.decoder import SideDecoder
from kafkafmt.values.plan import ValuePlan
from kafkafmt.values.writers import SubjectWriters


class Columns(NamedTuple):
    """The result of a decoder."""

    array: pa.Array
    errors: list[tuple[str, int] | str | None]
    raw: list[bytes | None]

    @property
    def values(self) -> list[Any]:
        return plain(self.array)


@contextmanager
def using(core: ModuleType) -> Iterator[None]:
    """Make the loaded modules of the package use a core."""
    with ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.startswith("kafkafmt.") and "core" in vars(module) and name != "kafkafmt._backend":
                stack.enter_context(patch.object(module, "core", core))
        yield


def version(
    schema: Any = None,
    number: int = 1,
    schema_id: int | None = None,
    subject: str = "t-value",
    text: str | None = None,
    **given: Any,
) -> RegisteredSchema:
    """Return a version of a subject, whose schema is given as JSON or as a text. By default, its id is its number."""
    text = json.dumps(schema) if text is None else text
    fields = {"schema_type": "AVRO", "guid": schema_guid(text, (), None, None)} | given
    return RegisteredSchema(
        schema_id=number if schema_id is None else schema_id, subject=subject, version=number, schema=text, **fields
    )


def registry_of(*schemas: Any) -> SchemaRegistry:
    """Return a registry with the versions of a subject, whose ids are 1, 2 and so on."""
    found = [s if isinstance(s, RegisteredSchema) else version(s, i) for i, s in enumerate(schemas, 1)]
    return SchemaRegistry(found)


def framed(body: bytes, schema_id: int = 1) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + body


def decode_columns(
    core: ModuleType,
    registry: SchemaRegistry,
    stored: Sequence[bytes | None],
    schema: str | int = "union",
    fields: Any = None,
    batch: int = 0,
) -> Columns:
    """Decode values that begin with a schema id. `batch` is the number of values in each call of the decoder."""
    with using(core):
        decoder = SideDecoder(ValuePlan(SubjectWriters(registry, "t-value", schema), fields), "value")
        step = batch or max(len(stored), 1)
        for start in range(0, len(stored), step):
            some = stored[start : start + step]
            sizes = [-1 if value is None else len(value) for value in some]
            positions = np.cumsum([0, *(max(size, 0) for size in sizes[:-1])]).astype(np.int64)
            source = b"".join(value or b"" for value in some)
            offsets = np.arange(start, start + len(some), dtype=np.int64)
            decoder.add(source, positions, np.array(sizes, np.int32), offsets)
        array, errors, raw, *_ = decoder.finish()
    array.validate(full=True)
    assert len(array) == len(stored)
    return Columns(array, [_error(text) for text in errors.to_pylist()], raw.to_pylist())


def _error(text: str | None) -> tuple[str, int] | str | None:
    """Return the code and the position of an error, or its text."""
    code, found, position = (text or "").partition(" at byte ")
    return (code, int(position)) if found else text


def plain(array: pa.Array) -> list[Any]:
    """Return the items of an array. Dates and times are integers, and maps are lists of pairs."""
    type_ = array.type
    if pa.types.is_struct(type_):
        members = [plain(array.field(i)) for i in range(type_.num_fields)]
        names = [type_.field(i).name for i in range(type_.num_fields)]
        rows = zip(*members, strict=True) if members else [()] * len(array)
        found: list[Any] = [dict(zip(names, row, strict=True)) for row in rows]
    elif pa.types.is_map(type_) or pa.types.is_list(type_):
        is_map = pa.types.is_map(type_)
        items = list(zip(plain(array.keys), plain(array.items), strict=True)) if is_map else plain(array.values)
        ends = array.offsets.to_pylist()
        found = [items[a:b] for a, b in pairwise(ends)]
    elif pa.types.is_temporal(type_):
        found = array.cast(pa.int32() if type_.bit_width == 32 else pa.int64()).to_pylist()
    else:
        return list(array.to_pylist())
    return [item if valid else None for item, valid in zip(found, array.is_valid().to_pylist(), strict=True)]


def same(found: Any, expected: Any) -> bool:
    """Return whether two values are equal. NaN is equal to NaN, and numbers have the same type and sign."""
    if isinstance(expected, JsonText):
        return isinstance(found, str) and same(json.loads(found), expected.value)
    if type(found) is not type(expected):
        return False
    if isinstance(expected, dict):
        return list(found) == list(expected) and all(same(found[name], expected[name]) for name in expected)
    if isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(map(same, found, expected))
    return repr(found) == repr(expected)
