"""Write partitions as a broker does: segments, indexes, recovery, retention."""

from typing import TYPE_CHECKING

from ...support.on_demand import names_on_demand

if TYPE_CHECKING:
    from .atomic_append import all_or_nothing
    from .index_builder import MAX_SEGMENT_BYTES, State, read_through, scan_tables
    from .log_directory import LOCK, LogDirectory, release_lock, take_lock
    from .mounting import (
        CLUSTER_METADATA,
        METADATA_LOG,
        Metadata,
        StrayPartitionWarning,
        base64_uuid,
        metadata_logs,
        node_id,
        read_metadata,
        strays,
    )
    from .settings import LogSettings, LogSettingsOptions
    from .writer import Appended, LogWriter
else:
    __getattr__ = names_on_demand(
        __name__,
        {
            "atomic_append": ("all_or_nothing",),
            "index_builder": ("MAX_SEGMENT_BYTES", "State", "read_through", "scan_tables"),
            "log_directory": ("LOCK", "LogDirectory", "release_lock", "take_lock"),
            "mounting": (
                "CLUSTER_METADATA", "METADATA_LOG", "Metadata", "StrayPartitionWarning", "base64_uuid",
                "metadata_logs", "node_id", "read_metadata", "strays",
            ),
            "settings": ("LogSettings", "LogSettingsOptions"),
            "writer": ("Appended", "LogWriter"),
        },
    )  # fmt: skip

__all__ = [
    "CLUSTER_METADATA", "LOCK", "MAX_SEGMENT_BYTES", "METADATA_LOG", "Appended", "LogDirectory", "LogSettings",
    "LogSettingsOptions", "LogWriter", "Metadata", "State", "StrayPartitionWarning", "all_or_nothing", "base64_uuid",
    "metadata_logs", "node_id", "read_metadata", "read_through", "release_lock", "scan_tables", "strays", "take_lock",
]  # fmt: skip
