"""Define `BatchBuilder`, which builds record batches one after another.

`BatchBuilder` checks that the record format supports the settings of a batch. The class
`RecordBuffer` encodes the records. Both classes follow the rules of Kafka's
``MemoryRecordsBuilder``. If a setting or a record breaks a rule, they raise an InvalidError whose
code names the rule.
"""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any

from .._backend import core
from ..constants import (
    CODEC_LZ4,
    CODEC_NAMES,
    CODEC_NONE,
    CODEC_ZSTD,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    ENTRY_OVERHEAD,
    LOG_APPEND_TIME_BIT,
    MAGIC_V0,
    MAGIC_V2,
    MAX_BATCH_LENGTH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    Codec,
)
from ..errors import InvalidError
from ..support.arguments import fitting, integer
from ..support.text import quantity, shown
from .columns import Columns
from .lz4v0 import with_wrong_checksum
from .signatures import AppendRecord, ExtendRecords

if TYPE_CHECKING:
    from ..codecs.compressor import Compressor

_CHUNK_ROWS = 1024
"""Number of records that are passed to `RecordBuffer` in one call."""


def codec_id(codec: Codec | int) -> int:
    """Return the id of a codec that is given by name (as in ``compression.type``) or by id."""
    names: dict[Any, int] = {name: i for i, name in enumerate(CODEC_NAMES)} | {i: i for i in range(len(CODEC_NAMES))}
    if isinstance(codec, bool) or codec not in names:
        raise ValueError(f"codec is {shown(codec)}; it must be one of {', '.join(CODEC_NAMES)}")
    return names[codec]


def format_number(magic: int) -> int:
    """Return `magic` as an int. Raise an error if it is not 0, 1 or 2."""
    if isinstance(magic, bool) or not hasattr(magic, "__index__") or magic not in (0, 1, 2):
        raise ValueError(f"magic is {shown(magic)}; it must be 0, 1 or 2")
    return int(magic)


