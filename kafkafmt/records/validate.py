"""Validate record data and assign offsets, as a broker does before it appends record data.

Kafka's counterpart is ``LogValidator``.

If a check fails, the buffer is left unchanged. Otherwise, each batch is either changed in place or
rebuilt:

- If a batch is changed in place, its offset and leader epoch are written. If its timestamp type or
  maximum timestamp changes, these fields and the CRC are also written.
- A batch is rebuilt if the topic has another codec or format, or if its inner offsets are not 0, 1,
  2 and so on.

The fast path validates v2 batches that are not rebuilt, in one pass over the buffer. The slow path
validates all other data, and reports errors precisely.
"""

from __future__ import annotations

from typing import Literal, Unpack

import numpy as np

from .._backend import core
from ..constants import (
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    CODEC_NONE,
    CODEC_ZSTD,
    CREATE_TIME,
    DEFAULT_MAX_BATCH_BYTES,
    LOG_APPEND_TIME,
    MAGIC_V2,
    MAX_OFFSET,
    NO_TIMESTAMP,
    Codec,
)
from ..errors import KafkaFormatError
from ..support.arguments import fitting, integer, one_of
from ..support.text import shown
from ..support.times import now_millis
from ..types import BATCH_DTYPE, Buffer, byte_view, view_of
from .assign import next_offset_of
from .builder import BatchBuilder, codec_id, format_number
from .java_reads import java_refusal
from .rules import Rules
from .signatures import ValidatorOptions
from .slow_validation import SlowPath, ValidatorSettings
from .validated import Validated

ORIGINS = ("client", "coordinator", "raft_leader")
TIMESTAMP_TYPES = {"CreateTime": CREATE_TIME, "LogAppendTime": LOG_APPEND_TIME}
_MAX_KEPT_BYTES = 1 << 22
"""Largest size in bytes of a decompression buffer that a validator keeps between calls."""


