"""Iterate over the batches and messages in a buffer as `Batch` objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, overload

from .._backend import core
from ..constants import (
    CODEC_MASK,
    CODEC_NAMES,
    CODEC_NONE,
    CONTROL_BIT,
    CRC_START,
    DEFAULT_MAX_BATCH_BYTES,
    DELETE_HORIZON_BIT,
    LEGACY_KEY_AT,
    LOG_APPEND_TIME_BIT,
    MAGIC_AT,
    MAGIC_V0,
    MAGIC_V2,
    MAX_SEQUENCE,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_NONE,
    TRANSACTIONAL_BIT,
)
from ..errors import StructureError
from ..support import arguments
from ..support.sharing import shared
from ..support.text import quantity
from ..types import BatchTable, Buffer, byte_view
from .reader import iter_tables
from .stream import read_records


def _as_int32(n: int) -> int:
    """Wrap `n` to a signed 32-bit integer, as Java's int arithmetic does."""
    return (n + 2**31) % 2**32 - 2**31


@shared
def iter_batches(buffer: Buffer, *, check_crc: bool = True) -> Iterator[Batch]:
    """Iterate over the batches and messages in a buffer without decompressing them.

    Several threads can share the iterator.

    Parameters
    ----------
    buffer : bytes-like
        Batches or messages (magic 0 to 2), back to back.
    check_crc : bool, default True
        Check the CRC of each batch.

    Yields
    ------
    Batch
        The next batch, wrapper message or plain message. An incomplete batch at the end of the
        buffer is ignored.

    Raises
    ------
    KafkaFormatError
        A batch is damaged. The batches before it have been yielded.

    Examples
    --------
    >>> data = kafkafmt.build_batch([(b"k", b"v")], codec="gzip", base_offset=7)
    >>> [(batch.base_offset, batch.count, batch.codec) for batch in kafkafmt.iter_batches(data)]
    [(7, 1, 'gzip')]
    """
    arguments.check_buffer(buffer)
    for table in iter_tables(buffer, check_crc=check_crc):
        for i in range(len(table)):
            yield Batch(buffer, table[i : i + 1].copy())


