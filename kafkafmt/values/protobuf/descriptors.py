"""Define the messages of a Protobuf schema. `parsing.py` makes them from the text of a schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...log.catalog import like
from ..errors import InvalidSchemaError

MOST_NESTED = 64
"""Largest number of message indexes of a value."""


@dataclass(eq=False)
class ProtoEnum:
    name: str
    symbols: dict[int, str]
    """Symbols by number, in the order of the schema. If several have the same number, the first one."""
    closed: bool
    """Whether other numbers are unknown fields (proto2)."""

    @property
    def default(self) -> int:
        return next(iter(self.symbols))


@dataclass(eq=False)
class ProtoField:
    number: int
    name: str
    type: str
    """Type in a .proto file ("int32"), "message", "group" or "enum"."""
    repeated: bool = False
    nullable: bool = False
    """Whether the absence of the field differs from its default."""
    message: Message | None = None
    enum: ProtoEnum | None = None
    oneof: str | None = None

    @property
    def is_map(self) -> bool:
        return self.message is not None and self.message.is_map_entry

    @property
    def wire(self) -> int:
        """Wire type of an item."""
        return WIRES.get(self.type, LENGTH)

    @property
    def packs(self) -> bool:
        """Whether items can be packed."""
        return self.repeated and self.wire in (VARINT, FIXED64, FIXED32)


@dataclass(eq=False)
class Message:
    name: str
    """Full name."""
    fields: list[ProtoField] = field(default_factory=list)
    nested: list[Message] = field(default_factory=list)
    is_map_entry: bool = False


VARINT, FIXED64, LENGTH, GROUP, END_GROUP, FIXED32 = range(6)
WIRES = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool", "enum"), VARINT),
    **dict.fromkeys(("fixed64", "sfixed64", "double"), FIXED64),
    **dict.fromkeys(("fixed32", "sfixed32", "float"), FIXED32),
    "group": GROUP,
}
"""Wire types. The other types have a length."""


class Place(NamedTuple):
    """A message, and where its body starts."""

    message: Message
    start: int


class ProtoFile:
    """The messages of the main file of a schema."""

    def __init__(self, messages: Sequence[Message], counts_map_entries: bool) -> None:
        self.messages: list[Message] = list(messages)
        self.counts_map_entries: bool = counts_map_entries
        """Whether message indexes count the entries of maps as nested messages, as in Confluent's Python client.

        Its Java client does not, because a .proto file does not contain them.
        """

    def walk(self) -> Iterator[Message]:
        """Yield all messages, also nested ones, without the entries of maps."""
        pending = self.messages[::-1]
        while pending:
            message = pending.pop()
            if not message.is_map_entry:
                yield message
                pending += reversed(message.nested)

    def find(self, name: str) -> Message:
        """Return a message by its full or short name. "": the first one. InvalidSchemaError: there is none."""
        known = list(self.walk())
        if not known:
            raise InvalidSchemaError("the schema contains no message")
        if not name:
            return known[0]
        found = [m for m in known if m.name == name] or [m for m in known if m.name.rpartition(".")[2] == name]
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(m.name for m in found)
            raise InvalidSchemaError(f"the message {name} is ambiguous: it can be {names}")
        raise InvalidSchemaError(f"there is no message {name}: {like('message', name, [m.name for m in known])}")

    def readings(self) -> list[tuple[bool, bool]]:
        """Return the ways to read message indexes, in order: zigzag or not, and whether map entries are counted."""
        count = self.counts_map_entries
        return [(True, count), (True, not count), (False, count)]

    def place(self, body: memoryview) -> Place | str:
        """Return the message that the indexes before a body name, or the code of the reason why there is none."""
        first = ""
        for zigzag, count_entries in self.readings():
            found = self._place(body, zigzag, count_entries)
            if isinstance(found, Place):
                return found
            first = first or found
        return first

    def _place(self, body: memoryview, zigzag: bool, count_entries: bool) -> Place | str:
        position = 0

        def read() -> int:
            nonlocal position
            number = shift = 0
            while shift < 35:
                byte = body[position]
                position += 1
                number |= (byte & 0x7F) << shift
                if byte < 0x80:
                    return (number >> 1) ^ -(number & 1) if zigzag else number
                shift += 7
            return -1

        try:
            count = read()
            path = [read() for _ in range(count)] if 0 < count <= MOST_NESTED else [count]
        except IndexError:
            return "truncated"
        nested = self.messages
        message = None
        for index in path:
            nested = [m for m in nested if count_entries or not m.is_map_entry]
            if not 0 <= index < len(nested) or nested[index].is_map_entry or (count > MOST_NESTED):
                return "bad_index"
            message = nested[index]
            nested = message.nested
        return Place(message, position) if message is not None else "bad_index"