class _RecordChecker:
    """Decompresses and checks the records of a batch. Only one thread can use a checker at a time."""

    def __init__(self, max_batch_bytes: int) -> None:
        from ..codecs.decompressor import Arena, Decompressor

        self._decompressor, self._arena = Decompressor(max_batch_bytes), Arena(1 << 16)

    @property
    def buffer_size(self) -> int:
        return len(self._arena.view)

    def check(
        self, payload: memoryview, codec: int, count: int, last_offset_delta: int
    ) -> tuple[int, int, int, bool] | None:
        """Check compressed records. Return None if the fast path cannot handle them."""
        # Otherwise, return the smallest and the largest timestamp delta, the offset delta of the
        # record with the largest one, and whether a key is null.
        self._arena.filled = 0
        size = self._decompressor.decompress(codec, payload, self._arena)
        seen: tuple[int, int, int, bool] | None = core.look_at_payload(
            self._arena.view[:size], count, last_offset_delta
        )
        return seen


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
        An argument is wrong or does not fit into its field, or an assigned offset would exceed
        ``2**63 - 2``.

    Notes
    -----
    Kafka's counterpart is ``org.apache.kafka.storage.internals.log.LogValidator``. The
    documentation of `LogValidator` describes the one rule that is stricter than in Kafka.

    Examples
    --------
    >>> batch = kafkafmt.build_batch([(b"key", b"value", 1_700_000_000_000)])
    >>> result = kafkafmt.records.validate_and_assign_offsets(batch, 1000, leader_epoch=3)
    >>> result.first_offset, result.next_offset, result.rebuilt
    (1000, 1001, None)
    """
    return LogValidator(**settings).validate(buffer, next_offset)


class LogValidator:
    """Validates record data with the rules of a broker, and assigns offsets.

    Several threads can use the same validator.

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
        Whether the topic is compacted. If True, every record must have a key.
    leader_epoch : int, default 0
        Partition leader epoch to write into every v2 batch.
    max_message_bytes : int, optional
        ``max.message.bytes``: largest size of a batch or message in bytes, including the offset and
        length fields. By default, there is no limit.
    origin : {"client", "coordinator", "raft_leader"}, default "client"
        Origin of the data. With "client", the data must be valid in a produce request: one v2
        batch, one wrapper message, or uncompressed messages, with a base offset of 0 and no control
        records. With the other values, the data may contain any number of batches.
    check_records : bool, default True
        Check the records of v2 batches. If False, the batch headers are trusted. Use False only for
        data that has already been validated.
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch in bytes after decompression.

    Raises
    ------
    TypeError, ValueError, OverflowError
        An argument is wrong or does not fit into its field.

    Notes
    -----
    Kafka's counterpart is ``org.apache.kafka.storage.internals.log.LogValidator``. Like Kafka, this
    class does not check the offset deltas of records in an uncompressed batch, and keeps them. A
    compressed batch of a client is rejected if its offset deltas are not 0, 1, 2 and so on, unless the
    batch must be rebuilt for another codec or format.
    """

    def __init__(
        self,
        *,
        codec: Codec | Literal["producer"] | int = "producer",
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
        one_of("origin", origin, ORIGINS)
        one_of("timestamp_type", timestamp_type, TIMESTAMP_TYPES)
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
            # Create the builder only for its checks of the codec and the level.
            BatchBuilder(codec=CODEC_NONE if codec == "producer" else codec, level=level)
        self._shown = (
            f"codec={shown(codec)}, magic={magic}, timestamp_type={shown(timestamp_type)}, origin={shown(origin)}"
        )
        create_time, client = TIMESTAMP_TYPES[timestamp_type] == CREATE_TIME, origin == "client"
        self._settings = ValidatorSettings(
            Rules(magic, create_time, before_max_ms, after_max_ms, compacted, max_message_bytes, client),
            None if codec == "producer" else codec_id(codec),
            level,
            magic,
            create_time,
            client,
            fitting("leader_epoch", leader_epoch, 32),
            check_records,
            max_batch_bytes,
        )
        self._slow = SlowPath(self._settings)
        self._now = now_ms
        # Checkers that no thread is using. Each thread that uses the validator needs a separate checker.
        self._spare: list[_RecordChecker] = []

    def __repr__(self) -> str:
        return f"<kafkafmt.records.LogValidator: {self._shown}>"

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
            An argument is wrong, or an assigned offset would exceed ``2**63 - 2``.
        """
        next_offset = next_offset_of(next_offset)
        now = now_millis() if self._now is None else self._now
        must_copy = view_of(buffer).readonly and view_of(buffer).c_contiguous
        target = bytearray(view_of(buffer)) if must_copy else buffer
        return self._fast_path(target, next_offset, now) or self._slow.validate(target, next_offset, now)

    def _fast_path(self, buffer: Buffer, next_offset: int, now: int) -> Validated | None:
        """Validate v2 batches that need not be rebuilt. Return None if the slow path is needed."""
        if self._settings.magic != MAGIC_V2 or now > MAX_OFFSET // 2:
            return None
        facts = self._validate_buffer(buffer, next_offset, now, self._settings.check_records)
        if facts is None and self._settings.check_records:
            facts = self._validate_compressed(buffer, next_offset, now)
        if facts is None:
            return None
        count, following, max_timestamp, offset_of_max = facts
        return Validated(buffer, None, count, next_offset, following, max_timestamp, offset_of_max)

    def _validate_buffer(
        self, buffer: Buffer, next_offset: int, now: int, check_records: bool
    ) -> tuple[int, int, int, int] | None:
        """Check batches and assign their offsets in one pass, or return None if `SlowPath` must do it."""
        # Otherwise, return the number of records, the next offset, the largest timestamp and the
        # offset of its record.
        settings, rules = self._settings, self._settings.rules
        return core.validate_buffer(
            buffer, next_offset, settings.leader_epoch, settings.client, settings.codec, rules.max_message_bytes, check_records,
            rules.compacted, *rules.time_bounds(now), None if settings.create_time else now,
        )  # fmt: skip

    def _validate_compressed(self, buffer: Buffer, next_offset: int, now: int) -> tuple[int, int, int, int] | None:
        """Check a single compressed v2 batch and assign its offset. The result is that of `_validate_buffer`."""
        table = np.empty(1, BATCH_DTYPE)
        row = table[0]
        if not core.scan_batches(buffer, table, 0, None, False).count or row["magic"] != MAGIC_V2:
            return None
        codec, end = int(row["attributes"]) & CODEC_MASK, int(row["position"] + row["size"])
        view = byte_view(buffer)
        if not CODEC_NONE < codec <= CODEC_ZSTD or end < len(view) or self._settings.codec not in (None, codec):
            return None
        try:
            checker = self._spare.pop()
        except IndexError:
            checker = _RecordChecker(self._settings.max_batch_bytes)
        if java_refusal(codec, view[BATCH_HEADER_SIZE:]):
            return None
        try:
            seen = checker.check(view[BATCH_HEADER_SIZE:], codec, int(row["count"]), int(row["last_offset_delta"]))
        except KafkaFormatError:
            return None
        if checker.buffer_size <= _MAX_KEPT_BYTES:
            self._spare.append(checker)
        if seen is None:
            return None
        earliest, latest, offset_delta_of_latest, null_key = seen
        if not self._settings.rules.certainly_accept(row, earliest, latest, null_key, now):
            return None
        facts = self._validate_buffer(buffer, next_offset, now, False)
        if facts is None or not self._settings.create_time or facts[2] == NO_TIMESTAMP:
            return facts
        return (*facts[:3], next_offset + offset_delta_of_latest)
