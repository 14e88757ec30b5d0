"""Find the schemas with which keys and values were written, and parse them."""

# pyarrow is not imported here, because `cat --decode` does not need it.

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from ..registry import RegisteredSchema, SchemaNotFoundError, SchemaRegistry
from ..registry.models import JSON, PROTOBUF
from ..support.text import shown
from .errors import InvalidSchemaError
from .framing import CONFLUENT, NONE, Framing, Key
from .sides import UNION
from .types import ValueType

if TYPE_CHECKING:
    from .._backend import core
    from .protobuf.writer import ProtobufWriter
    from .value_columns import Captures, Column

LATEST = "latest"
UNKNOWN_SCHEMA = "unknown_schema"


class SchemaProblem(Exception):
    """Values of a schema cannot be decoded. `code` is one of the error codes of decoded values."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Writer(Protocol):
    """A parsed schema, with which values are written."""

    @property
    def type(self) -> ValueType: ...

    has_rest: bool
    """Whether values can have members that are not in the type."""

    def compile(self, root: Column, captures: Captures, fill_defaults: bool) -> core.ValueProgram:
        """Return a program that decodes values into columns. UnresolvableError: it would not fit."""
        ...

    def to_json(self, body: memoryview) -> Any:
        """Return a value as an object for JSON. ValueFault: it is not a value of the schema."""
        ...


class Writers(Protocol):
    """The schemas of the keys or values of a topic. Picklable, because Spark sends it to tasks."""

    framing: Framing
    choice: str | int
    """Which schemas decide the columns."""

    def chosen(self) -> Sequence[Writer]:
        """Return the schemas that decide the columns. ValueError: none of them can be used."""
        ...

    def find(self, key: Key) -> tuple[RegisteredSchema | None, Writer]:
        """Return the schema that a prefix names. SchemaProblem: it does not exist or cannot be used."""
        ...


class OneWriter:
    """A schema that is not in a registry."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.framing: Framing = NONE
        self.choice: str | int = UNION

    def chosen(self) -> Sequence[Writer]:
        return [self._writer]

    def find(self, key: Key) -> tuple[RegisteredSchema | None, Writer]:
        return None, self._writer


class SubjectWriters:
    """The schemas of a subject. `is_fixed`: all values were written with the chosen one, whatever precedes them.

    `message` is the name of the Protobuf message that decides the columns. "": the first one of each schema.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        subject: str,
        choice: str | int = UNION,
        framing: Framing = CONFLUENT,
        is_fixed: bool = False,
        message: str = "",
    ) -> None:
        self._registry, self._message = registry, message
        self.subject: str = subject
        self.choice: str | int = choice
        self.framing: Framing = framing
        self._only = _only(_chosen(registry, subject, choice), subject) if is_fixed or framing is NONE else None
        self._writers: dict[tuple[str, int], Writer] = {}

    def chosen(self) -> Sequence[Writer]:
        """Return the schemas that decide the columns. Versions that cannot be used are left out if others remain."""
        writers, problems = [], []
        for schema in _chosen(self._registry, self.subject, self.choice):
            try:
                writers.append(self._parsed(schema))
            except SchemaProblem as problem:
                problems.append(problem)
        if not writers:
            raise ValueError(f"the values of subject {self.subject} cannot be decoded: {problems[-1]}")
        return writers

    def find(self, key: Key) -> tuple[RegisteredSchema | None, Writer]:
        schema = self._only or self._schema(key)
        return schema, self._parsed(schema)

    def _schema(self, key: Key) -> RegisteredSchema:
        if isinstance(key, bytes):
            from .avro.fingerprint import with_fingerprint

            found = with_fingerprint(key, self._registry)
            if found is None:
                raise SchemaProblem(UNKNOWN_SCHEMA, f"there is no schema with the fingerprint {key.hex()}")
            return found
        assert key is not None
        try:
            if isinstance(key, int):
                return self._registry.get_schema(key, self.subject)
            return self._registry.get_by_guid(key)
        except SchemaNotFoundError as error:
            raise SchemaProblem(UNKNOWN_SCHEMA, str(error)) from None

    def _parsed(self, schema: RegisteredSchema) -> Writer:
        place = schema.subject, schema.version
        if place not in self._writers:
            self._writers[place] = parse_writer(self._registry, schema, self._message)
        return self._writers[place]

    def __getstate__(self) -> dict[str, Any]:
        # Tasks need no package that parses Protobuf schemas.
        parsed = {place: writer for place, writer in self._writers.items() if is_protobuf(writer)}
        return self.__dict__ | {"_writers": parsed}


def is_protobuf(writer: Writer) -> TypeGuard[ProtobufWriter]:
    """Return whether message indexes precede the values of a writer, or follow the schema id in a header."""
    return hasattr(writer, "message_of")


def parse_writer(registry: SchemaRegistry, schema: RegisteredSchema, message: str = "") -> Writer:
    """Parse a schema. SchemaProblem: it cannot be used.

    `message` is the name of the Protobuf message that decides the columns. "": the first one of the schema.
    """
    if schema.error == "encrypted":
        raise SchemaProblem("encrypted", f"schema {schema.schema_id} is encrypted")
    try:
        references = {name: s.schema for name, s in registry.get_references(schema).items()}
        if schema.schema_type == PROTOBUF:
            from .protobuf.writer import ProtobufWriter

            return ProtobufWriter(schema.schema, references, message)
        if schema.schema_type == JSON:
            from .json.writer import parse_json_writer

            return parse_json_writer(schema.schema, references)
        from .avro.writer import AvroWriter

        return AvroWriter(schema.schema, list(references.values()))
    except (InvalidSchemaError, SchemaNotFoundError) as error:
        place = f"version {schema.version} of subject {schema.subject}"
        raise SchemaProblem("invalid_schema", f"{place} is invalid: {error}") from None


def _only(schemas: Sequence[RegisteredSchema], subject: str) -> RegisteredSchema:
    if len(schemas) == 1:
        return schemas[0]
    raise ValueError(
        f"the values do not name their schema, but subject {subject} has {len(schemas)} versions; choose one with "
        'schema, such as "latest"'
    )


def _chosen(registry: SchemaRegistry, subject: str, choice: str | int) -> Sequence[RegisteredSchema]:
    """Return the schemas that decide the columns."""
    if choice == UNION:
        return [registry.get_version(subject, n) for n in registry.get_versions(subject, deleted=True)]
    if choice == LATEST:
        return [registry.get_latest_version(subject)]
    if isinstance(choice, str) and choice.startswith("id:") and choice[3:].isdecimal():
        return [registry.get_schema(int(choice[3:]), subject)]
    if type(choice) is int or (isinstance(choice, str) and choice.isdecimal()):
        return [registry.get_version(subject, int(choice))]
    raise ValueError(f'schema is {shown(choice)}; it must be "union", "latest", a version or "id:N"')
