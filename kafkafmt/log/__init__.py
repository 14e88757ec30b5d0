"""Kafka's log on disk: log directories, partitions, segments; reading, verifying, salvaging and writing them."""

from .directory import Discovery, DuplicatePartitionError, NoLogError, PartitionDir, SegmentFile, discover
from .log_directory import LogDirectory
from .missing import UnavailableSegmentError
from .mounting import StrayPartitionWarning
from .partition import DamagedLogError, PartitionLog
from .plan import Damage, Finding
from .process import WrongProcessError
from .settings import LogSettings
from .writer import Appended, LogWriter

__all__ = [
    "Appended",
    "Damage",
    "DamagedLogError",
    "Discovery",
    "DuplicatePartitionError",
    "Finding",
    "LogDirectory",
    "LogSettings",
    "LogWriter",
    "NoLogError",
    "PartitionDir",
    "PartitionLog",
    "SegmentFile",
    "StrayPartitionWarning",
    "UnavailableSegmentError",
    "WrongProcessError",
    "discover",
]
