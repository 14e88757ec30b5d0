"""Read batches whose records are complete, although the end of their compressed data is odd."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._backend import core
from ..constants import CODEC_LZ4, CODEC_MASK, CODEC_NONE, CODEC_ZSTD, MAGIC_V0
from ..errors import TooLargeError
from ..odd_codec_ends import Prefix, decompress_prefix
from ..types import BATCH_DTYPE, BatchTable, Buffer, IntArray, RecordColumns, byte_view
from .lz4v0 import with_right_checksum

_LZ4_SMALLEST = 7
"""Smallest size of the header of an lz4 frame, in bytes."""
_LZ4_INDEPENDENT, _LZ4_BLOCK_CHECKSUM, _LZ4_CONTENT_SIZE, _LZ4_DICTIONARY = 0x20, 0x10, 0x08, 0x01
_LZ4_RESERVED = 0x02 | _LZ4_DICTIONARY
"""Bits that must be 0 in Kafka."""
_LZ4_STORED = 0x80000000
"""Bit in the size of an lz4 block that is not compressed."""


class OddEnd(NamedTuple):
    """A batch whose records are complete, although its compressed data is odd."""

    position: int
    """Position of the batch in the buffer."""
    oddity: str
    """Description of what is odd."""
    java_reads: bool
    """Whether Kafka's Java code reads the batch to its end."""


def complete_prefix(payload: memoryview, row: Any, limit: int) -> Prefix | None:
    """Decompress data that a `Decompressor` has refused. Return None unless all records of its batch are complete."""
    codec = int(row["attributes"]) & CODEC_MASK
    if row["magic"] == MAGIC_V0 and codec == CODEC_LZ4:
        payload = memoryview(with_right_checksum(payload))
    try:
        prefix = decompress_prefix(codec, payload, limit)
    except TooLargeError:
        return None
    if prefix is None:
        return None
    table = np.array([row], BATCH_DTYPE)
    table["payload_position"], table["payload_size"] = 0, len(prefix.data)
    # The core checks a complete batch before it stores the first record.
    error = core.decode_records(prefix.data, table, RecordColumns(1, ("offset",)))
    return prefix if error is None else None


def java_refusal(codec: int, payload: memoryview) -> str | None:
    """Return why Kafka's Java code does not read compressed data that kafkafmt can read. Return None if it reads the data.

    The rules for lz4 are those of Kafka's ``Lz4BlockInputStream``.
    """
    if not len(payload) and codec not in (CODEC_NONE, CODEC_ZSTD):
        return "the compressed data is empty"
    if codec != CODEC_LZ4 or len(payload) < _LZ4_SMALLEST:
        return None
    flags = payload[4]
    if not flags & _LZ4_INDEPENDENT:
        return "lz4 blocks depend on earlier blocks"
    if flags & _LZ4_RESERVED:
        return "an lz4 frame has a dictionary or reserved flags"
    p, checksum = int(_first_block(flags)), 4 if flags & _LZ4_BLOCK_CHECKSUM else 0
    size = -1
    while size and p <= len(payload) - 8:
        size = int.from_bytes(payload[p : p + 4], "little")
        if size == _LZ4_STORED:
            return "an lz4 frame continues after an empty block"
        p += 4 + (size & ~_LZ4_STORED) + checksum
    return None


def refused_by_java(buffer: Buffer, table: BatchTable) -> list[OddEnd]:
    """Find batches that Kafka's Java code does not read, although kafkafmt reads them (see `java_refusal`)."""
    codecs = table["attributes"] & CODEC_MASK
    starts, sizes, view = table["payload_position"], table["payload_size"], byte_view(buffer)
    suspects = (codecs != CODEC_NONE) & (sizes == 0) & (table["count"] == 0)
    frames = np.flatnonzero((codecs == CODEC_LZ4) & (sizes >= _LZ4_SMALLEST))
    if len(frames):
        data = np.frombuffer(view, np.uint8)
        suspects[frames] = _may_be_refused(data, starts[frames], starts[frames] + sizes[frames])
    found = []
    for i in np.flatnonzero(suspects).tolist():
        reason = java_refusal(int(codecs[i]), view[int(starts[i]) : int(starts[i] + sizes[i])])
        if reason is not None:
            found.append(OddEnd(int(table["position"][i]), reason, False))
    return found


def _first_block(flags: Any) -> Any:
    """Return the position of the first block in an lz4 frame, from the flags in its header."""
    return 7 + (flags & _LZ4_CONTENT_SIZE) + 4 * (flags & _LZ4_DICTIONARY)


def _may_be_refused(data: npt.NDArray[np.uint8], starts: IntArray, ends: IntArray) -> npt.NDArray[np.bool_]:
    """Return a mask of the lz4 frames with unusual flags or with an empty block."""
    flags = data[starts + 4].astype(np.int64)
    suspects: npt.NDArray[np.bool_] = (flags & (_LZ4_INDEPENDENT | _LZ4_RESERVED)) != _LZ4_INDEPENDENT
    positions = starts + _first_block(flags)
    checksums = np.where(flags & _LZ4_BLOCK_CHECKSUM, 4, 0)
    active = np.flatnonzero(~suspects & (positions <= ends - 8))
    while len(active):
        sizes = data[positions[active][:, np.newaxis] + np.arange(4)].view("<u4")[:, 0].astype(np.int64)
        suspects[active] = sizes == _LZ4_STORED
        positions[active] += 4 + (sizes & (_LZ4_STORED - 1)) + checksums[active]
        active = active[(sizes != 0) & (sizes != _LZ4_STORED)]
        active = active[positions[active] <= ends[active] - 8]
    return suspects
