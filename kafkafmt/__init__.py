"""Read, check, build and write Apache Kafka log files and messages, without a broker.

    import kafkafmt
    log = kafkafmt.open("/var/lib/kafka/data")
    for record in log["orders", 3]: ...
    table = log["orders", 3].to_arrow()

- Logs on disk: `open` returns a `Log`, which contains `Topic` and `Partition` objects.
  `LogDirectory` writes logs.
- Record batches in a buffer: `read_records`, `to_arrow`, `iter_batches` and `check_batches` read
  record batches. `build_batch`, `build_batches`, `build_columns` and `BatchBuilder` build batches.
  `validate_and_assign_offsets`, `assign_offsets`, `convert` and `recompress` change batches.
- `Partitioner` assigns records to partitions by their keys.
- The wire protocol: `kafkafmt.protocol`.
- A server: `serve` lets Kafka clients read logs.
- Spark: `spark.read.format("kafkafmt")`.

If data is damaged, a `KafkaFormatError` is raised.
"""

from __future__ import annotations

# Import `_interrupt` first, so that Ctrl-C works while other modules load.
from . import _interrupt as _interrupt  # isort: skip

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from ._backend import backend, core
from .errors import (
    ChecksumError,
    InvalidError,
    KafkaFormatError,
    StructureError,
    TooLargeError,
    TruncatedError,
    UnsupportedError,
)
from .extras import kafkafmt_version
from .log import (
    Damage,
    DamagedLogError,
    DuplicatePartitionError,
    Finding,
    NoLogError,
    WrongProcessError,
)
from .log.reading.choice import PartitionNotFoundError
from .log.reading.group_choice import GroupNotFoundError
from .log.reading.seek import Position
from .records import (
    BatchBuilder,
    LogValidator,
    Partitioner,
    assign_offsets,
    build_batch,
    build_batches,
    build_columns,
    build_marker,
    check_batches,
    columns_of,
    convert,
    decode_control_record,
    iter_batches,
    read_records,
    recompress,
    validate_and_assign_offsets,
)
from .types import Buffer
from .view import Groups, Log, Partition, Topic, open

if TYPE_CHECKING:
    import pyarrow as pa

    from .exporting import ExportReport, OutputExistsError, ResumeError, export
    from .installation import Installation, doctor
    from .kraft.cluster_metadata import ClusterMetadata, MetadataRangeError, metadata
    from .kraft.commands import metadata_commands
    from .kraft.diff import MetadataDiff, MetadataDifference, metadata_diff
    from .log import LogDirectory, LogSettings, LogWriter, StrayPartitionWarning
    from .log.auditing.describe import PartitionSummary, Summary, describe
    from .log.auditing.diff import diff
    from .log.auditing.diff_report import Difference, DiffReport, PartitionDiff
    from .log.auditing.dump import DumpedFile, dump
    from .log.auditing.merge_copy import SourceRange
    from .log.auditing.open_transactions import OpenTransaction
    from .log.auditing.reports import PartitionReport, UnreadablePartition, VerifyReport
    from .log.auditing.salvage import OutputPlaceError, SalvagedPartition, SalvageReport, salvage
    from .log.auditing.stats import stats
    from .log.auditing.stats_report import PartitionStats, StatsReport, TopicStats
    from .log.auditing.verify import verify
    from .log.rewriting.restore import RestoredPartition, RestoreError, RestoreReport, restore
    from .log.rewriting.rewrite import RewriteReport, RewrittenPartition, rewrite
    from .making.make_log import MadePartition, MakeReport, make
    from .polars_source import scan_polars
    from .records.signatures import BufferSelection
    from .server import Server, ServerAddressError, ServerLimits, serve

_HOMES = {
    "ClusterMetadata": "kraft.cluster_metadata",
    "DiffReport": "log.auditing.diff_report",
    "Difference": "log.auditing.diff_report",
    "DumpedFile": "log.auditing.dump",
    "ExportReport": "exporting",
    "Installation": "installation",
    "LogDirectory": "log",
    "LogSettings": "log",
    "LogWriter": "log",
    "MadePartition": "making.make_log",
    "MakeReport": "making.make_log",
    "MetadataDiff": "kraft.diff",
    "MetadataDifference": "kraft.diff",
    "MetadataRangeError": "kraft.cluster_metadata",
    "OpenTransaction": "log.auditing.open_transactions",
    "OutputExistsError": "exporting",
    "OutputPlaceError": "log.auditing.salvage",
    "PartitionDiff": "log.auditing.diff_report",
    "PartitionReport": "log.auditing.reports",
    "PartitionStats": "log.auditing.stats_report",
    "PartitionSummary": "log.auditing.describe",
    "RestoreError": "log.rewriting.restore",
    "RestoreReport": "log.rewriting.restore",
    "RestoredPartition": "log.rewriting.restore",
    "ResumeError": "exporting",
    "RewriteReport": "log.rewriting.rewrite",
    "RewrittenPartition": "log.rewriting.rewrite",
    "SalvageReport": "log.auditing.salvage",
    "SalvagedPartition": "log.auditing.salvage",
    "Server": "server",
    "ServerAddressError": "server",
    "ServerLimits": "server",
    "SourceRange": "log.auditing.merge_copy",
    "StatsReport": "log.auditing.stats_report",
    "StrayPartitionWarning": "log",
    "Summary": "log.auditing.describe",
    "TopicStats": "log.auditing.stats_report",
    "UnreadablePartition": "log.auditing.reports",
    "VerifyReport": "log.auditing.reports",
    "describe": "log.auditing.describe",
    "diff": "log.auditing.diff",
    "doctor": "installation",
    "dump": "log.auditing.dump",
    "export": "exporting",
    "make": "making.make_log",
    "metadata": "kraft.cluster_metadata",
    "metadata_commands": "kraft.commands",
    "metadata_diff": "kraft.diff",
    "restore": "log.rewriting.restore",
    "rewrite": "log.rewriting.rewrite",
    "salvage": "log.auditing.salvage",
    "scan_polars": "polars_source",
    "serve": "server",
    "stats": "log.auditing.stats",
    "verify": "log.auditing.verify",
}
"""The module that defines each public name. It is imported on first use, so that `import kafkafmt` is fast."""

