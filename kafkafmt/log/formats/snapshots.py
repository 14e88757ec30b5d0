"""Parse and serialize producer snapshots: the state of each producer at an offset of the log.

Kafka's counterparts are ``ProducerStateManager`` and the schema ``ProducerSnapshot``. The layout of
`<offset>.snapshot` has been the same since Kafka 0.11. All numbers are big-endian.

The file begins with the version (int16, always 1), a CRC-32C of all bytes from byte 6 on (uint32),
and the number of entries (int32). Each entry has 46 bytes: producer id (int64), producer epoch
(int16), last sequence number (int32), last offset (int64), last offset delta (int32), timestamp
(int64), coordinator epoch (int32), and the first offset of the open transaction (int64, -1 if no
transaction is open).
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from ..._backend import core
from ...errors import ChecksumError, KafkaFormatError, StructureError, TruncatedError, UnsupportedError
from ...support.text import quantity

VERSION = 1
MAX_SEQUENCE = 2**31 - 1
_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_START = 6
STATE_BYTES = _ENTRY.size  # size of a serialized entry


class ProducerEntry(NamedTuple):
    """Entry of a producer in a snapshot file. It describes the producer's last batch and open transaction."""

    producer_id: int
    epoch: int = -1  # producer epoch of the last batch
    last_sequence: int = -1  # sequence number of the last record in the last batch; -1 if there is none
    last_offset: int = -1  # last offset of the last batch; -1 if there is none
    offset_delta: int = 0  # last offset delta of the last batch
    timestamp: int = -1  # largest timestamp of the last batch, or the timestamp of the last marker, in ms
    coordinator_epoch: int = -1
    """Epoch of the transaction coordinator that wrote the last marker. -1 if there is no marker."""
    txn_first_offset: int = -1  # first offset of the open transaction; -1 if no transaction is open

    @property
    def first_sequence(self) -> int:
        """Base sequence of the last batch, or -1 if there is no last batch."""
        return sequence_after(self.last_sequence, -self.offset_delta) if self.last_offset >= 0 else -1


_new_entry = partial(tuple.__new__, ProducerEntry)
"""Create an entry from a tuple of its fields. `ProducerEntry._make` takes twice as long."""


def sequence_after(sequence: int, n: int) -> int:
    """Add `n`, which can be negative, to a sequence number. Sequence numbers wrap around: 0 follows 2**31 - 1."""
    return (sequence + n) % (MAX_SEQUENCE + 1)


def states_in(data: bytes) -> bytes:
    """Check a snapshot file, and return the bytes of its entries. Bytes after the last entry are ignored, as in Kafka."""
    if len(data) < _HEAD.size:
        raise _cut_off(data)
    version, crc, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise _unsupported(version)
    if core.crc32c(data[_CRC_START:]) != crc:
        raise ChecksumError("the snapshot's CRC does not match its crc field", 2)
    if not 0 <= count <= (len(data) - _HEAD.size) // _ENTRY.size:
        raise StructureError(
            f"the entry count, {count}, does not match the size of the snapshot, {len(data)} bytes", _CRC_START
        )
    return data[_HEAD.size : _HEAD.size + count * _ENTRY.size]


def _cut_off(data: bytes) -> KafkaFormatError:
    """Return the error for a file that is too short for the head of a snapshot."""
    if len(data) < 2:
        return TruncatedError(f"the snapshot has {quantity(len(data), 'byte')} and ends before its version")
    version = int.from_bytes(data[:2], "big", signed=True)
    if version != VERSION:
        return _unsupported(version)
    return TruncatedError(f"the snapshot has {len(data)} bytes and ends before its entry count", len(data))


def _unsupported(version: int) -> KafkaFormatError:
    return UnsupportedError(f"the snapshot has version {version}; only version {VERSION} is supported")


def entries_of(states: bytes) -> list[ProducerEntry]:
    """Parse the entries of a snapshot file. `states` contains only the entries."""
    return list(map(_new_entry, _ENTRY.iter_unpack(states))) if states else []


def states_of(producers: Iterable[ProducerEntry]) -> bytes:
    return b"".join(itertools.starmap(_ENTRY.pack, producers))


def read_snapshot(data: bytes) -> list[ProducerEntry]:
    """Parse a snapshot file. Bytes after the last entry are ignored, as in Kafka."""
    return entries_of(states_in(data))


def snapshot_of(states: bytes) -> bytes:
    """Return the content of a snapshot file with the serialized entries `states`."""
    body = struct.pack(">i", len(states) // _ENTRY.size) + states
    return struct.pack(">hI", VERSION, core.crc32c(body)) + body


def snapshot_bytes(producers: Iterable[ProducerEntry]) -> bytes:
    return snapshot_of(states_of(producers))
