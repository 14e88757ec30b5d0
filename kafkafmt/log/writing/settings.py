"""How a partition is written, by the names of Kafka's topic settings."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypedDict

from ...arguments import integer
from .index_builder import INDEX_INTERVAL, MAX_SEGMENT_BYTES

WEEK_MS = 7 * 24 * 3600 * 1000


class LogSettingsOptions(TypedDict, total=False):
    """The fields of `LogSettings`, as keyword arguments."""

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
    """What Kafka's settings of these names mean, and its defaults.

    segment_bytes, segment_ms, segment_index_bytes: when a new segment begins. index_interval_bytes: how many bytes lie
    between two index entries. flush_messages, flush_ms: how many records, and for how long, may be in the operating
    system's hands alone; None leaves it to that, as Kafka does (1 message: every append is on disk when it returns).
    retention_bytes, retention_ms: what `enforce_retention` keeps, -1 for all. truncate_at_damage: cut the log at
    damage when it is opened, as a broker does, although sound batches follow; else that is a DamagedLogError.
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
                raise ValueError(f"{name} must be at least {low}")
        if self.segment_bytes > MAX_SEGMENT_BYTES:
            raise ValueError(f"segment_bytes must be at most {MAX_SEGMENT_BYTES}, what an index can point into")
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.startswith("flush") and value is not None and value < 1:
                raise ValueError(f"{field.name} must be at least 1, or None")
            if field.name.startswith("retention") and value < -1:
                raise ValueError(f"{field.name} must be at least 0, or -1 to keep all")
