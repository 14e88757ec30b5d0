"""Records out of buffers that hold batches: tables of batches, columns of records.

Compressed batches are decompressed into an arena, many before one call of the core decodes them; uncompressed ones
are decoded where they lie. Either way a `Chunk` names the buffer that its spans index.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Generator, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._backend import core
from ..constants import (
    CODEC_LZ4,
    CODEC_MASK,
    DEFAULT_MAX_BATCH_BYTES,
    HEADER_MEMORY,
    MAGIC_V0,
    MAGIC_V2,
    MANY_HEADERS,
    MAX_OFFSET,
    MIN_OFFSET,
)
from ..errors import KafkaFormatError, StructureError, UnsupportedError
from ..types import BATCH_DTYPE, COLUMNS, BatchTable, Buffer, RecordColumns, Scan, byte_view, view_of
from .lz4v0 import with_right_checksum

if TYPE_CHECKING:
    from ..codecs import Arena, Decompressor

ARENA_BYTES = 768 * 1024
"""Decompressed bytes gathered before a call of the core; small enough to stay in a processor's cache."""
TABLE_ROWS = 4096
WINDOW_BYTES = 768 * 1024
"""How far batches are scanned before they are decoded: what the scan has read is then still in the cache."""

OnError = Callable[[Any, KafkaFormatError], None]
"""Called with the row of the table of batches that is at fault, and its error."""


class Chunk(NamedTuple):
    """Decoded records: `columns.rows` rows whose spans index `source`. Both are reused: valid until the next one.

    Where the columns collect (`CopiedColumns`), the rows of earlier chunks that nobody has taken stand before the new ones.
    """

    source: Buffer
    columns: RecordColumns


