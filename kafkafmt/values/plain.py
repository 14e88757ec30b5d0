"""Decode the formats of Kafka's own serializers, such as ``StringSerializer`` and ``LongSerializer``."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from .errors import ValueFault
from .texts import json_float
from .types import Simple, ValueType

if TYPE_CHECKING:
    from .._backend import core
    from .value_columns import Captures, Column

_NUMBERS = {
    "short": ("int", ">h"),
    "int32": ("int", ">i"),
    "int64": ("long", ">q"),
    "float": ("float", ">f"),
    "double": ("double", ">d"),
}
"""The types of numbers, and their forms."""


class PlainWriter:
    has_rest: bool = False

    def __init__(self, format: str) -> None:
        self.type: ValueType = Simple(_NUMBERS[format][0] if format in _NUMBERS else "string")
        self._form = _NUMBERS[format][1] if format in _NUMBERS else ""

    def compile(self, root: Column, captures: Captures, fill_defaults: bool) -> core.ValueProgram:
        from .avro.program import program_of_all

        return program_of_all(root, struct.calcsize(self._form))

    def to_json(self, body: memoryview) -> Any:
        if not self._form:
            try:
                return str(body, "utf-8")
            except UnicodeDecodeError:
                raise ValueFault("bad_utf8", 0) from None
        size = struct.calcsize(self._form)
        if len(body) != size:
            raise ValueFault("truncated" if len(body) < size else "trailing_bytes", min(len(body), size))
        number = struct.unpack(self._form, body)[0]
        return number if isinstance(number, int) else json_float(number, 9 if size == 4 else 17)
