"""Decompress the payloads of many batches into one buffer, the arena.

A single call of the core can then decode the records of all these batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..constants import CODEC_LZ4, CODEC_MASK, CODEC_NONE, MAGIC_V0, MAGIC_V2
from ..errors import KafkaFormatError, StructureError, UnsupportedError
from ..types import BATCH_DTYPE, BatchTable, Buffer, byte_view
from .lz4v0 import with_right_checksum

if TYPE_CHECKING:
    from ..codecs.decompressor import Arena, Decompressor
    from .odd_ends import OddEnd

ARENA_BYTES = 3 << 19
"""Number of decompressed bytes that are decoded in one call. The data should fit into a CPU cache."""


class Decompressed(NamedTuple):
    """Consecutive batches whose payloads are in the arena. They are valid until the next ones are requested."""

    source: memoryview
    """The used part of the arena."""
    begin: int
    """Index of the first batch in the table of all batches."""
    table: BatchTable
    """Headers of the batches, with positions in `source`. The size of a payload with an error is -1."""
    errors: list[tuple[int, KafkaFormatError]]
    """Index in `table` and error of each payload that cannot be decompressed."""


class PayloadReader:
    """Decompresses the payloads of batches. Only one thread can use a reader at a time."""

    # `max_batch_bytes` is the largest size of one batch after decompression.

    def __init__(self, max_batch_bytes: int) -> None:
        self._max_batch_bytes = max_batch_bytes
        self.decompressed_bytes: int = 0
        """Total size of the decompressed batches, in bytes."""
        self.odd_ends: list[OddEnd] = []
        """Batches with an odd end that were read so far."""
        self._errors: dict[tuple[type, str], KafkaFormatError] = {}
        """The errors found so far, by class and message."""

    @cached_property
    def _arena(self) -> Arena:
        from ..codecs.decompressor import Arena

        return Arena()

    @cached_property
    def _decompressor(self) -> Decompressor:
        # `codecs` is imported only when necessary, because it imports the compression packages.
        from ..codecs.decompressor import Decompressor

        return Decompressor(self._max_batch_bytes)

    @property
    def seconds(self) -> float:
        # The decompressor is not created before the first compressed batch is read.
        return self._decompressor.seconds if "_decompressor" in self.__dict__ else 0.0

    def read(self, buffer: Buffer, table: BatchTable, stop_at_errors: bool = False) -> Iterator[Decompressed]:
        """Decompress the payloads of the batches in `table`, in order. Each item has about ARENA_BYTES."""
        # If `stop_at_errors` is True, an item also ends after a payload that cannot be
        # decompressed. Uncompressed payloads are copied, because one call of the core decodes only
        # batches in the same buffer.
        arena, view = self._arena, byte_view(buffer)
        copied = table["attributes"] & CODEC_MASK == CODEC_NONE
        moved, begin = np.empty(len(table), BATCH_DTYPE), 0
        while begin < len(table):
            arena.filled = 0
            end, errors = self._fill(view, table, moved, begin, stop_at_errors)
            self.decompressed_bytes += arena.filled - int(table["payload_size"][begin:end][copied[begin:end]].sum())
            yield Decompressed(arena.view[: arena.filled], begin, moved[begin:end], errors)
            begin = end

    def _fill(
        self, view: memoryview, table: BatchTable, moved: BatchTable, begin: int, stop_at_errors: bool
    ) -> tuple[int, list[tuple[int, KafkaFormatError]]]:
        """Fill the arena with the payloads of batches from index `begin` on, and store their rows in `moved`."""
        # Return the index of the next payload, and the errors with the indexes of their payloads
        # relative to `begin`.
        arena, row = self._arena, begin
        errors: list[tuple[int, KafkaFormatError]] = []
        with self._decompressor.reserved() as decompress:
            while not (stop_at_errors and errors):
                row = self._decompressor.append(view, table, moved, row, arena, ARENA_BYTES)
                if row == len(table) or arena.filled >= ARENA_BYTES:
                    break
                batch, position = table[row], arena.filled
                start = int(batch["payload_position"])
                payload = view[start : start + int(batch["payload_size"])]
                result = self._append(decompress, int(batch["magic"]), int(batch["attributes"] & CODEC_MASK), payload)
                if isinstance(result, KafkaFormatError):
                    result = self._with_odd_end(batch, payload, result)
                if isinstance(result, KafkaFormatError):
                    # There can be many errors, so equal ones are the same object.
                    errors.append((row - begin, self._errors.setdefault((type(result), result.message), result)))
                    result = -1
                moved[row] = batch
                moved["payload_position"][row], moved["payload_size"][row] = position, result
                row += 1
        return row, errors

    def _with_odd_end(self, batch: Any, payload: memoryview, error: KafkaFormatError) -> int | KafkaFormatError:
        """Append a refused payload to the arena if all its records are complete. Otherwise, return its error."""
        if not isinstance(error, StructureError):
            return error
        from .odd_ends import OddEnd, complete_prefix

        prefix = complete_prefix(payload, batch, self._max_batch_bytes)
        if prefix is None:
            return error
        self._arena.append(prefix.data)
        self.odd_ends.append(OddEnd(int(batch["position"]), prefix.oddity, prefix.java_reads))
        return len(prefix.data)

    def _append(
        self,
        decompress: Callable[[int, memoryview, Arena], int | KafkaFormatError],
        magic: int,
        codec: int,
        payload: memoryview,
    ) -> int | KafkaFormatError:
        """Append one payload to the arena. Return its decompressed size, or the error."""
        if codec == CODEC_NONE:
            self._arena.append(payload)
            return len(payload)
        if magic < MAGIC_V2 and codec > CODEC_LZ4:
            return UnsupportedError(f"codec {codec} is not supported in format {magic}")
        if magic == MAGIC_V0 and codec == CODEC_LZ4:
            payload = memoryview(with_right_checksum(payload))
        return decompress(codec, payload, self._arena)
