"""What the data source gives, with or without Spark, as rows to compare with the Java consumer's."""

import base64
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import CaseInsensitiveDict

from kafkafmt.arrow import schema_of
from kafkafmt.spark.schema import struct_of
from kafkafmt.spark.source.data_source import KafkaLogSource

COLUMNS = ("topic", "partition", "offset", "timestampMillis", "timestampType", "key", "value", "headers")


def source(paths, /, **options):
    """The data source as Spark makes it, without Spark."""
    paths = [paths] if isinstance(paths, str | Path) else paths
    given = CaseInsensitiveDict()
    for name, value in ({"paths": json.dumps([str(p) for p in paths])} | options).items():
        given[name.lower()] = str(value)
    return KafkaLogSource(options=given)


def plan(paths, columns=COLUMNS, **options):
    """Its reader and the partitions that it plans."""
    reader = source(paths, **options).reader(struct_of(columns))
    return reader, reader.partitions()


def read(paths, columns=COLUMNS, **options):
    """What all tasks of a query give, in their order, as a table; read here, without Spark."""
    reader, partitions = plan(paths, columns, **options)
    return table([b for p in partitions for b in reader.read(p)], columns)


def table(batches, columns=COLUMNS):
    return pa.Table.from_batches(batches, schema_of(columns))


def rows(records):
    """A table of COLUMNS as golden rows: (topic, partition, offset) → [timestamp, timestampType, key, value, headers]."""
    found = {}
    for r in records.to_pylist():
        at = r["topic"], r["partition"], r["offset"]
        assert at not in found, f"{at} comes twice"
        headers = [[h["key"], b64(h["value"])] for h in r["headers"] or []]
        found[at] = [r["timestampMillis"], r["timestampType"], b64(r["key"]), b64(r["value"]), headers]
    return found


def b64(data):
    return None if data is None else base64.b64encode(data).decode()


def offsets(records):
    """{(topic, partition): offsets, in the order they came}"""
    found = {}
    for topic, partition, offset in zip(
        *(records.column(n).to_pylist() for n in ("topic", "partition", "offset")), strict=True
    ):
        found.setdefault((topic, partition), []).append(offset)
    return found


def micros(records):
    return pc.cast(records.column("timestamp"), pa.int64()).to_pylist()
