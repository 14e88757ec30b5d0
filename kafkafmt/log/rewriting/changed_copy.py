"""Copy a partition with changed batches."""

from __future__ import annotations

from typing import Any

from ..formats import Producers
from ..repairing import PartitionCopy


class ChangedCopy(PartitionCopy):
    """Copies one partition, and removes or rebuilds batches."""

    # `unsure`: lost batches of the source may have left a producer only in a producer snapshot.

    unsure: bool

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.unsure = True

    def _add_producers(self, base: int) -> None:
        """If batches before the segment `base` may be missing, use the producers in the source's snapshot."""
        self.unsure = self.unsure and base > 0
        if self.unsure and (known := self._snapshot(base)) is not None:
            self.state.producers, self.unsure = Producers(known), False