class Batch:
    """A record batch (magic 2), or a message (magic 0 or 1).

    A compressed message is a wrapper message. Its value is a compressed message set.

    Create instances with `iter_batches` or `Partition.batches`. An instance keeps a reference to the buffer. Fields that
    do not exist in the record format are -1. In magic 0 and 1, leader_epoch, producer_id,
    producer_epoch and base_sequence are -1. In magic 0, the timestamps are -1.

    Notes
    -----
    Kafka's counterparts are ``DefaultRecordBatch`` and ``AbstractLegacyRecordBatch``.
    """

    segment: str | None
    """Name of the `.log` file that contains the batch; None if the batch was read from a buffer."""

    def __init__(self, buffer: Buffer, row: BatchTable, segment: str | None = None, buffer_position: int = 0) -> None:
        self._buffer, self._table, self._row = byte_view(buffer), row, row[0]
        self.segment, self._buffer_position = segment, buffer_position

    def __repr__(self) -> str:
        kind = "batch" if self.magic == MAGIC_V2 else "wrapper" if self.is_compressed else "message"
        count = "" if self.count is None else f", {quantity(self.count, 'record')}"
        return f"<{kind} of format {self.magic} at {self.position}: last offset {self.last_offset}{count}, {self.codec}, {self.size} bytes>"

    def _int(self, name: str) -> int:
        return int(self._row[name])

    @property
    def position(self) -> int:
        """Position of the batch in the buffer, or in the file `segment`."""
        return self._buffer_position + self._int("position")

    @property
    def size(self) -> int:
        """Size of the batch in bytes, including the offset and length fields."""
        return self._int("size")

    @property
    def magic(self) -> int:
        """Record format: 0, 1 or 2."""
        return self._int("magic")

    @property
    def attributes(self) -> int:
        """Attribute bits of the batch.

        In magic 0 and 1, attribute bits that the record format does not define are returned as 0.
        """
        return self._int("attributes")

    @property
    def codec(self) -> str:
        """Name of the codec: "none", "gzip", "snappy", "lz4" or "zstd".

        If Kafka does not define the codec id, the id is returned as a string.
        """
        number = self.attributes & CODEC_MASK
        return CODEC_NAMES[number] if number < len(CODEC_NAMES) else str(number)

    @property
    def is_compressed(self) -> bool:
        """Whether the batch or message is compressed. A compressed message is a wrapper message."""
        return self.attributes & CODEC_MASK != CODEC_NONE

    @property
    def timestamp_type(self) -> int:
        """Timestamp type: 0 for CreateTime, 1 for LogAppendTime, -1 for none (magic 0)."""
        return TIMESTAMP_TYPE_NONE if self.magic == MAGIC_V0 else int(self.attributes & LOG_APPEND_TIME_BIT != 0)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch contains control records, such as a transaction marker."""
        return self.attributes & CONTROL_BIT != 0

    @property
    def base_offset(self) -> int:
        """Offset of the first record. A wrapper message is decompressed to find this offset.

        Raises KafkaFormatError if a wrapper message is damaged or empty.
        """
        if self.count is not None:
            return self._int("base_offset")
        first = next(self.records(), None)
        if first is None:
            raise StructureError("message set of a wrapper is empty", self.position, self._int("base_offset"))
        return int(first.offset)

    @property
    def last_offset(self) -> int:
        """Last offset of the batch. Compaction may have removed the record with this offset."""
        return self._int("base_offset") + self._int("last_offset_delta")

    @property
    def count(self) -> int | None:
        """Number of records, as stored in the header.

        For a wrapper message, the number of records is None, because the header does not contain
        this number.
        """
        return None if self._int("count") < 0 and self.magic < MAGIC_V2 else self._int("count")

    @property
    def base_timestamp(self) -> int:
        """Timestamp in ms to which the timestamp deltas of the records are added.

        If the batch has a delete horizon, the base timestamp is the delete horizon.
        """
        return self._int("base_timestamp")

    @property
    def max_timestamp(self) -> int:
        """Largest record timestamp in ms, as stored in the header; -1 if there is none."""
        return self._int("max_timestamp")

    @property
    def delete_horizon(self) -> int | None:
        """Time after which compaction may remove tombstones and transaction markers, in milliseconds since 1970-01-01 UTC.

        None if the batch has no delete horizon.
        """
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def leader_epoch(self) -> int:
        """Partition leader epoch; -1 if there is none."""
        return self._int("leader_epoch")

    @property
    def producer_id(self) -> int:
        """Producer id; -1 if there is none."""
        return self._int("producer_id")

    @property
    def producer_epoch(self) -> int:
        """Producer epoch; -1 if there is none."""
        return self._int("producer_epoch")

    @property
    def base_sequence(self) -> int:
        """Sequence number of the first record; -1 if there is none."""
        return self._int("base_sequence")

    @property
    def last_sequence(self) -> int:
        """Sequence number that belongs to the last offset; -1 if the base sequence is -1.

        The sequence number is computed from the base sequence and the last offset delta, as in
        Kafka's ``DefaultRecordBatch.lastSequence``. Sequence numbers wrap from ``2**31 - 1`` to 0.
        If a field of a corrupted batch is negative, the result overflows as with Java's int type.
        """
        base, delta = self.base_sequence, self._int("last_offset_delta")
        if base == NO_SEQUENCE:
            return NO_SEQUENCE
        wraps = base > _as_int32(MAX_SEQUENCE - delta)
        return _as_int32(delta - (MAX_SEQUENCE - base) - 1 if wraps else base + delta)

    @property
    def crc(self) -> int:
        """Checksum that is stored in the batch: CRC-32C in magic 2, CRC-32 in magic 0 and 1."""
        return self._int("crc")

    @property
    def computed_crc(self) -> int:
        """Checksum that is computed from the current bytes of the batch."""
        if self.magic == MAGIC_V2:
            crc: int = core.crc32c(self.data, 0, CRC_START)
        else:
            crc = core.crc32(self.data, 0, MAGIC_AT)
        return crc

    @property
    def is_valid(self) -> bool:
        """True if the stored and the computed checksum are equal. The records are not checked."""
        return self.crc == self.computed_crc

    @property
    def data(self) -> memoryview:
        """The complete batch, as a view into the buffer."""
        return self._buffer[self._int("position") : self._int("position") + self.size]

    @property
    def payload(self) -> memoryview:
        """Payload of the batch, as a view into the buffer.

        In magic 2, the payload consists of the records, which may be compressed. In magic 0 and 1,
        the payload is the value of the message, or b"" if the value is null. The value of a wrapper
        message is a compressed message set.
        """
        if self.magic == MAGIC_V2:
            return self._buffer[self._int("payload_position") : self._int("position") + self.size]
        return self._field(1)[1] or memoryview(b"")

    @property
    def key(self) -> memoryview | None:
        """Key of a message (magic 0 and 1); None if it is null.

        `key` is always None in magic 2, because each record in the batch has a separate key.
        """
        return None if self.magic == MAGIC_V2 else self._field(0)[1]

    @property
    def key_size(self) -> int:
        """Length of the key of a message in bytes. It is -1 if the key is null. In magic 2, it is always -1."""
        return -1 if self.magic == MAGIC_V2 else self._field(0)[0]

    @property
    def payload_size(self) -> int:
        """Length of the payload in bytes; -1 if the value of a message is null."""
        return len(self.payload) if self.magic == MAGIC_V2 else self._field(1)[0]

    def _field(self, index: int) -> tuple[int, memoryview | None]:
        """Return the stored length and the bytes of a message's key (0) or value (1)."""
        # The bytes never extend past the end of the message, even if the stored length is too
        # large.
        data, at, size, field = self.data, LEGACY_KEY_AT[self.magic], -1, None
        for _ in range(index + 1):
            size = int.from_bytes(data[at : at + 4], "big", signed=True)
            at += 4
            field = data[at : at + size] if size >= 0 else None
            at += max(size, 0)
        return size, field

    @overload
    def records(
        self, *, views: Literal[False] = False, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    ) -> Iterator[core.Record]: ...

    @overload
    def records(
        self, *, views: bool, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    ) -> Iterator[core.Record[bytes | memoryview]]: ...

    def records(
        self, *, views: bool = False, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    ) -> Iterator[core.Record[bytes | memoryview]]:
        """Return an iterator over the records of the batch.

        If the batch is a control batch, its control records are returned.

        Parameters
        ----------
        views : bool, default False
            If the batch is uncompressed, return keys and values as memoryviews of the buffer
            instead of bytes.
        max_batch_bytes : int, default 134217728 (128 MiB)
            Largest size of the batch in bytes after decompression.

        Returns
        -------
        iterator of Record
            The records in the order of the batch.

        Raises
        ------
        KafkaFormatError
            The records are damaged. The CRC of the batch is not checked.
        """
        return read_records(self.data, control=True, check_crc=False, views=views, max_batch_bytes=max_batch_bytes)
