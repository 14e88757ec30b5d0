"""Define placeholders for bytes of a segment. A response with placeholders is built without reading these bytes.

`protocol.write_response` returns a list of buffers, and does not copy record data. A placeholder in
this list represents bytes of a segment, and has the same length. The memory of a placeholder is
never accessed. Instead of the placeholder, the connection sends the bytes of the segment.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from typing import Any

from .checked_batches import Span
from .served_partition import ServedPartition

LARGEST = 1 << 31
"""Length of the memory that is reserved for placeholders, in bytes.

The memory is never accessed, so the operating system allocates no pages.
"""
_reserved = mmap.mmap(-1, LARGEST, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
_view = memoryview(_reserved)


class FileRecords:
    """The bytes of segments in one response, in the order in which they are sent."""

    def __init__(self) -> None:
        self._spans: list[tuple[ServedPartition, Span]] = []

    def __len__(self) -> int:
        return len(self._spans)

    def add(self, partition: ServedPartition, spans: Sequence[Span]) -> list[Any]:
        """Add byte ranges of segments to the response, and return placeholders for the field `records`."""
        self._spans += [(partition, span) for span in spans]
        return [_view[: span.size] for span in spans]

    def __iter__(self) -> Any:
        return iter(self._spans)


def is_placeholder(buffer: bytes | memoryview) -> bool:
    """Return whether a buffer of a response is a placeholder for bytes of a segment."""
    return isinstance(buffer, memoryview) and buffer.obj is _reserved
