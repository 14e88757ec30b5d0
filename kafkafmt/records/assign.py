"""Offsets, leader epochs and timestamps written into batches where they lie."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from .._backend import core
from ..arguments import fitting, integer
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
from ..types import BATCH_DTYPE, Buffer, view_of
from .reader import RecordReader

_INT64, _UINT32 = struct.Struct(">q"), struct.Struct(">I")
_ROWS = 256


def scan_all(buffer: Buffer, check_crc: bool = True) -> np.ndarray:
    """The table of all batches of a buffer. What is wrong with one is raised, a batch that is cut off too."""
    size, position, rows = view_of(buffer).nbytes, 0, 0
    table = np.empty(_ROWS, BATCH_DTYPE)
    while position < size:
        if rows == len(
            table
        ):  # room for as many as there would be if all were like these and a few more, but not for any number
            alike = rows * (size - position) // position * 9 // 8 + _ROWS
            larger = np.empty(rows + min(alike, 8 * rows), BATCH_DTYPE)
            larger.view(np.uint8)[: rows * BATCH_DTYPE.itemsize] = table.view(
                np.uint8
            )  # NumPy copies such rows field by field
            table = larger
        scan = core.scan_batches(buffer, table[rows:], position, None, check_crc)
        if scan.error is not None:
            raise scan.error
        if not scan.count:
            raise TruncatedError(f"the last batch is cut off: {size - position} bytes are left", position)
        rows, position = rows + scan.count, scan.position
    return table[:rows]


def next_offset_of(value: Any) -> int:
    """Check the argument `next_offset`: a whole number that is not negative and has 64 bits."""
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
    """Number the batches of a writable buffer anew, from `next_offset` on; the offset after the last one.

    Only base offsets are written, and the leader epoch where it is given, which no CRC covers. Gaps inside batches stay. All batches
    are checked before the first is written to. InvalidError for a wrapper of format 0, whose records hold offsets of their own.
    """
    next_offset = next_offset_of(next_offset)
    leader_epoch = None if leader_epoch is None else fitting("leader_epoch", leader_epoch, 32)
    at_once: int | None = core.number_buffer(buffer, next_offset, leader_epoch, check_crc)
    if at_once is not None:
        return at_once
    return _number(buffer, scan_all(buffer, check_crc), next_offset, leader_epoch, max_batch_bytes)


def numbered(buffer: Buffer, next_offset: int, leader_epoch: int) -> np.ndarray:
    """The same, and the table of the batches as they are then."""
    assign_offsets(buffer, next_offset, leader_epoch)
    return scan_all(buffer, check_crc=False)


def _number(buffer: Buffer, table: np.ndarray, next_offset: int, leader_epoch: int | None, max_batch_bytes: int) -> int:
    if len(table) and int(table["count"].min()) < 0:
        _open_wrappers(buffer, table, max_batch_bytes)
    negative = table["last_offset_delta"] < 0
    if np.count_nonzero(negative):
        row = table[int(np.argmax(negative))]
        raise InvalidError(
            "last offset delta is negative", int(row["position"]), int(row["base_offset"]), rule="record_count"
        )
    if int(table["last_offset_delta"].sum(dtype=np.int64)) + len(table) > MAX_OFFSET - next_offset:
        raise OffsetOverflowError(next_offset)
    return core.number_batches(buffer, table, next_offset, leader_epoch)


def _open_wrappers(buffer: Buffer, table: np.ndarray, max_batch_bytes: int) -> None:
    """The last offset delta of each wrapper message, by its records."""
    reader = RecordReader(("offset",), max_batch_bytes=max_batch_bytes, check_offsets=False)
    for i in np.flatnonzero(table["count"] < 0).tolist():
        row = table[i]
        if row["magic"] == MAGIC_V0:
            where = int(row["position"]), int(row["base_offset"])
            raise InvalidError(
                "a wrapper of format 0 cannot be numbered where it lies", *where, rule="format_0_wrapper"
            )
        alone = table[i : i + 1].copy()
        alone["base_offset"] = 0  # the inner offsets as they stand
        for chunk in reader.read(buffer, alone):
            assert chunk.columns.offset is not None
            last = int(chunk.columns.offset[chunk.columns.rows - 1])
            if not 0 <= last < 2**31:
                raise InvalidError(
                    f"last inner offset of a wrapper is {last}", int(row["position"]), rule="inner_offsets"
                )
            table["last_offset_delta"][i] = last


def set_timestamp(view: memoryview, row: Any, append_time: bool, timestamp: int) -> None:
    """Timestamp type and maximum timestamp of a batch (of format 1: of a message), and its CRC with them."""
    position, size = int(row["position"]), int(row["size"])
    v2 = view[position + MAGIC_AT] == MAGIC_V2
    low_attributes = position + (ATTRIBUTES_AT + 1 if v2 else LEGACY_ATTRIBUTES_AT)
    view[low_attributes] = view[low_attributes] & ~LOG_APPEND_TIME_BIT | (LOG_APPEND_TIME_BIT if append_time else 0)
    _INT64.pack_into(view, position + (MAX_TIMESTAMP_AT if v2 else LEGACY_TIMESTAMP_AT), timestamp)
    if v2:
        _UINT32.pack_into(view, position + CRC_AT, core.crc32c(view, 0, position + CRC_START, position + size))
    else:
        _UINT32.pack_into(view, position + LEGACY_CRC_AT, core.crc32(view, 0, position + MAGIC_AT, position + size))


def codecs_of(table: np.ndarray) -> np.ndarray:
    """The codec of each batch."""
    codecs: np.ndarray = table["attributes"] & CODEC_MASK
    return codecs
