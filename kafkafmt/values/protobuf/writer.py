"""Define what the other modules need to know about a Protobuf schema."""

# pyarrow is imported inside a function, because `cat --decode` does not need it.

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..errors import ValueFault
from ..types import ValueType
from .descriptors import Message, Place, ProtoFile
from .objects import protobuf_to_json
from .parsing import parse_protobuf
from .schema import message_type

if TYPE_CHECKING:
    from ..._backend import core
    from ..value_columns import Captures, Column


class ProtobufWriter:
    """The schema of a .proto file, and the message that decides the columns: the first one if no name is given."""

    has_rest: bool = False

    def __init__(self, text: str, references: Mapping[str, str] | None = None, message: str = "") -> None:
        self._file: ProtoFile = parse_protobuf(text, references)
        self._message: Message = self._file.find(message)

    @property
    def message(self) -> str:
        """Full name of the message that decides the columns."""
        return self._message.name

    @property
    def messages(self) -> list[str]:
        """Full names of all messages."""
        return [message.name for message in self._file.walk()]

    @cached_property
    def type(self) -> ValueType:
        return message_type(self._message)

    def compile(
        self, root: Column, captures: Captures, fill_defaults: bool, with_indexes: bool = True
    ) -> core.ValueProgram:
        from .program import compile_protobuf

        return compile_protobuf(self._file, self._message, root, captures, fill_defaults, with_indexes)

    def message_of(self, indexes: memoryview) -> str | None:
        """Return the full name of the message that the bytes after a schema id choose. None: there is none."""
        place = self._file.place(indexes)
        return place.message.name if isinstance(place, Place) else None

    def fault_of(self, indexes: memoryview) -> str | None:
        """Return the error code of indexes that do not choose the message of the columns, or None."""
        place = self._file.place(indexes)
        if isinstance(place, str):
            return place
        return None if place.message is self._message else "no_branch"

    def to_json(self, body: memoryview) -> Any:
        """Return a value as an object for JSON. Its message indexes precede it."""
        place = self._place(body)
        return protobuf_to_json(place.message, body, place.start)

    def to_json_by(self, indexes: memoryview, body: memoryview) -> Any:
        """Return a value as an object for JSON. Its message indexes are in a header."""
        return protobuf_to_json(self._place(indexes).message, body)

    def to_json_alone(self, body: memoryview) -> Any:
        """Return a value of the message that decides the columns as an object for JSON. It has no message indexes."""
        return protobuf_to_json(self._message, body)

    def _place(self, indexes: memoryview) -> Place:
        place = self._file.place(indexes)
        if isinstance(place, str):
            raise ValueFault(place, 0)
        return place
