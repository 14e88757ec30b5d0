"""Read batches whose records are complete, although the end of their compressed data is odd."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._backend import core
from ..constants import CODEC_LZ4, CODEC_MASK, CODEC_NONE, CODEC_ZSTD, MAGIC_V0
from ..errors import TooLargeError
from ..odd_codec_ends import Prefix, decompress_prefix
from ..types import BATCH_DTYPE, BatchTable, Buffer, IntArray, RecordColumns, view_of
from .lz4v0 import with_right_checksum

_LZ4_CHECKED, _LZ4_REQUIRED = 0b11100011, 0b01100000
"""Flags of an lz4 frame that Java requires: version 1, independent blocks, and no reserved bit, which includes the bit
for a dictionary.
"""
_LZ4_BLOCK_CHECKSUM, _LZ4_CONTENT_SIZE = 0x10, 0x08
_LZ4_STORED = 0x80000000


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


def refused_by_java(buffer: Buffer, table: BatchTable) -> list[OddEnd]:
    """Find payloads that kafkafmt reads, but Kafka's Java code does not.

    The rules are those of Kafka's ``Lz4BlockInputStream``. Every codec except zstd also requires at least
    one byte.
    """
    codecs = table["attributes"] & CODEC_MASK
    found: list[OddEnd] = []
    if not (codecs != CODEC_NONE).any():
        return found
    empty = (table["payload_size"] == 0) & (codecs != CODEC_NONE) & (codecs != CODEC_ZSTD) & (table["count"] == 0)
    found += [OddEnd(int(p), "the compressed data is empty", False) for p in table["position"][empty]]
    frames = np.flatnonzero((codecs == CODEC_LZ4) & (table["payload_size"] >= 7))
    if not len(frames):
        return found
    data = np.frombuffer(view_of(buffer), np.uint8)
    starts = table["payload_position"][frames]
    ends, flags = starts + table["payload_size"][frames], data[starts + 4]
    for i in np.flatnonzero((flags & _LZ4_CHECKED) != _LZ4_REQUIRED).tolist():
        reason = "lz4 blocks that depend on earlier blocks" if not flags[i] & 0x20 else "flags of an lz4 frame"
        found.append(OddEnd(int(table["position"][frames[i]]), f"Java does not read {reason}", False))
    for i in _with_empty_blocks(data, starts, ends, flags).tolist():
        found.append(OddEnd(int(table["position"][frames[i]]), "Java ends an lz4 frame at an empty block", False))
    return found


def _with_empty_blocks(data: Any, starts: IntArray, ends: IntArray, flags: Any) -> IntArray:
    """Return the indexes of lz4 frames that contain an empty block without compression, which is not the last block."""
    positions = starts + 7 + np.where(flags & _LZ4_CONTENT_SIZE, 8, 0) + np.where(flags & 1, 4, 0)
    checksums = np.where(flags & _LZ4_BLOCK_CHECKSUM, 4, 0)
    empty: IntArray = np.empty(0, np.int64)
    active = np.flatnonzero(positions <= ends - 8)
    while len(active):
        sizes = data[positions[active][:, np.newaxis] + np.arange(4)].view("<u4")[:, 0].astype(np.int64)
        at_empty = sizes == _LZ4_STORED
        empty = np.append(empty, active[at_empty])
        positions[active] += 4 + (sizes & (_LZ4_STORED - 1)) + checksums[active]
        active = active[~at_empty & (sizes != 0)]
        active = active[positions[active] <= ends[active] - 8]
    return empty
