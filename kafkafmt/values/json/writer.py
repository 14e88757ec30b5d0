"""Define what the other modules need to know about JSON values of a schema."""

# pyarrow is imported inside a function, because `cat --decode` does not need it.

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..types import ValueType
from .objects import json_to_object
from .program import compile_json
from .schema import parse_json_schema

if TYPE_CHECKING:
    from ..._backend import core
    from ..value_columns import Captures, Column


class JsonWriter:
    """JSON values of a type, which comes from a schema or was inferred."""

    has_rest: bool = True

    def __init__(self, type_: ValueType) -> None:
        self.type: ValueType = type_

    def compile(self, root: Column, captures: Captures, fill_defaults: bool) -> core.ValueProgram:
        return compile_json(root, captures)

    def to_json(self, body: memoryview) -> Any:
        return json_to_object(body)


def parse_json_writer(text: str, references: Mapping[str, str] = MappingProxyType({})) -> JsonWriter:
    """Parse a JSON Schema. `references` are the texts of other schemas by the names with which it refers to them."""
    return JsonWriter(parse_json_schema(text, references))
