"""Define placeholders for bytes of a segment, so that a response is written without reading these bytes.

`protocol.write_response` does not copy record data, but returns a list of buffers. In this list, a
placeholder represents bytes of a segment. A placeholder is a view of memory that is never accessed.
The length of the view is the number of bytes. The connection sends bytes of the segment in place of
the placeholder.
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
