"""Read the offsets of the messages inside wrapper messages (formats 0 and 1).

The offset field of a wrapper message contains the offset of its last inner message. The CRC of the
wrapper message does not cover this field, so the field can be wrong even if the CRC matches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._backend import core
from ..constants import CODEC_MASK, DEFAULT_MAX_BATCH_BYTES
from ..errors import KafkaFormatError
from ..types import BatchTable, Buffer, IntArray, byte_view
from .reader import ARENA_BYTES, legacy_payload

if TYPE_CHECKING:
    from ..codecs import Arena, Decompressor


class InnerOffsets(NamedTuple):
    """Offsets and counts of inner messages, as arrays with one element per wrapper message.

    If the inner offsets of a wrapper message do not increase, its `first` and `last` describe an
    empty range: 2**63 - 1 and -2**63.
    """

    first: IntArray
    """First inner offset, or the value of the offset field if the wrapper message cannot be read."""
    last: IntArray
    """Highest inner offset, or the value of the offset field if the wrapper message cannot be read."""
    count: IntArray  # type: ignore[assignment]  # hides tuple.count
    """Number of inner messages, or -1 if the wrapper message cannot be read."""


class WrapperReader:
    """Reads the offsets inside wrapper messages. Only one thread can use a reader at a time."""

    def __init__(self, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES) -> None:
        self._max_batch_bytes = max_batch_bytes
        self._tools: tuple[Arena, Decompressor] | None = None

    def offsets(self, buffer: Buffer, table: BatchTable) -> InnerOffsets:
        """Return the inner offsets of each wrapper message in `table`.

        The positions in `table` refer to `buffer`.
        """
        if self._tools is None:
            # `codecs` is imported only when necessary, because it imports the compression packages.
            from ..codecs import Arena, Decompressor

            self._tools = Arena(), Decompressor(self._max_batch_bytes)
        arena, decompressor = self._tools
        view, decompress = byte_view(buffer), decompressor.decompress
        result = InnerOffsets(
            table["base_offset"].copy(), table["base_offset"].copy(), np.full(len(table), -1, np.int64)
        )
        rows: list[int] = []
        placed: list[tuple[int, int]] = []
        arena.filled = 0
        columns = (table[name].tolist() for name in ("magic", "attributes", "payload_position", "payload_size"))
        for i, (magic, attributes, start, size) in enumerate(zip(*columns, strict=True)):
            at, codec = arena.filled, attributes & CODEC_MASK
            try:
                placed.append((at, decompress(codec, legacy_payload(magic, codec, view[start : start + size]), arena)))
            except KafkaFormatError:
                continue
            rows.append(i)
            if arena.filled >= ARENA_BYTES:
                _read(arena, table, rows, placed, result)
                rows, placed = [], []
        if rows:
            _read(arena, table, rows, placed, result)
        return result


def _read(
    arena: Arena, table: BatchTable, rows: list[int], placed: list[tuple[int, int]], result: InnerOffsets
) -> None:
    """Write the offsets of the inner messages in the arena into `result`, and empty the arena.

    `rows` contains the rows of `table` whose messages are in the arena, and `placed` contains their
    positions and sizes in it.
    """
    moved, found = table[rows], InnerOffsets(*(np.empty(len(rows), np.int64) for _ in range(3)))
    moved["payload_position"], moved["payload_size"] = zip(*placed, strict=True)
    core.message_offsets(arena.view[: arena.filled], moved, *found)
    for target, values in zip(result, found, strict=True):
        target[rows] = values
    arena.filled = 0
