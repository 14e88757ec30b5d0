"""List known defects, so that a run of the fuzzer reports only new ones."""

from __future__ import annotations

from typing import NamedTuple


class Known(NamedTuple):
    """A known defect: a text in the failure of some targets. `item` identifies the planned fix."""

    item: str
    targets: tuple[str, ...]
    phrase: str


KNOWN: tuple[Known, ...] = ()

KNOWN_CRASHES: tuple[str, ...] = ()
"""Classes whose objects threads cannot share yet."""


def known_item(target: str, text: str) -> str | None:
    """Return the planned fix for a failure, or None if the failure is new."""
    for known in KNOWN:
        if target in known.targets and known.phrase in text:
            return known.item
    return None