Record = core.Record

__all__ = [
    "BatchBuilder",
    "ChecksumError",
    "ClusterMetadata",
    "Damage",
    "DamagedLogError",
    "DiffReport",
    "Difference",
    "DumpedFile",
    "DuplicatePartitionError",
    "ExportReport",
    "Finding",
    "GroupNotFoundError",
    "Groups",
    "Installation",
    "InvalidError",
    "KafkaFormatError",
    "Log",
    "LogDirectory",
    "LogSettings",
    "LogValidator",
    "LogWriter",
    "MadePartition",
    "MakeReport",
    "MetadataDiff",
    "MetadataDifference",
    "MetadataRangeError",
    "NoLogError",
    "OpenTransaction",
    "OutputExistsError",
    "OutputPlaceError",
    "Partition",
    "PartitionDiff",
    "PartitionNotFoundError",
    "PartitionReport",
    "PartitionStats",
    "PartitionSummary",
    "Partitioner",
    "Position",
    "Record",
    "RestoreError",
    "RestoreReport",
    "RestoredPartition",
    "ResumeError",
    "RewriteReport",
    "RewrittenPartition",
    "SalvageReport",
    "SalvagedPartition",
    "Server",
    "ServerAddressError",
    "ServerLimits",
    "SourceRange",
    "StatsReport",
    "StrayPartitionWarning",
    "StructureError",
    "Summary",
    "TooLargeError",
    "Topic",
    "TopicStats",
    "TruncatedError",
    "UnreadablePartition",
    "UnsupportedError",
    "VerifyReport",
    "WrongProcessError",
    "assign_offsets",
    "backend",
    "build_batch",
    "build_batches",
    "build_columns",
    "build_marker",
    "check_batches",
    "columns_of",
    "convert",
    "decode_control_record",
    "describe",
    "diff",
    "doctor",
    "dump",
    "export",
    "iter_batches",
    "make",
    "metadata",
    "metadata_commands",
    "metadata_diff",
    "open",
    "read_records",
    "recompress",
    "restore",
    "rewrite",
    "salvage",
    "scan_polars",
    "serve",
    "stats",
    "to_arrow",
    "validate_and_assign_offsets",
    "verify",
]


def to_arrow(
    buffer: Buffer | None,
    columns: Sequence[str] | None = None,
    *,
    topic: str = "",
    partition: int = 0,
    incomplete: str = "error",
    **selection: Unpack[BufferSelection],
) -> pa.Table:
    """Read the records of a buffer of batches into a pyarrow Table.

    Parameters
    ----------
    buffer : bytes-like or None
        Consecutive batches, such as the record data of a fetch response or the bytes of a ``.log``
        file. None means an empty buffer.
    columns : sequence of str, optional
        Names and order of the columns. By default, the table has all columns that
        `Partition.to_arrow` lists except `timestampMillis`.
    topic : str, default ""
        Value of the column `topic`.
    partition : int, default 0
        Value of the column `partition`.
    incomplete : {"error", "ignore"}, default "error"
        How an incomplete batch at the end of the buffer is handled. "error" raises an error. Use
        "ignore" for fetch responses, which usually end with an incomplete batch.
    **selection
        Keyword arguments of `read_records`: start, end, control, aborted, check_crc and
        max_batch_bytes.

    Returns
    -------
    pyarrow.Table
        One row per record, in the order of the buffer. `Partition.to_arrow` lists the columns and
        their types.

    Raises
    ------
    KafkaFormatError
        A batch is damaged. The subclass `TooLargeError` is raised if a batch exceeds a limit, and
        `TruncatedError` if the last batch is incomplete.
    TypeError, ValueError
        An argument is wrong, or a column does not exist.
    ImportError
        pyarrow is not installed.
    """
    from .arrow import read_table

    return read_table(buffer, columns, topic, partition, selection, incomplete)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "protocol", "records"])


def __getattr__(name: str) -> Any:
    if name == "protocol":  # Import `kafkafmt.protocol` only on first use.
        from importlib import import_module

        return import_module("kafkafmt.protocol")
    if name in _HOMES:
        from importlib import import_module

        value = getattr(import_module(f"kafkafmt.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    # Read the version on first use. Reading it takes a third of the time that `import kafkafmt` takes.
    if name == "__version__":
        return kafkafmt_version()
    raise AttributeError(f"module 'kafkafmt' has no attribute {name!r}")
