"""Open the next segments of a log, and request their first bytes, while the previous segments are read from a URL."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from ...constants import NO_END
from ...support.paths import UrlPath
from ..catalog import SegmentFile
from ..scanning import Share
from ..storage import AHEAD_BYTES, fetch_ahead, forget_ahead, open_ahead

MOST_AHEAD = 8  # largest number of segments that are opened in advance


class SegmentsAhead:
    """Iterates over the segments to read. If they have URLs, the next segments are opened in the background."""

    # More than one segment is opened if they are small, so that a scan does not wait for each of them. `shares` maps
    # the names of segments that are read only partly to byte ranges.

    def __init__(self, segments: Iterator[SegmentFile], start: int, end: int, shares: Mapping[str, Share]) -> None:
        self._segments = segments
        self._start, self._end = start, end
        self._shares = shares
        self._ahead: deque[tuple[SegmentFile, int]] = deque()

    def __iter__(self) -> Iterator[SegmentFile]:
        """Yield the segments. When the iterator is closed, close the segments that it has opened in advance."""
        try:
            for segment in self._segments:
                if not isinstance(segment.folder, UrlPath):
                    yield segment
                    continue
                known = self._known_bytes(segment)
                open_ahead(segment.path, segment.sibling(".index"), known)
                self._ahead.append((segment, known))
                if self._enough_opened():
                    yield self._ahead.popleft()[0]
            while self._ahead:
                yield self._ahead.popleft()[0]
        finally:
            for segment, _ in self._ahead:
                forget_ahead(segment.path, segment.sibling(".index"))

    def _enough_opened(self) -> bool:
        """Return whether enough segments after the first one have been opened, so that the first one can be read."""
        sizes = [segment.size for segment, _ in self._ahead][1:]
        return len(sizes) == MOST_AHEAD or sum(sizes) >= AHEAD_BYTES

    def request(self, left: int) -> None:
        """Request the first bytes of the next segments if fewer than AHEAD_BYTES remain in the current one."""
        for segment, known in self._ahead:
            if left >= AHEAD_BYTES:
                return
            fetch_ahead(segment.path, min(known, AHEAD_BYTES - left))
            if known < segment.size:
                return
            left += known

    def _known_bytes(self, segment: SegmentFile) -> int:
        """Return the number of bytes at the start of a segment that will certainly be read."""
        share = self._shares.get(segment.name)
        if share is not None:
            return 0 if share.start.position else share.end.position
        if self._start > (segment.base_offset or 0):
            return 0
        return segment.size if self._end == NO_END or (segment.next_base or NO_END) <= self._end else 0
