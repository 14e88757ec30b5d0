"""Decompress the payloads of many batches into one buffer, the arena.

A single call of the core can then decode the records of all these batches.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from .._backend import core
from ..constants import CODEC_GZIP, CODEC_LZ4, CODEC_MASK, CODEC_NONE, CODEC_SNAPPY, MAGIC_V0, MAGIC_V2, MAX_OFFSET
from ..errors import KafkaFormatError, UnsupportedError
from ..types import BATCH_DTYPE, BatchTable, Buffer, IntArray, byte_view, view_of
from .lz4v0 import with_right_checksum

if TYPE_CHECKING:
    from ..codecs import Arena, Decompressor

CHECKED_BYTES = 16
"""Smallest size in bytes of a payload whose header `PayloadReader.refused` checks. If a payload is shorter, the
error message depends on its size.
"""
SMALL_SNAPPY = 1024
"""Largest size in bytes of snappy data that the core checks and decompresses. For larger data, the decompressor of a
library is faster.
"""
SMALL_PLAIN = 16 * 1024
"""Largest size in bytes of an uncompressed payload that is joined with other payloads, and not copied directly."""
_REFUSED = -1
"""Value that `PayloadReader.read` uses as the codec of a payload that certainly cannot be decompressed."""
_GZIP_MEMBER = -2
"""Value that `PayloadReader.read` uses as the codec of small gzip data with only one gzip header."""
_SMALL_SNAPPY = -3
"""Value that `PayloadReader.read` uses as the codec of small snappy data."""
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
        small corrupted snappy data. Yield the indexes of batches in `table`, and the error that `read` would
        return for each of them. A hostile writer can create many such payloads. Calling a decompressor for
        each of them would take ten times as long.
        """
        # `codecs` is imported only when necessary, because it imports the compression packages.
        from ..codecs import lacks_header, snappy_error

        codecs, magics = (table["attributes"] & CODEC_MASK).astype(np.int64), table["magic"].view(np.uint8)
        starts, sizes, data = table["payload_position"], table["payload_size"], np.frombuffer(view_of(buffer), np.uint8)
        inside = (starts >= 0) & (starts <= len(data) - CHECKED_BYTES) & (magics <= MAGIC_V2)
        rows = np.flatnonzero((codecs != CODEC_NONE) & (sizes >= CHECKED_BYTES) & inside)
        first_bytes = _first_bytes(data, starts[rows])
        kinds = codecs[rows] << 8 | magics[rows]
        for kind in np.unique(kinds).tolist():
            same = kinds == kind
            found = rows[same][lacks_header(kind >> 8, first_bytes[same])]
            if len(found):
                yield found, self._error_without_header(kind >> 8, kind & 0xFF)
        rows = _small_payloads(CODEC_SNAPPY, codecs, table, SMALL_SNAPPY, len(data))
        faults, limit = np.empty(len(rows), np.int8), self._max_batch_bytes
        core.check_snappy(buffer, starts[rows], sizes[rows], len(rows), min(limit, MAX_OFFSET), faults)
        for fault in np.unique(faults[faults > 0]).tolist():
            yield rows[faults == fault], snappy_error(fault, limit)

    def _error_without_header(self, codec: int, magic: int) -> KafkaFormatError:
        """Return the error for a payload of at least CHECKED_BYTES that does not begin with a header of the codec."""
        if (codec, magic) not in self._errors:
            row = np.zeros(1, BATCH_DTYPE)
            row["attributes"], row["magic"], row["payload_size"] = codec, magic, CHECKED_BYTES
            ((_, error),) = next(self.read(bytes(CHECKED_BYTES), row)).errors
            self._errors[codec, magic] = error
        return self._errors[codec, magic]

    def read(
        self, buffer: Buffer, table: BatchTable, stop_at_errors: bool = False, ignore_errors: bool = False
    ) -> Iterator[Decompressed]:
        """Decompress the payloads of the batches in `table`, in order. Each item has about ARENA_BYTES of payloads.

        If `stop_at_errors` is True, an item also ends after a payload that cannot be decompressed. If
        `ignore_errors` is True, the items contain no errors. Uncompressed payloads are copied, because
        one call of the core decodes only batches in the same buffer. The positions in `table` refer to
        `buffer`.
        """
        view, arena = byte_view(buffer), self._arena
        codecs = (table["attributes"] & CODEC_MASK).astype(np.int64)
        codecs[self._gzip_members(view, codecs, table)] = _GZIP_MEMBER
        snappy = _SnappyRuns(view, table, _small_payloads(CODEC_SNAPPY, codecs, table, SMALL_SNAPPY, len(view)))
        codecs[snappy.rows] = _SMALL_SNAPPY
        if ignore_errors:
            for refused, _ in self.refused(buffer, table):
                codecs[refused] = _REFUSED
        starts = table["payload_position"]
        ends = starts + table["payload_size"]
        rows = zip(*(column.tolist() for column in (table["magic"], codecs, starts, ends)), strict=True)
        begin = 0
        while begin < len(table):
            arena.filled = 0
            placed, errors = self._fill(view, rows, begin, snappy, stop_at_errors)
            end = begin + len(placed)
            lengths = np.array(placed, np.int64)
            found = np.maximum(lengths, 0)
            self.decompressed_bytes += int(found[codecs[begin:end] != CODEC_NONE].sum())
            moved = np.empty(len(placed), BATCH_DTYPE)
            moved.view(np.uint8)[:] = table[begin:end].view(np.uint8)
            moved["payload_position"], moved["payload_size"] = np.cumsum(found) - found, lengths
            yield Decompressed(arena.view[: arena.filled], begin, moved, [] if ignore_errors else errors)
            begin = end

    def _fill(
        self,
        view: memoryview,
        rows: Iterator[tuple[int, int, int, int]],
        begin: int,
        snappy: _SnappyRuns,
        stop_at_errors: bool,
    ) -> tuple[list[int], list[tuple[int, KafkaFormatError]]]:
        """Fill the arena with the payloads of the next batches.

        `rows` yields the magic, codec, start and end of each payload. `begin` is the index of the first one.
        Return the size of each payload in the arena, or -1 for a payload with an error. Also return
        each error, with the index of its payload in the list of sizes.
        """
        from ..codecs import GZIP_WBITS, SMALL_GZIP_BUFFER, small_gzip_error

        arena = self._arena
        placed: list[int] = []
        errors: list[tuple[int, KafkaFormatError]] = []
        # Joining many small payloads takes less time than copying each of them into the arena.
        collected: list[bytes | memoryview] = []
        total = 0
        with self._decompressor.reserved() as decompress:
            for magic, codec, start, end in rows:
                payload = view[start:end]
                small: bytes | memoryview | None = None
                result: int | KafkaFormatError
                if codec == _GZIP_MEMBER:
                    # A Python function that calls zlib would take 5 % longer.
                    try:
                        small = zlib.decompress(payload, GZIP_WBITS, SMALL_GZIP_BUFFER)
                    except zlib.error as error:
                        result = small_gzip_error(error)
                elif codec == CODEC_NONE and end - start <= SMALL_PLAIN:
                    small = payload
                elif codec == _SMALL_SNAPPY:
                    if collected:
                        arena.append(b"".join(collected))
                        collected = []
                    sizes = snappy.decompress(begin + len(placed), self._max_batch_bytes, arena)
                    if sizes:
                        placed += sizes
                        total += sum(sizes)
                        next(islice(rows, len(sizes) - 1, len(sizes) - 1), None)  # skip the other rows of the run
                        if total >= ARENA_BYTES:
                            break
                        continue
                    codec = CODEC_SNAPPY
                if small is not None:
                    collected.append(small)
                    size = len(small)
                    total += size
                elif codec == _REFUSED:
                    size = -1
                else:
                    if codec != _GZIP_MEMBER:
                        if collected:
                            arena.append(b"".join(collected))
                            collected = []
                        result = self._append(decompress, magic, codec, payload)
                    if isinstance(result, KafkaFormatError):
                        errors.append((len(placed), result))
                        size = -1
                    else:
                        size = result
                        total += size
                placed.append(size)
                if total >= ARENA_BYTES or (stop_at_errors and errors):
                    break
        arena.append(b"".join(collected))
        return placed, errors

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

    def _gzip_members(self, buffer: Buffer, codecs: IntArray, table: BatchTable) -> IntArray:
        """Return the indexes of small gzip payloads with only one gzip header, and with a small or unknown result.

        `codecs` contains all codec ids. The last four bytes of gzip data contain the size of the result. It can be
        wrong if other bytes follow the data.
        """
        from ..codecs import (
            GZIP_FLAGS_AT,
            GZIP_MAGIC,
            GZIP_RESERVED_FLAGS,
            SMALL_GZIP,
            SMALL_GZIP_BUFFER,
            SMALL_GZIP_RESULT,
            lacks_header,
        )

        data = np.frombuffer(view_of(buffer), np.uint8)
        rows = _small_payloads(CODEC_GZIP, codecs, table, SMALL_GZIP, len(data))
        rows = rows[table["payload_size"][rows] >= CHECKED_BYTES]
        if not len(rows) or self._max_batch_bytes < SMALL_GZIP_RESULT:  # only a decompressor checks the limit
            return rows[:0]
        starts, sizes = table["payload_position"][rows], table["payload_size"][rows]
        several = np.empty(len(rows), np.int64)
        n = core.find_spans(buffer, starts + 1, sizes - 1, len(rows), GZIP_MAGIC, False, several)
        stated = data[(starts + sizes)[:, np.newaxis] - np.arange(4, 0, -1)].view("<u4")[:, 0]
        # If the last four bytes are no possible size, the data is corrupted or has other bytes after it.
        chosen = (stated <= SMALL_GZIP_BUFFER) | (stated > SMALL_GZIP_RESULT)
        chosen[several[:n]] = False
        # isal accepts data with reserved flags, as Kafka's Java client does.
        flags = data[starts + GZIP_FLAGS_AT]
        chosen &= (flags & GZIP_RESERVED_FLAGS == 0) | lacks_header(CODEC_GZIP, _first_bytes(data, starts))
        found: IntArray = rows[chosen]
        return found


