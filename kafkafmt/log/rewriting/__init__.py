"""Rewrite partitions, and restore them into a broker's directory."""

from typing import TYPE_CHECKING

from ...support.on_demand import names_on_demand

if TYPE_CHECKING:
    from .restore_api import RestoredPartition, RestoreError, RestoreReport, restore
    from .rewrite_api import MARKER_LOST, RewriteReport, RewrittenPartition, rewrite
else:
    __getattr__ = names_on_demand(
        __name__,
        {
            "restore_api": ("RestoreError", "RestoreReport", "RestoredPartition", "restore"),
            "rewrite_api": ("MARKER_LOST", "RewriteReport", "RewrittenPartition", "rewrite"),
        },
    )  # fmt: skip

__all__ = [
    "MARKER_LOST", "RestoreError", "RestoreReport", "RestoredPartition", "RewriteReport", "RewrittenPartition",
    "restore", "rewrite",
]  # fmt: skip
