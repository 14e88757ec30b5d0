"""Decompress many small payloads together.

A separate call of a decompressor for each of them would take two to four times as long. Results and
errors are the same as those of `codecs.Decompressor`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from itertools import repeat
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from .._backend import core
from ..codecs import (
    GZIP_MAGIC,
    INCOMPLETE_GZIP,
    INCOMPLETE_LZ4,
    Arena,
    decompress_lz4_frame,
    decompression_error,
    lacks_header,
    snappy_error,
)
from ..constants import (
    CODEC_GZIP,
    CODEC_LZ4,
    CODEC_MASK,
    CODEC_NONE,
    CODEC_SNAPPY,
    FAULT_GZIP_INCOMPLETE,
    GZIP_FAULTS,
    GZIP_HEADER,
    GZIP_WBITS,
    MAGIC_V0,
    MAX_OFFSET,
)
from ..errors import KafkaFormatError, StructureError
from ..types import BatchTable, Buffer, IntArray, byte_view, view_of

SMALLEST = 16
"""Smallest size in bytes of gzip and lz4 data in `SmallPayloads`. If data is shorter, the error message depends on its
size.
"""
SMALL_GZIP = 256
"""Largest size of gzip data, in bytes, that the core or zlib decompresses although isal is installed. For small data,
they are faster, because each decompressor of isal takes 87 KB.
"""
SMALL_GZIP_RESULT = 1032 * SMALL_GZIP
"""Largest size of small gzip data after decompression, in bytes. A byte of gzip data contains at most four copies of
258 bytes of earlier output.
"""
SMALL_GZIP_BUFFER = 4096
"""Size in bytes of the buffer that zlib allocates first for small gzip data. It grows if necessary."""
SMALL_LZ4 = 1024
"""Largest size in bytes of lz4 data that is decompressed together with other payloads."""
SMALL_LZ4_RESULT = 255 * SMALL_LZ4
"""Largest size of small lz4 data after decompression, in bytes. A byte of lz4 data adds at most 255 bytes to a copy of
earlier output.
"""
SMALL_SNAPPY = 1024
"""Largest size in bytes of snappy data that the core checks and decompresses. For larger data, the decompressor of a
library is faster.
"""
SMALL_PLAIN = 16 * 1024
"""Largest size in bytes of an uncompressed payload that is joined with other payloads, and not copied directly."""
MOST = 64
"""Largest number of payloads that libraries decompress before their results are copied. The results of 64 payloads take
at most 17 MB.
"""
_GZIP_FLAGS_AT = 3
"""Position of the flags in the header of gzip data."""
_GZIP_RESERVED_FLAGS = 0xE0
"""Flags that RFC 1952 reserves. zlib rejects data with these flags. isal accepts it, as Kafka's Java client does."""
_PLAIN_GZIP_HEADER = int.from_bytes(GZIP_HEADER, "little")
"""First four bytes of gzip data that the core can decompress, because its header has no optional fields."""
_LZ4_MAGIC = 0x184D2204
_LZ4_FLAGS_AT = 4
"""Position of the flags in the header of an lz4 frame."""
_LZ4_FLAGS_MASK = 0b11001011
_LZ4_FLAGS = 0b01000000
"""The only accepted value of the masked flags: version 1, without the size of the content and without a dictionary.
lz4 would allocate as many bytes as the header states.
"""
_NOT_SMALL, _BY_LIBRARIES, _BY_CORE = range(3)
"""Groups of payloads. `SmallPayloads` decompresses a payload only together with payloads of the same group."""
_REFUSED = -1
"""Value that `SmallPayloads` uses as the codec of a payload that certainly cannot be decompressed."""


