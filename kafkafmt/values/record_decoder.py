"""Decode single keys and values into objects for JSON, each by the schema with which it was written."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..registry import RegisteredSchema, SchemaRegistry
from .errors import ValueFault
from .writers import SchemaProblem, Writer, find_schema, parse_writer

PREFIX, GUID_PREFIX = 5, 17
"""Sizes of the prefixes of Confluent's serializers: a zero and the schema id, or a one and a GUID."""


class Undecodable(NamedTuple):
    """Why a key or value cannot be decoded. `position` is in bytes; None if it is not about a byte."""

    code: str
    message: str
    position: int | None

    def to_dict(self) -> dict[str, Any]:
        return {"error": self.code, "message": self.message, "position": self.position}


class Decoded(NamedTuple):
    """A key or value as an object for JSON, or the reason why it cannot be decoded."""

    value: Any
    schema: RegisteredSchema | None = None
    error: Undecodable | None = None

    def schema_dict(self) -> dict[str, Any] | None:
        if self.schema is None:
            return None
        s = self.schema
        about = {"id": s.schema_id, "guid": s.guid, "subject": s.subject, "version": s.version, "type": s.schema_type}
        return {**about, "message": None}


class RecordDecoder:
    """Decodes the keys or values of one subject. Several threads can use it."""

    def __init__(self, registry: SchemaRegistry, subject: str, side: str) -> None:
        self._registry, self._subject, self._header = registry, subject, f"__{side}_schema_id"
        self._writers: dict[int | str, tuple[RegisteredSchema, Writer] | SchemaProblem] = {}

    def decode(self, raw: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()) -> Decoded:
        """Decode a key or value. None stays None. A schema id in the headers of its record has priority."""
        if raw is None:
            return Decoded(None)
        in_header = next(
            (value for name, value in reversed(headers) if name == self._header and value is not None), None
        )
        key = schema_key(memoryview(raw if in_header is None else in_header))
        if key is None:
            return Decoded(None, None, Undecodable("no_schema_id", "it does not begin with a schema id", 0))
        found = self._writer(key)
        if isinstance(found, SchemaProblem):
            return Decoded(None, None, Undecodable(found.code, found.message, None))
        schema, writer = found
        prefix = 0 if in_header is not None else PREFIX if isinstance(key, int) else GUID_PREFIX
        try:
            return Decoded(writer.to_json(memoryview(raw)[prefix:]), schema)
        except ValueFault as fault:
            position = prefix + fault.position
            return Decoded(None, schema, Undecodable(fault.code, f"{fault.code} at byte {position}", position))

    def _writer(self, key: int | str) -> tuple[RegisteredSchema, Writer] | SchemaProblem:
        if key not in self._writers:
            try:
                schema = find_schema(self._registry, key, self._subject)
                self._writers[key] = schema, parse_writer(self._registry, schema)
            except SchemaProblem as problem:
                self._writers[key] = problem
        return self._writers[key]


def schema_key(raw: memoryview) -> int | str | None:
    """Return the schema id or the GUID with which a key or value begins, or None."""
    if len(raw) >= PREFIX and raw[0] == 0:
        return int.from_bytes(raw[1:PREFIX], "big")
    if len(raw) >= GUID_PREFIX and raw[0] == 1:
        return str(uuid.UUID(bytes=bytes(raw[1:GUID_PREFIX])))
    return None
