"""A compact form for Kafka's message schemas, and a bounded reader of what they describe.

A message is a line with its name, its type id where it has one, the versions that are valid, and from which on it is flexible; its
fields follow, indented:

    OffsetCommitValue 1 0-4 flexible 4+
      offset int64
      leaderEpoch int32 3+ = -1
      members []Member 2+               an array of structs, whose fields are indented once more; other fields may name it again
        memberId string
      topicId uuid? 4+ tag 0            ?: may be null; tag 0: a tagged field

A field without versions is in all; one without a default has its type's zero. What is read is a dict as Kafka's `…JsonConverter` classes
write it: fields in the schema's order, tagged ones only where they are not the default, a UUID as text. Bytes stay bytes.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ..errors import StructureError, TruncatedError, UnsupportedError
from ..text import decode_header_key

NUMBERS = {"int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q", "uint16": ">H", "uint32": ">I", "float64": ">d"}
NUMBER = {name: struct.Struct(form) for name, form in NUMBERS.items()}
ZEROS = {"bool": False, "string": "", "bytes": b"", "uuid": "AAAAAAAAAAAAAAAAAAAAAA"}
WORDS = {"null": None, "true": True, "false": False}
NO_VERSION = 2**15


@dataclass
class Field:
    """type is a primitive's name or a Struct; first and last: the versions that have the field; default: what it is where it is absent."""

    name: str
    type: str | Struct
    array: bool
    nullable: bool
    first: int
    last: int
    tag: int | None
    default: Any


@dataclass
class Struct:
    name: str
    fields: list[Field] = field(default_factory=list)


@dataclass
class Message:
    """A top-level struct, with its type id (-1: none), the versions that are valid, and the first flexible one."""

    struct: Struct
    id: int
    first: int
    last: int
    flexible: int

    @property
    def name(self) -> str:
        return self.struct.name

    def read(self, source: Source, version: int) -> dict[str, Any]:
        """The message that stands at the source's position."""
        if not self.first <= version <= self.last:
            raise UnsupportedError(f"{self.name}: version {version} is not in {self.first} to {self.last}", source.at)
        return source.struct(self.struct, version, version >= self.flexible)


@cache
def parse(text: str) -> dict[str, Message]:
    """The messages of a text in the form above, by name."""
    messages: dict[str, Message] = {}
    lines = [(len(line) - len(line.lstrip()), line.split()) for line in text.splitlines() if line.strip()]
    at = 0
    while at < len(lines):
        name, *words = lines[at][1]
        flexible = int(words[-1].rstrip("+")) if "flexible" in words else NO_VERSION
        versions = words[: words.index("flexible")] if "flexible" in words else words
        first, last = _versions(versions[-1])
        message = Message(Struct(name), int(versions[0]) if len(versions) > 1 else -1, first, last, flexible)
        at = _fields(message.struct, lines, at + 1, 0, {})
        messages[name] = message
    return messages


def _fields(owner: Struct, lines: list[tuple[int, list[str]]], at: int, above: int, known: dict[str, Struct]) -> int:
    indent = lines[at][0] if at < len(lines) else 0
    while at < len(lines) and lines[at][0] == indent > above:
        name, kind, *rest = lines[at][1]
        words = iter(rest)
        first, last, tag = 0, NO_VERSION, None
        default: Any = ...
        for word in words:
            if word == "tag":
                tag = int(next(words))
            elif word == "=":
                text = next(words)
                default = WORDS[text] if text in WORDS else int(text)
            else:
                first, last = _versions(word)
        nullable, array = kind.endswith("?"), kind.startswith("[]")
        plain = kind.removeprefix("[]").removesuffix("?")
        at += 1
        kind_of: str | Struct = plain
        if plain not in NUMBERS and plain not in ZEROS:
            if plain not in known:
                known[plain] = Struct(plain)
                at = _fields(known[plain], lines, at, indent, known)
            kind_of = known[plain]
        if default is ...:
            default = [] if array else {} if isinstance(kind_of, Struct) else ZEROS.get(plain, 0)
        owner.fields.append(Field(name, kind_of, array, nullable, first, last, tag, default))
    return at


def _versions(text: str) -> tuple[int, int]:
    first, dash, last = text.removesuffix("+").partition("-")
    return int(first), NO_VERSION if text.endswith("+") else int(last) if dash else int(first)


class Source:
    """Bytes that are read from the front on; whatever would pass their end is a TruncatedError."""

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end

    def take(self, size: int) -> bytes:
        if size > self.end - self.at:
            raise TruncatedError(f"{size} bytes where {self.end - self.at} are left", self.at)
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, kind: str) -> int:
        form = NUMBER[kind]
        value: int = form.unpack(self.take(form.size))[0]
        return value

    def uvarint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise StructureError("a varint of more than 5 bytes", self.at)

    def struct(self, struct: Struct, version: int, flexible: bool) -> dict[str, Any]:
        read = {
            f.name: self.value(f, version, flexible) for f in struct.fields if f.tag is None and f.first <= version <= f.last
        }
        tagged = dict(self._tagged(struct, version)) if flexible else {}
        if not tagged:
            return read
        return {f.name: (read if f.tag is None else tagged)[f.name] for f in struct.fields if f.name in read or f.name in tagged}

    def _tagged(self, struct: Struct, version: int) -> Iterator[tuple[str, Any]]:
        """The tagged fields that are not at their default; unknown ones are passed over."""
        last = -1
        for _ in range(self.uvarint()):
            tag, size = self.uvarint(), self.uvarint()
            if tag <= last:
                raise StructureError(f"tag {tag} follows tag {last}", self.at)
            last, start = tag, self.at
            self.take(size)
            known = next((f for f in struct.fields if f.tag == tag and f.first <= version <= f.last), None)
            if known is not None:
                inside = Source(self.data, start, self.at)
                value = inside.value(known, version, True)
                if inside.at != inside.end:
                    raise StructureError(f"{inside.end - inside.at} bytes are left over in tagged field {known.name}", inside.at)
                if value != known.default:
                    yield known.name, value

    def value(self, f: Field, version: int, flexible: bool) -> Any:
        if f.array:
            count = self._length("int32", flexible)
            if count is None:
                return self._null(f)
            if count > self.end - self.at:
                raise StructureError(f"{f.name}: {count} elements where {self.end - self.at} bytes are left", self.at)
            return [self._single(f.type, f.name, version, flexible) for _ in range(count)]
        if isinstance(f.type, Struct) and f.nullable:
            present = self.uvarint() if f.tag is not None else self.number("int8")
            if present == (0 if f.tag is not None else -1):
                return None
        value = self._single(f.type, f.name, version, flexible)
        return self._null(f) if value is None else value

    def _single(self, kind: str | Struct, name: str, version: int, flexible: bool) -> Any:
        """One value; None for a null string or null bytes."""
        if isinstance(kind, Struct):
            return self.struct(kind, version, flexible)
        if kind in NUMBERS:
            return self.number(kind)
        if kind == "bool":
            return self.take(1) != b"\0"
        if kind == "uuid":
            return base64.urlsafe_b64encode(self.take(16)).decode().rstrip("=")
        size = self._length("int16" if kind == "string" else "int32", flexible)
        if size is None:
            return None
        raw = self.take(size)
        return decode_header_key(raw) if kind == "string" else raw

    def _length(self, kind: str, flexible: bool) -> int | None:
        length = self.uvarint() - 1 if flexible else self.number(kind)
        return None if length < 0 else length

    def _null(self, f: Field) -> None:
        if not f.nullable:
            raise StructureError(f"{f.name} is null, which it cannot be", self.at)