class SmallPayloads:
    """Decompresses the small payloads of a table of batches.

    Parameters
    ----------
    buffer : bytes-like
        The buffer to which the positions in `table` refer.
    table : BatchTable
        The batches.
    limit : int
        Largest size of a payload after decompression, in bytes.
    refused : array of int64, optional
        Indexes of payloads that certainly cannot be decompressed. `decompress` returns no errors for these
        payloads.

    Attributes
    ----------
    codecs : list of int
        The codec id of each payload.
    """

    def __init__(self, buffer: Buffer, table: BatchTable, limit: int, refused: IntArray | None = None) -> None:
        self._buffer, self._view, self._limit = buffer, byte_view(buffer), limit
        self._errors: dict[tuple[int, str | int], KafkaFormatError] = {}
        """The errors that were created. Each key is a codec, and the message of a library or a fault of the core."""
        codecs = (table["attributes"] & CODEC_MASK).astype(np.int64)
        self._positions = np.ascontiguousarray(table["payload_position"])
        self._sizes = np.ascontiguousarray(table["payload_size"])
        self.codecs: list[int] = codecs.tolist()
        self._starts: list[int] = self._positions.tolist()
        self._ends: list[int] = (self._positions + self._sizes).tolist()
        data = np.frombuffer(view_of(buffer), np.uint8)
        groups = np.full(len(table), _NOT_SMALL)
        present = set(self.codecs)  # avoid calls of numpy, because the table is often small
        default_group = _BY_CORE
        if CODEC_LZ4 in present:
            # The core cannot decompress lz4 data. If the table contains lz4 data, libraries also decompress its gzip
            # data. Otherwise, the group would often change from one payload to the next.
            default_group = _BY_LIBRARIES
            groups[_lz4_frames(data, codecs, table, limit)] = default_group
        if CODEC_NONE in present:
            groups[(codecs == CODEC_NONE) & (self._sizes <= SMALL_PLAIN)] = default_group
        if CODEC_GZIP in present:
            rows = _gzip_members(data, codecs, table, limit)
            has_fields = first_bytes(data, table["payload_position"][rows]) != _PLAIN_GZIP_HEADER
            groups[rows] = np.where(has_fields, _BY_LIBRARIES, default_group)
        if CODEC_SNAPPY in present:
            groups[small_payloads(CODEC_SNAPPY, codecs, table, SMALL_SNAPPY, len(data))] = _BY_CORE
        if refused is not None:
            codecs[refused], groups[refused] = _REFUSED, default_group
        self._kinds = codecs
        self._groups: list[int] = groups.tolist()
        self._run_ends: list[int] = [*(np.flatnonzero(groups[1:] != groups[:-1]) + 1).tolist(), len(table)]
        """Index after the last payload of each run of payloads of the same group."""
        self._run = 0

    def payload(self, row: int) -> memoryview:
        """Return the payload with index `row`."""
        return self._view[self._starts[row] : self._ends[row]]

    def decompress(
        self, row: int, arena: Arena, room: int, stop_at_errors: bool
    ) -> tuple[list[int], list[tuple[int, KafkaFormatError]]]:
        """Decompress the payload with index `row`, and payloads directly after it. Append the results to `arena`.

        `row` must not be lower than in earlier calls. The results of the core take at most `room` bytes.

        Return the size of each result in bytes, or -1 for an error. Also return each error, with its
        index in the list of sizes. Equal errors are the same object. If `stop_at_errors` is True,
        the first error ends the list of sizes. The list is empty if the first payload is not small, or if
        its result is larger than `room` or than the limit.
        """
        while self._run_ends[self._run] <= row:
            self._run += 1
        end = self._run_ends[self._run]
        if self._groups[row] == _BY_LIBRARIES:
            return self._by_libraries(row, min(end, row + MOST), arena, stop_at_errors)
        return self._by_core(row, end, arena, room, stop_at_errors) if self._groups[row] == _BY_CORE else ([], [])

    def _by_core(
        self, begin: int, end: int, arena: Arena, room: int, stop_at_errors: bool
    ) -> tuple[list[int], list[tuple[int, KafkaFormatError]]]:
        """Decompress payloads with indexes in [begin, end), like `decompress`."""
        kinds, count, limit = self._kinds[begin:end], end - begin, min(self._limit, MAX_OFFSET)
        sizes, faults = np.empty(count, np.int64), np.empty(count, np.int8)
        done, filled = core.decompress_payloads(
            self._buffer,
            self._positions[begin:end],
            self._sizes[begin:end],
            kinds,
            count,
            limit,
            stop_at_errors,
            arena.room(room),
            sizes,
            faults,
        )
        arena.filled += filled
        rows = np.flatnonzero(faults[:done])
        failed = zip(rows.tolist(), kinds[rows].tolist(), faults[rows].tolist(), strict=True)
        return sizes[:done].tolist(), [(i, self._error(codec, fault)) for i, codec, fault in failed]

    def _by_libraries(
        self, begin: int, end: int, arena: Arena, stop_at_errors: bool
    ) -> tuple[list[int], list[tuple[int, KafkaFormatError]]]:
        """Decompress payloads with indexes in [begin, end), like `decompress`."""
        payloads = list(map(self._view.__getitem__, map(slice, self._starts[begin:end], self._ends[begin:end])))
        kinds: list[int] = self._kinds[begin:end].tolist()
        found = set(kinds)
        if len(found) == 1:
            results, sizes, errors = self._decompress_equal(kinds[0], payloads)
        else:
            results, sizes, errors = [b""] * len(kinds), [0] * len(kinds), []
            for kind in found:
                rows = [i for i, other in enumerate(kinds) if other == kind]
                parts, part_sizes, part_errors = self._decompress_equal(kind, [payloads[i] for i in rows])
                for i, part, size in zip(rows, parts, part_sizes, strict=True):
                    results[i], sizes[i] = part, size
                errors += ((rows[i], error) for i, error in part_errors)
            errors.sort(key=itemgetter(0))
        if stop_at_errors and errors:
            end = errors[0][0] + 1
            del results[end:], sizes[end:], errors[1:]
        arena.append(b"".join(results))
        return sizes, errors

    def _decompress_equal(
        self, kind: int, payloads: list[memoryview]
    ) -> tuple[list[Any], list[int], list[tuple[int, KafkaFormatError]]]:
        """Decompress payloads of one codec. Return the results, their sizes, and the index of each error with the error.

        If a payload cannot be decompressed, its result is empty, and its size is -1.
        """
        if kind == CODEC_NONE:
            return payloads, list(map(len, payloads)), []
        if kind == _REFUSED:
            return [b""] * len(payloads), [-1] * len(payloads), []
        calls: Iterable[bytes]
        if kind == CODEC_GZIP:
            calls = map(zlib.decompress, payloads, repeat(GZIP_WBITS), repeat(SMALL_GZIP_BUFFER))
        else:
            calls = map(decompress_lz4_frame, payloads)
        results: list[bytes] = []
        errors: list[tuple[int, KafkaFormatError]] = []
        while True:
            try:
                for result in calls:
                    results.append(result)
                break
            except (zlib.error, RuntimeError) as error:  # `calls` continues with the next payload.
                errors.append((len(results), self._error(kind, str(error))))
                results.append(b"")
        sizes = list(map(len, results))
        for i, _ in errors:
            sizes[i] = -1
        return results, sizes, errors

    def _error(self, codec: int, reason: str | int) -> KafkaFormatError:
        """Return the error for the message of a library, or for a fault that the core found."""
        error = self._errors.get((codec, reason))
        if error is None:
            if isinstance(reason, str):
                error = _library_error(codec, reason)
            else:
                error = snappy_error(reason, self._limit) if codec == CODEC_SNAPPY else _gzip_error(reason)
            self._errors[codec, reason] = error
        return error


