"""Find the damage of a segment, resume reading after it, and plan which batches are delivered."""

from .batch_finder import BatchFinder
from .compaction import is_compacted, is_recorded, is_shown, runs_lack_offsets, shown_by, was_cleaned
from .damaged_spans import DamageColumns, DamagedSpans, by_position
from .events import EventDamage, Events
from .known_wrappers import KnownWrappers, wrappers_of
from .parts import UNKNOWN_COUNT, Run, RunColumns, Runs, undecodable
from .plan import DEFAULT_LIMITS, UNREADABLE, ReadLimits, SegmentPlan, plan_segment, plan_view, with_cause
from .ranges import sound_runs
from .segment_tables import FIRST_READ, Scratch, Table, TableReader
from .segment_walker import See, Walker
from .topic_configs import created_at, has_remote_storage

__all__ = [
    "DEFAULT_LIMITS",
    "FIRST_READ",
    "UNKNOWN_COUNT",
    "UNREADABLE",
    "BatchFinder",
    "DamageColumns",
    "DamagedSpans",
    "EventDamage",
    "Events",
    "KnownWrappers",
    "ReadLimits",
    "Run",
    "RunColumns",
    "Runs",
    "Scratch",
    "See",
    "SegmentPlan",
    "Table",
    "TableReader",
    "Walker",
    "by_position",
    "created_at",
    "has_remote_storage",
    "is_compacted",
    "is_recorded",
    "is_shown",
    "plan_segment",
    "plan_view",
    "runs_lack_offsets",
    "shown_by",
    "sound_runs",
    "undecodable",
    "was_cleaned",
    "with_cause",
    "wrappers_of",
]  # fmt: skip
