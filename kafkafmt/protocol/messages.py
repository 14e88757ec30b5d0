"""Messages as Python classes, made of their schemas on first use: `FetchRequest`, `FetchRequest.FetchTopic`, …

A class is a dataclass with slots. It has the fields of all versions, each with Kafka's default, under Kafka's names in
Python's spelling; the structures inside it are its attributes. How a version lies on the wire is the core's `Layout`,
compiled when that version is first read or written.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any, ClassVar
from uuid import UUID

from .._backend import core as chosen_core
from ..constants import WIRE_STRUCT, WIRE_TYPES
from ..errors import UnsupportedError
from ..types import Buffer
from . import schema
from .schema import Api, Field, Struct, Versions

ZERO_UUID = UUID(int=0)
REQUEST, RESPONSE = "request", "response"

RecordData = Buffer | list[Buffer]
_PYTHON_TYPES: dict[str, Any] = {
    "bool": bool, "float64": float, "uuid": UUID, "string": str, "bytes": bytes, "records": RecordData,
}  # fmt: skip
_ZEROS: dict[str, Any] = {"bool": False, "float64": 0.0, "uuid": ZERO_UUID, "string": "", "bytes": b"", "records": b""}


class Message:
    """A message of the protocol, or a structure inside one.

    unknown_tagged_fields: (tag, bytes) of the tagged fields that its schema does not know, kept to be written back.
    """

    __slots__ = ()

    SCHEMA: ClassVar[Struct]
    DEFAULTS: ClassVar[dict[str, Any]]
    """By a field's name its default, or the type that makes it."""
    STRUCTS: ClassVar[dict[str, type[Message]]]
    """The structures inside the whole message, by name."""
    FLEXIBLE: ClassVar[Versions]
    """The versions with tagged fields."""
    API: ClassVar[Api]
    """Of a whole message: its API."""
    KIND: ClassVar[str]
    """Of a whole message: request or response."""

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

    def default(self, name: str) -> Any:
        """The default of a field."""
        default = self.DEFAULTS[name]
        return default() if isinstance(default, type) else default


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


def _make_class(struct: Struct, api: Api, made: dict[str, type[Message]], outer: str, namespace: dict[str, Any]) -> type[Message]:
    """The class of a structure, after those of its fields; `made` collects all below the message, by name."""
    fields: list[tuple[str, Any, Any]] = []
    defaults: dict[str, Any] = {}
    for f in struct.fields:
        inner = None
        if f.struct is not None:
            inner = made.get(f.type) or _make_class(f.struct, api, made, outer, {})
            made[f.type] = inner
        default = defaults[f.name] = _default(f, inner)
        type_: Any = inner or _PYTHON_TYPES.get(f.type, int)
        type_ = list[type_] if f.array else type_
        type_ = type_ | None if default is None or f.nullable != schema.NONE else type_
        given = dataclasses.field(default_factory=default) if isinstance(default, type) else dataclasses.field(default=default)
        fields.append((f.name, type_, given))
        if f.second_name:
            namespace[f.second_name] = _second_name(f.name)
    fields.append(("unknown_tagged_fields", tuple[tuple[int, bytes], ...], dataclasses.field(default=())))
    namespace |= {"SCHEMA": struct, "DEFAULTS": defaults, "STRUCTS": made, "FLEXIBLE": api.flexible, "__module__": __package__}
    namespace["__qualname__"] = outer if outer == struct.name else f"{outer}.{struct.name}"
    return dataclasses.make_dataclass(struct.name, fields, bases=(Message,), namespace=namespace, kw_only=True, slots=True, repr=False)


def _second_name(name: str) -> property:
    def get(message: Message) -> Any:
        return getattr(message, name)

    def put(message: Message, value: Any) -> None:
        setattr(message, name, value)

    return property(get, put, doc=f"The same as `{name}`.")


def _make(api: Api, kind: str, name: str) -> type[Message]:
    struct = dataclasses.replace(api.request if kind == REQUEST else api.response, name=name)
    made: dict[str, type[Message]] = {}
    namespace: dict[str, Any] = {"API": api, "KIND": kind}
    message = _make_class(struct, api, made, name, namespace)
    for inner_name, inner in made.items():
        setattr(message, inner_name, inner)
    return message


@cache
def message_class(key: int, kind: str) -> type[Message]:
    """The class of an API's requests or responses; UnsupportedError for a key that is not known."""
    api = schema.api(key)
    if api is None:
        raise UnsupportedError(f"API key {key} is not known")
    return _make(api, kind, f"{api.name}{kind.title()}")


@cache
def header_class(kind: str) -> type[Message]:
    """RequestHeader or ResponseHeader."""
    return _make(schema.header(kind), kind, f"{kind.title()}Header")


def find_class(name: str) -> type[Message] | None:
    """The class of a message or header by its own name, as in `FetchRequest`; None if there is none."""
    for kind in (REQUEST, RESPONSE):
        if name == f"{kind.title()}Header":
            return header_class(kind)
        key = schema.keys().get(schema.snake_case(name.removesuffix(kind.title())))
        if key is not None and name.endswith(kind.title()):
            found = message_class(key, kind)
            return found if found.__name__ == name else None
    return None


_layouts: dict[tuple[Any, int, Any], Any] = {}


def layout_of(message: Any, version: int, core: Any = chosen_core) -> Any:
    """How a whole message, by its class, lies on the wire in a version; UnsupportedError for one that is not known."""
    found = _layouts.get((message, version, core))
    if found is None:
        found = _layouts[message, version, core] = _make_layout(message, version, core)
    return found


def _make_layout(message: type[Message], version: int, core: Any) -> Any:
    api = message.API
    if version not in api.versions:
        raise UnsupportedError(f"{message.__name__} version {version} is not known, {api.versions} are")
    return _compile(message, version, version in api.flexible, core, {})


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
