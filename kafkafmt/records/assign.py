"""Scan the batches of a buffer, and write offsets, leader epochs and timestamps in place."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from .._backend import core
from ..constants import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CRC_AT,
    CRC_START,
    DEFAULT_MAX_BATCH_BYTES,
    LEGACY_ATTRIBUTES_AT,
    LEGACY_CRC_AT,
    LEGACY_TIMESTAMP_AT,
    LOG_APPEND_TIME_BIT,
    MAGIC_AT,
    MAGIC_V0,
    MAGIC_V2,
    MAX_OFFSET,
    MAX_TIMESTAMP_AT,
)
from ..errors import InvalidError, OffsetOverflowError, TruncatedError
from ..support.arguments import fitting, integer
from ..support.text import quantity
from ..types import BATCH_DTYPE, BatchTable, Buffer, view_of
from .reader import RecordReader

_INT64, _UINT32 = struct.Struct(">q"), struct.Struct(">I")
_FIRST_ROWS = 256


def scan_all(buffer: Buffer, check_crc: bool = True) -> BatchTable:
    """Return a table with all batch headers in a buffer. The first invalid or incomplete batch is an error."""
    size, position, rows = view_of(buffer).nbytes, 0, 0
    table = np.empty(_FIRST_ROWS, BATCH_DTYPE)
    while position < size:
        if rows == len(table):
            # Estimate the number of remaining batches from the average batch size so far, plus a reserve of one eighth.
            # The estimated number of batches can be much too high. Therefore, add at most eight times the current rows.
            expected = rows * (size - position) // position * 9 // 8 + _FIRST_ROWS
            larger = np.empty(rows + min(expected, 8 * rows), BATCH_DTYPE)
            # Copy the table as bytes. NumPy would copy its rows field by field, which is slower.
            larger.view(np.uint8)[: rows * BATCH_DTYPE.itemsize] = table.view(np.uint8)
            table = larger
        scan = core.scan_batches(buffer, table[rows:], position, None, check_crc)
        if scan.error is not None:
            raise scan.error
        if not scan.count:
            left = size - position
            message = f"the last batch is truncated: the buffer contains only {quantity(left, 'byte')} of it"
            raise TruncatedError(message, position)
        rows, position = rows + scan.count, scan.position
    return table[:rows]


def next_offset_of(value: Any) -> int:
    next_offset = integer("next_offset", value, 0)
    if next_offset > MAX_OFFSET:
        raise OffsetOverflowError(next_offset)
    return next_offset


def assign_offsets(
    buffer: Buffer,
    next_offset: int,
    leader_epoch: int | None = None,
    *,
    check_crc: bool = True,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> int:
    """Assign consecutive offsets to the batches of a buffer, in place.

    The function writes base offsets and, if `leader_epoch` is given, leader epochs. Gaps between
    the offsets in a batch are kept. If a batch is invalid, the buffer is left unchanged.

    Parameters
    ----------
    buffer : writable bytes-like
        Batches or messages (magic 0 to 2), back to back.
    next_offset : int
        Offset of the first record, 0 or higher.
    leader_epoch : int, optional
        Partition leader epoch to write into every v2 batch. By default, leader epochs are not
        changed.
    check_crc : bool, default True
        Check the CRC of each batch. CRCs remain valid, because they do not cover the fields that
        are written.
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch in bytes after decompression. Only wrapper messages are
        decompressed, to find the offsets of their messages.

    Returns
    -------
    int
        The offset after the last record.

    Raises
    ------
    KafkaFormatError
        A batch is damaged or incomplete.
    InvalidError
        Offsets cannot be assigned to a batch. `InvalidError.code` is one of these:

        - "record_count": a last offset delta is negative.
        - "format_0_wrapper": a wrapper message has magic 0, so its inner messages contain absolute
          offsets.
        - "inner_offsets": the last inner offset of a wrapper message is not between 0 and
          ``2**31 - 1``.
    OverflowError
        An offset would exceed ``2**63 - 2`` (`OffsetOverflowError`), or `leader_epoch` does not fit
        into an int32.
    TypeError, ValueError
        Another argument is wrong, or the buffer is read-only.

    Notes
    -----
    Kafka's counterparts are ``LogValidator.assignOffsetsNonCompressed``,
    ``MutableRecordBatch.setLastOffset`` and ``MutableRecordBatch.setPartitionLeaderEpoch``. To also
    run the other checks of a broker, call `validate_and_assign_offsets`.

    Examples
    --------
    >>> data = bytearray(kafkafmt.build_batch([(b"k", b"v"), (b"k", b"w")]))
    >>> kafkafmt.records.assign_offsets(data, 1000)
    1002
    >>> [record.offset for record in kafkafmt.read_records(data)]
    [1000, 1001]
    """
    next_offset = next_offset_of(next_offset)
    leader_epoch = None if leader_epoch is None else fitting("leader_epoch", leader_epoch, 32)
    following: int | None = core.number_buffer(buffer, next_offset, leader_epoch, check_crc)
    if following is not None:
        return following
    return _number(buffer, scan_all(buffer, check_crc), next_offset, leader_epoch, max_batch_bytes)


def numbered(buffer: Buffer, next_offset: int, leader_epoch: int) -> BatchTable:
    """Assign offsets as `assign_offsets` does, and return a table of the new batch headers."""
    assign_offsets(buffer, next_offset, leader_epoch)
    return scan_all(buffer, check_crc=False)


def _number(buffer: Buffer, table: BatchTable, next_offset: int, leader_epoch: int | None, max_batch_bytes: int) -> int:
    if len(table) and int(table["count"].min()) < 0:
        _open_wrappers(buffer, table, max_batch_bytes)
    negative = table["last_offset_delta"] < 0
    if np.count_nonzero(negative):
        row = table[int(np.argmax(negative))]
        raise InvalidError(
            f"last offset delta is {row['last_offset_delta']}, which is negative",
            int(row["position"]),
            int(row["base_offset"]),
            code="record_count",
        )
    if int(table["last_offset_delta"].sum(dtype=np.int64)) + len(table) > MAX_OFFSET - next_offset:
        raise OffsetOverflowError(next_offset)
    return core.number_batches(buffer, table, next_offset, leader_epoch)


def _open_wrappers(buffer: Buffer, table: BatchTable, max_batch_bytes: int) -> None:
    """Set the last offset delta of each wrapper message in `table` to the relative offset of its last inner message."""
    reader = RecordReader(("offset",), max_batch_bytes=max_batch_bytes, check_offsets=False)
    for i in np.flatnonzero(table["count"] < 0).tolist():
        row = table[i]
        if row["magic"] == MAGIC_V0:
            where = int(row["position"]), int(row["base_offset"])
            raise InvalidError(
                "offsets cannot be assigned in place to a wrapper message of format 0, "
                "because its inner messages contain absolute offsets",
                *where,
                code="format_0_wrapper",
            )
        alone = table[i : i + 1].copy()
        alone["base_offset"] = 0  # `RecordReader` adds the base offset to relative inner offsets.
        for chunk in reader.read(buffer, alone):
            assert chunk.columns.offset is not None
            last = int(chunk.columns.offset[chunk.columns.rows - 1])
            if not 0 <= last < 2**31:
                raise InvalidError(
                    f"the last inner offset of a wrapper message is {last}; it must be between 0 and 2**31 - 1",
                    int(row["position"]),
                    code="inner_offsets",
                )
            table["last_offset_delta"][i] = last


def set_timestamp(view: memoryview, row: Any, append_time: bool, timestamp: int) -> None:
    """Write a timestamp type and a maximum timestamp into a batch or v1 message, and update the CRC."""
    position, size = int(row["position"]), int(row["size"])
    v2 = view[position + MAGIC_AT] == MAGIC_V2
    low_attributes = position + (ATTRIBUTES_AT + 1 if v2 else LEGACY_ATTRIBUTES_AT)
    view[low_attributes] = view[low_attributes] & ~LOG_APPEND_TIME_BIT | (LOG_APPEND_TIME_BIT if append_time else 0)
    _INT64.pack_into(view, position + (MAX_TIMESTAMP_AT if v2 else LEGACY_TIMESTAMP_AT), timestamp)
    if v2:
        _UINT32.pack_into(view, position + CRC_AT, core.crc32c(view, 0, position + CRC_START, position + size))
    else:
        _UINT32.pack_into(view, position + LEGACY_CRC_AT, core.crc32(view, 0, position + MAGIC_AT, position + size))


def codecs_of(table: BatchTable) -> np.ndarray:
    codecs: np.ndarray = table["attributes"] & CODEC_MASK
    return codecs
