"""Define the parts of a response: bytes in memory, and bytes of segments."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from .checked_batches import Span
from .served_partition import ServedPartition


class FilePart:
    """Bytes of a segment that were not sent yet. `span` has all bytes that belong to the response."""

    __slots__ = ("partition", "position", "size", "span")

    def __init__(self, partition: ServedPartition, span: Span) -> None:
        self.partition: ServedPartition = partition
        self.span: Span = span
        self.position: int = span.position
        self.size: int = span.size


Parts = deque[memoryview | FilePart]
"""The parts of a response, in the order in which they are sent."""


def parts_of(buffers: Iterable[bytes | memoryview]) -> Parts:
    """Return the parts of a response that is completely in memory."""
    return deque([memoryview(b"".join(buffers))])
