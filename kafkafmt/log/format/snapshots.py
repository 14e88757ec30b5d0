"""Producer snapshots: what a broker knows of each producer at an offset (Kafka: ProducerStateManager, ProducerSnapshot).

Layout of `<offset>.snapshot` (big-endian), the same from 0.11 to today:

     0  version      int16     1
     2  crc          uint32    CRC-32C of everything from byte 6 to the end
     6  entry count  int32
    10  entries of 46 bytes: producer id int64, epoch int16, last sequence int32, last offset int64, offset delta
        int32, timestamp int64, coordinator epoch int32, first offset of the current transaction int64 (-1: none)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from ..._backend import core
from ...errors import ChecksumError, StructureError, TruncatedError, UnsupportedError

VERSION = 1
MAX_SEQUENCE = 2**31 - 1
_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_START = 6


class ProducerEntry(NamedTuple):
    """A producer's last batch, and its open transaction. -1 where there is none: sequence, offset, coordinator epoch, first offset."""

    producer_id: int
    epoch: int = -1
    last_sequence: int = -1
    last_offset: int = -1
    offset_delta: int = 0
    timestamp: int = -1
    coordinator_epoch: int = -1
    txn_first_offset: int = -1

    @property
    def first_sequence(self) -> int:
        """The last batch's base sequence, which wraps behind 2^31 - 1."""
        return sequence_after(self.last_sequence, -self.offset_delta) if self.last_offset >= 0 else -1


def sequence_after(sequence: int, n: int) -> int:
    """The sequence number n further on, or before; numbers go from 0 to 2^31 - 1 and round again."""
    return (sequence + n) % (MAX_SEQUENCE + 1)


def read_snapshot(data: bytes) -> list[ProducerEntry]:
    """The producers of a snapshot file. Bytes behind the last entry are as little minded as Kafka minds them."""
    if len(data) < 2:
        raise TruncatedError(f"a snapshot of {len(data)} bytes has no version")
    version = int.from_bytes(data[:2], "big", signed=True)
    if version != VERSION:
        raise UnsupportedError(f"snapshot version {version} is not {VERSION}")
    if len(data) < _HEAD.size:
        raise TruncatedError(f"a snapshot of {len(data)} bytes ends before its entry count", len(data))
    _, crc, count = _HEAD.unpack_from(data)
    if core.crc32c(data[_CRC_START:]) != crc:
        raise ChecksumError("the snapshot's CRC does not match its crc field", 2)
    if not 0 <= count <= (len(data) - _HEAD.size) // _ENTRY.size:
        raise StructureError(f"entry count {count} does not fit the snapshot's {len(data)} bytes", _CRC_START)
    return [ProducerEntry._make(e) for e in _ENTRY.iter_unpack(data[_HEAD.size : _HEAD.size + count * _ENTRY.size])]


def snapshot_bytes(producers: Iterable[ProducerEntry]) -> bytes:
    """A snapshot file of these producers."""
    entries = [_ENTRY.pack(*p) for p in producers]
    body = struct.pack(">i", len(entries)) + b"".join(entries)
    return struct.pack(">hI", VERSION, core.crc32c(body)) + body
