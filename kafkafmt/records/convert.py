"""Batches in another format, or in another codec.

Down and up as Kafka did it (RecordsUtil for old consumers, the validator and the cleaner for old data): records keep
offsets, keys and values; a compressed batch stays one batch of its codec; what the other format has no place for is
lost, and counted. Recompressing changes nothing but the bytes of the records.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .._backend import core
from ..arguments import integer
from ..constants import (
    ATTRIBUTES_AT,
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    CODEC_NONE,
    CODEC_ZSTD,
    CONTROL_BIT,
    CRC_AT,
    CRC_START,
    DEFAULT_MAX_BATCH_BYTES,
    DELETE_HORIZON_BIT,
    ENTRY_OVERHEAD,
    LENGTH_AT,
    LOG_APPEND_TIME_BIT,
    MAGIC_V0,
    MAGIC_V2,
    MAX_BATCH_LENGTH,
    MIN_OFFSET,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
)
from ..errors import InvalidError, KafkaFormatError, TooLargeError, UnsupportedError
from ..types import Buffer, byte_view
from .assign import codecs_of, scan_all
from .builder import DEFAULT_BATCH_BYTES, BatchBuilder, codec_id, format_number
from .columns import decoded
from .reader import RecordReader

_INT16, _INT32, _UINT32 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">I")


class Converted(NamedTuple):
    """records: the bytes, which bytes(result) gives too. converted, kept: batches built anew, and batches left as they were.

    lost: what the other format had no place for. Records by "headers" and "timestamps"; batches by "control_batches" and
    "empty_batches", which are gone whole, and by "producer_ids", "transactional", "leader_epochs", "delete_horizons".
    "below_start": records left out because they were not asked for.
    """

    records: bytes
    converted: int
    kept: int
    lost: dict[str, int]

    def __bytes__(self) -> bytes:
        return bytes(self.records)

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(self.records)

    def __repr__(self) -> str:
        done = f"converted={self.converted}, kept={self.kept}, lost={self.lost}"
        return f"Converted(records=<{len(self.records)} bytes>, {done})"


def convert(
    buffer: Buffer,
    magic: int,
    *,
    down: bool = True,
    up: bool = True,
    codec: str | int | None = None,
    start: int | None = None,
    max_bytes: int = DEFAULT_BATCH_BYTES,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> Converted:
    """All batches of a buffer in format `magic`: those of higher formats if `down`, of lower ones if `up`.

    A broker that served an old consumer did so with up=False. codec: for what is converted, None for each batch's own.
    start: where an uncompressed batch becomes single messages, those with offsets below it are left out. max_bytes: how large the batches
    of format 2 become that plain messages are put into.
    InvalidError where a format cannot have a codec (zstd below 2); the other KafkaFormatErrors for damaged data.
    """
    magic = format_number(magic)
    view, table, lost = byte_view(buffer), scan_all(buffer), Counter[str]()
    first = MIN_OFFSET if start is None else integer("start", start, 0, "an offset")
    reader = RecordReader(max_batch_bytes=max_batch_bytes)
    parts: list[bytes | bytearray | memoryview] = []
    converted = kept = 0
    for rows in _runs(table):
        row = rows[0]
        if row["magic"] == magic or (not down if row["magic"] > magic else not up):
            parts.append(view[int(row["position"]) : int(rows["position"][-1] + rows["size"][-1])])
            kept += len(rows)
            continue
        converted += len(rows)
        if _is_lost(row, magic, lost):
            continue
        own = int(codecs_of(rows)[0])
        if own > CODEC_ZSTD:
            raise UnsupportedError(f"codec {own} is not supported", int(row["position"]), int(row["base_offset"]))
        number = own if codec is None else codec_id(codec)
        if magic < MAGIC_V2 and number == CODEC_ZSTD:
            raise InvalidError(
                f"format {magic} has no zstd", int(row["position"]), int(row["base_offset"]), rule="codec_in_format"
            )
        limit = None if own else max_bytes
        single = magic < MAGIC_V2 and number == CODEC_NONE
        parts += _rebuilt(reader, buffer, rows, magic, number, limit, first if single else MIN_OFFSET, lost)
    return Converted(b"".join(parts), converted, kept, {name: n for name, n in sorted(lost.items()) if n})


def _runs(table: np.ndarray) -> Iterator[np.ndarray]:
    """What is converted together: each batch and wrapper alone, plain messages of one format and one timestamp type in a row."""
    stamped = (table["attributes"] & LOG_APPEND_TIME_BIT) != 0
    same = (table["magic"][1:] == table["magic"][:-1]) & (stamped[1:] == stamped[:-1])
    same &= ~stamped[1:] | (table["max_timestamp"][1:] == table["max_timestamp"][:-1])  # a batch has one append time
    plain = (table["magic"] < MAGIC_V2) & (codecs_of(table) == CODEC_NONE)
    borders = np.flatnonzero(~(same & plain[1:] & plain[:-1])) + 1
    yield from np.split(table, borders) if len(table) else ()


def _is_lost(row: Any, magic: int, lost: Counter[str]) -> bool:
    """Count what a batch loses by its header; True where all of it goes."""
    if row["magic"] < MAGIC_V2 or magic == MAGIC_V2:
        return False
    attributes = int(row["attributes"])
    gone = "control_batches" if attributes & CONTROL_BIT else "empty_batches" if row["count"] == 0 else ""
    if gone:
        lost[gone] += 1
        return True
    lost["producer_ids"] += int(row["producer_id"] != NO_PRODUCER_ID)
    lost["transactional"] += int(attributes & TRANSACTIONAL_BIT != 0)
    lost["leader_epochs"] += int(row["leader_epoch"] >= 0)
    lost["delete_horizons"] += int(attributes & DELETE_HORIZON_BIT != 0)
    return False


def _rebuilt(
    reader: RecordReader,
    buffer: Buffer,
    rows: np.ndarray,
    magic: int,
    codec: int,
    limit: int | None,
    first_offset: int,
    lost: Counter[str],
) -> Iterator[bytes]:
    """The records of a run in a format and codec, as one batch, or as many as `limit` asks for."""
    row = rows[0]
    stamped = bool(row["attributes"] & LOG_APPEND_TIME_BIT) and magic > MAGIC_V0
    append_time = int(row["max_timestamp"]) if stamped else None
    builder = BatchBuilder(magic=magic, codec=codec, max_bytes=limit, log_append_time=append_time)
    for source, columns in reader.read(buffer, rows):
        given, start = decoded(source, columns), 0
        assert given.offsets is not None
        assert given.timestamps is not None
        if magic < MAGIC_V2:
            if columns.header_count is not None:
                lost["headers"] += int(np.count_nonzero(columns.header_count[: given.rows]))
            start = int(np.count_nonzero(given.offsets[: given.rows] < first_offset))
            lost["below_start"] += start
            given = given._replace(headers=None)
        if magic == MAGIC_V0:
            lost["timestamps"] += int(np.count_nonzero(given.timestamps[: given.rows] != NO_TIMESTAMP))  # type: ignore[index]
            given = given._replace(timestamps=None)
        while (start := builder.append_columns(given, start)) < given.rows:
            yield builder.finish()
    yield builder.finish()


class Recompressed(NamedTuple):
    """records: the bytes, which bytes(result) gives too. before, after: their sizes. sizes: the same of each batch, in their order."""

    records: bytes
    before: int
    after: int
    sizes: list[tuple[int, int]]

    def __bytes__(self) -> bytes:
        return bytes(self.records)

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(self.records)

    def __repr__(self) -> str:
        return f"Recompressed(records=<{len(self.records)} bytes>, before={self.before}, after={self.after}, {len(self.sizes)} sizes)"


def recompress(
    buffer: Buffer, codec: str | int, level: int | None = None, *, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
) -> Recompressed:
    """All batches of a buffer in another codec or level, each still one batch with all that its header says.

    Control batches and empty ones stay as they are. Of formats 0 and 1, wrappers become wrappers; to and from no codec, wrappers
    become single messages, and single messages in a row wrappers of up to 16 KiB. InvalidError for zstd below format 2.
    """
    number = codec_id(codec)
    BatchBuilder(codec=number, level=level)  # a wrong level is told before anything is done
    view, table = byte_view(buffer), scan_all(buffer)
    packer = _Packer(number, level, max_batch_bytes)
    reader = RecordReader(max_batch_bytes=max_batch_bytes)
    parts: list[bytes | bytearray | memoryview] = []
    sizes: list[tuple[int, int]] = []
    part: bytes | bytearray | memoryview
    for rows in _runs(table):
        row = rows[0]
        whole = view[int(row["position"]) : int(rows["position"][-1] + rows["size"][-1])]
        source = int(row["attributes"]) & CODEC_MASK
        if row["magic"] == MAGIC_V2:
            same = (row["attributes"] & CONTROL_BIT and source == CODEC_NONE) or row["count"] == 0
            part = whole if same or source == number == CODEC_NONE else packer.batch(whole, row)
        elif number == CODEC_ZSTD:
            raise InvalidError(
                f"format {row['magic']} has no zstd",
                int(row["position"]),
                int(row["base_offset"]),
                rule="codec_in_format",
            )
        elif source == number == CODEC_NONE:
            part = whole
        else:
            part = b"".join(_rebuilt_as_it_is(reader, buffer, rows, number, level))
        parts.append(part)
        sizes.append((len(whole), len(part)))
    return Recompressed(b"".join(parts), sum(b for b, _ in sizes), sum(a for _, a in sizes), sizes)


def _rebuilt_as_it_is(
    reader: RecordReader, buffer: Buffer, rows: np.ndarray, codec: int, level: int | None
) -> Iterator[bytes]:
    """Messages of formats 0 and 1 in another codec, of the same format."""
    row = rows[0]
    stamped = bool(row["attributes"] & LOG_APPEND_TIME_BIT) and row["magic"] > MAGIC_V0
    builder = BatchBuilder(
        magic=int(row["magic"]),
        codec=codec,
        level=level,
        max_bytes=None if row["attributes"] & CODEC_MASK else DEFAULT_BATCH_BYTES,
        log_append_time=int(row["max_timestamp"]) if stamped else None,
    )
    for source, columns in reader.read(buffer, rows):
        given, taken = decoded(source, columns), 0
        given = given if row["magic"] > MAGIC_V0 else given._replace(timestamps=None)
        while (taken := builder.append_columns(given, taken)) < given.rows:
            yield builder.finish()
    yield builder.finish()


class _Packer:
    """Packs the records of format 2 anew."""

    def __init__(self, codec: int, level: int | None, max_batch_bytes: int) -> None:
        from ..codecs import Arena, Compressor, Decompressor

        self._codec = codec
        self._compressor = None if codec == CODEC_NONE else Compressor(codec, level)
        self._decompressor, self._arena = Decompressor(max_batch_bytes), Arena()

    def batch(self, whole: memoryview, row: Any) -> bytearray:
        """A batch with its records in the other codec; of the header the length, the codec bits and the CRC change."""
        payload = whole[BATCH_HEADER_SIZE:]
        source, where = int(row["attributes"]) & CODEC_MASK, (int(row["position"]), int(row["base_offset"]))
        if source != CODEC_NONE:
            self._arena.filled = 0
            try:
                size = self._decompressor.decompress(source, payload, self._arena)
            except KafkaFormatError as error:
                error.position, error.base_offset = where
                raise
            payload = self._arena.view[:size]
        batch = bytearray(whole[:BATCH_HEADER_SIZE])
        batch += payload if self._compressor is None else self._compressor.compress(payload)
        if len(batch) > MAX_BATCH_LENGTH + ENTRY_OVERHEAD:
            raise TooLargeError(f"{len(payload)} bytes of records do not fit into a batch", *where)
        attributes = _INT16.unpack_from(batch, ATTRIBUTES_AT)[0] & ~CODEC_MASK | self._codec
        _INT32.pack_into(batch, LENGTH_AT, len(batch) - ENTRY_OVERHEAD)
        _INT16.pack_into(batch, ATTRIBUTES_AT, attributes)
        _UINT32.pack_into(batch, CRC_AT, core.crc32c(batch, 0, CRC_START))
        return batch
