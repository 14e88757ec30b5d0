"""Make Protobuf schemas and bodies from random numbers. google.protobuf is the oracle for their values."""

from __future__ import annotations

import base64
import json
import math
import struct
from random import Random
from typing import Any

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    field_mask_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

WELL_KNOWN = (any_pb2, duration_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
VARINT, FIXED64, LENGTH, GROUP, END_GROUP, FIXED32 = range(6)
Field = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    1: FIXED64, 2: FIXED32, 3: VARINT, 4: VARINT, 5: VARINT, 6: FIXED64, 7: FIXED32, 8: VARINT, 9: LENGTH, 12: LENGTH,
    13: VARINT, 15: FIXED32, 16: FIXED64, 17: VARINT, 18: VARINT,
}  # fmt: skip
"""Wire types of the scalar types, by their numbers in FieldDescriptorProto."""
KEYS = (3, 4, 5, 6, 7, 8, 9, 13, 15, 16, 17, 18)
NUMBERS = (*range(1, 15), 15, 16, 63, 64, 65, 1000, 2**29 - 1)
NAMES = ("Timestamp", "Duration", "FieldMask", "Struct", "Value", "ListValue", "Any", "Int32Value", "UInt64Value",
         "StringValue", "BytesValue", "DoubleValue", "BoolValue", "FloatValue")  # fmt: skip
VARINTS = (0, 1, 2, 127, 128, 300, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1)


class JsonText:
    """A value that a column contains as JSON text."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"JsonText({self.value!r})"


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


class Schema:
    """A file with messages, the text with which it is registered, and google.protobuf's classes of its messages."""

    def __init__(self, file: descriptor_pb2.FileDescriptorProto) -> None:
        self.file = file
        self.text = base64.b64encode(file.SerializeToString()).decode()
        self._pool = descriptor_pool.DescriptorPool()
        for module in WELL_KNOWN:
            self._pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
        self._pool.AddSerializedFile(file.SerializeToString())

    def message(self, name: str = "M1") -> Descriptor:
        return self._pool.FindMessageTypeByName(f"{self.file.package}.{name}")

    def parse(self, body: bytes, name: str = "M1") -> Message | None:
        """Return the message that google.protobuf reads from a body, or None if it is invalid."""
        try:
            return message_factory.GetMessageClass(self.message(name)).FromString(body)
        except DecodeError:
            return None


