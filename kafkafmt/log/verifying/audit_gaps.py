"""Find offsets that are missing between two adjacent batches of a segment."""

from __future__ import annotations

import numpy as np

from ...constants import MAGIC_V2
from ...support.text import offset_range
from ...types import BatchSummary, BatchTable, last_offsets
from ..findings import Finding

OFFSET_GAP = "offset_gap"
MOST_GAPS = 256  # Largest number of gaps of one partition that are reported one by one. A compacted log has very many.


class GapAudit:
    """Collects the gaps of a partition, segment by segment."""

    def __init__(self) -> None:
        self._file = ""
        self._end = self._next = -1
        self._count = self._before = 0
        self._gaps: list[tuple[str, int, int, int]] = []
        """File name, position of the batch after the gap, and first and last missing offset."""

    def __len__(self) -> int:
        return self._count

    def begin(self, file: str) -> None:
        self._file, self._end, self._before = file, -1, self._count

    def begin_again(self) -> None:
        """Forget the batches of the current segment, because they are added again."""
        self._gaps = [gap for gap in self._gaps if gap[0] != self._file]
        self._count, self._end = self._before, -1

    def add(self, position: int, table: BatchTable, found: BatchSummary) -> None:
        """Add valid batches. Positions in `table` are relative to the file position `position`."""
        follows = position + found.start == self._end
        if not found.dense or not found.adjacent or (follows and found.first > self._next):
            starts, first = table["position"] + position, table["base_offset"]
            last = np.maximum(last_offsets(table), first + table["count"] - 1)  # some clients wrote a lower last offset
            ends = np.append(self._end, starts + table["size"])
            following = np.append(self._next, last + 1)
            # The header of a wrapper message contains only its last offset, and so do the headers that some clients wrote.
            known = np.where(
                table["magic"] == MAGIC_V2, table["count"] <= table["last_offset_delta"] + 1, table["count"] >= 0
            )
            for i in np.flatnonzero(known & (starts == ends[:-1]) & (first > following[:-1])).tolist():
                self._count += 1
                if len(self._gaps) < MOST_GAPS:
                    self._gaps.append((self._file, int(starts[i]), int(following[i]), int(first[i]) - 1))
        if len(table):
            self._end, self._next = position + found.end, found.last + 1

    def findings(self) -> list[Finding]:
        """Return one finding for each gap. If there are very many, the last one counts the others."""
        found = [
            Finding(file, OFFSET_GAP, f"{offset_range(first, last)} before position {position}: no batch contains them")
            for file, position, first, last in self._gaps
        ]
        if more := self._count - len(found):
            found.append(
                Finding(self._gaps[-1][0], OFFSET_GAP, f"{more:,} more gaps like this: the log seems to be compacted")
            )
        return found
