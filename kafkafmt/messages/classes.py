"""Create Python classes from message schemas, such as `FetchRequest` and `FetchRequest.FetchTopic`.

Each class is a dataclass with slots and keyword-only parameters. The class has the fields of all
versions of the message, with Kafka's default values. The field names are Kafka's names in snake
case. The classes of nested structures are attributes of the message class.

A `Layout` describes the wire format of one version of a message, and reads and writes messages in
this version. It is created when this version is first read or written.
"""

from __future__ import annotations

import dataclasses
from types import ModuleType
from typing import Any, ClassVar, TypeVar
from uuid import UUID

from .._backend import core
from ..constants import WIRE_STRUCT, WIRE_TYPES
from ..errors import UnsupportedError
from ..support.text import quantity
from ..types import Buffer
from .schema import NONE, Field, Struct, Versions

ZERO_UUID = UUID(int=0)

RecordBytes = Buffer | list[Buffer]
"""Type of a field that contains record data.

If the message was read from a frame, the value is a memoryview of the frame. If the value is a list
of buffers, the buffers are written one after another.
"""
_PYTHON_TYPES: dict[str, Any] = {
    "bool": bool, "float64": float, "uuid": UUID, "string": str, "bytes": bytes, "records": RecordBytes,
}  # fmt: skip
_ZEROS: dict[str, Any] = {"bool": False, "float64": 0.0, "uuid": ZERO_UUID, "string": "", "bytes": b"", "records": b""}


class SchemaMessage:
    """Base class of all classes that are created from a schema.

    Each subclass represents a message, or a structure inside a message.

    Attributes
    ----------
    unknown_tagged_fields : tuple of (int, bytes)
        Tag and content of each tagged field that the schema does not define. When the message is
        written, these fields are written unchanged.
    """

    __slots__ = ()

    SCHEMA: ClassVar[Struct]
    """Schema of this message or structure."""
    DEFAULTS: ClassVar[dict[str, Any]]
    """Default value of each field. A type is called to create a new value for each message."""
    STRUCTS: ClassVar[dict[str, type[SchemaMessage]]]
    """Classes of all structures inside the message, by name."""
    VERSIONS: ClassVar[Versions]
    """Versions of the message that can be read and written."""
    FLEXIBLE: ClassVar[Versions]
    """Versions of the message that use compact types and tagged fields (KIP-482)."""

    unknown_tagged_fields: tuple[tuple[int, bytes], ...]

    def __repr__(self) -> str:
        """Return the class name and the fields that differ from their defaults."""
        shown = []
        for f in self.SCHEMA.fields:
            value = getattr(self, f.name)
            if value != self.default(f.name):
                shown.append(f"{f.name}={_shown(value)}")
        if self.unknown_tagged_fields:
            shown.append(f"unknown_tagged_fields={self.unknown_tagged_fields!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """Return the state for `copy` and `pickle`. Views of a frame are converted to bytes."""
        names = [*(f.name for f in self.SCHEMA.fields), "unknown_tagged_fields"]
        return None, {name: _owned(getattr(self, name)) for name in names}

    def default(self, name: str) -> Any:
        """Return the default value of a field. Each call creates a new list or structure."""
        default = self.DEFAULTS[name]
        return default() if isinstance(default, type) else default


M = TypeVar("M", bound=SchemaMessage)


def _owned(value: Any) -> Any:
    """Convert a memoryview, or the memoryviews in a list, to bytes. Return other values unchanged."""
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, list | tuple) and any(isinstance(part, memoryview) for part in value):
        return [_owned(part) for part in value]
    return value


def _shown(value: Any) -> str:
    return f"<{quantity(value.nbytes, 'byte')}>" if isinstance(value, memoryview) else repr(value)


def _default(field: Field, struct_class: type[SchemaMessage] | None) -> Any:
    """Return the default value of a field. For a mutable default value, return its type instead."""
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
    """Create the class of a message from its schema. `module` is `__module__`, which `pickle` uses to find it."""
    # `base` is also the base of the structures inside the message, whose classes are attributes of
    # the result.
    made: dict[str, type[M]] = {}
    common = {"STRUCTS": made, "VERSIONS": versions, "FLEXIBLE": flexible, "__module__": module}
    message = _make(struct, base, made, struct.name, common)
    for name, inner in made.items():
        setattr(message, name, inner)
    return message


def _make(struct: Struct, base: type[M], made: dict[str, type[M]], outer: str, common: dict[str, Any]) -> type[M]:
    """Create the class of a structure. Classes of nested structures are stored in `made` by structure name."""
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
        given = (
            dataclasses.field(default_factory=default)
            if isinstance(default, type)
            else dataclasses.field(default=default)
        )
        fields.append((f.name, type_, given))
        if f.second_name:
            namespace[f.second_name] = _second_name(f.name)
    fields.append(("unknown_tagged_fields", tuple[tuple[int, bytes], ...], dataclasses.field(default=())))
    namespace |= common | {"SCHEMA": struct, "DEFAULTS": defaults}
    namespace["__qualname__"] = outer if outer == struct.name else f"{outer}.{struct.name}"
    message = dataclasses.make_dataclass(
        struct.name, fields, bases=(base,), namespace=namespace, kw_only=True, slots=True, repr=False
    )
    # In Python 3.12 and later, make_dataclass() overwrites the module name. Restore the name.
    message.__module__ = namespace["__module__"]
    return message


def _second_name(name: str) -> property:
    """Return a property that reads and writes the field `name` under a second name."""

    def get(message: SchemaMessage) -> Any:
        return getattr(message, name)

    def put(message: SchemaMessage, value: Any) -> None:
        setattr(message, name, value)

    return property(get, put, doc=f"Another name of `{name}`.")


_layouts: dict[tuple[Any, int, Any], Any] = {}


def layout_of(message: type[SchemaMessage], version: int, of_core: ModuleType | None = None) -> Any:
    """Return the object that reads and writes a message in one version. It is cached."""
    # `of_core` defines the class `Layout`; by default, it is the core that is in use.
    key = message, version, of_core or core
    found = _layouts.get(key)
    if found is None:
        found = _layouts[key] = _make_layout(*key)
    return found


def _make_layout(message: type[SchemaMessage], version: int, core: Any) -> Any:
    if version not in message.VERSIONS:
        raise UnsupportedError(f"{message.__name__} version {version} is not supported (supported: {message.VERSIONS})")
    return _compile(message, version, version in message.FLEXIBLE, core, {})


def _compile(part: type[SchemaMessage], version: int, flexible: bool, core: Any, done: dict[str, Any]) -> Any:
    """Create the layout of a message or structure. Layouts of nested structures are stored in `done` by name."""
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