class RecordReader:
    """Decodes tables of batches into reused columns.

    names: the columns wanted, `capacity` rows a chunk; or the RecordColumns to fill. first_offset, end_offset: records
    in [first, end) only; if `end_offset` is None, there is no end.
    max_batch_bytes: what one batch may decompress to. One record may have a 128th as many headers (1,048,576 by default), but always
    131,072: headers of 2 bytes take about 100 bytes of memory each. Not for two threads at once.
    check_offsets: whether a batch with a negative last offset delta, or whose last offset does not fit into 64 bits, is an error.
    """

    def __init__(
        self,
        names: Collection[str] | RecordColumns = COLUMNS,
        *,
        capacity: int = 16384,
        first_offset: int = MIN_OFFSET,
        end_offset: int | None = None,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        check_offsets: bool = True,
    ) -> None:
        if max_batch_bytes < 1:
            raise ValueError("max_batch_bytes must be at least 1")
        self.columns: RecordColumns = names if isinstance(names, RecordColumns) else RecordColumns(capacity, names)
        self.columns.max_headers = max(MANY_HEADERS, max_batch_bytes // HEADER_MEMORY)
        if first_offset > MAX_OFFSET:
            first_offset = end_offset = MAX_OFFSET  # no record
        self.first_offset = first_offset
        self.end_offset: int | None = None if end_offset is None or end_offset > MAX_OFFSET else end_offset
        self._max_batch_bytes = max_batch_bytes
        self._check_offsets = check_offsets

    @cached_property
    def _arena(self) -> Arena:
        from ..codecs import Arena

        return Arena()

    @cached_property
    def _decompressor(self) -> Decompressor:
        from ..codecs import Decompressor  # whoever meets no compressed batch needs none of its packages

        return Decompressor(self._max_batch_bytes)

    @property
    def decompress_seconds(self) -> float:
        """Seconds spent on decompression."""
        return self._decompressor.seconds if "_decompressor" in self.__dict__ else 0.0  # not created for uncompressed data

    def read(self, buffer: Buffer, table: BatchTable, on_error: OnError | None = None) -> Iterator[Chunk]:
        """Yield the records of a table of batches in `buffer`, in order.

        A corrupted batch raises its error, or goes to `on_error` and is skipped whole. What precedes it has been
        yielded by then, so `on_error` may raise. Error positions are the buffer's; for a compressed batch, the batch's own.
        """
        base_offset = table["base_offset"]
        last_offset = base_offset + table["last_offset_delta"]
        impossible = last_offset < base_offset  # the delta is negative, or the sum has wrapped
        if self.first_offset > MIN_OFFSET or self.end_offset is not None:
            wanted = (
                (last_offset >= self.first_offset) | impossible | (base_offset < 0)
            )  # no offset is negative: a corrupted one
            if self.end_offset is not None:
                wanted &= base_offset < self.end_offset
            wanted |= table["count"] < 0  # a wrapper: its offset is that of its last message, and no CRC covers it
            table, impossible = table[wanted], impossible[wanted]
        begin = 0
        for at in np.flatnonzero(impossible).tolist() if self._check_offsets else ():
            yield from self._read_possible(buffer, table[begin:at], on_error)
            _fail(table[at], offset_range_error(table[at]), on_error)
            begin = at + 1
        yield from self._read_possible(buffer, table[begin:], on_error)

    def _read_possible(self, buffer: Buffer, table: BatchTable, on_error: OnError | None) -> Iterator[Chunk]:
        if not int(np.bitwise_or.reduce(table["attributes"])) & CODEC_MASK:
            yield from self._decode(buffer, table, table, on_error)
            return
        compressed = (table["attributes"] & CODEC_MASK) != 0
        borders = [0, *(np.flatnonzero(compressed[1:] != compressed[:-1]) + 1).tolist(), len(table)]
        for start, end in itertools.pairwise(borders):
            if compressed[start]:
                yield from self._read_compressed(buffer, table[start:end], on_error)
            else:
                yield from self._decode(buffer, table[start:end], table[start:end], on_error)

    def read_plain_batches(self, buffer: Buffer, start: int, check_crc: bool = True) -> Generator[Chunk, None, int]:
        """The records of what lies at `start`, without a table, while these are plain batches; where the first other one begins."""
        columns = self.columns
        columns.reset()
        while True:
            position: int = core.decode_plain_batches(
                buffer, columns, start, None, self.first_offset, self.end_offset, check_crc
            )
            if position == start:
                return position
            start, stopped_for_room = position, columns.full
            if columns.rows:
                yield Chunk(buffer, columns)
            if not columns.collects:
                columns.clear()
            if not stopped_for_room:
                return position

    def _read_compressed(self, buffer: Buffer, table: BatchTable, on_error: OnError | None) -> Iterator[Chunk]:
        view, arena = byte_view(buffer), self._arena
        decompress = self._decompressor.decompress
        codecs, starts, sizes, counts = (
            table[name].tolist() for name in ("attributes", "payload_position", "payload_size", "count")
        )
        magics, deltas = table["magic"].tolist(), table["last_offset_delta"].tolist()
        good: list[int] = []
        placed: list[tuple[int, int]] = []
        arena.filled = 0
        for i, start in enumerate(starts):
            if counts[i] == sizes[i] == 0 <= deltas[i]:  # all its records were compacted away
                continue
            at, failure = arena.filled, None
            try:
                payload = view[start : start + sizes[i]]
                codec = codecs[i] & CODEC_MASK
                size = decompress(
                    codec, payload if magics[i] == MAGIC_V2 else legacy_payload(magics[i], codec, payload), arena
                )
            except KafkaFormatError as error:
                failure = error
            else:
                good.append(i)
                placed.append((at, size))
            if good and (failure is not None or arena.filled >= ARENA_BYTES):
                yield from self._decode_arena(table[good], placed, on_error)
                good, placed = [], []
            if failure is not None:
                _fail(table[i], failure, on_error)
        if good:
            yield from self._decode_arena(table[good], placed, on_error)

    def _decode_arena(
        self, table: BatchTable, placed: list[tuple[int, int]], on_error: OnError | None
    ) -> Iterator[Chunk]:
        """The batches of a table whose decompressed records were placed in the arena, which is empty afterwards."""
        moved = table.copy()
        moved["payload_position"], moved["payload_size"] = zip(*placed, strict=True)
        arena = self._arena
        yield from self._decode(arena.view[: arena.filled], moved, table, on_error)
        arena.filled = 0

    def _decode(
        self, source: Buffer, table: BatchTable, original: BatchTable, on_error: OnError | None
    ) -> Iterator[Chunk]:
        columns = self.columns
        columns.reset()
        while columns.cursor[0] < len(table):
            error = core.decode_records(source, table, columns, self.first_offset, self.end_offset)
            at = int(columns.cursor[0])
            if error is not None:
                if table is not original:
                    inside = error.position - int(table[at]["payload_position"])
                    error.message += f", at byte {inside} of its decompressed records"
                columns.cursor[:] = at + 1, 0, 0, 0
            columns.full = error is None and at < len(table)
            if columns.rows:
                yield Chunk(source, columns)
            if not columns.collects:
                columns.clear()
            if error is not None:
                _fail(original[at], error, on_error, moved=table is not original)


def legacy_payload(magic: int, codec: int, payload: memoryview) -> Buffer:
    """What a wrapper message of format 0 or 1 holds, as the codec's library takes it."""
    if codec > CODEC_LZ4:
        raise UnsupportedError(f"codec {codec} is not supported in format {magic}")
    return with_right_checksum(payload) if codec == CODEC_LZ4 and magic == MAGIC_V0 else payload


def offset_range_error(row: Any) -> StructureError:
    """Return the error of a batch whose last offset delta is negative, or whose last offset does not fit into 64 bits."""
    first, delta = int(row["base_offset"]), int(row["last_offset_delta"])
    return StructureError(f"offsets go from {first} to {first + delta}, since the last offset delta is {delta}")


def _fail(row: Any, error: KafkaFormatError, on_error: OnError | None, moved: bool = True) -> None:
    if moved:
        error.position = int(row["position"])
    error.base_offset = int(row["base_offset"])
    error.resume = int(row["position"]) + int(row["size"])
    if on_error is None:
        raise error
    on_error(row, error)


def iter_tables(buffer: Buffer, start: int = 0, end: int | None = None, check_crc: bool = True) -> Iterator[BatchTable]:
    """Every batch of a buffer, shallow: tables of BATCH_DTYPE, reused from one to the next.

    A batch that the end cuts off is a normal end: the last table's last row tells how far the whole ones reach.
    What is wrong raises its error, after the batches before it were given.
    """
    table = np.empty(TABLE_ROWS, BATCH_DTYPE)
    position, last = start, view_of(buffer).nbytes if end is None else end
    while position < last:
        scan = scan_window(buffer, table, position, last, check_crc)
        if scan.count:
            yield table[: scan.count]
        if scan.error is not None:
            raise scan.error
        if scan.position == position:
            return
        position = scan.position


def scan_window(buffer: Buffer, table: BatchTable, position: int, last: int, check_crc: bool) -> Scan:
    """As many batches as are best decoded at once; one, if it is larger."""
    window = min(last, position + WINDOW_BYTES)
    scan = core.scan_batches(buffer, table, position, window, check_crc)
    if scan.count == 0 and scan.error is None and window < last:
        scan = core.scan_batches(buffer, table[:1], position, last, check_crc)
    return scan
