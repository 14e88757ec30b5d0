"""Assemble the stream of bytes that one side of a TCP connection sent from its segments."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

MAX_HELD_BYTES = 16 << 20
"""Largest size of the segments that wait for an earlier one. If it is exceeded, the earlier bytes count as missing."""
MAX_WINDOW = 16 << 20
"""A segment that starts more bytes before the end of the stream belongs to another connection with the same ports."""
SEGMENT_COST = 100
"""Approximate memory that a waiting segment needs in addition to its bytes."""


class Hole(NamedTuple):
    """Bytes of a stream that the capture does not contain."""

    size: int


class Stream:
    """The bytes that one side of a connection sent.

    Each method yields the next parts of the stream: bytes, and a Hole for missing bytes. Bytes are missing if the
    other side has acknowledged them, if too many later bytes were captured, or if the capture ends.
    """

    def __init__(self) -> None:
        self.position: int = 0  # of the next byte in order
        self.first: int | None = None  # sequence number of the first byte
        self._end: int | None = None  # position of the FIN
        self._held: dict[int, bytes] = {}  # later segments by position
        self._positions: list[int] = []  # heap of their positions
        self._held_bytes = 0

    @property
    def finished(self) -> bool:
        return self._end is not None and self.position >= self._end

    def start(self, sequence: int) -> None:
        self.first = sequence & 0xFFFFFFFF

    def position_of(self, sequence: int) -> int:
        """Return the position of a sequence number, which wraps at 2^32: the one that is next to the current position."""
        ahead = (sequence - (self.first or 0) - self.position) & 0xFFFFFFFF
        return self.position + (ahead - (1 << 32) if ahead >= 1 << 31 else ahead)

    def add(self, sequence: int, data: bytes, last: bool = False) -> Iterator[bytes | Hole]:
        """Add a segment. `last` is True if it has the flag FIN."""
        position = self.position_of(sequence)
        if last:
            self._end = position + len(data)
        if position > self.position:
            self._hold(position, data)
            while self._held_bytes > MAX_HELD_BYTES:
                yield from self._lose(self._positions[0])
        elif position + len(data) > self.position:
            yield from self._deliver(position, data)

    def acknowledge(self, sequence: int) -> Iterator[bytes | Hole]:
        """Process an acknowledgment of the other side, which has received all bytes before `sequence`."""
        position = self.position_of(sequence)
        if self._end is not None:
            position = min(position, self._end)
        # A single byte after all captured ones can be the FIN.
        while position > self.position and (self._positions or position > self.position + 1):
            yield from self._lose(min(position, self._positions[0]) if self._positions else position)

    def finish(self) -> Iterator[bytes | Hole]:
        """Yield everything that waits for an earlier segment."""
        while self._positions:
            yield from self._lose(self._positions[0])

    def _hold(self, position: int, data: bytes) -> None:
        known = self._held.get(position)
        if known is None and data:
            heapq.heappush(self._positions, position)
            self._held_bytes += SEGMENT_COST
        if len(data) > len(known or b""):
            self._held_bytes += len(data) - len(known or b"")
            self._held[position] = data

    def _lose(self, position: int) -> Iterator[bytes | Hole]:
        """Give up the bytes before `position`."""
        yield Hole(position - self.position)
        self.position = position
        yield from self._deliver(position, b"")

    def _deliver(self, position: int, data: bytes) -> Iterator[bytes]:
        """Yield a segment that continues the stream, and all waiting segments that continue it then."""
        while True:
            if position + len(data) > self.position:
                fresh = data[self.position - position :]
                self.position += len(fresh)
                yield fresh
            if not self._positions or self._positions[0] > self.position:
                return
            position = heapq.heappop(self._positions)
            data = self._held.pop(position)
            self._held_bytes -= len(data) + SEGMENT_COST
