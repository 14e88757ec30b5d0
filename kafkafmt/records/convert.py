"""Convert batches to another record format or another codec.

Record formats are converted as in older versions of Kafka. These versions converted batches to
older record formats for old consumers (``RecordsUtil``). The validator and the log cleaner of these
versions converted batches to newer record formats. Records keep their offsets, keys and values. A
compressed batch remains a single batch, and keeps its codec by default. Data that the target format
cannot represent is dropped and counted.

Recompression changes only the encoding of the records, and the header fields that depend on the
encoding.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .._backend import core
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
    Codec,
)
from ..errors import InvalidError, KafkaFormatError, TooLargeError, UnsupportedError
from ..support.arguments import integer
from ..types import BatchTable, Buffer, byte_view, divided_at
from .assign import codecs_of, scan_all
from .build import DEFAULT_BATCH_BYTES
from .builder import BatchBuilder, codec_id, format_number
from .columns import decoded
from .odd_ends import complete_prefix
from .reader import RecordReader
from .record_bytes import RecordBytes

_INT16, _INT32, _UINT32 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">I")


class _ConvertedFields(NamedTuple):
    records: bytes
    converted: int
    kept: int
    lost: dict[str, int]


class Converted(RecordBytes, _ConvertedFields):
    """Result of `convert`. ``bytes(result)`` returns the record data.

    Attributes
    ----------
    records : bytes
        All batches, back to back.
    converted : int
        Number of batches and messages that were converted.
    kept : int
        Number of batches and messages that were kept unchanged.
    lost : dict of str to int
        Maps each kind of loss to the number of times that it occurred. Losses that did not occur
        are omitted. The kinds are:

        - "headers", "timestamps": records that lost their headers or their timestamp
        - "control_batches", "empty_batches": control batches and empty batches that were dropped
        - "producer_ids", "transactional", "leader_epochs", "delete_horizons": batches that lost
          this header field
        - "below_start": records that were omitted because their offset is below `start`
    """

    __slots__ = ()


def convert(
    buffer: Buffer,
    magic: int,
    *,
    down: bool = True,
    up: bool = True,
    codec: Codec | int | None = None,
    start: int | None = None,
    max_bytes: int = DEFAULT_BATCH_BYTES,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> Converted:
    """Convert batches to another record format.

    Parameters
    ----------
    buffer : bytes-like
        Batches or messages (magic 0 to 2), back to back. It is not changed.
    magic : {0, 1, 2}
        The target format.
    down : bool, default True
        Convert batches whose format is higher than `magic`. If False, such batches are kept
        unchanged.
    up : bool, default True
        Convert batches whose format is lower than `magic`. If False, such batches are kept
        unchanged, as in a broker that serves an old consumer.
    codec : str or int, optional
        Codec of the converted batches: none, gzip, snappy, lz4 or zstd, or the id of a codec. By
        default, each batch keeps its codec.
    start : int, optional
        Omit records whose offset is below `start`. Records are omitted only from uncompressed
        batches that are converted to single messages. By default, no record is omitted.
    max_bytes : int, default 16384
        Largest size, in bytes, of the v2 batches that are built from uncompressed messages.
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch in bytes after decompression.

    Returns
    -------
    Converted
        The batches in the target format.

    Raises
    ------
    InvalidError
        The target format does not support the codec (zstd below magic 2).
    KafkaFormatError
        A batch is damaged or incomplete. If its codec is unknown, the error is an
        `UnsupportedError`.
    TypeError, ValueError
        An argument is wrong.

    Notes
    -----
    Records keep their offsets. A compressed batch remains a single batch. Kafka's counterparts are
    ``RecordsUtil`` (down) and ``LogValidator.convertAndAssignOffsetsNonCompressed`` (up).

    Examples
    --------
    >>> batch = kafkafmt.build_batch([(b"key", b"value", 1_700_000_000_000, {"trace": b"1"})])
    >>> kafkafmt.records.convert(batch, 1).lost
    {'headers': 1}
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
                f"format {magic} does not support zstd; choose another codec",
                int(row["position"]),
                int(row["base_offset"]),
                code="codec_in_format",
            )
        limit = None if own else max_bytes
        single = magic < MAGIC_V2 and number == CODEC_NONE
        parts += _rebuilt(reader, buffer, rows, magic, number, limit, first if single else MIN_OFFSET, lost)
    return Converted(b"".join(parts), converted, kept, {name: n for name, n in sorted(lost.items()) if n})


