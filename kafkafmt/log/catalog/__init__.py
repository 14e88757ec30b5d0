"""List what is under a path: log directories, partitions and segments."""

from .archives import archive_root
from .choice import PartitionNotFoundError, choose_partitions
from .discovery import INCOMPLETE, Discovery, NoLogError, find_partitions
from .listings import SETTLED_NS, Listings
from .missing import UnavailableSegmentError, changed, check_retention, checkpoint_offset, unavailable
from .partition_dir import CLUSTER_METADATA, INTERNAL_PREFIX, PartitionDir, SegmentFile
from .recognize import HEAD_BYTES, packing, packing_of_content
from .selection import existing_partitions, like, select_partitions
from .sources import AnyPath, OpenedLog, Source, Sources, listed, matching, resolve, single_path

__all__ = [
    "CLUSTER_METADATA", "HEAD_BYTES", "INCOMPLETE", "INTERNAL_PREFIX", "SETTLED_NS", "AnyPath", "Discovery", "Listings",
    "NoLogError", "OpenedLog", "PartitionDir", "PartitionNotFoundError", "SegmentFile", "Source", "Sources",
    "UnavailableSegmentError", "archive_root", "changed", "check_retention", "checkpoint_offset", "choose_partitions",
    "existing_partitions", "find_partitions", "like", "listed", "matching", "packing", "packing_of_content", "resolve",
    "select_partitions", "single_path", "unavailable",
]  # fmt: skip
