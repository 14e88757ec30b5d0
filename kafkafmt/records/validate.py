"""Validate record data and assign offsets, as a broker does before it appends.

Kafka's counterpart is ``LogValidator``.

If a check fails, the buffer is left unchanged. Otherwise, each batch is either changed in place or
rebuilt:

- A batch that is changed in place gets a new offset and leader epoch. If its timestamp type or
  maximum timestamp changes, these fields and the CRC are written too.
- A batch is rebuilt if the topic has another codec or format, or if the inner offsets of the batch
  do not count from 0.

The fast path handles v2 batches that are not rebuilt, in one pass of the core. All other data takes
the slow path, which reports errors precisely.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple, Unpack

import numpy as np

from .._backend import core
from ..arguments import fitting, integer, now_millis
from ..constants import (
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    CODEC_NONE,
    CODEC_ZSTD,
    CONTROL_BIT,
    CREATE_TIME,
    DEFAULT_MAX_BATCH_BYTES,
    LOG_APPEND_TIME,
    LOG_APPEND_TIME_BIT,
    MAGIC_V0,
    MAGIC_V2,
    MAX_OFFSET,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
)
from ..errors import InvalidError, KafkaFormatError, OffsetOverflowError, StructureError, TooLargeError
from ..types import BATCH_DTYPE, BatchTable, Buffer, byte_view, view_of
from .assign import codecs_of, next_offset_of, scan_all, set_timestamp
from .builder import BatchBuilder, codec_id, format_number
from .columns import decoded
from .reader import RecordReader
from .record_bytes import RecordBytes
from .renumber import with_increasing_deltas
from .rules import Records, Rules
from .signatures import ValidatorOptions

ORIGINS = ("client", "coordinator", "raft_leader")
TIMESTAMP_TYPES = {"CreateTime": CREATE_TIME, "LogAppendTime": LOG_APPEND_TIME}
_READ_BATCHES = 64
"""Number of batches to read at a time.

It is small, so that the data is still in the CPU cache after it has been scanned.
"""
_MAX_KEPT_BYTES = 1 << 22
"""Size, in bytes, of the largest decompression buffer that a validator keeps between calls."""


class _ValidatedFields(NamedTuple):
    records: Buffer
    rebuilt: str | None
    count: int  # type: ignore[assignment]  # hides tuple.count, which is not used
    first_offset: int
    next_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int


class Validated(RecordBytes, _ValidatedFields):
    """Validated record data, ready to be appended. ``bytes(result)`` returns the record data.

    From Python 3.12 onwards, the result also supports the buffer protocol.

    Attributes
    ----------
    records : bytes-like
        The given buffer if it was changed in place, else a bytearray.
    rebuilt : {"codec", "format", "inner_offsets"} or None
        Reason why batches were rebuilt; None if no batch was rebuilt.
    count : int
        Number of records.
    first_offset : int
        Offset of the first record.
    next_offset : int
        Offset after the last record.
    max_timestamp : int
        Largest timestamp in ms; -1 if there is none.
    offset_of_max_timestamp : int
        Offset of the first record with the largest timestamp; -1 if there is none, or if the
        records were not checked.
    """

    __slots__ = ()

    @property
    def in_place(self) -> bool:
        """True if no batch was rebuilt."""
        return self.rebuilt is None


class _Groups(NamedTuple):
    """Groups of rows in the table of batches, with one array element per group.

    A group is a single batch, a single wrapper message, or a sequence of adjacent uncompressed
    messages. A group that is rebuilt becomes one batch.
    """

    start: np.ndarray
    """First row of the group."""
    stop: np.ndarray
    """Row after the last row of the group."""
    first: np.ndarray
    """Index of the first record of the group."""
    end: np.ndarray
    """Index after the last record of the group."""
    codec: np.ndarray
    """Id of the group's codec in the result."""
    reason: np.ndarray
    """Reason why the group is rebuilt, as an index into REASONS; 0 if it is not rebuilt."""
    offset: np.ndarray
    """Offset that is assigned to the first record of the group."""