def _runs(table: BatchTable) -> Iterator[BatchTable]:
    """Yield groups of batches that are converted together."""
    # A batch or wrapper message is a group. Adjacent uncompressed messages form a group if they
    # have the same format and timestamp type.
    append_time = (table["attributes"] & LOG_APPEND_TIME_BIT) != 0
    same = (table["magic"][1:] == table["magic"][:-1]) & (append_time[1:] == append_time[:-1])
    # Messages with different append times are converted separately, because a batch has a single append time.
    same &= ~append_time[1:] | (table["max_timestamp"][1:] == table["max_timestamp"][:-1])
    plain = (table["magic"] < MAGIC_V2) & (codecs_of(table) == CODEC_NONE)
    borders = np.flatnonzero(~(same & plain[1:] & plain[:-1])) + 1
    return divided_at(table, borders)


def _is_lost(row: Any, magic: int, lost: Counter[str]) -> bool:
    """Return whether the conversion drops a batch. Count dropped batches and lost header fields in `lost`."""
    if row["magic"] < MAGIC_V2 or magic == MAGIC_V2:
        return False
    attributes = int(row["attributes"])
    dropped = "control_batches" if attributes & CONTROL_BIT else "empty_batches" if row["count"] == 0 else ""
    if dropped:
        lost[dropped] += 1
        return True
    lost["producer_ids"] += int(row["producer_id"] != NO_PRODUCER_ID)
    lost["transactional"] += int(attributes & TRANSACTIONAL_BIT != 0)
    lost["leader_epochs"] += int(row["leader_epoch"] >= 0)
    lost["delete_horizons"] += int(attributes & DELETE_HORIZON_BIT != 0)
    return False


def _rebuilt(
    reader: RecordReader,
    buffer: Buffer,
    rows: BatchTable,
    magic: int,
    codec: int,
    limit: int | None,
    first_offset: int,
    lost: Counter[str],
) -> Iterator[bytes]:
    """Convert batches to one batch of another format, or to batches of at most `limit` bytes."""
    # Records with offsets below `first_offset` are omitted if the target format is 0 or 1.
    row = rows[0]
    has_append_time = bool(row["attributes"] & LOG_APPEND_TIME_BIT) and magic > MAGIC_V0
    append_time = int(row["max_timestamp"]) if has_append_time else None
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


class _RecompressedFields(NamedTuple):
    records: bytes
    before: int
    after: int
    sizes: list[tuple[int, int]]


class Recompressed(RecordBytes, _RecompressedFields):
    """Result of `recompress`. ``bytes(result)`` returns the record data.

    Attributes
    ----------
    records : bytes
        All batches, back to back.
    before, after : int
        Size of the record data in bytes, before and after recompression.
    sizes : list of (int, int)
        Pairs of sizes in bytes, before and after recompression, in buffer order. The list contains
        one pair for each batch, each wrapper message, and each sequence of adjacent uncompressed
        messages.
    """

    __slots__ = ()


