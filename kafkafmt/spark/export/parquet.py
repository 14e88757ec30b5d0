"""Write one split of a partition to a Parquet file, directly in a Spark task.

The columns are key, value, offset, timestamp, timestampType and headers. The topic and the
partition are in the directory names (layout.py) and in the key-value metadata of each file.

Offsets and timestamps are delta-encoded and have statistics. `timestampType` is dictionary-encoded.
The other columns have neither dictionaries nor statistics, because these would cost more time than
they save. A row group has at most ROW_GROUP_BYTES before compression, to limit the memory that a
worker needs.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...arrow import SCHEMA, ArrowBuilder, schema_of
from ...log import Damage, PartitionLog, SegmentFile
from ...log.reading.plan import SegmentPlan
from ...log.reading.read_limits import DEFAULT_LIMITS, ReadLimits
from ...log.reading.single_pass import UnconfirmedError
from ..hosts import host_name
from ..source.splits import Split
from .report import TaskSeconds
from .timing import Stopwatch, peak_memory

COLUMNS = ("key", "value", "offset", "timestamp", "timestampType", "headers")
ROW_GROUP_BYTES = 64 << 20
ROW_GROUP_ROWS = 1 << 20


@dataclass(frozen=True)
class TaskSettings:
    """Settings for the tasks that decode splits and write Parquet files."""

    attempts: Path
    """Directory in which the tasks write their files."""
    compression: str = "zstd"
    level: int | None = None
    limits: ReadLimits = DEFAULT_LIMITS
    stop_at_damage: bool = False
    """If True, a task stops at the first damage that it finds, and leaves no file."""


@dataclass
class Manifest:
    """Describes what a task read and wrote for one split."""

    split: int
    file: str | None = None
    """Name of the Parquet file in the directory `TaskSettings.attempts`, or None if there is none.
    """
    rows: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    min_timestamp: int | None = None
    """Lowest timestamp, in milliseconds since 1970-01-01 UTC."""
    max_timestamp: int | None = None
    timestamps_out_of_range: int = 0
    damaged: list[Damage] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Paths of the segment files that were missing when the task tried to read them. The list
    contains only files that retention has removed, as far as this host can see.
    """
    plans: list[SegmentPlan] = field(default_factory=list)
    """The batches that the task has confirmed, as one plan for each piece of the split."""
    unconfirmed: list[str] = field(default_factory=list)
    """Names of the segments that must be planned before they can be exported. If the list is not
    empty, the task has written no file.
    """
    host: str = ""
    seconds: TaskSeconds = field(default_factory=lambda: TaskSeconds(0.0, 0.0, 0.0, 0.0))
    worker_memory: int = 0


class _StopAtDamageError(Exception):
    """Raised inside a task to stop it at the first damage."""


def open_writer(
    path: str | os.PathLike[str], schema: pa.Schema, compression: str, level: int | None
) -> pq.ParquetWriter:
    """Open a Parquet file for writing, with the column encodings that the export uses."""
    names = set(schema.names)
    return pq.ParquetWriter(
        path,
        schema,
        compression=compression,
        compression_level=level,
        use_dictionary=[n for n in ("timestampType",) if n in names],
        write_statistics=[n for n in ("offset", "timestamp") if n in names],
        column_encoding={n: "DELTA_BINARY_PACKED" for n in ("offset", "timestamp") if n in names},
    )


