"""The report of an export, in total and per partition.

This module imports neither pyspark nor pyarrow.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ...log import Damage, Finding
from ...log.auditing.reports import damage_dict
from ...log.reading.transactions import Doubt
from ...notebook import html_table
from .options import ExportOptions


@dataclass(frozen=True)
class PartitionRead:
    """What was read of one partition, shallowly: a wrapper message counts as one batch."""

    segments: int
    """Segments with at least one byte."""
    batches: int
    records: int
    bytes: int


@dataclass(frozen=True)
class PartitionWritten:
    """What was written of one partition.

    Offsets and timestamps are None if no record was written.
    """

    files: int
    records: int
    bytes: int
    """Size of the Parquet files."""
    first_offset: int | None
    last_offset: int | None
    min_timestamp: int | None
    """Milliseconds since 1970-01-01 UTC."""
    max_timestamp: int | None
    timestamps_out_of_range: int
    """Timestamps that microseconds in int64 cannot hold; they are null in the Parquet files."""


@dataclass(frozen=True)
class PartitionQuarantined:
    """The damage of one partition, as far as it concerns the selected offsets."""

    spans: int
    bytes: int
    records: int | None
    """Records known to be lost; None if a span leaves their number unknown."""
    damaged: tuple[Damage, ...]


@dataclass(frozen=True)
class PartitionSkipped:
    """What was not exported of one partition although it is intact."""

    records: int
    """Records of the batches that were read which are not selected, such as control records."""
    segments: int
    """Segments that were not read, because none of their offsets is selected."""
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class PartitionExport:
    """The result for one partition."""

    topic: str
    partition: int
    path: Path
    log_start_offset: int
    read: PartitionRead
    written: PartitionWritten
    quarantined: PartitionQuarantined
    skipped: PartitionSkipped
    in_doubt: tuple[Doubt, ...]
    """Transactions that "read_committed" omits because their outcome is not known."""


@dataclass(frozen=True)
class TotalRead:
    """Sums over all partitions that were exported."""

    partitions: int
    segments: int
    batches: int
    records: int
    bytes: int


@dataclass(frozen=True)
class TotalWritten:
    """Sums over all partitions that were exported."""

    files: int
    records: int
    bytes: int
    timestamps_out_of_range: int


@dataclass(frozen=True)
class TotalQuarantined:
    """Sums over all partitions that were exported."""

    spans: int
    bytes: int
    records: int | None
    """Records known to be lost; None if a span leaves their number unknown."""


@dataclass(frozen=True)
class LeftOutPartition:
    """A partition that was found and not exported."""

    topic: str
    partition: int
    path: Path
    reason: str


@dataclass(frozen=True)
class TotalSkipped:
    """What was not exported although it is intact."""

    records: int
    segments: int
    partitions: tuple[LeftOutPartition, ...]
    messages: tuple[str, ...]
    """Lines about the input, such as files that retention removed."""


@dataclass(frozen=True)
class TotalInDoubt:
    """Sum over all partitions that were exported."""

    transactions: int


@dataclass(frozen=True)
class Codec:
    """Compression of the Parquet files. `level` is None for codecs without levels."""

    name: str
    level: int | None


@dataclass(frozen=True)
class TaskSeconds:
    """Seconds of all tasks together, by activity."""

    reading: float
    """System calls that read files."""
    decompressing: float
    decoding: float
    """Everything else: CRCs, decoding records into columns, building Arrow arrays."""
    writing: float
    """Encoding, compressing and writing Parquet files."""


@dataclass(frozen=True)
class Seconds:
    """Duration of the steps, without Spark's start."""

    planning: float
    exporting: float
    committing: float
    total: float
    rows_per_second: int | None
    in_tasks: TaskSeconds


@dataclass(frozen=True)
class ExportReport:
    """The result of `kafkafmt.export`.

    Attributes
    ----------
    ok : bool
        False if data is damaged, or if "read_committed" omits a transaction whose outcome is not
        known.
    started, finished : datetime
        In UTC.
    output : Path
        The output directory.
    read, written, quarantined, skipped, in_doubt
        Sums over `partitions`. `skipped` also lists the partitions that were not exported.
    partitions : tuple of PartitionExport
        One result for each exported partition, in order of topic and partition.
    codec : Codec
        Compression of the Parquet files.
    seconds : Seconds
        Duration of the steps.
    worker_memory : int
        Highest resident memory of a Python worker, in bytes.
    options : ExportOptions
        What was asked for. `master` is that of the Spark session that was used.
    versions : dict of str to str or None
        Versions of kafkafmt, its core, Python, and the libraries; None for a library that is not
        installed.
    """

    ok: bool
    started: datetime
    finished: datetime
    output: Path
    read: TotalRead
    written: TotalWritten
    quarantined: TotalQuarantined
    skipped: TotalSkipped
    in_doubt: TotalInDoubt
    partitions: tuple[PartitionExport, ...]
    codec: Codec
    seconds: Seconds
    worker_memory: int
    options: ExportOptions
    versions: dict[str, str | None]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as `report.json` in the output directory contains it.

        Returns
        -------
        dict
            Values are of JSON types. Times are ISO 8601 strings with milliseconds, paths are
            strings.
        """
        result: dict[str, Any] = _json_value(self)
        return result

    def _repr_html_(self) -> str:
        """Return the report as an HTML table for notebooks."""
        every = [
            ("in all", self.written.records, self.read.bytes, self.written.bytes, self.quarantined.spans),
            *(
                (f"{p.topic}-{p.partition}", p.written.records, p.read.bytes, p.written.bytes, p.quarantined.spans)
                for p in self.partitions
            ),
        ]
        names = ("partition", "records", "log bytes", "Parquet bytes", "damaged spans")
        return html_table(f"{self.output}: {'ok' if self.ok else 'damage'}", names, every)


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
    return str(value) if isinstance(value, Path) else value
