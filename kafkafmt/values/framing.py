"""Find out from its first bytes with which schema a key or value was written."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from ..support.arguments import one_of

PREFIX, GUID_PREFIX = 5, 17
"""Sizes of the prefixes of Confluent's serializers: a zero and the schema id, or a one and a GUID."""
SINGLE_OBJECT = b"\xc3\x01"
Key: TypeAlias = "int | str | bytes | None"
"""What identifies a schema: its id, its GUID, its fingerprint, or nothing if there is only one."""


class Framing(NamedTuple):
    """What precedes a key or value. `read` returns what identifies the schema, and the size of the prefix, or None."""

    name: str
    longest: int  # number of bytes that `read` needs
    read: Callable[[memoryview], tuple[Key, int] | None]
    missing: str  # why there is no schema if `read` returns None

    def __reduce__(self) -> tuple[Callable[[str], Framing], tuple[str]]:
        return _named, (self.name,)  # so that a framing that was sent to a task is the same object


def _confluent(raw: memoryview) -> tuple[Key, int] | None:
    if len(raw) >= PREFIX and raw[0] == 0:
        return int.from_bytes(raw[1:PREFIX], "big"), PREFIX
    if len(raw) >= GUID_PREFIX and raw[0] == 1:
        return str(uuid.UUID(bytes=bytes(raw[1:GUID_PREFIX]))), GUID_PREFIX
    return None


def _apicurio(raw: memoryview) -> tuple[Key, int] | None:
    return (int.from_bytes(raw[1:9], "big"), 9) if len(raw) >= 9 and raw[0] == 0 else None


def _single_object(raw: memoryview) -> tuple[Key, int] | None:
    return (bytes(raw[2:10]), 10) if len(raw) >= 10 and raw[:2] == SINGLE_OBJECT else None


def _none(raw: memoryview) -> tuple[Key, int] | None:
    return None, 0


CONFLUENT = Framing("confluent", GUID_PREFIX, _confluent, "it does not begin with a schema id")
NONE = Framing("none", 0, _none, "")
FRAMINGS = {
    "confluent": CONFLUENT,
    "apicurio": Framing("apicurio", 9, _apicurio, "it does not begin with a schema id of eight bytes"),
    "single-object": Framing("single-object", 10, _single_object, "it does not begin with C3 01 and a fingerprint"),
    "none": NONE,
}


def _named(name: str) -> Framing:
    return FRAMINGS[name]


def framing_of(name: str, default: Framing) -> Framing:
    """Return the framing with a name. "auto": the default."""
    return FRAMINGS.get(one_of("framing", name, ("auto", *FRAMINGS)), default)