def write_split(number: int, split: Split, settings: TaskSettings) -> Manifest:
    """Decode the records of a split and write them to a Parquet file with a unique name."""
    manifest, watch = Manifest(number, host=host_name()), Stopwatch()
    builder = ArrowBuilder(split.topic, split.partition, schema_of(COLUMNS))
    schema = builder.schema.with_metadata({"topic": split.topic, "partition": str(split.partition)})
    name = f"{number}-{secrets.token_hex(8)}.parquet"
    writer: pq.ParquetWriter | None = None
    try:
        for group in row_groups(_batches(split, builder, settings, manifest, watch)):
            with watch.writing():
                if writer is None:
                    writer = open_writer(settings.attempts / name, schema, settings.compression, settings.level)
                    manifest.file, manifest.first_offset = name, group["offset"][0].as_py()
                writer.write_table(group.replace_schema_metadata(schema.metadata), ROW_GROUP_ROWS)
            _note(manifest, group)
            del group  # free the memory before the next row group is built
        if writer is not None:
            with watch.writing():
                writer.close()
    except (_StopAtDamageError, UnconfirmedError) as error:
        _discard(writer, settings.attempts / name)
        manifest.file = None
        if isinstance(error, UnconfirmedError):
            manifest.unconfirmed = [error.segment, *_unconfirmed_after(split, error.segment, settings)]
    except BaseException:
        _discard(writer, settings.attempts / name)
        raise
    manifest.seconds = watch.stop()
    if manifest.file is not None:
        manifest.bytes_written = (settings.attempts / name).stat().st_size
    manifest.bytes_read = split.bytes
    manifest.timestamps_out_of_range = builder.timestamps_out_of_range
    manifest.worker_memory = peak_memory()
    return manifest


def row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Combine Arrow record batches into tables of about the size of a Parquet row group."""
    held: list[pa.RecordBatch] = []
    size = rows = 0
    for batch in batches:
        if held and (size + batch.nbytes > ROW_GROUP_BYTES or rows + batch.num_rows > ROW_GROUP_ROWS):
            yield pa.Table.from_batches(held)
            held, size, rows = [], 0, 0
        held.append(batch)
        size += batch.nbytes
        rows += batch.num_rows
    if held:
        yield pa.Table.from_batches(held)


def _batches(
    split: Split, builder: ArrowBuilder, settings: TaskSettings, manifest: Manifest, watch: Stopwatch
) -> Iterator[pa.RecordBatch]:
    def note_damage(damage: Damage) -> None:
        manifest.damaged.append(damage)
        if settings.stop_at_damage:
            raise _StopAtDamageError

    def note_missing(segment: SegmentFile) -> None:
        manifest.missing.append(str(segment.path))

    def note_end(log: PartitionLog) -> None:
        watch.add(log)
        manifest.plans += log.confirmed.values()

    for piece in split.pieces:
        for chunk in piece.chunks(
            builder.columns,
            on_damage=note_damage,
            limits=settings.limits,
            on_missing=note_missing,
            on_end=note_end,
            confirmed_only=piece.plan is None,
        ):
            yield from builder.add(chunk)
    if builder.rows:
        yield builder.flush()


def _unconfirmed_after(split: Split, name: str, settings: TaskSettings) -> Iterator[str]:
    """Yield the names of unconfirmed segments in `split` that come after the segment `name`.

    The driver can then plan all unconfirmed segments of the split in one Spark job.
    """
    names = [piece.segment.name for piece in split.pieces]
    for piece in split.pieces[names.index(name) + 1 :]:
        try:
            piece.check(settings.limits)
        except UnconfirmedError as error:
            yield error.segment


def _note(manifest: Manifest, group: pa.Table) -> None:
    """Add the rows of a table to the counts and ranges in `manifest`."""
    manifest.rows += group.num_rows
    manifest.last_offset = group["offset"][-1].as_py()
    ends = pc.min_max(group["timestamp"])
    low, high = ends["min"], ends["max"]
    if low.is_valid:
        least, most = low.value // 1000, high.value // 1000
        manifest.min_timestamp = least if manifest.min_timestamp is None else min(manifest.min_timestamp, least)
        manifest.max_timestamp = most if manifest.max_timestamp is None else max(manifest.max_timestamp, most)


def _discard(writer: pq.ParquetWriter | None, path: Path) -> None:
    """Remove the file of a failed attempt to write a split.

    If the task is killed first, the driver removes the file.
    """
    if writer is not None:
        try:
            writer.close()
        except Exception:
            pass
        path.unlink(missing_ok=True)


def write_empty(path: Path, compression: str, level: int | None) -> None:
    """Write a Parquet file that has the columns of an exported table, but no rows.

    The topic and the partition are the last two columns, as in a reader that takes them from the
    directory names.
    """
    path.parent.mkdir(exist_ok=True)
    schema = pa.schema([*schema_of(COLUMNS), SCHEMA.field("topic"), SCHEMA.field("partition")])
    with open_writer(path, schema, compression, level) as writer:
        writer.write_table(schema.empty_table())
