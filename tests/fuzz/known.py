"""List known defects that are not fixed yet, so that a run reports only new ones."""

from __future__ import annotations

from typing import NamedTuple


class Known(NamedTuple):
    """A failure of some targets whose text contains a phrase. `item` identifies the planned fix."""

    item: str
    targets: tuple[str, ...]
    phrase: str


KNOWN: tuple[Known, ...] = ()

KNOWN_CRASHES: tuple[str, ...] = ()
"""Objects that threads cannot share yet."""


def known_item(target: str, text: str) -> str | None:
    """Return the item of the planned fix of a failure, or None for a new failure."""
    for known in KNOWN:
        if target in known.targets and known.phrase in text:
            return known.item
    return None
