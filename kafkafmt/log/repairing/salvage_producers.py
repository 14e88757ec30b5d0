"""Choose the producer snapshots of the source that supplement the batches of a salvaged partition."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from ...errors import KafkaFormatError
from ..formats import ProducerEntry, Producers, entries_of, file_name, offsets_in
from ..transactions import SnapshotFiles


class SourceSnapshots:
    """The producer snapshots of a partition: those of `names`, which can be read."""

    def __init__(self, snapshots: SnapshotFiles, names: Iterable[str]) -> None:
        self.files = snapshots
        self.offsets: list[int] = sorted(offsets_in(names, ".snapshot"))

    def at(self, offset: int, producers: Producers, earlier: bool) -> bytes | None:
        """Return the serialized entries of a usable snapshot at `offset` (if `earlier`: or before), or None."""
        # A snapshot cannot be used if it is unreadable or inconsistent, or contradicts the state of the copied batches.
        for i in range(bisect_right(self.offsets, offset) - 1, -1, -1):
            at = self.offsets[i]
            if at < offset and not earlier:
                return None
            try:
                states = self.files.read(file_name(at, ".snapshot"))
            except KafkaFormatError:
                continue
            if states is None:
                continue
            if producers.contain(states):  # true for most snapshots
                return states
            known = entries_of(states)
            if all(p.last_offset < at and p.txn_first_offset < at for p in known) and not contradict(known, producers):
                return states
        return None


def contradict(known: Iterable[ProducerEntry], producers: Producers) -> bool:
    """Return whether the entries `known` of a snapshot contradict the state `producers` of the copied batches."""
    for theirs in known:
        own = producers.get(theirs.producer_id)
        if own is None or own == theirs:
            continue
        # A snapshot can contain a newer producer epoch than all batches, because a new epoch need not have a batch.
        if own.last_offset > theirs.last_offset and theirs.epoch <= own.epoch:
            return True
        fields = ("epoch", "last_sequence", "offset_delta")
        if own.last_offset == theirs.last_offset and any(getattr(own, f) != getattr(theirs, f) for f in fields):
            return True
    return False
