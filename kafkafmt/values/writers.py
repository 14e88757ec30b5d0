"""Find the schema with which a key or value was written, and parse it."""

# pyarrow is not imported here, because `cat --decode` does not need it.

from __future__ import annotations

from ..registry import RegisteredSchema, SchemaNotFoundError, SchemaRegistry
from ..registry.models import AVRO
from .avro_schema import AvroSchemaError, AvroType, parse_avro


class SchemaProblem(Exception):
    """Values of a schema cannot be decoded. `code` is one of the error codes of decoded values."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def find_schema(registry: SchemaRegistry, key: int | str, subject: str) -> RegisteredSchema:
    """Return the schema with an id or a GUID. SchemaProblem: there is none."""
    try:
        return registry.get_schema(key, subject) if isinstance(key, int) else registry.get_by_guid(key)
    except SchemaNotFoundError as error:
        raise SchemaProblem("unknown_schema", str(error)) from None


def avro_type(registry: SchemaRegistry, schema: RegisteredSchema) -> AvroType:
    """Return the parsed type of a schema. SchemaProblem: it cannot be used."""
    if schema.error == "encrypted":
        raise SchemaProblem("encrypted", f"schema {schema.schema_id} is encrypted")
    if schema.schema_type != AVRO:
        raise SchemaProblem(
            "invalid_schema", f"schema {schema.schema_id} is of type {schema.schema_type}; only {AVRO} can be decoded"
        )
    try:
        return parse_avro(schema.schema, [s.schema for s in registry.get_references(schema).values()])
    except (AvroSchemaError, SchemaNotFoundError) as error:
        place = f"version {schema.version} of subject {schema.subject}"
        raise SchemaProblem("invalid_schema", f"{place} is invalid: {error}") from None
