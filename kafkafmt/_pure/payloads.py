"""Decompress many small payloads of different codecs."""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt

from ..constants import (
    CODEC_GZIP,
    CODEC_NONE,
    CODEC_SNAPPY,
    FAULT_GZIP_HEADER,
    FAULT_GZIP_INCOMPLETE,
    FAULT_SNAPPY_LIMIT,
    GZIP_FAULTS,
    GZIP_HEADER,
    GZIP_HEADER_SIZE,
    GZIP_WBITS,
)
from ..types import Buffer, ByteArray, IntArray, LengthArray, byte_view
from .gather import need
from .snappy import SnappyFault, decompress_snappy, spans_of
from .varint import natural


class _DoesNotFitError(Exception):
    """Raised if the result of a payload is larger than the limit or than the rest of the output."""


def decompress_payloads(
    buffer: Buffer,
    positions: IntArray,
    lengths: LengthArray,
    codecs: IntArray,
    count: int,
    limit: int,
    stop_at_fault: bool,
    out: ByteArray | memoryview,
    sizes: IntArray,
    faults: npt.NDArray[np.int8],
) -> tuple[int, int]:
    target, filled = byte_view(out), 0
    for array in (codecs, sizes, faults):
        need(array, natural(count))
    for row, data in enumerate(spans_of(buffer, positions, lengths, count, limit)):
        try:
            result = _decompress(int(codecs[row]), data, min(limit, len(target) - filled))
        except _DoesNotFitError:
            return row, filled
        if isinstance(result, bytes):
            target[filled : filled + len(result)] = result
            sizes[row], faults[row] = len(result), 0
            filled += len(result)
        else:
            sizes[row], faults[row] = -1, result
            if result and stop_at_fault:
                return row + 1, filled
    return count, filled


def _decompress(codec: int, data: bytes, room: int) -> bytes | int:
    """Return the result, an index of GZIP_FAULTS or SNAPPY_FAULTS, or 0 for other codecs.

    Raise _DoesNotFitError if the result has more than `room` bytes.
    """
    result: bytes | int = 0
    if codec == CODEC_NONE:
        result = data
    elif codec == CODEC_GZIP:
        result = _gunzip(data, room)
    elif codec == CODEC_SNAPPY:
        try:
            result = b"".join(decompress_snappy(data, room))
        except SnappyFault as fault:
            result = int(fault.args[0])
            if result == FAULT_SNAPPY_LIMIT:
                raise _DoesNotFitError from None
    if isinstance(result, bytes) and len(result) > room:
        raise _DoesNotFitError
    return result


def _gunzip(data: bytes, room: int) -> bytes | int:
    """Decompress the first gzip member. The result has at most `room` + 1 bytes. Return an index of GZIP_FAULTS for a fault."""
    if len(data) < GZIP_HEADER_SIZE:
        return FAULT_GZIP_INCOMPLETE
    if not data.startswith(GZIP_HEADER):
        return FAULT_GZIP_HEADER
    member = zlib.decompressobj(GZIP_WBITS)
    try:
        result = member.decompress(data, room + 1)
    except zlib.error as error:
        return GZIP_FAULTS.index(str(error).rpartition(": ")[2])
    return result if member.eof or len(result) > room else FAULT_GZIP_INCOMPLETE
