"""Describe, count, compare and dump the content of logs."""

from typing import TYPE_CHECKING

from ...support.on_demand import names_on_demand
from .group_report import GroupReport, GroupTotal, report_groups

if TYPE_CHECKING:
    from .describe_api import PartitionSummary, Summary, describe
    from .diff_api import diff
    from .diff_report import Difference, DiffReport, PartitionDiff
    from .dump_api import BOOTSTRAP, METADATA_SNAPSHOT, DumpedFile, dump
    from .dump_items import (
        DumpedBatch,
        DumpedProducer,
        DumpedRecord,
        EmptyIndex,
        InvalidBytes,
        Item,
        OffsetGap,
        OffsetIndexEntry,
        Problem,
        SaneIndex,
        TimeIndexEntry,
        TransactionIndexEntry,
    )
    from .stats_api import TOP, stats
    from .stats_plot import PERIODS, check_plot_path
    from .stats_report import (
        Content,
        DecodedSide,
        FieldContent,
        PartitionStats,
        Rate,
        SchemaUse,
        Sizes,
        StatsReport,
        TopicStats,
    )
else:
    __getattr__ = names_on_demand(
        __name__,
        {
            "describe_api": ("PartitionSummary", "Summary", "describe"),
            "diff_api": ("diff",),
            "diff_report": ("DiffReport", "Difference", "PartitionDiff"),
            "dump_api": ("BOOTSTRAP", "DumpedFile", "METADATA_SNAPSHOT", "dump"),
            "dump_items": (
                "DumpedBatch", "DumpedProducer", "DumpedRecord", "EmptyIndex", "InvalidBytes", "Item", "OffsetGap",
                "OffsetIndexEntry", "Problem", "SaneIndex", "TimeIndexEntry", "TransactionIndexEntry",
            ),
            "stats_api": ("TOP", "stats"),
            "stats_plot": ("PERIODS", "check_plot_path"),
            "stats_report": ("Content", "DecodedSide", "FieldContent", "PartitionStats", "Rate", "SchemaUse", "Sizes", "StatsReport", "TopicStats"),
        },
    )  # fmt: skip

__all__ = [
    "BOOTSTRAP", "METADATA_SNAPSHOT", "PERIODS", "TOP", "Content", "DecodedSide", "DiffReport", "Difference",
    "DumpedBatch", "DumpedFile", "DumpedProducer", "DumpedRecord", "EmptyIndex", "FieldContent", "GroupReport", "GroupTotal", "InvalidBytes", "Item",
    "OffsetGap", "OffsetIndexEntry", "PartitionDiff", "PartitionStats", "PartitionSummary", "Problem", "Rate",
    "SaneIndex", "SchemaUse", "Sizes", "StatsReport", "Summary", "TimeIndexEntry", "TopicStats", "TransactionIndexEntry",
    "check_plot_path", "describe", "diff", "dump", "report_groups", "stats",
]  # fmt: skip
