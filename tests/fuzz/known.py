"""Defects that are known and not fixed yet, so that a run still finds others. The list is empty once all are fixed."""

from __future__ import annotations

from typing import NamedTuple


class Known(NamedTuple):
    """A failure of some targets whose text contains a phrase. `item` is the number of the point that fixes it."""

    item: str
    targets: tuple[str, ...]
    phrase: str


KNOWN: tuple[Known, ...] = ()

KNOWN_CRASHES: tuple[str, ...] = ()
"""Objects that threads cannot share yet."""


def known_item(target: str, text: str) -> str | None:
    """Return the point that fixes a failure, or None for a new one."""
    for known in KNOWN:
        if target in known.targets and known.phrase in text:
            return known.item
    return None
