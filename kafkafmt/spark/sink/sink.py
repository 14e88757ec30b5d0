"""The data sink: a DataFrame, or a stream, appended to a log directory that no broker is using, with the columns of Spark's Kafka sink.

    df.write.format("kafkafmt").option("topic", "orders").mode("append").save("/var/lib/app/log")
    df.writeStream.format("kafkafmt").option("topic", "orders").option("txnAppId", "orders").option("checkpointLocation", c).start(path)

    value binary|string; where they are there: key binary|string, headers, topic string, partition int, and beyond Spark's sink
    timestamp, or timestampMillis bigint. Others are passed over: what the source reads can be written as it is

A task that is retried or run twice, a job that fails, a driver that is killed: no row comes twice, and none of a job that failed
is seen. A stream's batches come once each: the log directory remembers the last one of each query, by the id in its checkpoint,
or by txnAppId where that lies on no local path (and where there is neither, a batch can come again after a crash).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ..option_text import OptionError
from ..schema import HEADERS, TYPES
from .job_staging import remove_leftovers, remove_staging, staging_of
from .write_options import WriteOptions
from .writing import Stage, Staged, commit, new_attempt, partition_counts

WRITTEN = ("key", "value", "topic", "partition", "timestamp", "timestampMillis", HEADERS)
TEXT_TOO = ("key", "value")
"""Columns that may be strings, beside what the source makes of them."""


def check_columns(schema: StructType, options: WriteOptions) -> None:
    """ValueError, one line, where the rows cannot be written."""
    types = {f.name: f.dataType.simpleString() for f in schema.fields}
    for name in WRITTEN:
        allowed = [TYPES[name].simpleString(), *(["string"] if name in TEXT_TOO else [])]
        if name in types and types[name] not in allowed:
            raise ValueError(f"column {name} is {types[name]}; it can be {' or '.join(allowed)}")
    if "value" not in types:
        raise ValueError(f"there is no column value; the DataFrame has {', '.join(types) or 'none'}")
    if options.topic is None and "topic" not in types:
        raise ValueError("no topic: give the option topic, or a column of that name")


@dataclass
class Done(WriterCommitMessage):
    """What a task hands to the driver."""

    staged: Staged


class _Writer:
    """What both kinds of query have in common. It travels to the tasks.

    Spark makes a writer for the tasks of each micro-batch of a stream, and another one that commits it. query: names the stream for both.
    """

    def __init__(self, options: WriteOptions, schema: StructType, query: str | None = None) -> None:
        check_columns(schema, options)
        self.options = options
        self.names: list[str] = [name for name in WRITTEN if name in schema.names]
        self.counts: dict[str, int] = partition_counts(Path(options.path))
        self.staging: Path = staging_of(Path(options.path), query)
        remove_leftovers(Path(options.path), self.staging)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage a task's rows."""
        stage = Stage(self.options, self.counts, new_attempt(self.staging))
        try:
            for rows in iterator:
                stage.add(rows.select(self.names))
            return Done(stage.finish())
        finally:
            stage.close()

    def put(self, messages: list[Any], version: int | None) -> None:
        try:
            commit(self.options, [m.staged for m in messages if m is not None], version)
        finally:
            self.discard(messages)

    def discard(self, messages: list[Any]) -> None:
        """Remove what the tasks have staged, and what earlier jobs have left."""
        directory, staged = Path(self.options.path), [Path(m.staged.folder).parent for m in messages if m is not None]
        remove_staging(directory, [self.staging, *staged])
        remove_leftovers(directory, self.staging)


class KafkaLogWriter(_Writer, DataSourceArrowWriter):
    """A batch query's rows."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise OptionError('a log is appended to: say .mode("append")')
        super().__init__(options, schema)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Append all that was staged. BlockingIOError where a broker has the directory."""
        self.put(messages, self.options.version)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leave nothing behind."""
        self.discard(messages)


class KafkaLogStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """A stream's rows, batch after batch."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool, query: str | None = None) -> None:
        if overwrite:
            raise OptionError('a log is appended to: say .outputMode("append")')
        if options.version is not None:
            raise OptionError("txnVersion is for batch queries: a stream has its own, the number of the batch")
        super().__init__(
            options, schema, options.app_id or query
        )  # the same path can be another checkpoint on another machine

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Append a batch, unless it was appended before."""
        self.put(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Leave nothing behind."""
        self.discard(messages)