class BatchBuilder:
    """Builds record batches one after another.

    Append records until the batch is full. Then call `finish`, which returns the batch and starts
    the next batch.

    Parameters
    ----------
    magic : {2, 1, 0}, default 2
        Record format. In formats 0 and 1, a compressed batch is a wrapper message, and an
        uncompressed batch is a sequence of messages.
    codec : str or int, default "none"
        Name or id of the codec: none, gzip, snappy, lz4 or zstd (``compression.type``).
    level : int, optional
        Compression level, as in Kafka's setting ``compression.gzip.level``. By default, the default
        level of the codec is used.
    max_bytes : int, optional
        Largest size of a batch in bytes. A compressed batch does not exceed this size even if its
        records are incompressible. As in Kafka's producer, a record that is larger than `max_bytes`
        is put into a separate batch. By default, only the limit of the format applies.
    base_offset : int, optional
        Base offset of the first batch. By default, the offset of the first record, or 0 if that
        record has no offset.
    producer_id, producer_epoch, base_sequence : int, default -1
        Producer id and producer epoch of the batches, and sequence number of the first record. -1
        means none.
    transactional, control : bool, default False
        Whether to set the transactional bit or the control bit of the batches.
    leader_epoch : int, default -1
        Partition leader epoch of the batches.
    log_append_time : int, optional
        Log append time in ms. If it is given, the batches have the timestamp type LogAppendTime. By
        default, they have the timestamp type CreateTime.
    delete_horizon : int, optional
        Time in ms from which compaction may remove tombstones and transaction markers. By default,
        the batches have no delete horizon.

    Attributes
    ----------
    append : append(key, value, timestamp=-1, headers=(), offset=None) -> bool
        Append a record and return True. If the record does not fit into the current batch, return
        False and append nothing.
    extend : extend(records, start=0) -> int
        Append the records of a list or tuple, beginning at index `start`. Return the index of the
        first record that does not fit, or the number of records if all of them fit.
    has_room_for : has_room_for(key, value, timestamp=-1, headers=(), offset=None) -> bool
        Check a record without appending it. The result or error is the same as that of `append`.
    magic : int
        Record format.
    codec : str
        Name of the codec.

    Raises
    ------
    InvalidError
        The record format does not support a setting, for example zstd in formats 0 and 1, or a
        record breaks one of Kafka's rules. `InvalidError.code` is the name of the rule.
    TypeError, ValueError, OverflowError
        An argument or a field of a record has a wrong type or value, or is out of range.

    Notes
    -----
    Records are tuples ``(key, value[, timestamp[, headers[, offset]]])`` or `Record` objects.
    Timestamps are in ms since 1970-01-01 UTC; -1 means none. Records get their offsets as follows:

    - Tuples that contain an offset and Record objects keep their offsets. Gaps between offsets are
      kept.
    - A tuple without an offset, or with the offset None, gets the next offset. A Record with the
      offset -1 also gets the next offset. A Record has the offset -1 if its offset was not decoded.
    - Offsets must increase. An offset that is below `base_offset`, or not above all previous
      offsets, causes an InvalidError with the code "offset_order".
    - `extend` raises ValueError if Records that keep their offsets are mixed with records that get
      the next offset.

    Offsets and sequence numbers continue from batch to batch. Several threads can use one builder.
    If another thread appends records while `finish` compresses the batch, `finish` raises
    RuntimeError.

    Kafka's counterpart is ``MemoryRecordsBuilder``.

    Examples
    --------
    >>> builder = kafkafmt.records.BatchBuilder(codec="gzip", max_bytes=16384, base_offset=100)
    >>> builder.append(b"key", b"value", 1_700_000_000_000)
    True
    >>> batch = builder.finish()
    >>> [(record.offset, record.value) for record in kafkafmt.read_records(batch)]
    [(100, b'value')]
    """

    append: AppendRecord
    extend: ExtendRecords
    has_room_for: AppendRecord

    magic: int

    def __init__(
        self,
        *,
        magic: int = MAGIC_V2,
        codec: Codec | int = CODEC_NONE,
        level: int | None = None,
        max_bytes: int | None = None,
        base_offset: int | None = None,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
        control: bool = False,
        leader_epoch: int = -1,
        log_append_time: int | None = None,
        delete_horizon: int | None = None,
    ) -> None:
        number = codec_id(codec)
        magic = format_number(magic)
        for name, value, size in (
            ("producer_id", producer_id, 64), ("producer_epoch", producer_epoch, 16), ("base_sequence", base_sequence, 32),
            ("leader_epoch", leader_epoch, 32), ("base_offset", base_offset or 0, 64),
        ):  # fmt: skip
            fitting(name, value, size)
        if magic in (0, 1):
            _check_format(magic, number, producer_id, transactional, control, log_append_time, delete_horizon)
        _check_producer(producer_id, producer_epoch, base_sequence, transactional, control)
        for name, time in (("log_append_time", log_append_time), ("delete_horizon", delete_horizon)):
            if time is not None and fitting(name, time, 64) < 0:
                raise InvalidError(f"{name} is {time}; it cannot be negative", code="timestamp")
        self.magic, self.codec = magic, CODEC_NAMES[number]
        self._compressor = _compressor(number, level)
        self._finishing = RLock()  # Only one thread at a time can use a compressor.
        attributes = number
        for bit, given in (
            (LOG_APPEND_TIME_BIT, log_append_time is not None),
            (TRANSACTIONAL_BIT, transactional),
            (CONTROL_BIT, control),
            (DELETE_HORIZON_BIT, delete_horizon is not None),
        ):
            attributes |= bit if given else 0
        self._records = core.RecordBuffer(
            magic,
            attributes,
            None if max_bytes is None else self._uncompressed(max_bytes),
            base_offset,
            leader_epoch,
            producer_id,
            producer_epoch,
            base_sequence,
            NO_TIMESTAMP if log_append_time is None else log_append_time,
            NO_TIMESTAMP if delete_horizon is None else delete_horizon,
        )
        # Use the methods of RecordBuffer directly. Python methods that call them would take twice the time.
        self.append, self.extend, self.has_room_for = (
            self._records.append,
            self._records.extend,
            self._records.has_room_for,
        )

    def copying_stored(self) -> BatchBuilder:
        """Accept any timestamp, because the records are copied from stored batches, and return this builder.

        Kafka's brokers append batches whose timestamps are below -1, but ``MemoryRecordsBuilder`` rejects such timestamps.
        """
        self._records.stored = True
        return self

    def __repr__(self) -> str:
        return f"<kafkafmt.records.BatchBuilder: format {self.magic}, {self.codec}, {quantity(self.count, 'record')}, {self.size} bytes>"

    def _uncompressed(self, max_bytes: int) -> int:
        """Return the largest uncompressed size of a batch that has at most `max_bytes` after compression."""
        integer("max_bytes", max_bytes, 1, "a number of bytes")
        if self._compressor is None:
            return min(max_bytes, MAX_BATCH_LENGTH + ENTRY_OVERHEAD)
        low, high = 0, min(max_bytes, MAX_BATCH_LENGTH)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._compressor.max_size(middle) <= max_bytes else (low, middle - 1)
        return low

    @property
    def count(self) -> int:
        """Number of records in the current batch."""
        return self._records.count

    @property
    def size(self) -> int:
        """Size of the current batch in bytes before compression.

        If the codec is none, `size` is exactly the size of the batch that `finish` returns.
        """
        return self._records.size

    @property
    def max_size(self) -> int:
        """Largest size in bytes that the current batch can have after compression."""
        return self.size if self._compressor is None else self._compressor.max_size(self.size)

    @property
    def next_offset(self) -> int:
        """Offset of the next record that is appended without an offset."""
        return self._records.next_offset

    def append_columns(self, columns: Columns, start: int = 0, stop: int | None = None) -> int:
        """Append the records in `columns` one by one, until the batch is full.

        Parameters
        ----------
        columns : Columns
            The result of `columns_of`.
        start : int, default 0
            First row to append.
        stop : int, optional
            Index after the last row to append. By default, all rows from `start` on are appended.

        Returns
        -------
        int
            Index of the first row that does not fit, or `stop` if all rows fit.

        Raises
        ------
        InvalidError
            A record breaks one of Kafka's rules. The rows before it have been appended.
        """
        end = columns.rows if stop is None else min(stop, columns.rows)
        return self._records.append_columns(*columns[1:], start, end)

    def append_many(self, columns: Columns, start: int = 0) -> tuple[int, list[bytes]]:
        """Append the records in `columns` one by one, and finish each batch that becomes full.

        Parameters
        ----------
        columns : Columns
            The result of `columns_of`.
        start : int, default 0
            First row to append.

        Returns
        -------
        row : int
            Index of the first row that was not appended. If it is less than the number of rows,
            call the method again with this index as `start`.
        batches : list of bytes
            The complete batches, in offset order.
        """
        if self._compressor is not None:
            taken = self.append_columns(columns, start)
            return taken, [self.finish()] if taken < columns.rows else []
        with self._finishing:
            taken = self._records.append_columns(*columns[1:], start, min(columns.rows, start + _CHUNK_ROWS), True)
            return taken, self._records.take_batches()

    def finish(self, last_offset: int | None = None) -> bytes:
        """Return the current batch as bytes, and start the next batch.

        Parameters
        ----------
        last_offset : int, optional
            Last offset of the batch. It can be higher than the offset of the last record, as in a
            compacted log. By default, it is the offset of the last record.

        Returns
        -------
        bytes
            The batch, or b"" if it has no records.

        Raises
        ------
        RuntimeError
            Another thread appended records while the batch was being compressed.
        """
        with self._finishing:
            records = self._records
            if self._compressor is None:
                records.close(None, last_offset)
            elif count := records.count:
                payload: bytes | memoryview = self._compressor.compress(records.records())
                if self.codec == CODEC_NAMES[CODEC_LZ4] and self.magic == MAGIC_V0:
                    payload = with_wrong_checksum(memoryview(payload))
                records.close(payload, last_offset, count)
            return records.take_closed()


