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
from .log import (
    Damage,
    DamagedLogError,
    DuplicatePartitionError,
    Finding,
    NoLogError,
    WrongProcessError,
)
from .log.catalog import PartitionNotFoundError
from .log.groups import GroupNotFoundError
from .log.reading import Position
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
from .support.extras import kafkafmt_version
from .types import Buffer
from .view import Groups, Log, Partition, Topic, open

if TYPE_CHECKING:
    import pyarrow as pa

    from .exporting import ExportReport, OutputExistsError, ResumeError, export
    from .kraft.cluster_metadata import ClusterMetadata, MetadataRangeError, metadata
    from .kraft.commands import metadata_commands
    from .kraft.diff import MetadataDiff, MetadataDifference, metadata_diff
    from .log import LogDirectory, LogSettings, LogWriter, StrayPartitionWarning
    from .log.inspecting import (
        Difference,
        DiffReport,
        DumpedFile,
        PartitionDiff,
        PartitionStats,
        PartitionSummary,
        StatsReport,
        Summary,
        TopicStats,
        describe,
        diff,
        dump,
        stats,
    )
    from .log.repairing import OpenTransaction, OutputPlaceError, SalvagedPartition, SalvageReport, SourceRange, salvage
    from .log.rewriting import (
        RestoredPartition,
        RestoreError,
        RestoreReport,
        RewriteReport,
        RewrittenPartition,
        restore,
        rewrite,
    )
    from .log.verifying import PartitionReport, UnreadablePartition, VerifyReport, verify
    from .making.make_log import MadePartition, MakeReport, make
    from .records.signatures import BufferSelection
    from .server import Server, ServerAddressError, ServerLimits, serve
    from .support.installation import Installation, doctor
    from .view.polars_source import scan_polars

_HOMES = {
    "ClusterMetadata": "kraft.cluster_metadata",
    "DiffReport": "log.inspecting",
    "Difference": "log.inspecting",
    "DumpedFile": "log.inspecting",
    "ExportReport": "exporting",
    "Installation": "support.installation",
    "LogDirectory": "log",
    "LogSettings": "log",
    "LogWriter": "log",
    "MadePartition": "making.make_log",
    "MakeReport": "making.make_log",
    "MetadataDiff": "kraft.diff",
    "MetadataDifference": "kraft.diff",
    "MetadataRangeError": "kraft.cluster_metadata",
    "OpenTransaction": "log.repairing",
    "OutputExistsError": "exporting",
    "OutputPlaceError": "log.repairing",
    "PartitionDiff": "log.inspecting",
    "PartitionReport": "log.verifying",
    "PartitionStats": "log.inspecting",
    "PartitionSummary": "log.inspecting",
    "RestoreError": "log.rewriting",
    "RestoreReport": "log.rewriting",
    "RestoredPartition": "log.rewriting",
    "ResumeError": "exporting",
    "RewriteReport": "log.rewriting",
    "RewrittenPartition": "log.rewriting",
    "SalvageReport": "log.repairing",
    "SalvagedPartition": "log.repairing",
    "Server": "server",
    "ServerAddressError": "server",
    "ServerLimits": "server",
    "SourceRange": "log.repairing",
    "StatsReport": "log.inspecting",
    "StrayPartitionWarning": "log",
    "Summary": "log.inspecting",
    "TopicStats": "log.inspecting",
    "UnreadablePartition": "log.verifying",
    "VerifyReport": "log.verifying",
    "describe": "log.inspecting",
    "diff": "log.inspecting",
    "doctor": "support.installation",
    "dump": "log.inspecting",
    "export": "exporting",
    "make": "making.make_log",
    "metadata": "kraft.cluster_metadata",
    "metadata_commands": "kraft.commands",
    "metadata_diff": "kraft.diff",
    "restore": "log.rewriting",
    "rewrite": "log.rewriting",
    "salvage": "log.repairing",
    "scan_polars": "view.polars_source",
    "serve": "server",
    "stats": "log.inspecting",
    "verify": "log.verifying",
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
    from .arrow.builder import read_table

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
