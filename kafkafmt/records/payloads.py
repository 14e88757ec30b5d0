"""Decompress the payloads of many batches into one buffer, the arena.

A single call of the core can then decode the records of all these batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._backend import core
from ..constants import CODEC_LZ4, CODEC_MASK, CODEC_NONE, CODEC_SNAPPY, MAGIC_V0, MAGIC_V2, MAX_OFFSET, XERIAL_MAGIC
from ..errors import KafkaFormatError, StructureError, UnsupportedError
from ..types import BATCH_DTYPE, BatchTable, Buffer, IntArray, view_of
from .lz4v0 import with_right_checksum

if TYPE_CHECKING:
    from ..codecs import Arena, Decompressor
    from .odd_ends import OddEnd
    from .small_payloads import SmallPayloads

NO_ROWS = np.empty(0, np.int64)
_XERIAL_START = XERIAL_MAGIC[:4]
ARENA_BYTES = 768 * 1024
"""Number of decompressed bytes that are decoded in one call. The data must fit into a CPU cache."""


class Decompressed(NamedTuple):
    """Consecutive batches whose payloads are in the arena. They are valid until the next ones are requested."""

    source: memoryview
    """The used part of the arena."""
    begin: int
    """Index of the first batch in the table of all batches."""
    table: BatchTable
    """Headers of the batches. Payload positions and sizes refer to `source`. The size of a payload that cannot be
    decompressed is -1.
    """
    errors: list[tuple[int, KafkaFormatError]]
    """Index in `table` and error of each payload that cannot be decompressed."""


class PayloadReader:
    """Decompresses the payloads of batches. Only one thread can use a reader at a time.

    `max_batch_bytes` is the largest size of one batch, in bytes after decompression.
    """

    def __init__(self, max_batch_bytes: int) -> None:
        self._max_batch_bytes = max_batch_bytes
        self.decompressed_bytes: int = 0
        """Total size of the decompressed batches, in bytes."""
        self.odd_ends: list[OddEnd] = []
        """Batches with an odd end that were read so far."""
        self._errors: dict[tuple[int, int], KafkaFormatError] = {}
        """Results of `_error_without_header`, by codec and magic."""

    @cached_property
    def _arena(self) -> Arena:
        from ..codecs import Arena

        return Arena()

    @cached_property
    def _decompressor(self) -> Decompressor:
        # `codecs` is imported only when necessary, because it imports the compression packages.
        from ..codecs import Decompressor

        return Decompressor(self._max_batch_bytes)

    @property
    def seconds(self) -> float:
        """Number of seconds that decompression has taken."""
        # The decompressor is not created before the first compressed batch is read.
        return self._decompressor.seconds if "_decompressor" in self.__dict__ else 0.0

    def refused(self, buffer: Buffer, table: BatchTable) -> Iterator[tuple[IntArray, KafkaFormatError]]:
        """Find payloads that certainly cannot be decompressed.

        These are payloads with an unknown codec, payloads that do not begin with a header of their codec, and
        small corrupted snappy blocks. Yield the indexes of batches in `table`, and the error that `read` would
        return for each of them. A hostile writer can create many such payloads. Calling a decompressor for
        each of them would take ten times as long.
        """
        # `codecs` is imported only when necessary, because it imports the compression packages.
        from ..codecs import lacks_header, snappy_error
        from .small_payloads import SMALL_SNAPPY, SMALLEST, first_bytes, small_payloads

        codecs, magics = (table["attributes"] & CODEC_MASK).astype(np.int64), table["magic"].view(np.uint8)
        starts, sizes, data = table["payload_position"], table["payload_size"], np.frombuffer(view_of(buffer), np.uint8)
        inside = (starts >= 0) & (starts <= len(data) - SMALLEST) & (magics <= MAGIC_V2)
        rows = np.flatnonzero((codecs != CODEC_NONE) & (sizes >= SMALLEST) & inside)
        starts_of_data = first_bytes(data, starts[rows])
        kinds = codecs[rows] << 8 | magics[rows]
        for kind in np.unique(kinds).tolist():
            same = kinds == kind
            found = rows[same][lacks_header(kind >> 8, starts_of_data[same])]
            if len(found):
                yield found, self._error_without_header(kind >> 8, kind & 0xFF)
        rows = small_payloads(CODEC_SNAPPY, codecs, table, SMALL_SNAPPY, len(data))
        # The blocks of a xerial stream can be valid although other bytes follow them.
        rows = rows[sizes[rows] >= len(_XERIAL_START)]
        rows = rows[first_bytes(data, starts[rows]) != int.from_bytes(_XERIAL_START, "little")]
        faults, limit = np.empty(len(rows), np.int8), self._max_batch_bytes
        core.check_snappy(buffer, starts[rows], sizes[rows], len(rows), min(limit, MAX_OFFSET), faults)
        for fault in np.unique(faults[faults > 0]).tolist():
            yield rows[faults == fault], snappy_error(fault, limit)

    def _error_without_header(self, codec: int, magic: int) -> KafkaFormatError:
        """Return the error for a payload of at least SMALLEST bytes that does not begin with a header of the codec."""
        if (codec, magic) not in self._errors:
            from .small_payloads import SMALLEST

            row = np.zeros(1, BATCH_DTYPE)
            row["attributes"], row["magic"], row["payload_size"] = codec, magic, SMALLEST
            ((_, error),) = next(self.read(bytes(SMALLEST), row)).errors
            self._errors[codec, magic] = error
        return self._errors[codec, magic]

    def read(
        self, buffer: Buffer, table: BatchTable, stop_at_errors: bool = False, skip_refused: bool = False
    ) -> Iterator[Decompressed]:
        """Decompress the payloads of the batches in `table`, in order. Each item has about ARENA_BYTES of payloads.

        If `stop_at_errors` is True, an item also ends after a payload that cannot be decompressed. If
        `skip_refused` is True, the items contain no errors for the payloads that `refused` yields. Uncompressed
        payloads are copied, because one call of the core decodes only batches in the same buffer. The positions
        in `table` refer to `buffer`.
        """
        from .small_payloads import SmallPayloads

        arena = self._arena
        refused = (
            np.concatenate([NO_ROWS, *(rows for rows, _ in self.refused(buffer, table))]) if skip_refused else None
        )
        small = SmallPayloads(buffer, table, self._max_batch_bytes, refused)
        compressed = (table["attributes"] & CODEC_MASK) != CODEC_NONE
        magics: list[int] = table["magic"].tolist()
        begin = 0
        while begin < len(table):
            arena.filled = 0
            placed, errors = self._fill(table, magics, begin, small, stop_at_errors)
            end = begin + len(placed)
            lengths = np.array(placed, np.int64)
            found = np.maximum(lengths, 0)
            self.decompressed_bytes += int(found[compressed[begin:end]].sum())
            moved = np.empty(len(placed), BATCH_DTYPE)
            moved.view(np.uint8)[:] = table[begin:end].view(np.uint8)
            moved["payload_position"], moved["payload_size"] = np.cumsum(found) - found, lengths
            yield Decompressed(arena.view[: arena.filled], begin, moved, errors)
            begin = end

    def _fill(
        self, table: BatchTable, magics: list[int], begin: int, small: SmallPayloads, stop_at_errors: bool
    ) -> tuple[list[int], list[tuple[int, KafkaFormatError]]]:
        """Fill the arena with the payloads from index `begin` on. `magics` contains the magic of each batch.

        Return the size of each payload in the arena, or -1 for a payload with an error. Also return
        each error, with the index of its payload in the list of sizes.
        """
        arena = self._arena
        placed: list[int] = []
        errors: list[tuple[int, KafkaFormatError]] = []
        with self._decompressor.reserved() as decompress:
            row = begin
            while row < len(magics) and arena.filled < ARENA_BYTES and not (stop_at_errors and errors):
                result: int | KafkaFormatError
                sizes, failed = small.decompress(row, arena, ARENA_BYTES, stop_at_errors=True)
                if failed:
                    result = failed[0][1]
                elif sizes:
                    result = sizes[-1]
                else:
                    result = self._append(decompress, magics[row], small.codecs[row], small.payload(row))
                placed += sizes[:-1]
                row = begin + len(placed)
                if isinstance(result, KafkaFormatError):
                    result = self._with_odd_end(table[row], small.payload(row), result)
                if isinstance(result, KafkaFormatError):
                    errors.append((len(placed), result))
                    result = -1
                placed.append(result)
                row += 1
        return placed, errors

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
