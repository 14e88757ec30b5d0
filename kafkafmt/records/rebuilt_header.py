"""Copy the producer, leader epoch and attributes of a v2 batch into a batch that was rebuilt from its records."""

from __future__ import annotations

import struct

from .._backend import core
from ..constants import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    COUNT_AT,
    CRC_AT,
    CRC_START,
    DELETE_HORIZON_BIT,
    LEADER_EPOCH_AT,
    MAGIC_AT,
    PRODUCER_ID_AT,
)

_INT16, _UINT32 = struct.Struct(">h"), struct.Struct(">I")


def with_header_of(original: memoryview | bytes, built: bytes) -> bytes:
    """Return a rebuilt v2 batch with the producer, the leader epoch and the attributes of the original batch."""
    # The codec and the delete horizon of the rebuilt batch do not change. `BatchBuilder` cannot
    # copy the other fields, because it rejects some values that readers accept, such as a producer
    # id without a sequence number. Bytes after the header of `original` are ignored.
    data = bytearray(built)
    data[LEADER_EPOCH_AT:MAGIC_AT] = original[LEADER_EPOCH_AT:MAGIC_AT]
    data[PRODUCER_ID_AT:COUNT_AT] = original[PRODUCER_ID_AT:COUNT_AT]
    own = CODEC_MASK | DELETE_HORIZON_BIT
    attributes = _INT16.unpack_from(data, ATTRIBUTES_AT)[0] & own
    attributes |= _INT16.unpack_from(original, ATTRIBUTES_AT)[0] & ~own
    _INT16.pack_into(data, ATTRIBUTES_AT, attributes)
    _UINT32.pack_into(data, CRC_AT, core.crc32c(data, 0, CRC_START))
    return bytes(data)