class _SnappyRuns:
    """Decompresses consecutive payloads of small snappy data together.

    Attributes
    ----------
    rows : array of int64
        The indexes of the payloads in the table.
    """

    def __init__(self, buffer: Buffer, table: BatchTable, rows: IntArray) -> None:
        self.rows = rows
        self._buffer = buffer
        self._positions, self._lengths = table["payload_position"][rows], table["payload_size"][rows]
        self._ends = np.append(np.flatnonzero(np.diff(rows) != 1) + 1, len(rows))
        """Index after the last payload of each run."""

    def decompress(self, row: int, limit: int, arena: Arena) -> list[int]:
        """Decompress the payload with index `row` and the payloads after it. Return the size of each result in bytes.

        The list ends before a payload that cannot be decompressed, or whose result does not fit into the
        arena.
        """
        i = int(np.searchsorted(self.rows, row))
        end = int(self._ends[np.searchsorted(self._ends, i, "right")])
        sizes = np.empty(end - i, np.int64)
        positions, lengths, room = self._positions[i:end], self._lengths[i:end], arena.room(ARENA_BYTES)
        n, filled = core.decompress_snappy(
            self._buffer, positions, lengths, end - i, min(limit, MAX_OFFSET), room, sizes
        )
        arena.filled += filled
        found: list[int] = sizes[:n].tolist()
        return found


def _first_bytes(data: npt.NDArray[np.uint8], positions: IntArray) -> npt.NDArray[np.uint32]:
    """Return the four bytes at each position as a little-endian number."""
    found: npt.NDArray[np.uint32] = data[positions[:, np.newaxis] + np.arange(4)].view("<u4")[:, 0]
    return found


def _small_payloads(codec: int, codecs: IntArray, table: BatchTable, largest: int, end: int) -> IntArray:
    """Return the indexes of payloads with the given codec that have at most `largest` bytes and end before `end`."""
    rows = np.flatnonzero((codecs == codec) & (table["payload_size"] <= largest))
    starts, sizes = table["payload_position"][rows], table["payload_size"][rows].astype(np.int64)
    return rows[(sizes > 0) & (starts >= 0) & (starts <= end - sizes)]
