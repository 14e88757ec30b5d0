"""The export's Parquet files: a split of a partition becomes one, written by the task itself.

    key, value, offset, timestamp, timestampType, headers

Topic and partition are in the directories' names (`topic=orders/partition=3`, as Spark's partitionBy writes them) and
in each file's key-value metadata. Offsets and timestamps are delta encoded; dictionaries and statistics are kept
where they are worth their time. A row group has at most ROW_GROUP_BYTES before compression: that bounds a worker's memory.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...arrow import SCHEMA, ArrowBuilder, schema_of
from ...constants import DEFAULT_MAX_BATCH_BYTES
from ...log import Damage, SegmentFile
from ..hosts import host_name
from ..source.splits import Split
from .timing import Stopwatch, peak_memory

COLUMNS = ("key", "value", "offset", "timestamp", "timestampType", "headers")
CODECS = ("zstd", "snappy", "lz4", "none")
ZSTD_LEVEL = 1
ROW_GROUP_BYTES = 64 << 20
ROW_GROUP_ROWS = 1 << 20
QUARANTINE_BYTES = 16 << 20
"""At most so many bytes of a damaged span are kept; its message says so where there were more."""

QUARANTINE_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("file", pa.string()),
        ("position", pa.int64()),
        ("length", pa.int64()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("error", pa.string()),
        ("message", pa.string()),
        ("bytes", pa.binary()),
    ]
)
# What Spark's partitionBy escapes in a value (ExternalCatalogUtils.escapePathName), and what it calls an empty one.
ESCAPED = set("\"#%'*/:=?\\{[]^\x7f") | {chr(i) for i in range(1, 0x20)}
EMPTY_NAME = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Settings:
    """How a task reads and writes. stop_at_damage: the task ends at the first damage that it meets."""

    attempts: Path
    compression: str = "zstd"
    level: int | None = None
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    stop_at_damage: bool = False


@dataclass
class Manifest:
    """What a task did with one split. file: the attempt's name, None where there was no record. Timestamps in ms."""

    split: int
    file: str | None = None
    rows: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    min_timestamp: int | None = None
    max_timestamp: int | None = None
    timestamps_out_of_range: int = 0
    damaged: list[Damage] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Paths of segments that retention removed before they were read, as far as this host sees."""
    host: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    worker_memory: int = 0


class _StopAtDamageError(Exception):
    pass


def escape(value: str) -> str:
    """A value as Spark writes it into a directory's name."""
    return "".join(f"%{ord(c):02X}" if c in ESCAPED else c for c in value) or EMPTY_NAME


def place_of(topic: str, partition: int, first_offset: int) -> tuple[str, str, str, str]:
    """Where a file lies within the export."""
    return "data", f"topic={escape(topic)}", f"partition={partition}", f"{first_offset:020d}.parquet"


def open_writer(
    path: str | os.PathLike[str], schema: pa.Schema, compression: str, level: int | None
) -> pq.ParquetWriter:
    """A writer with the export's encodings for those of its columns that are there."""
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


def write_split(number: int, split: Split, settings: Settings) -> Manifest:
    """Decode a split and write its file under a name of its own; what came of it."""
    manifest, watch = Manifest(number, host=host_name()), Stopwatch()
    builder = ArrowBuilder(split.topic, split.partition, schema_of(COLUMNS))
    schema = builder.schema.with_metadata({"topic": split.topic, "partition": str(split.partition)})
    name = f"{number}-{secrets.token_hex(8)}.parquet"
    writer: pq.ParquetWriter | None = None
    try:
        with watch.running():
            for group in row_groups(_batches(split, builder, settings, manifest)):
                with watch.share("writing"):
                    if writer is None:
                        writer = open_writer(settings.attempts / name, schema, settings.compression, settings.level)
                        manifest.file, manifest.first_offset = name, group["offset"][0].as_py()
                    writer.write_table(group.replace_schema_metadata(schema.metadata), ROW_GROUP_ROWS)
                _note(manifest, group)
                del group  # or it would stay while the next one is put together
            if writer is not None:
                with watch.share("writing"):
                    writer.close()
    except _StopAtDamageError:
        _discard(writer, settings.attempts / name)
        manifest.file = None
    except BaseException:
        _discard(writer, settings.attempts / name)
        raise
    if manifest.file is not None:
        manifest.bytes_written = (settings.attempts / name).stat().st_size
    manifest.bytes_read = split.bytes
    manifest.timestamps_out_of_range = builder.timestamps_out_of_range
    manifest.seconds = watch.seconds
    manifest.worker_memory = peak_memory()
    return manifest


def row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together to tables of about a row group's size."""
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


def _batches(split: Split, builder: ArrowBuilder, settings: Settings, manifest: Manifest) -> Iterator[pa.RecordBatch]:
    def note(damage: Damage) -> None:
        manifest.damaged.append(damage)
        if settings.stop_at_damage:
            raise _StopAtDamageError

    def missing(segment: SegmentFile) -> None:
        manifest.missing.append(str(segment.path))

    for piece in split.pieces:
        for chunk in piece.chunks(
            builder.columns, on_damage=note, max_batch_bytes=settings.max_batch_bytes, on_missing=missing
        ):
            yield from builder.add(chunk)
    if builder.rows:
        yield builder.flush()


def _note(manifest: Manifest, group: pa.Table) -> None:
    manifest.rows += group.num_rows
    manifest.last_offset = group["offset"][-1].as_py()
    ends = pc.min_max(group["timestamp"])
    low, high = ends["min"], ends["max"]
    if low.is_valid:
        least, most = low.value // 1000, high.value // 1000
        manifest.min_timestamp = least if manifest.min_timestamp is None else min(manifest.min_timestamp, least)
        manifest.max_timestamp = most if manifest.max_timestamp is None else max(manifest.max_timestamp, most)


def _discard(writer: pq.ParquetWriter | None, path: Path) -> None:
    """Nothing stays of an attempt that failed (of one that was killed, the driver deletes it)."""
    if writer is not None:
        try:
            writer.close()
        except Exception:
            pass
        path.unlink(missing_ok=True)


def write_empty(folder: Path, compression: str, level: int | None) -> None:
    """What stands for an export without a record: a file with the columns in the order that readers of the others see."""
    schema = pa.schema([*schema_of(COLUMNS), SCHEMA.field("topic"), SCHEMA.field("partition")])
    with open_writer(folder / "empty.parquet", schema, compression, level) as writer:
        writer.write_table(schema.empty_table())


def write_quarantine(path: Path, rows: Iterable[dict[str, Any]], compression: str, level: int | None) -> int:
    """Rows of QUARANTINE_SCHEMA into one file; how many there were."""
    count = 0
    with open_writer(path, QUARANTINE_SCHEMA, compression, level) as writer:
        for row in rows:
            writer.write_table(pa.Table.from_pylist([row], QUARANTINE_SCHEMA))
            count += 1
        if not count:
            writer.write_table(QUARANTINE_SCHEMA.empty_table())
    return count
