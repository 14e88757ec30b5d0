"""Define the sides of a record, and how users choose what to decode. pyarrow is not needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..support.text import shown

SIDES = ("key", "value")
"""Sides of a record that can be decoded. A column such as "value.id" contains a field of one side."""
UNION = "union"
"""Name of the choice that all versions of a subject decide the columns."""
AUTO, JSON, BYTES = "auto", "json", "bytes"
WITH_SCHEMA = (AUTO, "avro", "protobuf", JSON)
PLAIN = ("string", "uuid", "short", "int32", "int64", "float", "double")
"""Formats of Kafka's own serializers, which need no schema. A UUID is stored as text."""
FORMATS = (*WITH_SCHEMA, *PLAIN, BYTES)
Decode: TypeAlias = "bool | str | Iterable[str] | Mapping[str, str]"


@dataclass(frozen=True)
class SideFormat:
    """The format of one side. As text: ``FORMAT[:NAME][#MESSAGE]``."""

    format: str = AUTO
    name: str = ""  # a subject if the format is "auto", and otherwise a file with the schema
    message: str = ""  # name of a Protobuf message

    @property
    def is_inferred(self) -> bool:
        """Whether the type is that of the first values."""
        return self.format == JSON and not self.name

    @property
    def has_subject(self) -> bool:
        """Whether the schemas are those of a subject."""
        return self.format in WITH_SCHEMA and not self.is_inferred and (self.format == AUTO or not self.name)

    def __str__(self) -> str:
        return self.format + (f":{self.name}" if self.name else "") + (f"#{self.message}" if self.message else "")


Formats: TypeAlias = "Mapping[str, SideFormat]"


def side_formats(decode: Decode) -> dict[str, SideFormat]:
    """Return the format of each side to decode. ValueError: there are none, or one is not known."""
    if isinstance(decode, bool):
        return dict.fromkeys(SIDES, SideFormat()) if decode else {}
    given: list[tuple[Any, Any]]
    if isinstance(decode, Mapping):
        given = list(decode.items())
    else:
        parts = decode.split(",") if isinstance(decode, str) else decode if isinstance(decode, Iterable) else [decode]
        given = [(s, AUTO) if not isinstance(s, str) or "=" not in s else s.partition("=")[::2] for s in parts]
    if not given or not all(isinstance(side, str) and side in SIDES for side, _ in given):
        raise ValueError(
            f'decode is {shown(decode)}; it must be True, "key", "value" or both, or have the format of each, such as '
            '{"key": "string", "value": "auto"}'
        )
    found = {side: _parse(side, text) for side, text in given}
    return {side: found[side] for side in SIDES if side in found and found[side].format != BYTES}


def _parse(side: str, text: object) -> SideFormat:
    if isinstance(text, SideFormat):
        return text
    start, _, message = str(text).partition("#")
    name, colon, rest = start.partition(":")
    if name not in FORMATS or (colon and (name not in WITH_SCHEMA or not rest)):
        raise ValueError(
            f"the format of the {side} is {shown(text)}; it must be {', '.join(FORMATS[:-1])} or {BYTES}. A colon and a "
            "schema file can follow avro, protobuf and json"
        )
    if message and name not in (AUTO, "protobuf"):
        raise ValueError(f"the format of the {side} is {shown(text)}; only protobuf has messages")
    return SideFormat(name, rest, message)


def side_of(column: str) -> str:
    """Return the side to which a field such as "value.id" belongs. Return any other column unchanged."""
    side, dot, _ = column.partition(".")
    return side if dot and side in SIDES else column
