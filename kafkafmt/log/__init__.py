"""Kafka's log on disk: log directories, partitions, segments; reading and verifying them."""

from .directory import Discovery, DuplicatePartitionError, NoLogError, PartitionDir, SegmentFile, discover
from .partition import DamagedLogError, PartitionLog
from .plan import Damage, Finding

__all__ = [
    "Damage",
    "DamagedLogError",
    "Discovery",
    "DuplicatePartitionError",
    "Finding",
    "NoLogError",
    "PartitionDir",
    "PartitionLog",
    "SegmentFile",
    "discover",
]
