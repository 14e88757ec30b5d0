"""Define the sides of a record, and how users choose what to decode. pyarrow is not needed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal, TypeAlias

from ..support.text import shown

SIDES = ("key", "value")
"""Sides of a record that can be decoded. A column such as "value.id" contains a field of one side."""
UNION = "union"
"""Name of the choice that all versions of a subject decide the columns."""
Decode: TypeAlias = 'bool | Literal["key", "value"] | Collection[str]'


def decoded_sides(decode: Decode) -> tuple[str, ...]:
    """Return the sides to decode. ValueError: there are none, or one is not known."""
    if isinstance(decode, bool):
        return SIDES if decode else ()
    given = tuple(decode) if isinstance(decode, Iterable) and not isinstance(decode, str) else (decode,)
    if not given or not all(side in SIDES for side in given):
        raise ValueError(f'decode is {shown(decode)}; it must be True, "key", "value" or both')
    return tuple(side for side in SIDES if side in given)


def side_of(column: str) -> str:
    """Return the side to which a field such as "value.id" belongs. Return any other column unchanged."""
    side, dot, _ = column.partition(".")
    return side if dot and side in SIDES else column