def _gzip_error(fault: int) -> KafkaFormatError:
    """Create the error for an index of GZIP_FAULTS. The error is the same as for zlib's message."""
    if fault == FAULT_GZIP_INCOMPLETE:
        return StructureError(INCOMPLETE_GZIP)
    return decompression_error(CODEC_GZIP, f"Error -3 while decompressing data: {GZIP_FAULTS[fault]}")


def _library_error(codec: int, message: str) -> KafkaFormatError:
    """Create the error for a message of zlib or lz4."""
    # zlib.error has no attribute for the error code. Z_BUF_ERROR is -5.
    if codec == CODEC_GZIP and message.startswith("Error -5 "):
        return StructureError(INCOMPLETE_GZIP)
    if codec == CODEC_LZ4 and message.startswith("Frame incomplete"):
        return StructureError(INCOMPLETE_LZ4)
    return decompression_error(codec, message)


def small_payloads(codec: int, codecs: IntArray, table: BatchTable, largest: int, end: int) -> IntArray:
    """Return the indexes of payloads with the given codec that have at most `largest` bytes and end before `end`."""
    rows = np.flatnonzero((codecs == codec) & (table["payload_size"] <= largest))
    starts, sizes = table["payload_position"][rows], table["payload_size"][rows].astype(np.int64)
    found: IntArray = rows[(sizes > 0) & (starts >= 0) & (starts <= end - sizes)]
    return found


