"""Translate Protobuf messages into the types of columns."""

from __future__ import annotations

from ..errors import InvalidSchemaError
from ..types import DEEPEST, JSON_TEXT, Array, Enum, Field, Logical, Map, Record, Simple, Union, ValueType
from .descriptors import Message, ProtoEnum, ProtoField

KINDS = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), "int"),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), "long"),
    **dict.fromkeys(("uint32", "fixed32"), "uint"),
    **dict.fromkeys(("uint64", "fixed64"), "ulong"),
    "bool": "boolean",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
}
"""Kind of the column type of each scalar type."""
TIMESTAMP, DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
FIELD_MASK, ANY = "google.protobuf.FieldMask", "google.protobuf.Any"
STRUCT, VALUE, LIST_VALUE = (f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue"))
AS_JSON = frozenset({STRUCT, VALUE, LIST_VALUE, ANY})
WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


def message_type(message: Message) -> ValueType:
    """Return the type of the values of a message."""
    _check_depth(message)
    return _Types().message(message)


class _Types:
    def __init__(self) -> None:
        self._records: dict[str, Record] = {}
        self._enums: dict[str, Enum] = {}

    def message(self, message: Message) -> ValueType:
        name = message.name
        if name == TIMESTAMP:
            return Simple("long", Logical("timestamp-micros"))
        if name == DURATION:
            return Simple("long", Logical("duration-micros"))
        if name == FIELD_MASK:
            return Simple("string")
        if name in AS_JSON:
            return Simple(JSON_TEXT)
        if name in WRAPPERS:
            return Simple(KINDS[message.fields[0].type])
        if name not in self._records:
            self._records[name] = record = Record(name)
            record.fields += [Field(f.name, self._field(f), number=f.number) for f in message.fields]
        return self._records[name]

    def _field(self, field: ProtoField) -> ValueType:
        if field.is_map:
            assert field.message is not None
            key, value = field.message.fields
            return Map(self._item(value), self._item(key))
        item = self._item(field)
        if field.repeated:
            return Array(item)
        return Union([Simple("null"), item]) if field.nullable else item

    def _item(self, field: ProtoField) -> ValueType:
        if field.message is not None:
            return self.message(field.message)
        return Simple(KINDS[field.type]) if field.enum is None else self._enum(field.enum)

    def _enum(self, enum: ProtoEnum) -> Enum:
        if enum.name not in self._enums:
            self._enums[enum.name] = Enum(enum.name, tuple(enum.symbols.values()), open=True)
        return self._enums[enum.name]


def _check_depth(message: Message) -> None:
    """Check that messages that do not contain themselves are not nested too deeply."""
    heights: dict[int, int] = {}
    open_: set[int] = set()
    stack = [(message, iter(message.fields))]
    open_.add(id(message))
    while stack:
        current, left = stack[-1]
        field = next(left, None)
        if field is None:
            stack.pop()
            open_.discard(id(current))
            parts = [heights.get(id(f.message), 0) for f in current.fields if f.message is not None]
            heights[id(current)] = 1 + max(parts, default=0)
        elif field.message is not None and id(field.message) not in open_ and id(field.message) not in heights:
            if len(stack) > DEEPEST:
                raise InvalidSchemaError(f"the messages are nested more than {DEEPEST} levels deep")
            open_.add(id(field.message))
            stack.append((field.message, iter(field.message.fields)))
