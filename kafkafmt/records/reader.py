"""Scan the batches of a buffer into tables, and decode their records into columns.

Many compressed batches are decompressed into one buffer, the arena. A single call of the core then
decodes all records in the arena. Uncompressed batches are decoded in place. In both cases, the
positions of keys and values refer to the buffer `Chunk.source`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._backend import core
from ..constants import (
    CODEC_MASK,
    CODEC_NONE,
    DEFAULT_MAX_BATCH_BYTES,
    HEADER_MEMORY,
    MAGIC_V2,
    MANY_HEADERS,
    MAX_OFFSET,
    MIN_OFFSET,
)
from ..errors import KafkaFormatError, StructureError
from ..types import (
    BATCH_DTYPE,
    COLUMNS,
    BatchSummary,
    BatchTable,
    Buffer,
    IntArray,
    RecordColumns,
    Scan,
    divided_at,
    last_offsets,
    view_of,
)
from .batch_errors import BatchErrors, inside_records
from .payloads import PayloadReader

if TYPE_CHECKING:
    from .odd_ends import OddEnd

TABLE_ROWS = 4096
WINDOW_BYTES = 768 * 1024
"""Bytes that are scanned before their records are decoded. They must fit into a CPU cache."""

SAFE_OFFSET = MAX_OFFSET - 2**31
"""Highest base offset at which the last offset of a batch always fits into int64."""

OffsetLimits = tuple[int, int | None]
"""First offset, and end offset (exclusive) or None."""
ALL_OFFSETS: OffsetLimits = MIN_OFFSET, None

OnBatchError = Callable[[Any, KafkaFormatError], None] | BatchErrors
"""Function that is called with the header of a corrupted batch, and with the error. If many batches are
corrupted, a `BatchErrors` object takes much less time.
"""


class Chunk(NamedTuple):
    """A chunk of decoded records. It is valid until the next chunk is requested."""

    # The reader reuses `source` and `columns`. Only a `CopiedColumns` keeps the rows of earlier
    # chunks, until the caller removes all rows.

    source: Buffer
    """The buffer to which the positions in `columns` refer."""
    columns: RecordColumns
    """The decoded records, in the first `columns.rows` rows of the columns."""


class RecordReader:
    """Decodes the records of batches into columns, which are reused. Only one thread can use a reader at a time."""

    # `names` are columns to decode, or a RecordColumns to fill, which makes `capacity` unused.
    # [first_offset, end_offset) selects by batch headers: records of a batch that begins before the
    # range are skipped below `first_offset`, and records of a batch that ends after it are skipped
    # from `end_offset` on. So adjacent ranges together contain each record exactly once, whatever
    # its offset is. `selected` selects by record offsets. `max_batch_bytes` also limits the headers
    # of one record to ``max_batch_bytes // 128``, but at least 131,072, because a header of 2 bytes
    # takes about 100 bytes of memory. `partial` also returns the first records of a corrupted
    # batch, after its error was reported. `check_offsets` rejects batches whose last offset delta
    # is negative or whose last offset does not fit into 64 bits.

    def __init__(
        self,
        names: Collection[str] | RecordColumns = COLUMNS,
        *,
        capacity: int = 16384,
        first_offset: int = MIN_OFFSET,
        end_offset: int | None = None,
        selected: OffsetLimits = ALL_OFFSETS,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        partial: bool = False,
        check_offsets: bool = True,
    ) -> None:
        if max_batch_bytes < 1:
            raise ValueError(f"max_batch_bytes is {max_batch_bytes}; it must be at least 1")
        self.columns: RecordColumns = names if isinstance(names, RecordColumns) else RecordColumns(capacity, names)
        self.columns.max_headers = max(MANY_HEADERS, max_batch_bytes // HEADER_MEMORY)
        limits: OffsetLimits = _limits(first_offset, end_offset)
        self.first_offset: int = limits[0]
        self.end_offset: int | None = limits[1]
        self.selected: OffsetLimits = _limits(*selected)
        self._payloads = PayloadReader(max_batch_bytes)
        self._max_batch_bytes = max_batch_bytes
        self._partial = partial
        self._check_offsets = check_offsets

    @property
    def decompressed_bytes(self) -> int:
        """Size of all payloads that were decompressed so far."""
        return self._payloads.decompressed_bytes

    def take_odd_ends(self) -> list[OddEnd]:
        """Return the batches with odd compressed data that were read since the last call."""
        found, self._payloads.odd_ends = self._payloads.odd_ends, []
        return found

    @property
    def decompress_seconds(self) -> float:
        """Time that decompression took so far, in seconds."""
        return self._payloads.seconds

    def read(self, buffer: Buffer, table: BatchTable, on_batch_error: OnBatchError | None = None) -> Iterator[Chunk]:
        """Decode the records of the batches in `table`, in order. A chunk is valid until the next one is requested."""
        # `on_batch_error` gets the row and the error of each corrupted batch, after all records
        # before it. No record of the batch is yielded, unless `partial` is True. By default, the
        # error is raised. A `BatchErrors` gets all errors before the iteration ends. An error's
        # `position` is in the buffer; if the batch is compressed, it is the position of the batch.
        if self._partial and on_batch_error is not None:
            yield from self._read_partial(buffer, table, on_batch_error)
            return
        table = np.ascontiguousarray(table)
        found = core.summarize_batches(table)
        if self.holds(found):  # the usual case
            yield from self._read_possible(buffer, table, found.codecs, on_batch_error, self.selected)
            return
        base_offset, last_offset = table["base_offset"], last_offsets(table)
        if self.first_offset > MIN_OFFSET or self.end_offset is not None:
            # Batches with a negative offset are corrupted. They are included, so that their errors are reported.
            wanted = (last_offset >= self.first_offset) | (table["last_offset_delta"] < 0) | (base_offset < 0)
            if self.end_offset is not None:
                wanted &= base_offset < self.end_offset
            # Select all wrapper messages. No CRC covers their offset field, so the field is not used to exclude any.
            wanted |= table["count"] < 0
            table = table.compress(wanted)  # faster than table[wanted]
        for part, limits, impossible in self._divided(table):
            if impossible and self._check_offsets:
                message = offset_range_message(int(part["base_offset"][0]), int(part["last_offset_delta"][0]))
                _fail(part[0], StructureError(message), on_batch_error)
            else:
                yield from self._read_possible(buffer, part, found.codecs, on_batch_error, limits)

    def _read_partial(self, buffer: Buffer, table: BatchTable, on_batch_error: OnBatchError) -> Iterator[Chunk]:
        """Read batches one by one, and yield the first records of each corrupted batch."""
        from .odd_ends import first_records

        self._partial = False
        try:
            for i in range(len(table)):
                errors: list[KafkaFormatError] = []
                yield from self.read(buffer, table[i : i + 1], lambda _, error, into=errors: into.append(error))
                for error in errors:
                    _fail(table[i], error, on_batch_error)
                if errors and (found := first_records(buffer, table[i], self._max_batch_bytes)):
                    yield from self.read(*found)
        finally:
            self._partial = True

    def holds(self, found: BatchSummary) -> bool:
        """Return whether all batches of a summary are inside the range of offsets, and their offset ranges are valid."""
        if found.highest > SAFE_OFFSET or found.negative_delta:
            return False
        if self.first_offset == MIN_OFFSET and self.end_offset is None:
            return True
        below_end = self.end_offset is None or (found.increasing and found.last < self.end_offset)
        return self.first_offset <= found.lowest and below_end and not found.wrappers

    def _divided(self, table: BatchTable) -> Iterator[tuple[BatchTable, OffsetLimits, bool]]:
        """Divide batches into groups with equal offset limits for their records."""
        # The bool is True for a single batch whose offset range is invalid.
        base_offset = table["base_offset"]
        impossible = base_offset + table["last_offset_delta"] < base_offset
        wrapper = (table["count"] < 0) & (table["magic"] < MAGIC_V2)
        (first, end), low, high = self.selected, self.first_offset, self.end_offset
        kinds = np.zeros(len(table), np.int8)
        if low > first:
            kinds[wrapper | (base_offset < low)] |= 1
        if high is not None and (end is None or high < end):
            kinds[wrapper | (last_offsets(table) >= high)] |= 2
        borders = np.flatnonzero((kinds[1:] != kinds[:-1]) | impossible[1:] | impossible[:-1]) + 1
        begin = 0
        for part in divided_at(table, borders):
            kind = kinds.item(begin)
            yield part, (low if kind & 1 else first, high if kind & 2 else end), impossible.item(begin)
            begin += len(part)

    def _read_possible(
        self,
        buffer: Buffer,
        table: BatchTable,
        codecs: int,
        on_batch_error: OnBatchError | None,
        limits: OffsetLimits,
    ) -> Iterator[Chunk]:
        """Yield the records of batches whose offsets have been checked. The bit mask `codecs` contains all of their codecs."""
        if codecs <= 1 << CODEC_NONE or not len(table):
            yield from self._decode(buffer, table, table, on_batch_error, limits)
        else:
            yield from self._read_compressed(buffer, table, on_batch_error, limits)

    def read_plain_batches(self, buffer: Buffer, start: int, check_crc: bool = True) -> Generator[Chunk, None, int]:
        """Yield the records of plain batches from `start` on, without a table."""
        # Return the position of the first other batch. A plain batch is a complete, valid and
        # uncompressed v2 batch without control records.
        columns, (first, end) = self.columns, self.selected
        columns.reset()
        ends = [n for n in (end, self.end_offset) if n is not None]
        limits = max(first, self.first_offset), min(ends, default=None)
        while True:
            position: int = core.decode_plain_batches(buffer, columns, start, None, *limits, check_crc)
            if position == start:
                return position
            start, columns_were_full = position, columns.full
            if columns.rows:
                yield Chunk(buffer, columns)
            if not columns.collects:
                columns.clear()
            if not columns_were_full:
                return position

    def _read_compressed(
        self, buffer: Buffer, table: BatchTable, on_batch_error: OnBatchError | None, limits: OffsetLimits
    ) -> Iterator[Chunk]:
        """Yield the records of batches, some of which are compressed."""
        # Compaction has removed all records of such batches.
        empty = (table["count"] == 0) & (table["payload_size"] == 0) & (table["last_offset_delta"] >= 0)
        if empty.any():
            table = table.compress(~empty)
        for found in self._payloads.read(buffer, table, stop_at_errors=on_batch_error is None):
            if self._payloads.odd_ends:
                self.columns.odd_codec_ends = True
            original, begin = table[found.begin : found.begin + len(found.table)], 0
            if found.errors and isinstance(on_batch_error, BatchErrors):
                failed = [at for at, _ in found.errors]
                on_batch_error.add_all(original["position"][failed], [error for _, error in found.errors])
                valid = found.table["payload_size"] >= 0
                yield from self._decode(
                    found.source, found.table.compress(valid), original.compress(valid), on_batch_error, limits
                )
                continue
            for at, error in found.errors:
                yield from self._decode(found.source, found.table[begin:at], original[begin:at], on_batch_error, limits)
                # Several payloads can have the same error object, and `_fail` changes it.
                _fail(original[at], copy(error), on_batch_error)
                begin = at + 1
            yield from self._decode(found.source, found.table[begin:], original[begin:], on_batch_error, limits)

    @cached_property
    def _faults(self) -> IntArray:
        """Array for corrupted batches (see `core.decode_valid_records`)."""
        return np.empty((TABLE_ROWS, 3), np.int64)

    def _decode(
        self,
        source: Buffer,
        table: BatchTable,
        original: BatchTable,
        on_batch_error: OnBatchError | None,
        limits: OffsetLimits,
    ) -> Iterator[Chunk]:
        """Decode the records of all batches in `table` from `source`, which contains the uncompressed records."""
        # `original` is the table of the same batches in the caller's buffer, to which positions in
        # errors refer.
        columns = self.columns
        columns.reset()
        while columns.cursor[0] < len(table):
            if isinstance(on_batch_error, BatchErrors):
                n, error = core.decode_valid_records(source, table, columns, self._faults, *limits)
                if n:
                    on_batch_error.add_faults(self._faults[:n], original, table)
            else:
                error = core.decode_records(source, table, columns, *limits)
            at = int(columns.cursor[0])
            if error is not None:
                moved = bool(original[at]["attributes"] & CODEC_MASK)
                inside = error.position - int(table[at]["payload_position"])
                error.position = int(original[at]["payload_position"]) + inside
                if moved:
                    error.message = inside_records(error.message, inside)
                columns.cursor[:] = at + 1, 0, 0, 0
            columns.full = error is None and at < len(table)
            if columns.rows:
                yield Chunk(source, columns)
            if not columns.collects:
                columns.clear()
            if error is not None:
                _fail(original[at], error, on_batch_error, moved)


def _limits(first: int, end: int | None) -> OffsetLimits:
    """Return an offset range whose limits fit into 64 bits."""
    if first > MAX_OFFSET:
        return MAX_OFFSET, MAX_OFFSET  # an empty range
    return first, None if end is None or end > MAX_OFFSET else end


def count_records(reader: RecordReader, buffer: Buffer, table: BatchTable, found: BatchSummary) -> int:
    """Decode the records of the batches in `table`, and return their number."""
    # For uncompressed batches, this is faster than `RecordReader.read`, with the same errors.
    # `table` must be contiguous. `found` is a summary of `table`, or of a table that contains it.
    columns = reader.columns
    if reader.holds(found) and found.codecs <= 1 << CODEC_NONE:
        counted = 0
        columns.reset()
        while columns.cursor.item(0) < len(table):
            if core.decode_records(buffer, table, columns, *reader.selected) is not None:
                break  # `read` raises the error
            counted += columns.rows
            columns.clear()
        else:
            return counted
    return sum(chunk.columns.rows for chunk in reader.read(buffer, table))


def offset_range_message(first: int, delta: int) -> str:
    """Return the error message for a batch with a negative last offset delta, or a last offset above 64 bits."""
    return (
        f"the batch has offsets {first} to {first + delta}, because its last offset delta is {delta}; "
        "they must increase and fit into 64 bits"
    )


def _fail(row: Any, error: KafkaFormatError, on_batch_error: OnBatchError | None, moved: bool = True) -> None:
    """Add the base offset and the end of a batch to its error, and raise it or pass it to `on_batch_error`."""
    # If `moved` is True, the error's position is not in the caller's buffer: the position of the
    # batch replaces it.
    if isinstance(on_batch_error, BatchErrors):
        on_batch_error.add(int(row["position"]), error)
        return
    if moved:
        error.position = int(row["position"])
    error.base_offset = int(row["base_offset"])
    error.resume = int(row["position"]) + int(row["size"])
    if on_batch_error is None:
        raise error
    on_batch_error(row, error)


def iter_tables(buffer: Buffer, start: int = 0, end: int | None = None, check_crc: bool = True) -> Iterator[BatchTable]:
    """Yield tables of the batch headers in [start, end). A table is valid until the next one is requested."""
    # An incomplete batch at the end is ignored. A corrupted batch is raised after the batches
    # before it.
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
    """Read batch headers into `table`, of at most WINDOW_BYTES in total or of a single larger batch."""
    window = min(last, position + WINDOW_BYTES)
    scan = core.scan_batches(buffer, table, position, window, check_crc)
    if scan.count == 0 and scan.error is None and window < last:
        scan = core.scan_batches(buffer, table[:1], position, last, check_crc)
    return scan
