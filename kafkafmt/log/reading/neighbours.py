"""Search the segments before and after a given segment for copies of its batches."""

from __future__ import annotations

from ..format.file_view import FileView
from ..format.files import list_directory
from ..format.names import base_offset_of, file_name
from .partition_dir import SegmentFile
from .parts import Run
from .segment_walker import Walker


class Neighbours:
    """Searches the previous and the next segment for copies of batches in a given segment.

    The file names of segments determine the offset range of each segment. If a batch has offsets
    outside the range of its segment, the batch may be a copy of a batch in the previous or the next
    segment.
    """

    def __init__(self, segment: SegmentFile) -> None:
        self.segment = segment
        self._before: int | None = None
        self._held: dict[int, dict[tuple[int, int], int]] = {}

    def hold(self, walker: Walker, piece: Run) -> bool:
        """Return whether an adjacent segment contains an identical copy of the batch that `piece` describes."""
        base = self.segment.base_offset
        if base is None or piece.batches != 1:
            return False
        if self.segment.next_base is not None and piece.first_offset >= self.segment.next_base:
            base = self.segment.next_base
        elif piece.last_offset < base:
            if self._before is None:
                _, names = list_directory(self.segment.path.parent)
                self._before = max(
                    (b for n in names if (b := base_offset_of(n)) is not None and b < base), default=base
                )
            base = self._before
        if base == self.segment.base_offset or piece.first_offset < base:
            return False
        size = piece.end - piece.position
        try:
            with FileView(self.segment.path.with_name(file_name(base)), fill_unreadable=True) as view:
                if base not in self._held:
                    self._held[base] = _batches(view, base)
                position = self._held[base].get((piece.first_offset, size))
                return position is not None and view.read(position, size) == walker.view.read(piece.position, size)
        except FileNotFoundError:
            return False


def _batches(view: FileView, base: int) -> dict[tuple[int, int], int]:
    """Return a dict that maps (first offset, size) to the position of the valid batch with these properties."""
    walker = Walker(view, base)
    runs = walker.walk().runs.objects()
    return {
        (int(row["base_offset"]), int(row["size"])): start + int(row["position"])
        for run in runs
        for start, _, rows, _ in walker.tables(run.position, run.end)
        for row in rows
    }