class _RecordChecker:
    """Decompresses and checks the records of a batch.

    A checker reuses its decompression buffer, so only one thread can use it at a time.
    """

    def __init__(self, max_batch_bytes: int) -> None:
        from ..codecs import Arena, Decompressor

        self._decompressor, self._arena = Decompressor(max_batch_bytes), Arena(1 << 16)

    @property
    def buffer_size(self) -> int:
        """Size of the decompression buffer in bytes."""
        return len(self._arena.view)

    def check(
        self, payload: memoryview, codec: int, count: int, last_offset_delta: int
    ) -> tuple[int, int, int, bool] | None:
        """Check compressed records, and return a summary of them.

        Return None if the fast path cannot handle the records.

        The summary has four items: the smallest timestamp delta, the largest timestamp delta, the
        offset delta of the record with the largest timestamp delta, and a bool that is True if a
        key is null.
        """
        self._arena.filled = 0
        size = self._decompressor.decompress(codec, payload, self._arena)
        seen: tuple[int, int, int, bool] | None = core.look_at_payload(
            self._arena.view[:size], count, last_offset_delta
        )
        return seen


REASONS = (None, "codec", "format", "inner_offsets")


def validate_and_assign_offsets(buffer: Buffer, next_offset: int, **settings: Unpack[ValidatorOptions]) -> Validated:
    """Validate record batches as a broker does before it appends them, and assign their offsets.

    To validate a lot of data with the same settings, create one `LogValidator` and reuse it.

    Parameters
    ----------
    buffer : bytes-like
        Batches or messages (magic 0 to 2), back to back. A writable buffer is changed in place,
        unless a batch is rebuilt or an error is raised.
    next_offset : int
        Offset of the first record, 0 or higher.
    **settings
        Keyword arguments of `LogValidator`.

    Returns
    -------
    Validated
        The record data with the assigned offsets, and information about it.

    Raises
    ------
    InvalidError
        A broker would reject the data. ``records.KAFKA_ERRORS[error.code]`` is the broker's error.
    KafkaFormatError
        The data is damaged or incomplete.
    TypeError, ValueError, OverflowError
        An argument is wrong or does not fit its field, or an assigned offset would exceed 2**63 -
        2.

    Notes
    -----
    Kafka's counterpart is ``org.apache.kafka.storage.internals.log.LogValidator``. The
    documentation of `LogValidator` describes the one rule that is stricter than in Kafka.

    Examples
    --------
    >>> batch = kafkafmt.build_batch([(b"key", b"value", 1_700_000_000_000)])
    >>> result = kafkafmt.validate_and_assign_offsets(batch, 1000, leader_epoch=3)
    >>> result.first_offset, result.next_offset, result.rebuilt
    (1000, 1001, None)
    """
    return LogValidator(**settings).validate(buffer, next_offset)


