"""Define the report of an export, which contains totals and a result for each partition.

This module does not import pyspark or pyarrow.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ..log import Damage, Finding
from ..log.transactions import Doubt
from ..log.verifying import EXIT_DAMAGE, EXIT_UNREADABLE, UnreadablePartition, damage_dict
from ..support.notebook import html_table
from ..support.paths import Location, UrlPath
from ..support.report import Report
from .options import ExportOptions


@dataclass(frozen=True)
class PartitionRead:
    """Numbers of segments, batches, records and bytes that an export read from one partition.

    A wrapper message (v0 or v1) is counted as one batch.
    """

    segments: int
    """Number of segments that are not empty."""
    batches: int
    records: int
    bytes: int


@dataclass(frozen=True)
class PartitionWritten:
    """Counts and ranges of the records that an export wrote to Parquet files, for one partition.

    Offsets and timestamps are None if no record was written.
    """

    files: int
    records: int
    bytes: int
    """Total size of the Parquet files, in bytes."""
    first_offset: int | None
    last_offset: int | None
    min_timestamp: int | None
    """Lowest timestamp, in milliseconds since 1970-01-01 UTC."""
    max_timestamp: int | None
    """Highest timestamp, in milliseconds since 1970-01-01 UTC."""
    timestamps_out_of_range: int
    """Number of timestamps that do not fit into int64 microseconds. In the Parquet files, they are null."""


@dataclass(frozen=True)
class PartitionQuarantined:
    """Damage in one partition that may affect the selected offsets."""

    spans: int
    bytes: int
    records: int | None
    """Number of lost records. None if this number is unknown for at least one damaged range of bytes."""
    damaged: tuple[Damage, ...]


@dataclass(frozen=True)
class PartitionSkipped:
    """Intact records and segments of one partition that were not exported, and the findings of the partition."""

    records: int
    """Number of records that were read but are not selected, such as control records."""
    segments: int
    """Number of segments that were not read, because they contain no selected offset."""
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class PartitionExport:
    """Result of an export for one partition."""

    topic: str
    partition: int
    path: Location
    topic_id: str | None
    """Topic id in `partition.metadata`. None if this file does not exist, or if the log is in an object store."""
    log_start_offset: int
    next_offset: int
    """Offset at which the next export with `resume` continues."""
    read: PartitionRead
    written: PartitionWritten
    quarantined: PartitionQuarantined
    skipped: PartitionSkipped
    in_doubt: tuple[Doubt, ...]
    """Transactions with an unknown outcome, which "read_committed" omitted."""


@dataclass(frozen=True)
class TotalRead:
    """Totals of the data that was read, over all exported partitions."""

    partitions: int
    segments: int
    batches: int
    records: int
    bytes: int


@dataclass(frozen=True)
class TotalWritten:
    """Totals of the Parquet files that were written, over all exported partitions."""

    files: int
    records: int
    bytes: int
    timestamps_out_of_range: int


@dataclass(frozen=True)
class TotalQuarantined:
    """Totals of the damage, over all exported partitions."""

    spans: int
    bytes: int
    records: int | None
    """Number of lost records. None if this number is unknown for at least one damaged range of bytes."""


@dataclass(frozen=True)
class LeftOutPartition:
    """A partition that was found but not exported, and the reason."""

    topic: str
    partition: int
    path: Location
    reason: str


@dataclass(frozen=True)
class TotalSkipped:
    """Totals of the intact data that was not exported."""

    records: int
    segments: int
    partitions: tuple[LeftOutPartition, ...]
    messages: tuple[str, ...]
    """Messages about the input, for example about files that retention has removed."""


@dataclass(frozen=True)
class TotalInDoubt:
    """Number of transactions with an unknown outcome in all exported partitions."""

    transactions: int


@dataclass(frozen=True)
class SchemaRecords:
    """Number of keys or values that were written with one schema and decoded."""

    id: int | None
    """Id of the schema. None if the source of the schemas has no ids."""
    subject: str
    version: int
    records: int


@dataclass(frozen=True)
class SideDecoded:
    """Numbers of keys or values that were decoded, and that could not be decoded. Neither includes nulls."""

    records: int
    undecodable: int
    by_error: dict[str, int]
    """Number of keys or values that could not be decoded, by error code."""
    by_schema: tuple[SchemaRecords, ...]


@dataclass(frozen=True)
class TotalDecoded:
    """Totals of decoded keys and values. A side is None if it was not to be decoded."""

    key: SideDecoded | None
    value: SideDecoded | None

    @property
    def undecodable(self) -> int:
        """Number of keys and values that could not be decoded."""
        return sum(side.undecodable for side in (self.key, self.value) if side is not None)


@dataclass(frozen=True)
class Codec:
    """Compression codec of the Parquet files. `level` is None for codecs that have no levels."""

    name: str
    level: int | None


@dataclass(frozen=True)
class TaskSeconds:
    """Time that all tasks of an export spent on each activity, in seconds."""

    reading: float
    """Time spent in system calls that read files."""
    decompressing: float
    decoding: float
    """Time spent on everything else, such as checking CRCs, decoding records and building Arrow arrays."""
    writing: float
    """Time spent encoding, compressing and writing Parquet files."""


@dataclass(frozen=True)
class Seconds:
    """Duration of each step of an export, in seconds. The time to start Spark is not included."""

    planning: float
    exporting: float
    committing: float
    total: float
    rows_per_second: int | None
    in_tasks: TaskSeconds


@dataclass(frozen=True)
class Step:
    """A step of an export, which runs either in the driver or as a job with many tasks."""

    step: str
    """Name of the step. "planning" and "committing" run in the driver. "exporting" is a job. If
    some segments could not be read in one pass, the jobs "planning segments" and a second
    "exporting" follow.
    """
    tasks: int
    """Number of tasks. A repeated task is counted once."""
    bytes_read: int
    """Number of bytes that were read from the logs and their indexes. A segment is not counted if a
    task stopped because it could not confirm that all batches of the segment are valid.
    """
    records: int
    """Number of records that were written to Parquet files."""
    seconds: float


@dataclass(frozen=True)
class ExportReport(Report):
    """Result of an export, as returned by `kafkafmt.export`.

    Attributes
    ----------
    started, finished : datetime
        Start and end of the export, in UTC.
    output : Path or UrlPath
        The output directory.
    run : int
        Number of earlier runs that wrote to the output. It is 0 unless the output was resumed. The
        report describes only the latest run.
    read, written, quarantined, skipped, in_doubt
        Totals over all items of `partitions`. `skipped` also lists the partitions that were not
        exported.
    partitions : tuple of PartitionExport
        One result for each exported partition, sorted by topic and partition.
    unreadable : tuple of UnreadablePartition
        Partitions that could not be read, and are not in the output.
    codec : Codec
        Compression codec of the Parquet files.
    seconds : Seconds
        Duration of planning, exporting and committing.
    steps : tuple of Step
        Steps of the export in chronological order. Each has the number of bytes read and the
        duration.
    worker_memory : int
        Largest peak resident memory of a Python worker, in bytes.
    options : ExportOptions
        Options of the export. `options.master` is the master URL of the Spark session that was
        used.
    versions : dict of str to str or None
        Versions of kafkafmt, its core, Python and the libraries, by name. The version of a library
        that is not installed is None.
    decoded : TotalDecoded or None
        Numbers of decoded keys and values. None if `decode` was not given.
    """

    command = "export"

    started: datetime
    finished: datetime
    output: Location
    run: int
    read: TotalRead
    written: TotalWritten
    quarantined: TotalQuarantined
    skipped: TotalSkipped
    in_doubt: TotalInDoubt
    partitions: tuple[PartitionExport, ...]
    unreadable: tuple[UnreadablePartition, ...]
    codec: Codec
    seconds: Seconds
    steps: tuple[Step, ...]
    worker_memory: int
    options: ExportOptions
    versions: dict[str, str | None]
    decoded: TotalDecoded | None = None

    @property
    def damaged(self) -> bool:
        """Whether data is damaged, or "read_committed" omitted a transaction because its outcome is not known."""
        return bool(self.quarantined.spans or self.in_doubt.transactions)

    @property
    def exit_code(self) -> int:
        """Exit code of ``kafkafmt export``.

        3 if a partition could not be read, 1 if data is damaged or a key or value could not be decoded, else 0.
        """
        if self.unreadable:
            return EXIT_UNREADABLE
        undecodable = self.decoded is not None and self.decoded.undecodable
        return EXIT_DAMAGE if self.damaged or undecodable else 0

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a dict with the content of `report.json`.

        Returns
        -------
        dict
            All values have JSON types. Times are ISO 8601 strings with milliseconds, and paths are
            strings.
        """
        result: dict[str, Any] = {"ok": self.ok} | _json_value(self)
        if not self.unreadable:
            del result["unreadable"]
        if self.decoded is None:
            del result["decoded"]
        return result

    def _repr_html_(self) -> str:
        every = [
            ("in all", self.written.records, self.read.bytes, self.written.bytes, self.quarantined.spans),
            *(
                (f"{p.topic}-{p.partition}", p.written.records, p.read.bytes, p.written.bytes, p.quarantined.spans)
                for p in self.partitions
            ),
        ]
        names = ("partition", "records", "log bytes", "Parquet bytes", "damaged spans")
        return html_table(f"{self.output}: {self._outcome}", names, every)

    @property
    def _outcome(self) -> str:
        if self.ok:
            return "ok"
        return "damage" if self.damaged or self.unreadable else "undecodable values"


def _json_value(value: Any) -> Any:
    if isinstance(value, ExportOptions):
        return value.to_dict()
    if isinstance(value, Damage):
        return damage_dict(value)
    if isinstance(value, Doubt):
        return asdict(value) | {"message": value.message}
    if is_dataclass(value):
        return {f.name: _json_value(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return [_json_value(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    return str(value) if isinstance(value, Path | UrlPath) else value