class Maker:
    """Makes a schema and bodies from random numbers."""

    def __init__(self, chance: Random, proto2: bool | None = None, as_json: bool = True) -> None:
        self._chance = chance
        self._count = 0
        self._names: list[str] = []
        self._as_json = as_json
        self._sign = chance.choice((1, -1))
        self._proto2 = chance.random() < 0.4 if proto2 is None else proto2
        file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t")
        file.syntax = "proto2" if self._proto2 else "proto3"
        file.dependency.extend(module.DESCRIPTOR.name for module in WELL_KNOWN)
        values = [("ZERO", 0), ("ONE", 1), ("TWO", 2), ("LARGE", 70000), ("NEGATIVE", -1)]
        enum = file.enum_type.add(name="E")
        for name, number in values:
            enum.value.add(name=name, number=number)
        self._message(file.message_type.add(), 3)
        self.schema = Schema(file)

    def _message(self, message: descriptor_pb2.DescriptorProto, depth: int, prefix: str = "") -> str:
        chance = self._chance
        self._count += 1
        message.name = f"M{self._count}"
        full = f"{prefix}.{message.name}" if prefix else f".t.{message.name}"
        self._names.append(full)
        numbers = chance.sample(NUMBERS, chance.randint(0 if depth < 3 else 1, 6))
        for i, number in enumerate(numbers):
            self._field(message, full, f"f{i}", number, depth)
        ordered = sorted(message.field, key=lambda f: f.label)  # members of a oneof must follow each other
        del message.field[:]
        message.field.extend(ordered)
        plain = [f for f in message.field if f.label == Field.LABEL_OPTIONAL]
        if len(plain) > 1 and chance.random() < 0.5:
            message.oneof_decl.add(name="one")
            for field in plain[: chance.randint(2, 3)]:
                field.oneof_index = 0
        elif not self._proto2:
            for field in plain:
                if field.type not in (10, 11) and chance.random() < 0.4:
                    field.proto3_optional = True
                    field.oneof_index = len(message.oneof_decl)
                    message.oneof_decl.add(name=f"_{field.name}")
        return full

    def _field(self, owner: descriptor_pb2.DescriptorProto, full: str, name: str, number: int, depth: int) -> None:
        chance = self._chance
        field = owner.field.add(name=name, number=number, label=Field.LABEL_OPTIONAL)
        kind = chance.random()
        if kind < 0.15:
            entry = owner.nested_type.add(name=f"{name.upper()}Entry")
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, label=1, type=chance.choice(KEYS))
            self._type(entry.field.add(name="value", number=2, label=1), entry, f"{full}.{entry.name}", depth, False)
            field.label, field.type, field.type_name = Field.LABEL_REPEATED, Field.TYPE_MESSAGE, f"{full}.{entry.name}"
            return
        if kind < 0.4:
            field.label = Field.LABEL_REPEATED
        self._type(field, owner, full, depth, True)
        if field.label == Field.LABEL_REPEATED and field.type not in (9, 10, 11, 12) and chance.random() < 0.5:
            field.options.packed = chance.random() < 0.5

    def _type(self, field: Any, owner: descriptor_pb2.DescriptorProto, full: str, depth: int, groups: bool) -> None:
        chance, kind = self._chance, self._chance.random()
        if kind < 0.5 or not depth:
            field.type = chance.choice(list(SCALARS))
        elif kind < 0.6:
            field.type, field.type_name = Field.TYPE_ENUM, ".t.E"
        elif kind < 0.75:
            known = [n for n in NAMES if self._as_json or n not in ("Struct", "Value", "ListValue", "Any")]
            field.type, field.type_name = Field.TYPE_MESSAGE, f".google.protobuf.{chance.choice(known)}"
        elif kind < 0.8 and self._as_json:
            field.type, field.type_name = Field.TYPE_MESSAGE, chance.choice(self._names)
        else:
            is_group = groups and self._proto2 and chance.random() < 0.3
            field.type = Field.TYPE_GROUP if is_group else Field.TYPE_MESSAGE
            outside = descriptor_pb2.DescriptorProto() if owner.options.map_entry else owner
            inner = outside.nested_type.add()
            if owner.options.map_entry:  # nested types of entries are not allowed: use a scalar
                field.type = Field.TYPE_INT32
                return
            field.type_name = self._message(inner, depth - 1, full)

    def body(self, message: Descriptor | None = None, depth: int = 0) -> bytes:
        """Return a body of a message: fields in any order, several times, and in all their forms."""
        chance = self._chance
        if message is None:
            message = self.schema.message()
        fields = list(message.fields)
        parts = []
        for _ in range(chance.choice((0, 1, 2, 3, 5, 8)) if depth < 5 else 0):
            # If a map entry has unknown fields, the oracle drops the whole entry, unlike the other libraries.
            if fields and (chance.random() < 0.93 or message.GetOptions().map_entry):
                parts.append(self._occurrence(chance.choice(fields), depth))
            else:
                parts.append(self._unknown(depth))
        return b"".join(parts)

    def _occurrence(self, field: FieldDescriptor, depth: int) -> bytes:
        chance = self._chance
        wire = wire_of(field)
        if field.is_repeated and wire not in (LENGTH, GROUP) and chance.random() < 0.5:
            content = b"".join(self._scalar(field) for _ in range(chance.randrange(4)))
            return self._tag(field.number, LENGTH) + self._varint(len(content), 5) + content
        if wire == GROUP:
            assert field.message_type is not None
            inner = self.body(field.message_type, depth + 1)
            return self._tag(field.number, GROUP) + inner + self._tag(field.number, END_GROUP)
        if field.message_type is not None:
            inner = self._known(field.message_type, depth)
            return self._tag(field.number, LENGTH) + self._varint(len(inner), 5) + inner
        return self._tag(field.number, wire) + self._scalar(field)

    def _known(self, message: Descriptor, depth: int) -> bytes:
        if message.full_name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
            parts = []
            sign = self._sign if message.name == "Duration" else 1  # parts of a duration have the same sign
            if self._chance.random() < 0.8:
                parts.append(b"\x08" + varint(self._chance.randrange(2**36) * sign % 2**64))
            if self._chance.random() < 0.8:
                parts.append(b"\x10" + varint(self._chance.choice((0, 1, 999, 1000, 999_999_999)) * sign % 2**64))
            return b"".join(parts)
        return self.body(message, depth + 1)

    def _scalar(self, field: FieldDescriptor) -> bytes:
        chance, wire = self._chance, wire_of(field)
        if wire == VARINT:
            if field.enum_type is not None and chance.random() < 0.8:
                return self._varint(chance.choice([value.number for value in field.enum_type.values]) % 2**64)
            return self._varint(chance.choice(VARINTS) if chance.random() < 0.7 else chance.getrandbits(64))
        if wire != LENGTH:
            size = 8 if wire == FIXED64 else 4
            return chance.choice((bytes(size), chance.randbytes(size), struct.pack("<d", chance.random())[:size]))
        raw = chance.choice((b"", b"a", "ß€😀".encode(), b"x" * 16, b"y" * 40))
        if field.type == FieldDescriptor.TYPE_BYTES and chance.random() < 0.5:
            raw = chance.randbytes(chance.randrange(20))
        return self._varint(len(raw), 5) + raw

    def _unknown(self, depth: int) -> bytes:
        chance = self._chance
        number, wire = chance.choice((*NUMBERS, 17, 99, 20000)), chance.choice((0, 1, 2, 3, 5))
        if wire == GROUP:
            inner = self._unknown(depth + 1) if depth < 8 and chance.random() < 0.7 else b""
            return self._tag(number, GROUP) + inner + self._tag(number, END_GROUP)
        content = {
            VARINT: self._varint(chance.choice(VARINTS)),
            FIXED64: chance.randbytes(8),
            FIXED32: chance.randbytes(4),
            LENGTH: b"\3abc",
        }[wire]
        return self._tag(number, wire) + content

    def _tag(self, number: int, wire: int) -> bytes:
        return self._varint(number << 3 | wire, 5)

    def _varint(self, number: int, most: int = 10) -> bytes:
        """Return a varint, sometimes longer than necessary."""
        raw = varint(number)
        if len(raw) < most and self._chance.random() < 0.1:
            raw = bytes([*raw[:-1], raw[-1] | 128]) + b"\x80" * self._chance.randrange(most - len(raw)) + b"\0"
        return raw