def _compressor(codec: int, level: int | None) -> Compressor | None:
    if codec == CODEC_NONE:
        if level is not None:
            raise ValueError(f"level is {level}, but codec is none; pass a codec that compresses, or omit level")
        return None
    from ..codecs.compressor import Compressor  # Import it only here, because it loads compression packages.

    return Compressor(codec, level)


def _check_format(
    magic: int,
    codec: int,
    producer_id: int,
    transactional: bool,
    control: bool,
    log_append_time: int | None,
    delete_horizon: int | None,
) -> None:
    """Raise InvalidError if a setting requires a newer record format than `magic`, which is 0 or 1."""
    for code, what, given in (
        ("codec_in_format", CODEC_NAMES[codec], codec >= CODEC_ZSTD),
        ("transactional_in_format", "transactions", transactional),
        ("producer_id_in_format", "producer ids", producer_id != NO_PRODUCER_ID),
        ("control_in_format", "control records", control),
        ("delete_horizon_in_format", "delete horizons", delete_horizon is not None),
        ("timestamp_in_format", "timestamps", magic == MAGIC_V0 and log_append_time is not None),
    ):
        if given:
            raise InvalidError(f"format {magic} does not support {what}", code=code)


def _check_producer(
    producer_id: int, producer_epoch: int, base_sequence: int, transactional: bool, control: bool
) -> None:
    if producer_id < 0:
        if producer_id != NO_PRODUCER_ID:
            raise InvalidError(f"producer_id is {producer_id}; it must be -1, or at least 0", code="producer_id")
        if transactional:
            raise InvalidError(
                "transactional is True, but producer_id is not given; a transactional batch needs a producer id",
                code="producer_id",
            )
        return
    if producer_epoch < 0:
        raise InvalidError(
            f"producer_epoch is {producer_epoch}; it cannot be negative if producer_id is given",
            code="producer_epoch",
        )
    if base_sequence < 0 and not control:
        raise InvalidError(
            f"base_sequence is {base_sequence}; it cannot be negative if producer_id is given",
            code="base_sequence",
        )
