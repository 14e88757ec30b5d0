"""Read, verify, salvage and write Kafka logs on disk: log directories, partitions and segments."""

from .format.process import WrongProcessError
from .reading.discovery import Discovery, NoLogError
from .reading.missing import UnavailableSegmentError
from .reading.models import Damage, DamagedLogError, Finding
from .reading.partition import PartitionLog
from .reading.partition_dir import PartitionDir, SegmentFile
from .reading.replicas import DuplicatePartitionError, discover
from .writing.log_directory import LogDirectory
from .writing.mounting import StrayPartitionWarning
from .writing.settings import LogSettings
from .writing.writer import Appended, LogWriter

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
