"""Find the schema with which a key or value was written, and parse it."""

# pyarrow is not imported here, because `cat --decode` does not need it.

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ..registry import RegisteredSchema, SchemaNotFoundError, SchemaRegistry
from ..registry.models import AVRO
from .errors import InvalidSchemaError
from .types import ValueType

if TYPE_CHECKING:
    from .._backend import core
    from .value_columns import Captures, Column


class SchemaProblem(Exception):
    """Values of a schema cannot be decoded. `code` is one of the error codes of decoded values."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Writer(Protocol):
    """A parsed schema, with which values are written."""

    type: ValueType

    def compile(self, root: Column, captures: Captures, fill_defaults: bool) -> core.ValueProgram:
        """Return a program that decodes values into columns. UnresolvableError: it would not fit."""
        ...

    def to_json(self, body: memoryview) -> Any:
        """Return a value as an object for JSON. ValueFault: it is not a value of the schema."""
        ...


def find_schema(registry: SchemaRegistry, key: int | str, subject: str) -> RegisteredSchema:
    """Return the schema with an id or a GUID. SchemaProblem: there is none."""
    try:
        return registry.get_schema(key, subject) if isinstance(key, int) else registry.get_by_guid(key)
    except SchemaNotFoundError as error:
        raise SchemaProblem("unknown_schema", str(error)) from None


def parse_writer(registry: SchemaRegistry, schema: RegisteredSchema) -> Writer:
    """Parse a schema. SchemaProblem: it cannot be used."""
    if schema.error == "encrypted":
        raise SchemaProblem("encrypted", f"schema {schema.schema_id} is encrypted")
    if schema.schema_type != AVRO:
        raise SchemaProblem(
            "invalid_schema", f"schema {schema.schema_id} is of type {schema.schema_type}; only {AVRO} can be decoded"
        )
    try:
        from .avro.writer import AvroWriter

        return AvroWriter(schema.schema, [s.schema for s in registry.get_references(schema).values()])
    except (InvalidSchemaError, SchemaNotFoundError) as error:
        place = f"version {schema.version} of subject {schema.subject}"
        raise SchemaProblem("invalid_schema", f"{place} is invalid: {error}") from None