def wire_of(field: FieldDescriptor) -> int:
    if field.type == FieldDescriptor.TYPE_GROUP:
        return GROUP
    return VARINT if field.type == FieldDescriptor.TYPE_ENUM else SCALARS.get(field.type, LENGTH)


def column(message: Any, inside: tuple[str, ...] = ()) -> Any:
    """Return what the columns of a message contain. Maps are dicts, and times are integers."""
    message_type = message.DESCRIPTOR
    name = message_type.full_name
    if name.startswith("google.protobuf."):
        return _known(message)
    if name in inside:
        return JsonText(as_json(message))
    return {field.name: _column(message, field, (*inside, name)) for field in message_type.fields}


def _column(message: Any, field: FieldDescriptor, inside: tuple[str, ...]) -> Any:
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        inner = field.message_type.fields_by_name["value"]
        return [(k, _one(value[k], inner, inside)) for k in value]
    if field.is_repeated:
        return [_one(item, field, inside) for item in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _one(value, field, inside)


def _one(value: Any, field: FieldDescriptor, inside: tuple[str, ...]) -> Any:
    if field.enum_type is not None:
        found = field.enum_type.values_by_number.get(value)
        return str(value) if found is None else found.name
    return value if field.message_type is None else column(value, inside)


def _known(message: Any) -> Any:
    name = message.DESCRIPTOR.name
    if name == "Timestamp":
        return message.seconds * 10**6 + message.nanos // 1000
    if name == "Duration":
        return message.seconds * 10**6 + int(math.copysign(abs(message.nanos) // 1000, message.nanos))
    if name == "FieldMask":
        text = ""
        for path in message.paths:
            text = f"{text},{path}" if text else path
        return text
    if name.endswith("Value") and name not in ("Value", "ListValue"):
        return message.value
    found = as_json(message)
    return None if found is None else JsonText(found)


def as_json(message: Any) -> Any:
    """Return the JSON of a message as kafkafmt writes it."""
    message_type = message.DESCRIPTOR
    name = message_type.full_name.removeprefix("google.protobuf.")
    if name == "Timestamp" or name == "Duration":
        return (name, message.seconds * 10**9 + message.nanos)
    if name == "FieldMask":
        return _known(message)
    if name == "Any":
        return {"@type": message.type_url, "value": base64.b64encode(message.value).decode()}
    if name == "Value":
        kind = message.WhichOneof("kind")
        return (
            None
            if kind in (None, "null_value")
            else _json_item(getattr(message, kind), message_type.fields_by_name[kind])
        )
    if name in ("Struct", "ListValue"):
        return _json_member(message, message_type.fields[0])
    if message_type.full_name.startswith("google."):
        return _json_item(message.value, message_type.fields[0])
    return {field.name: _json_member(message, field) for field in message_type.fields}


def _json_member(message: Any, field: FieldDescriptor) -> Any:
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        inner = field.message_type.fields_by_name["value"]
        return {k if isinstance(k, str) else json.dumps(k): _json_item(value[k], inner) for k in value}
    if field.is_repeated:
        return [_json_item(item, field) for item in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _json_item(value, field)


def _json_item(value: Any, field: FieldDescriptor) -> Any:
    if field.message_type is not None:
        return as_json(value)
    if field.enum_type is not None:
        found = field.enum_type.values_by_number.get(value)
        return value if found is None else found.name
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float):
        if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return float(format(value, ".9g")) if field.type == FieldDescriptor.TYPE_FLOAT else value
    return value


def alike(found: Any, expected: Any) -> bool:
    """Return whether a value that was decoded is the expected one. Maps have no order."""
    if isinstance(expected, JsonText):
        return isinstance(found, str) and alike(json.loads(found), expected.value)
    if isinstance(expected, tuple) and len(expected) == 2 and expected[0] in ("Timestamp", "Duration"):
        return isinstance(found, str) and (_nanos(found) == expected[1])
    if isinstance(expected, dict):
        return (
            isinstance(found, dict) and set(found) == set(expected) and all(alike(found[k], expected[k]) for k in found)
        )
    if isinstance(expected, list):
        if not isinstance(found, list) or len(found) != len(expected):
            return False
        if expected and isinstance(expected[0], tuple) and isinstance(found[0], tuple):
            found, expected = (sorted(items, key=lambda pair: repr(pair[0])) for items in (found, expected))
            return all(a[0] == b[0] and alike(a[1], b[1]) for a, b in zip(found, expected, strict=True))
        return all(map(alike, found, expected))
    if isinstance(expected, float) and isinstance(found, int) and not isinstance(found, bool):
        return found == expected
    return type(found) is type(expected) and repr(found) == repr(expected)


def _nanos(text: str) -> int:
    """Return the nanoseconds of a timestamp or a duration in JSON."""
    if text.endswith("s"):
        whole, _, fraction = text[:-1].lstrip("-").partition(".")
        return (int(whole) * 10**9 + int(fraction.ljust(9, "0"))) * (-1 if text.startswith("-") else 1)
    from datetime import date  # years of more digits only occur in mutated bodies

    day, _, clock = text.removesuffix("Z").partition("T")
    hours, minutes, seconds = clock.split(":")
    whole, _, fraction = seconds.partition(".")
    days = date.fromisoformat(day).toordinal() - date(1970, 1, 1).toordinal()
    return (
        ((days * 24 + int(hours)) * 60 + int(minutes)) * 60 * 10**9 + int(whole) * 10**9 + int(fraction.ljust(9, "0"))
    )
