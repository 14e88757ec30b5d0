"""Verify batches, indexes and other files of partitions."""

from typing import TYPE_CHECKING

from ...support.on_demand import names_on_demand
from .reports import (
    EXIT_DAMAGE,
    EXIT_UNREADABLE,
    LostRange,
    PartitionReport,
    UnreadablePartition,
    VerifyReport,
    damage_dict,
    remote_dict,
    report_html,
    unreadable_dict,
)
from .run import Globs, Numbers, OnMessage, Progress, Run, error_text, globs_of, numbers_of

if TYPE_CHECKING:
    from .audit_indexes import IndexAudit
    from .verify_api import count_from, verify, verify_partition
else:
    __getattr__ = names_on_demand(
        __name__,
        {
            "audit_indexes": ("IndexAudit",),
            "verify_api": ("count_from", "verify", "verify_partition"),
        },
    )  # fmt: skip

__all__ = [
    "EXIT_DAMAGE", "EXIT_UNREADABLE", "Globs", "IndexAudit", "LostRange", "Numbers", "OnMessage", "PartitionReport", "Progress",
    "Run", "UnreadablePartition", "VerifyReport", "count_from", "damage_dict", "error_text", "globs_of", "numbers_of",
    "remote_dict", "report_html", "unreadable_dict", "verify", "verify_partition",
]  # fmt: skip