class LogValidator:
    """Validate record data against the rules of a broker, and assign offsets.

    Several threads can use one validator.

    Parameters
    ----------
    codec : str or int, default "producer"
        ``compression.type`` of the topic: none, gzip, snappy, lz4 or zstd, or the id of a codec.
        "producer" keeps the codec of each batch.
    level : int, optional
        Compression level of `codec`. By default, the default level of the codec.
    magic : {2, 1, 0}, default 2
        Record format of the topic, to which batches of other formats are converted.
    timestamp_type : {"CreateTime", "LogAppendTime"}, default "CreateTime"
        ``message.timestamp.type`` of the topic.
    now_ms : int, optional
        Current time in ms since 1970-01-01 UTC. By default, the time of the system clock.
    before_max_ms : int, default 2**63 - 1
        ``message.timestamp.before.max.ms``: how far a CreateTime may be before `now_ms`.
    after_max_ms : int, default 3600000 (1 hour)
        ``message.timestamp.after.max.ms``: how far a CreateTime may be after `now_ms`.
    compacted : bool, default False
        Whether the topic is compacted. If it is, every record must have a key.
    leader_epoch : int, default 0
        Partition leader epoch to write into every v2 batch.
    max_message_bytes : int, optional
        ``max.message.bytes``: largest size of a batch or message in bytes, including the offset and
        length fields. By default, there is no limit.
    origin : {"client", "coordinator", "raft_leader"}, default "client"
        Who appends the data. "client" accepts only what a produce request may contain: one v2
        batch, one wrapper message, or uncompressed messages, with a base offset of 0 and no control
        records. The other values accept any number of batches.
    check_records : bool, default True
        Check the records of v2 batches. Use False to trust the batch headers, if the data has been
        validated before.
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch in bytes after decompression.

    Raises
    ------
    TypeError, ValueError, OverflowError
        An argument is wrong or does not fit its field.

    Notes
    -----
    Kafka's counterpart is ``org.apache.kafka.storage.internals.log.LogValidator``. This class is
    stricter than Kafka in one respect. In an uncompressed batch that is not rebuilt, offset deltas
    must increase and may not exceed the last offset delta. Kafka does not check this, and appends
    the inconsistent batch.
    """

    def __init__(
        self,
        *,
        codec: str | int = "producer",
        level: int | None = None,
        magic: int = MAGIC_V2,
        timestamp_type: str = "CreateTime",
        now_ms: int | None = None,
        before_max_ms: int = 2**63 - 1,
        after_max_ms: int = 3_600_000,
        compacted: bool = False,
        leader_epoch: int = 0,
        max_message_bytes: int | None = None,
        origin: str = "client",
        check_records: bool = True,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    ) -> None:
        if origin not in ORIGINS:
            raise ValueError(f"origin is {origin!r}; it can be {', '.join(ORIGINS)}")
        if timestamp_type not in TIMESTAMP_TYPES:
            raise ValueError(f"timestamp_type is {timestamp_type!r}; it can be {', '.join(TIMESTAMP_TYPES)}")
        magic = format_number(magic)
        before_max_ms, after_max_ms = (
            integer("before_max_ms", before_max_ms, 0),
            integer("after_max_ms", after_max_ms, 0),
        )
        if now_ms is not None:
            now_ms = fitting("now_ms", integer("now_ms", now_ms, 0), 64)
        if max_message_bytes is not None:
            max_message_bytes = min(integer("max_message_bytes", max_message_bytes, 0), MAX_OFFSET)
        if codec != "producer" or level is not None:
            # The builder is created only to raise an error if the codec or the level is wrong.
            BatchBuilder(codec=CODEC_NONE if codec == "producer" else codec, level=level)
        self._shown = f"codec={codec!r}, magic={magic}, timestamp_type={timestamp_type!r}, origin={origin!r}"
        self._codec = None if codec == "producer" else codec_id(codec)
        self._create_time, self._client = TIMESTAMP_TYPES[timestamp_type] == CREATE_TIME, origin == "client"
        self._rules = Rules(
            magic, self._create_time, before_max_ms, after_max_ms, compacted, max_message_bytes, self._client
        )
        self._level, self._magic, self._now = level, magic, now_ms
        self._leader_epoch = fitting("leader_epoch", leader_epoch, 32)
        self._check_records, self._max_batch_bytes = check_records, max_batch_bytes
        # Contains at most one checker for each thread that has used the validator concurrently.
        self._spare: list[_RecordChecker] = []

    def __repr__(self) -> str:
        return f"<kafkafmt.LogValidator: {self._shown}>"

    def validate(self, buffer: Buffer, next_offset: int) -> Validated:
        """Validate record data, and assign offsets beginning with `next_offset`.

        Parameters
        ----------
        buffer : bytes-like
            Batches or messages (magic 0 to 2), back to back. A writable buffer is changed in place,
            unless a batch is rebuilt or an error is raised.
        next_offset : int
            Offset of the first record, 0 or higher.

        Returns
        -------
        Validated
            The record data with the assigned offsets, and information about it.

        Raises
        ------
        InvalidError
            A broker would reject the data. ``records.KAFKA_ERRORS[error.code]`` is the broker's
            error.
        KafkaFormatError
            The data is damaged or incomplete. ``records.KAFKA_ERRORS[error.code]`` is the broker's
            error.
        TypeError, ValueError, OverflowError
            An argument is wrong, or an assigned offset would exceed 2**63 - 2.
        """
        next_offset = next_offset_of(next_offset)
        now = now_millis() if self._now is None else self._now
        must_copy = view_of(buffer).readonly and view_of(buffer).c_contiguous
        target = bytearray(view_of(buffer)) if must_copy else buffer
        result = self._fast_path(target, next_offset, now)
        if result is not None:
            return result
        try:
            return self._slow_path(target, next_offset, now)
        except StructureError:
            result = self._renumbered(target, next_offset, now)
            if result is None:
                raise
            return result

    def _fast_path(self, buffer: Buffer, next_offset: int, now: int) -> Validated | None:
        """Validate v2 batches that are not rebuilt; return None if the slow path is needed."""
        if self._magic != MAGIC_V2 or now > MAX_OFFSET // 2:
            return None
        facts = self._validate_buffer(buffer, next_offset, now, self._check_records)
        if facts is None and self._check_records:
            facts = self._validate_compressed(buffer, next_offset, now)
        if facts is None:
            return None
        count, following, max_timestamp, offset_of_max = facts
        return Validated(buffer, None, count, next_offset, following, max_timestamp, offset_of_max)

    def _validate_buffer(
        self, buffer: Buffer, next_offset: int, now: int, check_records: bool
    ) -> tuple[int, int, int, int] | None:
        """Check and change batches in one pass of the core.

        Return four numbers: the number of records, the next offset, the largest timestamp, and the
        offset of the record with this timestamp. If the slow path has to decide, return None.
        """
        return core.validate_buffer(
            buffer, next_offset, self._leader_epoch, self._client, self._codec, self._rules.max_message_bytes, check_records,
            self._rules.compacted, *self._rules.time_bounds(now), None if self._create_time else now,
        )  # fmt: skip

    def _validate_compressed(self, buffer: Buffer, next_offset: int, now: int) -> tuple[int, int, int, int] | None:
        """Check and change a single compressed v2 batch.

        The result has the same form as the result of `_validate_buffer`.
        """
        table = np.empty(1, BATCH_DTYPE)
        row = table[0]
        if not core.scan_batches(buffer, table, 0, None, False).count or row["magic"] != MAGIC_V2:
            return None
        codec, end = int(row["attributes"]) & CODEC_MASK, int(row["position"] + row["size"])
        view = byte_view(buffer)
        if not CODEC_NONE < codec <= CODEC_ZSTD or end < len(view) or self._codec not in (None, codec):
            return None
        try:
            checker = self._spare.pop()
        except IndexError:
            checker = _RecordChecker(self._max_batch_bytes)
        try:
            seen = checker.check(view[BATCH_HEADER_SIZE:], codec, int(row["count"]), int(row["last_offset_delta"]))
        except KafkaFormatError:
            return None
        if checker.buffer_size <= _MAX_KEPT_BYTES:
            self._spare.append(checker)
        if seen is None:
            return None
        earliest, latest, offset_delta_of_latest, null_key = seen
        if not self._rules.certainly_accept(row, earliest, latest, null_key, now):
            return None
        facts = self._validate_buffer(buffer, next_offset, now, False)
        if facts is None or not self._create_time or facts[2] == NO_TIMESTAMP:
            return facts
        return (*facts[:3], next_offset + offset_delta_of_latest)

    def _slow_path(self, buffer: Buffer, next_offset: int, now: int) -> Validated:
        """Validate batches of any kind, report all errors, and rebuild batches if necessary."""
        table = scan_all(buffer)
        self._rules.check_batches(table)
        seen = self._read(buffer, table)
        self._rules.check_records(table, seen, now)
        groups = self._groups(table, seen, next_offset)
        to_rebuild = np.flatnonzero(groups.reason).tolist()
        rebuilt = {i: self._build(buffer, table, groups, i, now) for i in to_rebuild}
        target = bytearray(buffer) if rebuilt else buffer
        latest = self._write(target, table, groups, seen, now)
        if rebuilt:
            target = _joined(target, table, groups, rebuilt)
        end_offset = int(groups.offset[-1] + self._spans(table, groups)[-1])
        return Validated(
            target, REASONS[int(groups.reason.max())], int(seen.ends[-1]), next_offset, end_offset, *latest
        )

    def _renumbered(self, buffer: Buffer, next_offset: int, now: int) -> Validated | None:
        """Renumber the offset deltas of a client's v2 batch, and validate the batch again.

        Return None if the batch is not rebuilt for another codec or format, or if it is still
        invalid. A broker that rebuilds a batch assigns new offsets without reading the deltas, so
        it accepts wrong deltas.
        """
        table = scan_all(buffer)
        stays = self._magic == MAGIC_V2 and self._codec in (None, int(codecs_of(table)[0]))
        if not self._client or len(table) > 1 or table["magic"][0] != MAGIC_V2 or stays:
            return None
        batch = with_increasing_deltas(byte_view(buffer), self._max_batch_bytes)
        if batch is None:
            return None
        try:
            return self._slow_path(batch, next_offset, now)
        except StructureError:
            return None

    def _read(self, buffer: Buffer, table: BatchTable) -> Records:
        """Return those fields of the records that the rules check.

        Decoding the records also checks their structure.
        """
        counts = table["count"].astype(np.int64)
        empty = np.zeros(0, np.int64)
        if not self._check_records and (table["magic"] == MAGIC_V2).all():
            return Records(empty, empty, empty.astype(bool), np.cumsum(counts))
        parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        reader = RecordReader(max_batch_bytes=self._max_batch_bytes, check_offsets=False)
        wrapper = counts < 0
        if wrapper.any():
            borders = np.flatnonzero(wrapper | np.concatenate(([True], wrapper[:-1]))).tolist()
        else:
            borders = list(range(0, len(table), _READ_BATCHES))
        for start, stop in itertools.pairwise([*borders, len(table)]):
            before = len(parts)
            for _, columns in reader.read(buffer, table[start:stop]):
                assert columns.offset is not None
                assert columns.timestamp is not None
                assert columns.key_length is not None
                n = columns.rows
                parts.append((columns.offset[:n].copy(), columns.timestamp[:n].copy(), columns.key_length[:n] < 0))
            if wrapper[start]:
                counts[start] = sum(len(part[0]) for part in parts[before:])
        offsets, timestamps, null_keys = map(
            np.concatenate, zip((empty, empty, empty.astype(bool)), *parts, strict=True)
        )
        return Records(offsets, timestamps, null_keys, np.cumsum(counts))

    def _groups(self, table: BatchTable, seen: Records, next_offset: int) -> _Groups:
        """Divide the rows into groups, decide which ones are rebuilt, and assign their offsets."""
        plain = (table["magic"] < MAGIC_V2) & (codecs_of(table) == CODEC_NONE)
        begins = ~plain
        begins[0] = True
        begins[1:] |= ~plain[:-1]
        start = np.flatnonzero(begins)
        stop = np.append(start[1:], len(table))
        first, end = np.concatenate(([0], seen.ends))[start], seen.ends[stop - 1]
        magic, source = table["magic"][start], codecs_of(table)[start]
        codec = source if self._codec is None else np.full(len(start), self._codec, source.dtype)
        compressed = (source != CODEC_NONE) | (codec != CODEC_NONE)
        reason = np.where(compressed & (source != codec), 1, 0)
        reason[(reason == 0) & ((magic != self._magic) | (compressed & (self._magic == MAGIC_V0)))] = 2
        # Control batches are not compressed, and a batch without records has nothing to compress.
        control = compressed & (source == CODEC_NONE) & ((table["attributes"][start] & CONTROL_BIT) != 0)
        reason[control | ((end == first) & (magic == self._magic))] = 0
        # Inner offsets must have no gaps, except in v2 batches that do not come from a client.
        without_gaps = compressed & (reason == 0) & (self._client | (magic != MAGIC_V2))
        for i in np.flatnonzero(without_gaps).tolist() if len(seen.offsets) else ():
            offsets = seen.offsets[first[i] : end[i]]
            if (offsets != np.arange(len(offsets)) + (0 if self._client else offsets[0])).any():
                reason[i] = 3
        groups = _Groups(start, stop, first, end, codec, reason, np.zeros(len(start), np.int64))
        spans = self._spans(table, groups)
        if int(spans.sum()) > MAX_OFFSET - next_offset:
            raise OffsetOverflowError(next_offset)
        groups.offset[:] = next_offset + np.cumsum(spans) - spans
        return groups

    def _spans(self, table: BatchTable, groups: _Groups) -> np.ndarray:
        """Return the number of offsets that each group takes up.

        A v2 batch that is not rebuilt keeps the gaps between its offsets.
        """
        stays = (table["magic"][groups.start] == MAGIC_V2) & (groups.reason == 0)
        spans: np.ndarray = np.where(
            stays, table["last_offset_delta"][groups.start].astype(np.int64) + 1, groups.end - groups.first
        )
        return spans

    def _build(self, buffer: Buffer, table: BatchTable, groups: _Groups, i: int, now: int) -> bytes:
        """Rebuild a group as one batch in the topic's codec and format."""
        row = table[groups.start[i]]
        where = int(row["position"]), int(row["base_offset"])
        try:
            return self._append_all(self._builder(row, groups, i, now), buffer, table[groups.start[i] : groups.stop[i]])
        except InvalidError as error:  # the builder's position refers to the new batch
            error.position, error.base_offset = where
            raise

    def _builder(self, row: Any, groups: _Groups, i: int, now: int) -> BatchBuilder:
        return BatchBuilder(
            magic=self._magic,
            codec=int(groups.codec[i]),
            level=self._level if groups.codec[i] == self._codec else None,
            base_offset=int(groups.offset[i]),
            producer_id=int(row["producer_id"]),
            producer_epoch=int(row["producer_epoch"]),
            base_sequence=int(row["base_sequence"]),
            transactional=bool(row["attributes"] & TRANSACTIONAL_BIT),
            control=bool(row["attributes"] & CONTROL_BIT) and row["magic"] == MAGIC_V2,
            leader_epoch=self._leader_epoch,
            log_append_time=None if self._create_time or self._magic == MAGIC_V0 else now,
        )

    def _append_all(self, builder: BatchBuilder, buffer: Buffer, table: BatchTable) -> bytes:
        reader = RecordReader(max_batch_bytes=self._max_batch_bytes, check_offsets=False)
        for source, columns in reader.read(buffer, table):
            given = decoded(source, columns)._replace(offsets=None)
            assert given.timestamps is not None
            # Timestamps below -1 are rejected even if the new format has no timestamps.
            if (given.timestamps[: given.rows] < NO_TIMESTAMP).any():
                raise InvalidError("a record's timestamp is negative, and not -1", code="timestamp")
            if self._magic == MAGIC_V0:
                given = given._replace(timestamps=None)
            if builder.append_columns(given) < given.rows:
                raise TooLargeError("the rebuilt batch would exceed the largest batch size", int(table["position"][0]))
        return builder.finish()

    def _write(self, buffer: Buffer, table: BatchTable, groups: _Groups, seen: Records, now: int) -> tuple[int, int]:
        """Write offsets and timestamps into the batches that are not rebuilt.

        Return the largest timestamp of all batches, and the offset of the record with this
        timestamp.
        """
        counts = np.diff(seen.ends, prepend=0)
        latest = table["max_timestamp"].copy()
        if len(seen.timestamps):
            filled = np.flatnonzero(counts)
            latest[filled] = np.maximum(
                np.maximum.reduceat(seen.timestamps, (seen.ends - counts)[filled]), NO_TIMESTAMP
            )
        sizes = groups.stop - groups.start
        assigned = np.repeat(groups.offset, sizes) + seen.ends - counts - np.repeat(groups.first, sizes)
        best, best_offset = self._latest(table, groups, seen, assigned, latest, now)
        stays = np.repeat(groups.reason == 0, sizes)
        rows = table[stays]
        rows["base_offset"] = np.where(rows["count"] < 0, assigned[stays] + counts[stays] - 1, assigned[stays])
        rows["leader_epoch"] = self._leader_epoch
        core.write_offsets(buffer, rows)
        timestamps = latest[stays] if self._create_time else np.full(len(rows), now)
        bit = 0 if self._create_time else LOG_APPEND_TIME_BIT
        changes = ((rows["attributes"] & LOG_APPEND_TIME_BIT) != bit) | (rows["max_timestamp"] != timestamps)
        view = byte_view(buffer)
        for i in np.flatnonzero(changes & (rows["magic"] > MAGIC_V0)).tolist():
            set_timestamp(view, rows[i], not self._create_time, int(timestamps[i]))
        return best, best_offset

    def _latest(
        self, table: BatchTable, groups: _Groups, seen: Records, assigned: np.ndarray, latest: np.ndarray, now: int
    ) -> tuple[int, int]:
        """Return the largest timestamp, and the offset of the first record that has it.

        Either number is -1 if it does not exist or is unknown.
        """
        if not self._create_time and (self._magic > MAGIC_V0 or groups.reason.any()):
            return now, int(assigned[0])
        if self._magic == MAGIC_V0:
            return NO_TIMESTAMP, -1
        best = int(latest.max())
        found = seen.timestamps == best
        # No record has this timestamp if it is from an empty batch, or if records were not checked.
        if best == NO_TIMESTAMP or not found.any():
            return best, -1
        i = int(np.argmax(found))
        row = int(np.searchsorted(seen.ends, i, "right"))
        group = int(np.searchsorted(groups.start, row, "right")) - 1
        if table["magic"][row] == MAGIC_V2 and groups.reason[group] == 0:
            delta = (int(seen.offsets[i]) - int(table["base_offset"][row])) % 2**64  # decoded offsets wrap at 64 bits
            return best, int(assigned[row]) + delta
        return best, int(groups.offset[group] + i - groups.first[group])


def _joined(buffer: Buffer, table: BatchTable, groups: _Groups, parts: dict[int, bytes]) -> bytearray:
    """Join all groups in order. Rebuilt groups are in `parts`, the others in the buffer."""
    view, out = view_of(buffer), bytearray()
    for i, (start, stop) in enumerate(zip(groups.start.tolist(), groups.stop.tolist(), strict=True)):
        last = table[stop - 1]
        out += parts[i] if i in parts else view[int(table["position"][start]) : int(last["position"] + last["size"])]
    return out
