"""The fields of Kafka's messages, in a compact form of text; a message has any number of versions.

    3 Topics, versions 0-18, flexible 12+       number, name, all versions there have been, those with compact forms and tags

    ClusterId       string?       12+   tag 0  = null  ignorable
    Topics          []FetchTopic  0+                            a field: name, type, versions, then what else there is to say
        Topic       string        0-12                          the fields of a structure stand below the field that has it
    ...
    struct Name                                                 or by themselves; other fields may have it too

A type is one of TYPES or the name of a structure, `[]` before it for an array, `?` behind it where null is allowed. Words
behind the versions: `null 1+` (null is allowed in these versions only), `tag 0` (a tagged field), `= 60000` (the
default, where it is not zero or empty), `ignorable` (left out in silence in versions that do not have it), `plain`
(never compact), `as name` (its name in Python, where rules would spell it badly), `also name` (a second one).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

TYPES = ("bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "uuid", "string", "bytes", "records")
NEWEST = 32767
WORD = re.compile(r"(null|tag|=|as|also) (\S+)|ignorable|plain")
HEADING = re.compile(r"(?:(\d+) )?(\w+), versions? (\S+?)(?:, flexible (\S+))?")
HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True)
class Versions:
    """From one version to another, both included; none where the last is below the first."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        first, dash, last = text.removesuffix("+").partition("-")
        return cls(int(first), NEWEST if text.endswith("+") else int(last) if dash else int(first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __str__(self) -> str:
        return f"{self.first} to {self.last}"


NONE = Versions(0, -1)


@dataclass
class Field:
    """One field of a structure. `type` is one of TYPES or the name of a structure, of which `struct` has the fields."""

    kafka_name: str
    name: str
    type: str
    array: bool
    versions: Versions
    nullable: Versions = NONE
    tag: int | None = None
    default: str | None = None
    ignorable: bool = False
    plain: bool = False
    second_name: str | None = None
    struct: Struct | None = None

    @property
    def json_name(self) -> str:
        """As Kafka's JSON converters spell it."""
        return self.kafka_name[0].lower() + self.kafka_name[1:]


@dataclass
class Struct:
    """A structure: a whole message, or what a field or the elements of an array are."""

    name: str
    fields: list[Field] = field(default_factory=list)


@dataclass(frozen=True)
class Heading:
    """A message's first line. number: an API key, a record's type, or None. flexible: the versions with compact forms and tags."""

    number: int | None
    name: str
    versions: Versions
    flexible: Versions

    @classmethod
    def parse(cls, line: str) -> Heading:
        found = HEADING.fullmatch(line)
        assert found is not None, line
        number, name, versions, flexible = found.groups()
        return cls(None if number is None else int(number), name, Versions.parse(versions), Versions.parse(flexible) if flexible else NONE)


def snake_case(name: str) -> str:
    return HUMP.sub("_", name).lower()


def parse_field(line: str) -> Field:
    kafka_name, type_, versions, *rest = line.split(maxsplit=3)
    present = Versions.parse(versions)
    nullable = type_.endswith("?")
    plain_type = type_.removesuffix("?").removeprefix("[]")
    made = Field(kafka_name, snake_case(kafka_name), plain_type, type_.startswith("[]"), present, present if nullable else NONE)
    for word in WORD.finditer(rest[0] if rest else ""):
        match word[1], word[2]:
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
                setattr(made, word[0], True)
    return made


def parse_message(name: str, lines: list[str]) -> Struct:
    """A message from the lines of its fields; indentation tells whose fields they are."""
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
    """Several messages, each a heading and below it its fields, indented."""
    parts: list[tuple[Heading, list[str]]] = []
    for line in text.splitlines():
        if line[:1].strip():
            parts.append((Heading.parse(line), []))
        elif line.strip():
            parts[-1][1].append(line)
    return [(heading, parse_message(heading.name, lines)) for heading, lines in parts]
