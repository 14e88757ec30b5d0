"""Plan how the keys or values of a topic are decoded: their schemas, their columns and their programs."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from .._backend import core
from ..registry import RegisteredSchema, SchemaRegistry
from ..support.text import shown
from .errors import UnresolvableError
from .merge import merge_types
from .sides import UNION
from .types import ValueType
from .value_columns import Captures, Column, Fields, columns_of
from .writers import SchemaProblem, Writer, find_schema, parse_writer

LATEST = "latest"


class ValuePlan:
    """How one side ("key" or "value") of the records of a topic is decoded. Several threads can use a plan."""

    def __init__(
        self, registry: SchemaRegistry, subject: str, choice: str | int = UNION, fields: Fields = None
    ) -> None:
        self._registry = registry
        self.subject: str = subject
        self._lock = Lock()
        self._writers: dict[tuple[str, int], Writer] = {}
        self._programs: dict[int | str, int | SchemaProblem] = {}
        self.programs: list[core.ValueProgram] = []
        """Programs by the index that `program_of` returns. The list only grows."""
        self.schemas: list[RegisteredSchema] = []
        """Schema of each program."""
        self.captures: Captures = Captures()
        self._fill_defaults = choice != UNION
        types = self._chosen_types(choice)
        self.root: Column = columns_of(merge_types(types), fields)
        self.columns: list[Column] = list(self.root.walk())

    def _chosen_types(self, choice: str | int) -> list[ValueType]:
        """Return the types that decide the columns. Versions that cannot be used are left out if others remain."""
        types, problems = [], []
        for schema in _chosen(self._registry, self.subject, choice):
            try:
                types.append(self._writer(schema).type)
            except SchemaProblem as problem:
                problems.append(problem)
        if not types:
            raise ValueError(f"the values of subject {self.subject} cannot be decoded: {problems[-1]}")
        return types

    def program_of(self, key: int | str) -> int | SchemaProblem:
        """Return the index of the program for an id or a GUID, or the reason why there is none."""
        found = self._programs.get(key)
        if found is None:
            with self._lock:
                found = self._programs.get(key)
                if found is None:
                    found = self._programs[key] = self._compile(key)
        return found

    def _compile(self, key: int | str) -> int | SchemaProblem:
        try:
            schema = find_schema(self._registry, key, self.subject)
            program = self._writer(schema).compile(self.root, self.captures, self._fill_defaults)
        except SchemaProblem as problem:
            return problem
        except UnresolvableError as error:
            return SchemaProblem("invalid_schema", f"schema {key} cannot be read as the chosen one: {error}")
        self.programs.append(program)
        self.schemas.append(schema)
        return len(self.programs) - 1

    def _writer(self, schema: RegisteredSchema) -> Writer:
        place = schema.subject, schema.version
        if place not in self._writers:
            self._writers[place] = parse_writer(self._registry, schema)
        return self._writers[place]


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
