"""Decode single keys and values into objects for JSON, each by the schema with which it was written."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..registry import RegisteredSchema
from .errors import ValueFault
from .framing import CONFLUENT, NONE, Key
from .writers import UNKNOWN_SCHEMA, SchemaProblem, Writer, Writers, is_protobuf

RENEWAL_SECONDS = 1.0


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
    message: str | None = None  # full name of the Protobuf message

    def schema_dict(self) -> dict[str, Any] | None:
        if self.schema is None:
            return None
        s = self.schema
        about = {"id": s.schema_id, "guid": s.guid, "subject": s.subject, "version": s.version, "type": s.schema_type}
        return {**about, "message": self.message}


class RecordDecoder:
    """Decodes the keys or values of a topic. Several threads can use it."""

    # With `renew`, unknown schemas are looked for again in the schemas that it returns, at most once per second.

    def __init__(self, writers: Writers, side: str, renew: Callable[[], Writers] | None = None) -> None:
        self._writers, self._header, self._renew = writers, f"__{side}_schema_id", renew
        self._next_renewal = 0.0
        self._found: dict[Key, tuple[RegisteredSchema | None, Writer] | SchemaProblem] = {}

    def decode(self, raw: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()) -> Decoded:
        """Decode a key or value. None stays None. A schema id in the headers of its record has priority."""
        if raw is None:
            return Decoded(None)
        framing = self._writers.framing
        in_header = schema_header(headers, self._header) if framing is CONFLUENT else None
        start = framing.read(memoryview(raw if in_header is None else in_header))
        if start is None:
            return Decoded(None, None, Undecodable("no_schema_id", framing.missing, 0))
        key, prefix = start
        found = self._find(key)
        if isinstance(found, SchemaProblem):
            return Decoded(None, None, Undecodable(found.code, found.message, None))
        schema, writer = found
        indexes = memoryview(raw if in_header is None else in_header)[prefix:]
        prefix = prefix if in_header is None else 0
        body = memoryview(raw)[prefix:]
        try:
            if not is_protobuf(writer):
                return Decoded(writer.to_json(body), schema)
            if framing is NONE:
                return Decoded(writer.to_json_alone(body), schema, None, writer.message)
            value = writer.to_json(body) if in_header is None else writer.to_json_by(indexes, body)
            return Decoded(value, schema, None, writer.message_of(indexes))
        except ValueFault as fault:
            position = prefix + fault.position
            return Decoded(None, schema, Undecodable(fault.code, f"{fault.code} at byte {position}", position))

    def _find(self, key: Key) -> tuple[RegisteredSchema | None, Writer] | SchemaProblem:
        if key not in self._found:
            try:
                self._found[key] = self._writers.find(key)
            except SchemaProblem as problem:
                if self._renew is not None and problem.code == UNKNOWN_SCHEMA:
                    return self._find_again(self._renew, key, problem)
                self._found[key] = problem
        return self._found[key]

    def _find_again(
        self, renew: Callable[[], Writers], key: Key, problem: SchemaProblem
    ) -> tuple[RegisteredSchema | None, Writer] | SchemaProblem:
        now = time.monotonic()
        if now < self._next_renewal:
            return problem
        self._next_renewal = now + RENEWAL_SECONDS
        self._writers = renew()
        try:
            return self._writers.find(key)
        except SchemaProblem as found:
            return found


def schema_header(headers: Sequence[tuple[str, bytes | None]], name: str) -> bytes | None:
    """Return the last header with a name whose value is not null. It has the schema id of a side."""
    return next((value for n, value in reversed(headers) if n == name and value is not None), None)
