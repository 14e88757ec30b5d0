"""Read, verify, salvage and write Kafka logs on disk: log directories, partitions and segments."""

from typing import TYPE_CHECKING

from ..on_demand import names_on_demand
from .format.process import WrongProcessError
from .reading.discovery import Discovery, NoLogError
from .reading.missing import UnavailableSegmentError
from .reading.models import Damage, DamagedLogError, Finding
from .reading.partition import PartitionLog
from .reading.partition_dir import PartitionDir, SegmentFile
from .reading.replicas import DuplicatePartitionError, discover

if TYPE_CHECKING:
    from .writing.log_directory import LogDirectory
    from .writing.mounting import StrayPartitionWarning
    from .writing.settings import LogSettings
    from .writing.writer import Appended, LogWriter
else:
    __getattr__ = names_on_demand(
        __name__,
        {
            "writing.log_directory": ("LogDirectory",),
            "writing.mounting": ("StrayPartitionWarning",),
            "writing.settings": ("LogSettings",),
            "writing.writer": ("Appended", "LogWriter"),
        },
    )

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
