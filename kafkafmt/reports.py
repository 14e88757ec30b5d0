"""The classes of the results that functions such as `kafkafmt.verify` return.

The result of a function that has a command is a `Report`: `to_dict` and `to_json` return the JSON
report of the command, and `ok` is True if the exit code of the command is 0.
"""

from .exporting import ExportReport
from .kraft.cluster_metadata import ClusterMetadata
from .kraft.diff import MetadataDiff, MetadataDifference
from .kraft.models import (
    ClusterInfo,
    Endpoint,
    MetadataAcl,
    MetadataBroker,
    MetadataConfig,
    MetadataController,
    MetadataFeature,
    MetadataPartition,
    MetadataQuota,
    MetadataScram,
    MetadataToken,
    MetadataTopic,
    MetadataVoter,
    ReplayProblem,
    SupportedFeature,
)
from .log.inspecting import (
    Content,
    Difference,
    DiffReport,
    DumpedFile,
    PartitionDiff,
    PartitionStats,
    PartitionSummary,
    StatsReport,
    Summary,
    TopicStats,
)
from .log.reading import Position, Sent
from .log.repairing import OpenTransaction, SalvagedPartition, SalvageReport, SourceRange
from .log.rewriting import RestoredPartition, RestoreReport, RewriteReport, RewrittenPartition
from .log.verifying import LostRange, PartitionReport, UnreadablePartition, VerifyReport
from .making.make_log import MadePartition, MakeReport
from .registry import RegisteredSchema, SchemaFinding, SchemaReference
from .support.installation import Installation
from .support.report import Report
from .view import Groups

__all__ = [
    "ClusterInfo",
    "ClusterMetadata",
    "Content",
    "DiffReport",
    "Difference",
    "DumpedFile",
    "Endpoint",
    "ExportReport",
    "Groups",
    "Installation",
    "LostRange",
    "MadePartition",
    "MakeReport",
    "MetadataAcl",
    "MetadataBroker",
    "MetadataConfig",
    "MetadataController",
    "MetadataDiff",
    "MetadataDifference",
    "MetadataFeature",
    "MetadataPartition",
    "MetadataQuota",
    "MetadataScram",
    "MetadataToken",
    "MetadataTopic",
    "MetadataVoter",
    "OpenTransaction",
    "PartitionDiff",
    "PartitionReport",
    "PartitionStats",
    "PartitionSummary",
    "Position",
    "RegisteredSchema",
    "ReplayProblem",
    "Report",
    "RestoreReport",
    "RestoredPartition",
    "RewriteReport",
    "RewrittenPartition",
    "SalvageReport",
    "SalvagedPartition",
    "SchemaFinding",
    "SchemaReference",
    "Sent",
    "SourceRange",
    "StatsReport",
    "Summary",
    "SupportedFeature",
    "TopicStats",
    "UnreadablePartition",
    "VerifyReport",
]
