"""Fuzz the decoding of Protobuf values into columns. google.protobuf is the third voice."""

from __future__ import annotations

import struct
from functools import lru_cache
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
from decoding_values import plain as items_of
from decoding_values import registry_of, version
from google.protobuf import descriptor_pb2, descriptor_pool
from protobuf_schemas import WELL_KNOWN, Maker, Schema, alike, column

from kafkafmt.values import decoder, plan
from kafkafmt.values.errors import ValueFault
from kafkafmt.values.protobuf import descriptors, parsing, writer
from kafkafmt.values.writers import SubjectWriters

from .case import Case
from .mutate_bytes import mutate
from .outcome import check, same
from .target import target


def protobuf_case(chance: Random) -> Case:
    maker = Maker(chance)
    blobs = {}
    for i in range(chance.choice((1, 3, 10))):
        body = maker.body()
        if chance.random() < 0.6:
            body = mutate(chance, body)
        indexes = b"\0" if chance.random() < 0.95 else chance.randbytes(2)
        blobs[str(i)] = struct.pack(">bi", 0, 1) + indexes + body
    blobs["schema"] = maker.schema.file.SerializeToString()
    return Case({"copies": chance.choice((1, 1, 500))}, blobs)


@lru_cache(maxsize=8)
def _schema(content: bytes) -> Schema:
    return Schema(descriptor_pb2.FileDescriptorProto.FromString(content))


def _without_protoc(content: bytes) -> Any:
    """Return a replacement for the parser of schemas, which would start a process for each input."""
    pool = descriptor_pool.DescriptorPool()
    for module in WELL_KNOWN:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    file = pool.AddSerializedFile(content) or pool.FindFileByName("t.proto")
    converter = parsing._Converter()
    found = descriptors.ProtoFile([converter.message(d) for d in file.message_types_by_name.values()], True)
    return lambda text, references=None: found


@target("protobuf-columns", protobuf_case, quick=100)
def protobuf_columns(case: Case) -> Any:
    """Check verdicts, positions, values and the Arrow array of several values, with and without projection."""
    content = case.blobs["schema"]
    schema, stored = _schema(content), [raw for name, raw in case.blobs.items() if name != "schema"]
    with patch.object(writer, "parse_protobuf", _without_protoc(content)):
        reader = writer.ProtobufWriter(schema.text)
        array, texts, unknown = _decoded(schema, stored * case.params["copies"], None)
        fields = [f.name for f in schema.message().fields][:1]
        few = _decoded(schema, stored, dict.fromkeys(fields)) if fields else None
    values = items_of(array)
    for row, raw in enumerate(stored):
        try:
            reader.to_json(memoryview(raw)[5:])
            error = None
        except ValueFault as fault:
            error = f"{fault.code} at byte {fault.position + 5}"
        text = texts[row] or ""
        check(text.startswith("no_branch") or _alike(text, error or ""), f"{text} is not {error}")
        if raw[5:6] != b"\0":
            continue
        message = schema.parse(raw[6:])
        check(message is not None or bool(text), "an invalid value is accepted")
        if message is not None and text:
            check(text.startswith(("bad_number", "bad_utf8")), f"{text}: a valid value is refused")
        elif message is not None and b"Entry" not in content:  # the oracle drops map entries with unknown fields
            check(alike(values[row], column(message)), f"{values[row]!r:.200} is not {column(message)!r:.200}")
    same(texts, texts[: len(stored)] * case.params["copies"], "errors of the copies")
    if few is not None:
        for value, whole, error in zip(items_of(few[0]), values, few[1], strict=False):
            check(whole is None or error is None, f"only one field is invalid: {error}")
            check(whole is None or repr(value) == repr({fields[0]: whole[fields[0]]}), f"{value!r:.200}")
    return texts, repr(values), unknown


def _alike(found: str, expected: str) -> bool:
    """Return whether two verdicts are equal. Only columns round the parts of a duration before they are merged."""
    return found == expected or all(text.startswith("bad_number") or not text for text in (found, expected))


def _decoded(schema: Schema, stored: list[bytes], fields: Any) -> tuple[Any, list[str | None], int]:
    registry = registry_of(version(text=schema.text, schema_type="PROTOBUF"))
    found = decoder.SideDecoder(plan.ValuePlan(SubjectWriters(registry, "t-value"), fields), "value")
    sizes = np.array([len(raw) for raw in stored], np.int32)
    positions = np.cumsum(sizes, dtype=np.int64) - sizes
    found.add(b"".join(stored), positions, sizes, np.arange(len(stored), dtype=np.int64))
    array, texts, _ = found.finish()
    array.validate(full=True)
    return array, texts.to_pylist(), found._builder.unknown_fields
