"""Rebuild batches without some of their records, and recompress batches.

Kafka's counterpart is ``MemoryRecords.filterTo``, which the log cleaner calls. A rebuilt batch of
format 2 keeps its base offset, last offset, producer, sequence number and leader epoch. Therefore,
consecutive batches of a producer still have consecutive sequence numbers.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..._backend import core
from ...constants import (
    ATTRIBUTES_AT,
    BASE_TIMESTAMP_AT,
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    CODEC_NONE,
    CODEC_ZSTD,
    CONTROL_BIT,
    COUNT_AT,
    CRC_AT,
    CRC_START,
    DELETE_HORIZON_BIT,
    ENTRY_OVERHEAD,
    LAST_OFFSET_DELTA_AT,
    LENGTH_AT,
    LOG_APPEND_TIME_BIT,
    MAGIC_V0,
    MAGIC_V2,
    MAX_TIMESTAMP_AT,
)
from ...errors import InvalidError
from ...records import BatchBuilder, RecordReader, recompress
from ...records.columns import decoded, taken_rows
from ...records.odd_ends import decompressed
from ...records.rebuilt_header import with_header_of
from ...types import BatchTable, byte_view, last_offset

BoolArray = npt.NDArray[np.bool_]
_INT16, _INT32, _INT64, _UINT32 = map(struct.Struct, (">h", ">i", ">q", ">I"))


def empty_batch(batch: memoryview) -> bytes:
    """Return a v2 batch without records, with the offsets, producer and sequence number of `batch`."""
    # Kafka's counterpart is ``DefaultRecordBatch.writeEmptyHeader``.
    data = bytearray(batch[:BATCH_HEADER_SIZE])
    attributes = _INT16.unpack_from(data, ATTRIBUTES_AT)[0] & ~(CODEC_MASK | DELETE_HORIZON_BIT)
    _INT32.pack_into(data, LENGTH_AT, len(data) - ENTRY_OVERHEAD)
    _INT16.pack_into(data, ATTRIBUTES_AT, attributes)
    data[BASE_TIMESTAMP_AT : BASE_TIMESTAMP_AT + 8] = data[BASE_TIMESTAMP_AT + 8 : BASE_TIMESTAMP_AT + 16]
    _INT32.pack_into(data, COUNT_AT, 0)
    _UINT32.pack_into(data, CRC_AT, core.crc32c(data, 0, CRC_START))
    return bytes(data)


class BatchFilter:
    """Removes records from batches of a log, or recompresses batches. Without `codec`, each batch keeps its codec."""

    def __init__(self, codec: int | None, level: int | None, max_batch_bytes: int) -> None:
        self.codec: int | None = codec
        self.level: int | None = level
        self.max_batch_bytes = max_batch_bytes
        self._reader = RecordReader(max_batch_bytes=max_batch_bytes)

    def _codec_of(self, magic: int, own: int) -> tuple[int, int | None]:
        """Return the codec and the level for a batch. Formats 0 and 1 do not support zstd."""
        if self.codec is None or (magic < MAGIC_V2 and self.codec == CODEC_ZSTD):
            return own, None
        return self.codec, self.level

    def without(self, buffer: Any, table: BatchTable, dropped: BoolArray, last: int | None = None) -> bytes:
        """Return a batch without the records in the mask `dropped`, which keeps at least one."""
        # `table` has one row, for the batch. `last` is a new last offset of a v2 batch.
        row = table[0]
        attributes, magic = int(row["attributes"]), int(row["magic"])
        codec, level = self._codec_of(magic, attributes & CODEC_MASK)
        given: dict[str, Any] = {"magic": magic, "codec": codec, "level": level}
        if magic == MAGIC_V2:
            given["base_offset"] = int(row["base_offset"])
            if attributes & DELETE_HORIZON_BIT and row["base_timestamp"] >= 0:
                given["delete_horizon"] = int(row["base_timestamp"])
        elif attributes & LOG_APPEND_TIME_BIT and magic > MAGIC_V0:
            given["log_append_time"] = int(row["max_timestamp"])
        builder, done = BatchBuilder(**given).copying_stored(), 0
        for source, columns in self._reader.read(buffer, table):
            if columns.take_unusual() and magic == MAGIC_V2:
                return self._cut(buffer, row, ~dropped, last_offset(row) if last is None else last)
            records = decoded(source, columns)
            kept = taken_rows(records, np.flatnonzero(~dropped[done : done + records.rows]))
            done += records.rows
            if magic == MAGIC_V0:
                kept = kept._replace(timestamps=None)
            if builder.append_columns(kept) < kept.rows:
                raise InvalidError("the records do not fit into a batch", int(row["position"]), int(row["base_offset"]))
        if magic != MAGIC_V2:
            return builder.finish()
        start = int(row["position"])
        built = builder.finish(last_offset(row) if last is None else last)
        return with_header_of(byte_view(buffer)[start:], built)

    def _cut(self, buffer: Any, row: np.void, keep: BoolArray, last: int) -> bytes:
        """Return a v2 batch with some of its records, byte for byte. A builder refuses odd offsets, which are kept here."""
        from ...codecs.compressor import Compressor

        start, stop = int(row["position"]), int(row["position"] + row["size"])
        own = int(row["attributes"]) & CODEC_MASK
        codec, level = self._codec_of(MAGIC_V2, own)
        records: memoryview | bytes = byte_view(buffer)[start + BATCH_HEADER_SIZE : stop]
        if own != CODEC_NONE:
            records = decompressed(memoryview(records), row, self.max_batch_bytes)
        kept, position, latest = bytearray(), 0, -(2**63)
        for keeps in keep.tolist():
            length, body = core.read_varint(records, position)
            if keeps:
                kept += records[position : body + length]
                latest = max(latest, core.read_varlong(records, body + 1)[0])
            position = body + length
        if not row["attributes"] & LOG_APPEND_TIME_BIT:
            latest = (int(row["base_timestamp"]) + latest + 2**63) % 2**64 - 2**63
        else:
            latest = int(row["max_timestamp"])
        payload = bytes(kept) if codec == CODEC_NONE else Compressor(codec, level).compress(kept)
        data = bytearray(byte_view(buffer)[start : start + BATCH_HEADER_SIZE]) + payload
        _INT32.pack_into(data, LENGTH_AT, len(data) - ENTRY_OVERHEAD)
        _INT16.pack_into(data, ATTRIBUTES_AT, int(row["attributes"]) & ~CODEC_MASK | codec)
        _INT32.pack_into(data, LAST_OFFSET_DELTA_AT, last - int(row["base_offset"]))
        _INT64.pack_into(data, MAX_TIMESTAMP_AT, latest)
        _INT32.pack_into(data, COUNT_AT, int(np.count_nonzero(keep)))
        _UINT32.pack_into(data, CRC_AT, core.crc32c(data, 0, CRC_START))
        return bytes(data)

    def recompressed(self, buffer: Any, table: BatchTable) -> Iterator[tuple[BatchTable, memoryview | bytes]]:
        """Recompress adjacent batches with the new codec. Yield the original batch headers and the new bytes."""
        # Batches that already use the codec are yielded unchanged, unless a compression level is set.
        view = byte_view(buffer)
        starts, ends = table["position"], table["position"] + table["size"]
        if self.codec is None:
            yield table, view[int(starts[0]) : int(ends[-1])]
            return
        own = table["attributes"] & CODEC_MASK
        same = (own == self.codec) & ((self.codec == CODEC_NONE) | (self.level is None))
        same |= (table["attributes"] & CONTROL_BIT) != 0
        if self.codec == CODEC_ZSTD:
            same |= table["magic"] < MAGIC_V2
        borders = [0, *(np.flatnonzero(same[1:] != same[:-1]) + 1).tolist(), len(table)]
        for first, end in itertools.pairwise(borders):
            span: memoryview | bytes = view[int(starts[first]) : int(ends[end - 1])]
            if not same[first]:
                span = recompress(span, self.codec, self.level, max_batch_bytes=self.max_batch_bytes).records
            yield table[first:end], span
