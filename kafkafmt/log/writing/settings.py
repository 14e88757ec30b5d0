"""Define a writer's settings, named like Kafka's topic settings."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypedDict

from ...support.arguments import integer
from .index_builder import INDEX_INTERVAL, MAX_SEGMENT_BYTES

WEEK_MS = 7 * 24 * 3600 * 1000


class LogSettingsOptions(TypedDict, total=False):
    """The keyword arguments of `LogSettings`, for type checkers."""

    segment_bytes: int
    segment_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    flush_messages: int | None
    flush_ms: int | None
    retention_bytes: int
    retention_ms: int
    truncate_at_damage: bool


@dataclass(frozen=True)
class LogSettings:
    """Settings of a `LogWriter`, with the names, meanings and defaults of Kafka's topic settings.

    Pass settings for all writers to `LogDirectory`, and settings for one writer to
    `LogDirectory.writer`, as keyword arguments.

    Parameters
    ----------
    segment_bytes : int, default 1073741824 (1 GiB)
        ``segment.bytes``: largest size of a segment's `.log` file, 1 to ``2**31 - 1``. A batch that
        does not fit starts a new segment.
    segment_ms : int, default 604800000 (7 days)
        ``segment.ms``: start a new segment if a batch's timestamp is more than this many
        milliseconds after the timestamp of the segment's first batch. At least 1.
    segment_index_bytes : int, default 10485760 (10 MiB)
        ``segment.index.bytes``: start a new segment if one of the segment's indexes reaches this
        size. At least 12.
    index_interval_bytes : int, default 4096
        ``index.interval.bytes``: number of bytes between two entries of the offset index. At least
        0.
    flush_messages : int, optional
        ``flush.messages``: sync the log after this many records. If 1, every append is on disk when
        the call returns. By default (None) the operating system decides when data is written to
        disk, as in Kafka.
    flush_ms : int, optional
        ``flush.ms``: sync the log at the next append if the last sync was at least this many
        milliseconds ago. By default (None) the operating system decides when data is written to
        disk.
    retention_bytes : int, default -1
        ``retention.bytes``: number of bytes that `LogWriter.enforce_retention` keeps; -1 keeps all.
    retention_ms : int, default 604800000 (7 days)
        ``retention.ms``: age in milliseconds up to which `LogWriter.enforce_retention` keeps
        records; -1 keeps all.
    truncate_at_damage : bool, default False
        If valid batches follow damage when a partition is opened, truncate the log at the damage,
        as a broker does. By default, `DamagedLogError` is raised instead.

    Raises
    ------
    TypeError
        A setting is not an integer.
    ValueError
        A setting is out of range.

    Notes
    -----
    Kafka's counterparts are ``TopicConfig`` and ``LogConfig``.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = WEEK_MS
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = INDEX_INTERVAL
    flush_messages: int | None = None
    flush_ms: int | None = None
    retention_bytes: int = -1
    retention_ms: int = WEEK_MS
    truncate_at_damage: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not field.name.startswith("truncate") and not (value is None and field.name.startswith("flush")):
                integer(
                    field.name, value, kind=f"a number of {field.name.rpartition('_')[2].replace('ms', 'milliseconds')}"
                )
        for name, low in (
            ("segment_bytes", 1),
            ("segment_ms", 1),
            ("segment_index_bytes", 12),
            ("index_interval_bytes", 0),
        ):
            if not low <= getattr(self, name):
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least {low}")
        if self.segment_bytes > MAX_SEGMENT_BYTES:
            raise ValueError(
                f"segment_bytes is {self.segment_bytes}; it must be at most {MAX_SEGMENT_BYTES}, "
                "the largest position that an index can store"
            )
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.startswith("flush") and value is not None and value < 1:
                raise ValueError(f"{field.name} is {value}; it must be at least 1, or None")
            if field.name.startswith("retention") and value < -1:
                raise ValueError(f"{field.name} is {value}; it must be at least 0, or -1 to keep everything")
