"""Kafka's formats, read in Python at the speed of the machine: logs on disk, record batches, no broker.

    import kafkafmt
    log = kafkafmt.open("/var/lib/kafka/data")
    for record in log["orders", 3]: ...
    table = log["orders", 3].to_arrow()

Logs on disk: `open` (gives Log and Partition), `LogDirectory` (writers). Record batches in buffers: `read_records`, `to_arrow`,
`iter_batches`, `check_batches`; built by `build_batch`, `build_batches`, `build_columns`, `BatchBuilder`; changed by
`validate_and_assign_offsets`, `assign_offsets`, `convert`, `recompress`. `Partitioner` gives keys their partitions.
The wire protocol: `kafkafmt.protocol`. On Spark: `spark.read.format("kafkafmt")`. Bad data raises a KafkaFormatError.
"""

from __future__ import annotations

from . import _interrupt as _interrupt  # isort: skip  # first, for Ctrl-C while the rest loads

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
    LogDirectory,
    LogSettings,
    LogWriter,
    NoLogError,
    StrayPartitionWarning,
    WrongProcessError,
)
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
from .view import Groups, Log, Partition
from .view import open_log as open

if TYPE_CHECKING:
    import pyarrow as pa

    from .records.signatures import BufferSelection

Record = core.Record

__all__ = [
    "BatchBuilder",
    "ChecksumError",
    "Damage",
    "DamagedLogError",
    "DuplicatePartitionError",
    "Groups",
    "InvalidError",
    "KafkaFormatError",
    "Log",
    "LogDirectory",
    "LogSettings",
    "LogValidator",
    "LogWriter",
    "NoLogError",
    "Partition",
    "Partitioner",
    "Record",
    "StrayPartitionWarning",
    "StructureError",
    "TooLargeError",
    "TruncatedError",
    "UnsupportedError",
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
    "iter_batches",
    "open",
    "read_records",
    "recompress",
    "to_arrow",
    "validate_and_assign_offsets",
]


def to_arrow(
    buffer: Buffer | None,
    columns: Sequence[str] | None = None,
    *,
    topic: str = "",
    partition: int = 0,
    **selection: Unpack[BufferSelection],
) -> pa.Table:
    """The records of a buffer of batches as a pyarrow Table, by the columns of `Partition.to_arrow`.

    topic, partition: what those columns say. `selection` is read_records': start, end, control, aborted, check_crc,
    max_batch_bytes.
    """
    from . import arrow

    return arrow.read_table(buffer, columns, topic, partition, selection)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "protocol", "records"])


def __getattr__(name: str) -> Any:
    if name == "protocol":  # loaded when asked for too
        from importlib import import_module

        return import_module("kafkafmt.protocol")
    if name == "__version__":  # looked up when asked for: it costs a third of the import
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("kafkafmt")
        except PackageNotFoundError:  # a source tree that was never installed
            return "0"
    raise AttributeError(f"module 'kafkafmt' has no attribute {name!r}")
