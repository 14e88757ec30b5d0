"""Define what the other modules need to know about an Avro schema."""

# pyarrow is imported inside a function, because `cat --decode` does not need it.

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..types import ValueType
from .objects import avro_to_json
from .schema import parse_avro

if TYPE_CHECKING:
    from ..._backend import core
    from ..value_columns import Captures, Column


class AvroWriter:
    has_rest: bool = False

    def __init__(self, text: str, references: Sequence[str] = ()) -> None:
        self.type: ValueType = parse_avro(text, references)

    def compile(self, root: Column, captures: Captures, fill_defaults: bool) -> core.ValueProgram:
        from .program import compile_avro

        return compile_avro(self.type, root, captures, fill_defaults)

    def to_json(self, body: memoryview) -> Any:
        return avro_to_json(self.type, body)