def first_bytes(data: npt.NDArray[np.uint8], positions: IntArray) -> npt.NDArray[np.uint32]:
    """Return the four bytes at each position as a little-endian number."""
    found: npt.NDArray[np.uint32] = data[positions[:, np.newaxis] + np.arange(4)].view("<u4")[:, 0]
    return found


def _gzip_members(data: npt.NDArray[np.uint8], codecs: IntArray, table: BatchTable, limit: int) -> IntArray:
    """Return the indexes of small gzip payloads with only one gzip header, and with a small or unknown result.

    The last four bytes of gzip data contain the size of the result. It can be wrong if other bytes
    follow the data.
    """
    rows = small_payloads(CODEC_GZIP, codecs, table, SMALL_GZIP, len(data))
    rows = rows[table["payload_size"][rows] >= SMALLEST]
    if not len(rows) or limit < SMALL_GZIP_RESULT:  # only a decompressor checks the limit
        return rows[:0]
    starts, sizes = table["payload_position"][rows], table["payload_size"][rows]
    several = np.empty(len(rows), np.int64)
    n = core.find_spans(data, starts + 1, sizes - 1, len(rows), GZIP_MAGIC, False, several)
    stated = data[(starts + sizes)[:, np.newaxis] - np.arange(4, 0, -1)].view("<u4")[:, 0]
    # If the last four bytes are no possible size, the data is corrupted or has other bytes after it.
    chosen = (stated <= SMALL_GZIP_BUFFER) | (stated > SMALL_GZIP_RESULT)
    chosen[several[:n]] = False
    flags = data[starts + _GZIP_FLAGS_AT]
    chosen &= (flags & _GZIP_RESERVED_FLAGS == 0) | lacks_header(CODEC_GZIP, first_bytes(data, starts))
    found: IntArray = rows[chosen]
    return found


def _lz4_frames(data: npt.NDArray[np.uint8], codecs: IntArray, table: BatchTable, limit: int) -> IntArray:
    """Return the indexes of small lz4 payloads that begin with the header of a frame as Kafka's clients write it."""
    rows: IntArray = small_payloads(CODEC_LZ4, codecs, table, SMALL_LZ4, len(data))
    rows = rows[table["payload_size"][rows] >= SMALLEST]
    rows = rows[table["magic"][rows] != MAGIC_V0]  # in format 0, the checksum in the header is wrong
    if not len(rows) or limit < SMALL_LZ4_RESULT:  # only a decompressor checks the limit
        return rows[:0]
    starts = table["payload_position"][rows]
    chosen = (data[starts + _LZ4_FLAGS_AT] & _LZ4_FLAGS_MASK) == _LZ4_FLAGS
    chosen &= first_bytes(data, starts) == _LZ4_MAGIC
    found: IntArray = rows[chosen]
    return found
