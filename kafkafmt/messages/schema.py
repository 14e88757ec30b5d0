"""Parse the text form of Kafka's message schemas. One schema describes all versions of a message.

The first line contains a number, the name, the versions, and the flexible versions (KIP-482) of the
message. An example is ``1 Fetch, versions 0-18, flexible 12+``. Each further line describes a
field: its name, its type, its versions and its options. If the type of a field is a structure, the
next lines are indented and describe the fields of the structure. A line that begins with ``struct``
starts the definition of a structure that several fields can use.

The type of a field is one of `TYPES` or the name of a structure. The prefix `[]` means that the
field is an array, and the suffix `?` means that the field can be null. The options of a field are:

- ``null 1+``: null is allowed only in these versions.
- ``tag 0``: the field is a tagged field with tag 0.
- ``= 60000``: the default value. Without this option, the default is zero or empty.
- ``ignorable``: if a version does not have the field, the value is omitted without an error.
- ``plain``: the field never has a compact type.
- ``as name``: the Python name, if Kafka's name in snake case is unsuitable.
- ``also name``: a second Python name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

TYPES = ("bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "uuid", "string", "bytes", "records")
NEWEST = 32767
"""Value of `Versions.last` for a range without an upper limit, such as ``12+``."""
OPTION = re.compile(r"(null|tag|=|as|also) (\S+)|ignorable|plain")
HEADING = re.compile(r"(?:(\d+) )?(\w+), versions? (\S+?)(?:, flexible (\S+))?")
WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True)
class Versions:
    """A range of versions. It includes `first` and `last`, and is empty if `last` is less than `first`."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Parse a range such as ``3``, ``0-12`` or ``12+``."""
        first, dash, last = text.removesuffix("+").partition("-")
        return cls(int(first), NEWEST if text.endswith("+") else int(last) if dash else int(first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __str__(self) -> str:
        return f"{self.first} to {self.last}"


NONE = Versions(0, -1)
"""A range that contains no versions."""


@dataclass
class Field:
    kafka_name: str  # Kafka's name of the field
    name: str  # Python name of the field
    type: str  # one of `TYPES`, or the name of a structure; of the elements, for an array
    array: bool
    versions: Versions  # versions of the message that have the field
    nullable: Versions = NONE  # versions of the message in which the field can be null
    tag: int | None = None  # of a tagged field
    default: str | None = None  # as text; None: zero or empty
    ignorable: bool = False  # a version without this field omits the value without an error
    plain: bool = False  # no compact type, even in flexible versions
    second_name: str | None = None  # a second Python name
    struct: Struct | None = None  # the structure, if `type` is the name of one

    @property
    def json_name(self) -> str:
        """Name of the field in Kafka's JSON, in camel case."""
        return self.kafka_name[0].lower() + self.kafka_name[1:]


@dataclass
class Struct:
    name: str
    fields: list[Field] = field(default_factory=list)


@dataclass(frozen=True)
class Heading:
    number: int | None  # API key or record type
    name: str
    versions: Versions
    flexible: Versions  # versions that use compact types and tagged fields

    @classmethod
    def parse(cls, line: str) -> Heading:
        """Parse the first line of a message schema, such as ``3 Metadata, versions 0-13, flexible 9+``."""
        found = HEADING.fullmatch(line)
        assert found is not None, line
        number, name, versions, flexible = found.groups()
        return cls(
            None if number is None else int(number),
            name,
            Versions.parse(versions),
            Versions.parse(flexible) if flexible else NONE,
        )


def snake_case(name: str) -> str:
    return WORD_START.sub("_", name).lower()


def parse_field(line: str) -> Field:
    """Parse the line that describes a field. The fields of a structure are described by other lines."""
    kafka_name, type_, versions, *rest = line.split(maxsplit=3)
    present = Versions.parse(versions)
    nullable = type_.endswith("?")
    plain_type = type_.removesuffix("?").removeprefix("[]")
    made = Field(
        kafka_name, snake_case(kafka_name), plain_type, type_.startswith("[]"), present, present if nullable else NONE
    )
    for option in OPTION.finditer(rest[0] if rest else ""):
        match option[1], option[2]:
            case "null", text:
                made.nullable = Versions.parse(text)
            case "tag", text:
                made.tag = int(text)
            case "=", text:
                made.default = text
            case "as", text:
                made.name = text
            case "also", text:
                made.second_name = text
            case _:
                setattr(made, option[0], True)
    return made


def parse_message(name: str, lines: list[str]) -> Struct:
    """Parse the lines of a message schema after the first one. Indentation determines the structure of a field."""
    message = Struct(name)
    shared: dict[str, Struct] = {}
    every: list[Field] = []
    holders: list[tuple[int, Struct]] = [(0, message)]
    for line in lines:
        depth = len(line) - len(line.lstrip())
        while holders[-1][0] >= depth:
            holders.pop()
        if line.split()[0] == "struct":
            struct = shared[line.split()[1]] = Struct(line.split()[1])
            holders.append((depth, struct))
            continue
        made = parse_field(line)
        every.append(made)
        holders[-1][1].fields.append(made)
        if made.type not in TYPES:
            made.struct = Struct(made.type)
            holders.append((depth, made.struct))
    shared |= {made.type: made.struct for made in every if made.struct is not None and made.struct.fields}
    for made in every:
        if made.struct is not None:
            made.struct = shared[made.type]
    return message


def parse_messages(text: str) -> list[tuple[Heading, Struct]]:
    """Parse several schemas. Each schema consists of a first line and indented lines for its fields."""
    parts: list[tuple[Heading, list[str]]] = []
    for line in text.splitlines():
        if line[:1].strip():
            parts.append((Heading.parse(line), []))
        elif line.strip():
            parts[-1][1].append(line)
    return [(heading, parse_message(heading.name, lines)) for heading, lines in parts]
