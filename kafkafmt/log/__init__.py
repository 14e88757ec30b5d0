"""Read, verify, salvage and write Kafka logs on disk: log directories, partitions and segments."""

from typing import TYPE_CHECKING

from ..support.on_demand import names_on_demand
from .catalog import Discovery, NoLogError, PartitionDir, SegmentFile, UnavailableSegmentError
from .findings import Damage, DamagedLogError, Finding
from .reading import DuplicatePartitionError, PartitionLog, discover
from .storage import WrongProcessError

if TYPE_CHECKING:
    from .writing import Appended, LogDirectory, LogSettings, LogWriter, StrayPartitionWarning
else:
    __getattr__ = names_on_demand(
        __name__,
        {
            "writing": ("Appended", "LogDirectory", "LogSettings", "LogWriter", "StrayPartitionWarning"),
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
