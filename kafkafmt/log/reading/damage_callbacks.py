"""Define callbacks that receive the damage of a log while its batches are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..findings import Damage, Joined

OnDamage = Callable[[Damage], None]


class BatchDamage:
    """Callback that collects only damage which is not listed in a segment plan (`SegmentPlan`)."""

    # A plan lacks damaged records in batches with a matching CRC, and later damage (`changed`).

    def __init__(self) -> None:
        self.parts: list[Sequence[Damage]] = []
        self.changed: bool = False

    @property
    def found(self) -> Joined[Damage]:
        return Joined(self.parts)

    def __call__(self, damage: Damage) -> None:
        """Add a description of damage that occurred after the plan was created."""
        self.parts.append((damage,))
        self.changed = True

    def add(self, damaged: Sequence[Damage]) -> None:
        self.parts.append(damaged)


class CollectedDamage:
    """Callback that collects all damage, including damage that is listed in a segment plan."""

    # Those of plans are created when the list is first requested, which takes as long as finding the damage.

    def __init__(self, damaged: list[Damage]) -> None:
        self._damaged = damaged
        self._later: list[Sequence[Damage]] = []

    def __call__(self, damage: Damage) -> None:
        if self._later:
            self._later.append((damage,))
        else:
            self._damaged.append(damage)

    def add(self, damaged: Sequence[Damage]) -> None:
        """Add several descriptions of damage. `damaged` must not change afterwards."""
        self._later.append(damaged)

    @property
    def damaged(self) -> list[Damage]:
        """All damage that was added so far. Each access returns the same list."""
        later, self._later = self._later, []
        for part in later:
            self._damaged += part
        return self._damaged