def recompress(
    buffer: Buffer, codec: Codec | int, level: int | None = None, *, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
) -> Recompressed:
    """Compress batches with another codec or level.

    Each v2 batch remains a single batch, and only the length, codec and CRC in its header change.
    Control batches and empty batches are not changed.

    In formats 0 and 1, each wrapper message is compressed again, or replaced with its inner
    messages if `codec` is none. Adjacent uncompressed messages are combined into wrapper messages
    of up to 16 KiB.

    Parameters
    ----------
    buffer : bytes-like
        Batches or messages (magic 0 to 2), back to back. It is not changed.
    codec : str or int
        The target codec: none, gzip, snappy, lz4 or zstd, or the id of a codec.
    level : int, optional
        Compression level. By default, the default level of the codec.
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch in bytes after decompression.

    Returns
    -------
    Recompressed
        The batches with the target codec.

    Raises
    ------
    InvalidError
        `codec` is zstd, but the buffer contains a message of format 0 or 1.
    TooLargeError
        A batch would be larger than the format allows, or exceeds `max_batch_bytes`.
    KafkaFormatError
        A batch is damaged or incomplete.
    TypeError, ValueError
        An argument is wrong.

    Examples
    --------
    >>> batch = kafkafmt.build_batch([(b"key", b"value" * 1000)])
    >>> result = kafkafmt.records.recompress(batch, "zstd", level=3)
    >>> result.before, result.after < 200
    (5073, True)
    """
    number = codec_id(codec)
    # If the level is invalid, the constructor raises an error here, before any batch is read.
    BatchBuilder(codec=number, level=level)
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
            # Kafka's Java code does not read compressed data that is empty.
            empty = row["count"] == 0 and (source == CODEC_NONE or row["payload_size"] > 0)
            same = (row["attributes"] & CONTROL_BIT and source == CODEC_NONE) or empty
            part = whole if same or source == number == CODEC_NONE else packer.batch(whole, row)
        elif number == CODEC_ZSTD:
            raise InvalidError(
                f"format {row['magic']} does not support zstd; choose another codec",
                int(row["position"]),
                int(row["base_offset"]),
                code="codec_in_format",
            )
        elif source == number == CODEC_NONE:
            part = whole
        else:
            part = b"".join(_in_codec(reader, buffer, rows, number, level))
        parts.append(part)
        sizes.append((len(whole), len(part)))
    return Recompressed(b"".join(parts), sum(b for b, _ in sizes), sum(a for _, a in sizes), sizes)


def _in_codec(reader: RecordReader, buffer: Buffer, rows: BatchTable, codec: int, level: int | None) -> Iterator[bytes]:
    """Recompress messages of format 0 or 1 with another codec, and yield the messages."""
    row = rows[0]
    has_append_time = bool(row["attributes"] & LOG_APPEND_TIME_BIT) and row["magic"] > MAGIC_V0
    builder = BatchBuilder(
        magic=int(row["magic"]),
        codec=codec,
        level=level,
        max_bytes=None if row["attributes"] & CODEC_MASK else DEFAULT_BATCH_BYTES,
        log_append_time=int(row["max_timestamp"]) if has_append_time else None,
    ).copying_stored()
    for source, columns in reader.read(buffer, rows):
        given, taken = decoded(source, columns), 0
        given = given if row["magic"] > MAGIC_V0 else given._replace(timestamps=None)
        while (taken := builder.append_columns(given, taken)) < given.rows:
            yield builder.finish()
    yield builder.finish()


class _Packer:
    def __init__(self, codec: int, level: int | None, max_batch_bytes: int) -> None:
        from ..codecs.compressor import Compressor
        from ..codecs.decompressor import Arena, Decompressor

        self._codec = codec
        self._compressor = None if codec == CODEC_NONE else Compressor(codec, level)
        self._decompressor, self._arena = Decompressor(max_batch_bytes), Arena()
        self._max_batch_bytes = max_batch_bytes

    def batch(self, whole: memoryview, row: Any) -> bytearray:
        """Return a copy of a batch with recompressed records and updated header fields."""
        payload = whole[BATCH_HEADER_SIZE:]
        source, where = int(row["attributes"]) & CODEC_MASK, (int(row["position"]), int(row["base_offset"]))
        if source != CODEC_NONE and len(payload):
            self._arena.filled = 0
            try:
                size = self._decompressor.decompress(source, payload, self._arena)
                payload = self._arena.view[:size]
            except KafkaFormatError as error:
                prefix = complete_prefix(payload, row, self._max_batch_bytes)
                if prefix is None:
                    error.position, error.base_offset = where
                    raise
                payload = memoryview(prefix.data)
        batch = bytearray(whole[:BATCH_HEADER_SIZE])
        batch += payload if self._compressor is None else self._compressor.compress(payload)
        if len(batch) > MAX_BATCH_LENGTH + ENTRY_OVERHEAD:
            raise TooLargeError(f"{len(payload)} bytes of records do not fit into a batch", *where)
        attributes = _INT16.unpack_from(batch, ATTRIBUTES_AT)[0] & ~CODEC_MASK | self._codec
        _INT32.pack_into(batch, LENGTH_AT, len(batch) - ENTRY_OVERHEAD)
        _INT16.pack_into(batch, ATTRIBUTES_AT, attributes)
        _UINT32.pack_into(batch, CRC_AT, core.crc32c(batch, 0, CRC_START))
        return batch
