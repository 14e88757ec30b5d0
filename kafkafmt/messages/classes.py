"""Messages as Python classes, made of their schemas: `FetchRequest`, `FetchRequest.FetchTopic`, …

A class is a dataclass with slots. It has the fields of all versions, each with Kafka's default, under Kafka's names in
Python's spelling; the structures inside it are its attributes. How a version lies on the wire is the core's `Layout`,
compiled when that version is first read or written.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, TypeVar
from uuid import UUID

from .._backend import core
from ..constants import WIRE_STRUCT, WIRE_TYPES
from ..errors import UnsupportedError
from ..types import Buffer
from .schema import NONE, Field, Struct, Versions

ZERO_UUID = UUID(int=0)

RecordData = Buffer | list[Buffer]
_PYTHON_TYPES: dict[str, Any] = {
    "bool": bool, "float64": float, "uuid": UUID, "string": str, "bytes": bytes, "records": RecordData,
}  # fmt: skip
_ZEROS: dict[str, Any] = {"bool": False, "float64": 0.0, "uuid": ZERO_UUID, "string": "", "bytes": b"", "records": b""}


class Message:
    """A message, or a structure inside one.

    unknown_tagged_fields: (tag, bytes) of the tagged fields that its schema does not know, kept to be written back.
    """

    __slots__ = ()

    SCHEMA: ClassVar[Struct]
    DEFAULTS: ClassVar[dict[str, Any]]
    """By a field's name its default, or the type that makes it."""
    STRUCTS: ClassVar[dict[str, type[Message]]]
    """The structures inside the whole message, by name."""
    VERSIONS: ClassVar[Versions]
    FLEXIBLE: ClassVar[Versions]
    """The versions with tagged fields."""

    unknown_tagged_fields: tuple[tuple[int, bytes], ...]

    def __repr__(self) -> str:
        """What differs from the defaults."""
        shown = []
        for f in self.SCHEMA.fields:
            value = getattr(self, f.name)
            if value != self.default(f.name):
                shown.append(f"{f.name}={_shown(value)}")
        if self.unknown_tagged_fields:
            shown.append(f"unknown_tagged_fields={self.unknown_tagged_fields!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """For copies and pickles, which have record data of their own where the message has views of a frame."""
        names = [*(f.name for f in self.SCHEMA.fields), "unknown_tagged_fields"]
        return None, {name: _owned(getattr(self, name)) for name in names}

    def default(self, name: str) -> Any:
        """The default of a field."""
        default = self.DEFAULTS[name]
        return default() if isinstance(default, type) else default


M = TypeVar("M", bound=Message)


def _owned(value: Any) -> Any:
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, list | tuple) and any(isinstance(part, memoryview) for part in value):
        return [_owned(part) for part in value]
    return value


def _shown(value: Any) -> str:
    return f"<{value.nbytes} bytes>" if isinstance(value, memoryview) else repr(value)


def _default(field: Field, struct_class: type[Message] | None) -> Any:
    """A field's default: a value, or a type that makes one."""
    if field.default == "null":
        return None
    if field.array:
        return list
    if struct_class is not None:
        return struct_class
    if field.type == "records" and field.nullable == field.versions:
        return None
    if field.default is None:
        return _ZEROS.get(field.type, 0)
    return field.default == "true" if field.type == "bool" else int(field.default)


def make_class(struct: Struct, versions: Versions, flexible: Versions, base: type[M], module: str) -> type[M]:
    """The class of a whole message; those of the structures inside it are its attributes. module: where it is to be found."""
    made: dict[str, type[M]] = {}
    common = {"STRUCTS": made, "VERSIONS": versions, "FLEXIBLE": flexible, "__module__": module}
    message = _make(struct, base, made, struct.name, common)
    for name, inner in made.items():
        setattr(message, name, inner)
    return message


def _make(struct: Struct, base: type[M], made: dict[str, type[M]], outer: str, common: dict[str, Any]) -> type[M]:
    """The class of a structure, after those of its fields; `made` collects all below the message, by name."""
    namespace: dict[str, Any] = {}
    fields: list[tuple[str, Any, Any]] = []
    defaults: dict[str, Any] = {}
    for f in struct.fields:
        inner = None
        if f.struct is not None:
            inner = made.get(f.type) or _make(f.struct, base, made, outer, common)
            made[f.type] = inner
        default = defaults[f.name] = _default(f, inner)
        type_: Any = inner or _PYTHON_TYPES.get(f.type, int)
        type_ = list[type_] if f.array else type_
        type_ = type_ | None if default is None or f.nullable != NONE else type_
        given = dataclasses.field(default_factory=default) if isinstance(default, type) else dataclasses.field(default=default)
        fields.append((f.name, type_, given))
        if f.second_name:
            namespace[f.second_name] = _second_name(f.name)
    fields.append(("unknown_tagged_fields", tuple[tuple[int, bytes], ...], dataclasses.field(default=())))
    namespace |= common | {"SCHEMA": struct, "DEFAULTS": defaults}
    namespace["__qualname__"] = outer if outer == struct.name else f"{outer}.{struct.name}"
    return dataclasses.make_dataclass(struct.name, fields, bases=(base,), namespace=namespace, kw_only=True, slots=True, repr=False)


def _second_name(name: str) -> property:
    def get(message: Message) -> Any:
        return getattr(message, name)

    def put(message: Message, value: Any) -> None:
        setattr(message, name, value)

    return property(get, put, doc=f"The same as `{name}`.")


_layouts: dict[tuple[Any, int, Any], Any] = {}


def layout_of(message: Any, version: int, of_core: Any = None) -> Any:
    """How a whole message, by its class, lies on the wire in a version; UnsupportedError for one that is not known."""
    key = message, version, of_core or core
    found = _layouts.get(key)
    if found is None:
        found = _layouts[key] = _make_layout(*key)
    return found


def _make_layout(message: type[Message], version: int, core: Any) -> Any:
    if version not in message.VERSIONS:
        raise UnsupportedError(f"{message.__name__} version {version} is not known, {message.VERSIONS} are")
    return _compile(message, version, version in message.FLEXIBLE, core, {})


def _compile(part: type[Message], version: int, flexible: bool, core: Any, done: dict[str, Any]) -> Any:
    """The layout of a message or structure after those inside it, which `done` collects by name."""
    fields, tagged, absent = [], [], []
    for f in part.SCHEMA.fields:
        default = part.DEFAULTS[f.name]
        if version not in f.versions:
            absent.append((f.name, default, f.ignorable))
            continue
        layout = None
        if f.struct is not None:
            layout = done[f.type] = done.get(f.type) or _compile(part.STRUCTS[f.type], version, flexible, core, done)
        kind = WIRE_STRUCT if f.struct is not None else WIRE_TYPES.index(f.type)
        entry = (f.name, kind, f.array, version in f.nullable, flexible and not f.plain, layout, default)
        if f.tag is None:
            fields.append(entry)
        else:
            tagged.append((f.tag, entry))
    return core.Layout(part, version, tuple(fields), tuple(tagged), tuple(absent), flexible)
