"""Copy the valid batches of damaged partitions, and merge replicas."""

from typing import TYPE_CHECKING

from ...support.on_demand import names_on_demand

if TYPE_CHECKING:
    from .merge_copy import SourceRange
    from .open_transactions import OpenTransaction
    from .salvage_api import (
        SalvagedPartition,
        SalvageReport,
        is_output_error,
        is_usable,
        note_links,
        opened_logs,
        salvage,
    )
    from .salvage_copy import PartitionCopy, salvage_partition
    from .salvage_markers import abort_markers
    from .salvage_output import Output, OutputPlaceError, finish_directory, output_directory
    from .salvage_pieces import holes_of, outside
    from .salvage_rebuilt import needs_rebuilding
    from .salvage_source import ALL_FILE_BITS, Bounds
    from .salvaged import OWNER, Salvaged
else:
    __getattr__ = names_on_demand(
        __name__,
        {
            "merge_copy": ("SourceRange",),
            "open_transactions": ("OpenTransaction",),
            "salvage_api": (
                "SalvageReport", "SalvagedPartition", "is_output_error", "is_usable", "note_links", "opened_logs",
                "salvage",
            ),
            "salvage_copy": ("PartitionCopy", "salvage_partition"),
            "salvage_markers": ("abort_markers",),
            "salvage_output": ("Output", "OutputPlaceError", "finish_directory", "output_directory"),
            "salvage_pieces": ("holes_of", "outside"),
            "salvage_rebuilt": ("needs_rebuilding",),
            "salvage_source": ("ALL_FILE_BITS", "Bounds"),
            "salvaged": ("OWNER", "Salvaged"),
        },
    )  # fmt: skip

__all__ = [
    "ALL_FILE_BITS", "OWNER", "Bounds", "OpenTransaction", "Output", "OutputPlaceError", "PartitionCopy",
    "SalvageReport", "Salvaged", "SalvagedPartition", "SourceRange", "abort_markers", "finish_directory", "holes_of",
    "is_output_error", "is_usable", "needs_rebuilding", "note_links", "opened_logs", "output_directory", "outside",
    "salvage", "salvage_partition",
]  # fmt: skip
