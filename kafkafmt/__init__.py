"""Read, check, build and write Apache Kafka log files and messages, without a broker.

    import kafkafmt
    log = kafkafmt.open("/var/lib/kafka/data")
    for record in log["orders", 3]: ...
    table = log["orders", 3].to_arrow()

- Logs on disk: `open` returns a `Log`, which contains `Topic` and `Partition` objects.
  `LogDirectory` writes logs.
- Record batches in a buffer: `read_records`, `to_arrow`, `iter_batches` and `check_batches` read
  record batches. `build_batch` and `build_batches` build batches. `kafkafmt.records` has the
  functions that clients and brokers need: they assign offsets, validate, convert and recompress
  batches, and assign records to partitions.
- The wire protocol: `kafkafmt.protocol`.
- A server: `serve` lets Kafka clients read logs.
- Schemas: `schemas` reads a schema registry, even if it no longer runs.
- Spark: `spark.read.format("kafkafmt")`.
- The classes of results are in `kafkafmt.reports`, the types of arguments in `kafkafmt.typing`.

If data is damaged, a `KafkaFormatError` is raised.
"""

from __future__ import annotations

# Import `_interrupt` first, so that Ctrl-C works while other modules load.
from . import _interrupt as _interrupt  # isort: skip

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ._backend import backend, core
from .constants import DEFAULT_MAX_BATCH_BYTES
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
from .records import build_batch, build_batches, check_batches, iter_batches, read_records
from .support.extras import kafkafmt_version
from .support.report import Report
from .types import Buffer
from .view import Log, Partition, Topic, open

if TYPE_CHECKING:
    import pyarrow as pa

    from . import protocol as protocol
    from . import records as records
    from . import reports as reports
    from . import server as server
    from . import typing as typing
    from .exporting import OutputExistsError, ResumeError, export
    from .kraft.cluster_metadata import MetadataRangeError, metadata
    from .log import LogDirectory, LogSettings, LogWriter, StrayPartitionWarning
    from .log.groups import GroupNotFoundError
    from .log.inspecting import describe, diff, dump
    from .log.repairing import OutputPlaceError, salvage
    from .log.rewriting import RestoreError, restore, rewrite
    from .log.verifying import verify
    from .making.make_log import make
    from .records.signatures import BufferSelection
    from .registry import SchemaNotFoundError, SchemaRegistry, schemas
    from .server import serve
    from .support.installation import doctor
    from .values import UndecodableError, decode_values
    from .view.polars_source import scan_polars
    from .view.stats import stats

    __version__: str

_HOMES = {
    "GroupNotFoundError": "log.groups",
    "LogDirectory": "log",
    "LogSettings": "log",
    "LogWriter": "log",
    "MetadataRangeError": "kraft.cluster_metadata",
    "OutputExistsError": "exporting",
    "OutputPlaceError": "log.repairing",
    "RestoreError": "log.rewriting",
    "ResumeError": "exporting",
    "SchemaNotFoundError": "registry",
    "SchemaRegistry": "registry",
    "StrayPartitionWarning": "log",
    "UndecodableError": "values",
    "decode_values": "values",
    "describe": "log.inspecting",
    "diff": "log.inspecting",
    "doctor": "support.installation",
    "dump": "log.inspecting",
    "export": "exporting",
    "make": "making.make_log",
    "metadata": "kraft.cluster_metadata",
    "restore": "log.rewriting",
    "rewrite": "log.rewriting",
    "salvage": "log.repairing",
    "scan_polars": "view.polars_source",
    "schemas": "registry",
    "serve": "server",
    "stats": "view.stats",
    "verify": "log.verifying",
}
"""The module that defines each public name. It is imported on first use, so that `import kafkafmt` is fast."""
_MODULES = ("protocol", "reports", "server", "typing")
"""Public modules that are imported on first use."""

_OTHER_NAMES = {
    "cat": "kafkafmt.open(path) and iterate over a topic",
    "groups": "kafkafmt.open(path).groups()",
    "ls": "kafkafmt.describe(path)",
    "read": "kafkafmt.open(path)",
    "read_log": "kafkafmt.open(path)",
    "read_parquet": "kafkafmt.open(path).to_arrow()",
    "read_table": "kafkafmt.open(path).to_arrow()",
    "scan": "kafkafmt.scan_polars(path)",
    "seek": "kafkafmt.open(path)[topic, partition].seek(offset=N)",
}
"""Names of commands and of other libraries, with the names to use instead."""

Record = core.Record

__all__ = [
    "ChecksumError",
    "Damage",
    "DamagedLogError",
    "DuplicatePartitionError",
    "Finding",
    "GroupNotFoundError",
    "InvalidError",
    "KafkaFormatError",
    "Log",
    "LogDirectory",
    "LogSettings",
    "LogWriter",
    "MetadataRangeError",
    "NoLogError",
    "OutputExistsError",
    "OutputPlaceError",
    "Partition",
    "PartitionNotFoundError",
    "Record",
    "RestoreError",
    "ResumeError",
    "SchemaNotFoundError",
    "SchemaRegistry",
    "StrayPartitionWarning",
    "StructureError",
    "TooLargeError",
    "Topic",
    "TruncatedError",
    "UndecodableError",
    "UnsupportedError",
    "WrongProcessError",
    "backend",
    "build_batch",
    "build_batches",
    "check_batches",
    "decode_values",
    "describe",
    "diff",
    "doctor",
    "dump",
    "export",
    "iter_batches",
    "make",
    "metadata",
    "open",
    "read_records",
    "restore",
    "rewrite",
    "salvage",
    "scan_polars",
    "schemas",
    "serve",
    "stats",
    "to_arrow",
    "verify",
]


def to_arrow(
    buffer: Buffer | None,
    columns: Sequence[str] | None = None,
    *,
    topic: str = "",
    partition: int = 0,
    incomplete: str = "error",
    start: int | None = None,
    end: int | None = None,
    control: bool = False,
    aborted: Iterable[tuple[int, int]] | None = None,
    check_crc: bool = True,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
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
    start, end, control, aborted, check_crc, max_batch_bytes : optional
        Records to return. `read_records` describes these arguments.

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

    selection: BufferSelection = {
        "start": start,
        "end": end,
        "control": control,
        "aborted": aborted,
        "check_crc": check_crc,
        "max_batch_bytes": max_batch_bytes,
    }
    return read_table(buffer, columns, topic, partition, selection, incomplete)


def _report_text(report: Report) -> str:
    try:
        from .cli.output import report_text
    except ModuleNotFoundError:  # click and rich are optional
        return repr(report)
    return report_text(report)


Report._text_of = _report_text


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "records", *_MODULES])


if not TYPE_CHECKING:  # Otherwise, type checkers would accept every name.

    def __getattr__(name: str) -> Any:
        if name in _HOMES or name in _MODULES:
            from importlib import import_module

            module = import_module(f"kafkafmt.{_HOMES.get(name, name)}")
            globals()[name] = value = getattr(module, name) if name in _HOMES else module
            return value
        # Read the version on first use. Reading it takes a third of the time that `import kafkafmt` takes.
        if name == "__version__":
            return kafkafmt_version()
        from .support.hints import no_attribute

        raise no_attribute("module 'kafkafmt'", name, _OTHER_NAMES)
