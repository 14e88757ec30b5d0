"""Plan how the keys or values of a topic are decoded: their columns and their programs."""

from __future__ import annotations

from threading import Lock

from .._backend import core
from ..registry import RegisteredSchema
from .errors import UnresolvableError
from .framing import NONE, Framing, Key
from .merge import merge_types
from .sides import UNION
from .value_columns import Captures, Column, Fields, columns_of
from .writers import SchemaProblem, Writers, is_protobuf


class ValuePlan:
    """How one side ("key" or "value") of the records of a topic is decoded. Several threads can use a plan."""

    def __init__(self, writers: Writers, fields: Fields = None) -> None:
        self._writers = writers
        self.framing: Framing = writers.framing
        self._lock = Lock()
        self._programs: dict[Key, int | SchemaProblem] = {}
        self._without_indexes: dict[int, int] = {}
        self.programs: list[core.ValueProgram] = []
        """Programs by the index that `program_of` returns. The list only grows."""
        self.schemas: list[RegisteredSchema | None] = []
        """Schema of each program, if it is in a registry."""
        self.captures: Captures = Captures()
        self._fill_defaults = writers.choice != UNION
        chosen = writers.chosen()
        self.root: Column = columns_of(merge_types([w.type for w in chosen]), fields)
        self.columns: list[Column] = list(self.root.walk())
        self._whole = fields is None
        if self._whole and any(writer.has_rest for writer in chosen):
            self.columns.append(self.root.add_rest())

    def program_of(self, key: Key) -> int | SchemaProblem:
        """Return the index of the program for a schema, or the reason why there is none."""
        found = self._programs.get(key)
        if found is None:
            with self._lock:
                found = self._programs.get(key)
                if found is None:
                    found = self._programs[key] = self._compile(key)
        return found

    def program_in_header(self, key: Key, indexes: memoryview) -> int | SchemaProblem:
        """Return the index of the program for a schema that a header names. Protobuf's message indexes follow it there."""
        found = self.program_of(key)
        if isinstance(found, SchemaProblem):
            return found
        schema, writer = self._writers.find(key)
        if not is_protobuf(writer):
            return found
        code = writer.fault_of(indexes)
        if code is not None:
            return SchemaProblem(code, f"the indexes in its header do not choose the message {writer.message}")
        with self._lock:
            if found not in self._without_indexes:
                program = writer.compile(self.root, self.captures, self._fill_defaults, with_indexes=False)
                self.programs.append(program)
                self.schemas.append(schema)
                self._without_indexes[found] = len(self.programs) - 1
        return self._without_indexes[found]

    def _compile(self, key: Key) -> int | SchemaProblem:
        try:
            schema, writer = self._writers.find(key)
            if writer.has_rest and self._whole and self.root.rest is None:
                raise UnresolvableError("it is a schema of JSON values, and the chosen one is not")
            if is_protobuf(writer) and self.framing is NONE:
                program = writer.compile(self.root, self.captures, self._fill_defaults, with_indexes=False)
            else:
                program = writer.compile(self.root, self.captures, self._fill_defaults)
        except SchemaProblem as problem:
            return problem
        except UnresolvableError as error:
            return SchemaProblem("invalid_schema", f"schema {key!r} cannot be read as the chosen one: {error}")
        self.programs.append(program)
        self.schemas.append(schema)
        return len(self.programs) - 1
