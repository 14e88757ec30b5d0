"""Read, check, build and write Apache Kafka log files and messages, without a broker.

    import kafkafmt
    log = kafkafmt.open("/var/lib/kafka/data")
    for record in log["orders", 3]: ...
    table = log["orders", 3].to_arrow()

- Logs on disk: `open` returns a `Log`, which contains `Topic` and `Partition` objects. `LogDirectory` writes
  logs.
- Record batches in a buffer: `read_records`, `to_arrow`, `iter_batches` and `check_batches` read
  record batches. `build_batch`, `build_batches`, `build_columns` and `BatchBuilder` build batches.
  `validate_and_assign_offsets`, `assign_offsets`, `convert` and `recompress` change batches.
- `Partitioner` assigns records to partitions by their keys.
- The wire protocol: `kafkafmt.protocol`.
- Kafka clients: `serve` serves logs to them.
- Spark: `spark.read.format("kafkafmt")`.

Damaged data raises a `KafkaFormatError`.
"""

from __future__ import annotations

from . import _interrupt as _interrupt  # isort: skip  # imported first, so that Ctrl-C works while other modules load

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
    LogDirectory,
    LogSettings,
    LogWriter,
    NoLogError,
    StrayPartitionWarning,
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
from .view import Groups, Log, Partition, Topic
from .view import open_log as open

if TYPE_CHECKING:
    import pyarrow as pa

    from .installation import Installation, doctor
    from .kraft.cluster_metadata import ClusterMetadata, MetadataRangeError, metadata
    from .kraft.commands import metadata_commands
    from .kraft.diff import MetadataDiff, MetadataDifference, metadata_diff
    from .log.auditing.describe import PartitionSummary, Summary, describe
    from .log.auditing.dump import DumpedFile, dump
    from .log.auditing.merge_copy import SourceRange
    from .log.auditing.open_transactions import OpenTransaction
    from .log.auditing.reports import PartitionReport, UnreadablePartition, VerifyReport
    from .log.auditing.salvage import OutputPlaceError, SalvagedPartition, SalvageReport, salvage
    from .log.auditing.verify import verify
    from .polars_source import scan_polars
    from .records.signatures import BufferSelection
    from .server import Server, ServerAddressError, ServerLimits, serve
    from .spark.export import ExportReport, OutputExistsError, ResumeError, export

_LOADED_ON_DEMAND = {
    "DumpedFile": "dump",
    "OpenTransaction": "open_transactions",
    "OutputPlaceError": "salvage",
    "PartitionReport": "reports",
    "PartitionSummary": "describe",
    "SalvageReport": "salvage",
    "SalvagedPartition": "salvage",
    "SourceRange": "merge_copy",
    "Summary": "describe",
    "UnreadablePartition": "reports",
    "VerifyReport": "reports",
    "describe": "describe",
    "dump": "dump",
    "salvage": "salvage",
    "verify": "verify",
}
"""Names of public functions and classes, and the module in `kafkafmt.log.auditing` that defines
each. To keep `import kafkafmt` fast, these modules are imported on first use.
"""
_OF_KRAFT = {
    "ClusterMetadata": "cluster_metadata",
    "MetadataDiff": "diff",
    "MetadataDifference": "diff",
    "MetadataRangeError": "cluster_metadata",
    "metadata": "cluster_metadata",
    "metadata_commands": "commands",
    "metadata_diff": "diff",
}
"""Public names, and the module in `kafkafmt.kraft` that defines each. They are imported on first use."""
_OF_EXPORT = ("ExportReport", "OutputExistsError", "ResumeError", "export")
"""Names in `kafkafmt.spark.export`. The module is imported when one of them is first used. It
imports pyspark only when `export` is called.
"""
_OF_SERVER = ("Server", "ServerAddressError", "ServerLimits", "serve")
"""Names in `kafkafmt.server`, which is imported when one of them is first used."""

Record = core.Record

__all__ = [
    "BatchBuilder",
    "ChecksumError",
    "ClusterMetadata",
    "Damage",
    "DamagedLogError",
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
    "MetadataDiff",
    "MetadataDifference",
    "MetadataRangeError",
    "NoLogError",
    "OpenTransaction",
    "OutputExistsError",
    "OutputPlaceError",
    "Partition",
    "PartitionNotFoundError",
    "PartitionReport",
    "PartitionSummary",
    "Partitioner",
    "Position",
    "Record",
    "ResumeError",
    "SalvageReport",
    "SalvagedPartition",
    "Server",
    "ServerAddressError",
    "ServerLimits",
    "SourceRange",
    "StrayPartitionWarning",
    "StructureError",
    "Summary",
    "TooLargeError",
    "Topic",
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
    "doctor",
    "dump",
    "export",
    "iter_batches",
    "metadata",
    "metadata_commands",
    "metadata_diff",
    "open",
    "read_records",
    "recompress",
    "salvage",
    "scan_polars",
    "serve",
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
    **selection: Unpack[BufferSelection],
) -> pa.Table:
    """Read the records of a buffer of batches into a pyarrow Table.

    Parameters
    ----------
    buffer : bytes-like or None
        Consecutive batches, such as the record data of a fetch response or the bytes of a ``.log``
        file. None means an empty buffer.
    columns : sequence of str, optional
        Names of the columns, in the order of the result. By default, all columns that
        `Partition.to_arrow` lists except `timestampMillis`.
    topic : str, default ""
        Value of the column `topic`.
    partition : int, default 0
        Value of the column `partition`.
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
        A batch is damaged. If it exceeds a limit, the error is a `TooLargeError`.
    TypeError, ValueError
        An argument is wrong, or a column does not exist.
    ImportError
        pyarrow is not installed.
    """
    from . import arrow

    return arrow.read_table(buffer, columns, topic, partition, selection)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "protocol", "records"])


def __getattr__(name: str) -> Any:
    if name == "protocol":  # imported on first use
        from importlib import import_module

        return import_module("kafkafmt.protocol")
    if name in _LOADED_ON_DEMAND:
        from importlib import import_module

        value = getattr(import_module(f"kafkafmt.log.auditing.{_LOADED_ON_DEMAND[name]}"), name)
        globals()[name] = value
        return value
    if name in _OF_KRAFT:
        from importlib import import_module

        value = getattr(import_module(f"kafkafmt.kraft.{_OF_KRAFT[name]}"), name)
        globals()[name] = value
        return value
    if name in ("Installation", "doctor"):
        from . import installation

        return getattr(installation, name)
    if name in _OF_EXPORT:
        from importlib import import_module

        value = getattr(import_module("kafkafmt.spark.export"), name)
        globals()[name] = value
        return value
    if name in _OF_SERVER:
        from importlib import import_module

        value = getattr(import_module("kafkafmt.server"), name)
        globals()[name] = value
        return value
    if name == "scan_polars":
        from .polars_source import scan_polars

        return scan_polars
    # the version is read on first use, because reading it takes a third as long as the import
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("kafkafmt")
        except PackageNotFoundError:  # the package is used from a source tree, without an installation
            return "0"
    raise AttributeError(f"module 'kafkafmt' has no attribute {name!r}")
