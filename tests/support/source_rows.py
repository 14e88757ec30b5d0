"""Read with the data source, and return rows that can be compared with the Java consumer's."""

import base64
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from golden_cases import Rows
from pyspark.sql.datasource import CaseInsensitiveDict

from kafkafmt.arrow.builder import schema_of
from kafkafmt.spark.schema import struct_of
from kafkafmt.spark.source.data_source import KafkaLogReader, KafkaLogSource
from kafkafmt.spark.source.reading import TaskPartition

COLUMNS = ("topic", "partition", "offset", "timestampMillis", "timestampType", "key", "value", "headers")
Paths = str | Path | Sequence[str | Path]


def source(paths: Paths, /, **options: object) -> KafkaLogSource:
    """Create the data source as Spark does, but without Spark."""
    paths = [paths] if isinstance(paths, str | Path) else paths
    given = CaseInsensitiveDict()
    for name, value in ({"paths": json.dumps([str(p) for p in paths])} | options).items():
        given[name.lower()] = str(value)
    return KafkaLogSource(options=given)


def plan(
    paths: Paths, columns: Sequence[str] = COLUMNS, **options: object
) -> tuple[KafkaLogReader, list[TaskPartition]]:
    """Return the reader of a data source, and the partitions that it plans."""
    reader = source(paths, **options).reader(struct_of(columns))
    assert isinstance(reader, KafkaLogReader)
    return reader, [p for p in reader.partitions() if isinstance(p, TaskPartition)]


def read(paths: Paths, columns: Sequence[str] = COLUMNS, **options: object) -> pa.Table:
    """Read all tasks of a query in order, without Spark, and return the rows."""
    reader, partitions = plan(paths, columns, **options)
    return table([b for p in partitions for b in reader.read(p)], columns)


def table(batches: Iterable[pa.RecordBatch], columns: Sequence[str] = COLUMNS) -> pa.Table:
    return pa.Table.from_batches(batches, schema_of(columns))


def rows(records: pa.Table) -> Rows:
    """Convert a table of COLUMNS to rows of golden_cases."""
    found: Rows = {}
    for r in records.to_pylist():
        at = r["topic"], r["partition"], r["offset"]
        assert at not in found, f"the record {at} occurs twice"
        headers = [[h["key"], b64(h["value"])] for h in r["headers"] or []]
        found[at] = [r["timestampMillis"], r["timestampType"], b64(r["key"]), b64(r["value"]), headers]
    return found


def b64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def offsets(records: pa.Table) -> dict[tuple[str, int], list[int]]:
    """Return the offsets of each (topic, partition), in the order of the rows."""
    found: dict[tuple[str, int], list[int]] = {}
    for topic, partition, offset in zip(
        *(records.column(n).to_pylist() for n in ("topic", "partition", "offset")), strict=True
    ):
        found.setdefault((topic, partition), []).append(offset)
    return found


def micros(records: pa.Table) -> list[int | None]:
    """Return the timestamps, in microseconds."""
    found: list[int | None] = pc.cast(records.column("timestamp"), pa.int64()).to_pylist()
    return found
