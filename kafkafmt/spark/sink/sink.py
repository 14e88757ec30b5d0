"""Define the data sink, which appends rows to a log directory that no broker uses.

    df.write.format("kafkafmt").option("topic", "orders").mode("append").save("/var/lib/app/log")
    df.writeStream.format("kafkafmt").option("topic", "orders").option("checkpointLocation", c).start(path)

The column `value` (binary or string) is required. The columns key (binary or string), headers,
topic (string) and partition (int) are optional. Unlike Spark's Kafka sink, the data sink also
accepts the column timestamp or timestampMillis (bigint). Other columns are ignored, so that rows
from the data source can be written unchanged.

Even if a task is repeated or the driver is killed, no row is written twice, and rows of a failed
job are never visible.

Each micro-batch of a stream is written only once, because the number of the last micro-batch of
each query is stored in the log directory. The option txnAppId identifies the query. Its default
value is the id that Spark stores in the checkpoint of the query.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ..messages import say_ignored
from ..option_text import NO_BROKER, OptionError
from ..schema import HEADERS, TYPES
from ..shipped import Shipped, say_slow, slow_core
from .job_staging import remove_leftovers, remove_staging, staging_of
from .write_options import QUERY_ID, WriteOptions
from .writing import Stage, Staged, commit, new_attempt, partition_counts

WRITTEN = ("key", "value", "topic", "partition", "timestamp", "timestampMillis", HEADERS)
QUERY_PROPERTY = "sql.streaming.queryId"
"""Local property in which Spark passes the id of a stream to its tasks (``StreamExecution.QUERY_ID_KEY``)."""
TEXT_TOO = ("key", "value")
"""Columns that can have the type binary or string."""


def check_columns(schema: StructType, options: WriteOptions) -> None:
    """Raise ValueError if rows with the given schema cannot be written."""
    types = {f.name: f.dataType.simpleString() for f in schema.fields}
    for name in WRITTEN:
        allowed = [TYPES[name].simpleString(), *(["string"] if name in TEXT_TOO else [])]
        if name in types and types[name] not in allowed:
            raise ValueError(f"the type of column {name} is {types[name]}; it must be {' or '.join(allowed)}")
    if "value" not in types:
        raise ValueError(f"the column 'value' is missing; the given columns are {', '.join(types) or 'none'}")
    if options.topic is None and "topic" not in types:
        raise ValueError("the topic is missing; set the option topic, or add a column topic")


@dataclass
class StagedMessage(WriterCommitMessage):
    """Message that a task sends to the driver after it has written its rows to the staging directory."""

    staged: Staged
    slow: str | None = None
    """A warning if the executor uses the slow pure-Python core. Otherwise None."""
    app_id: str | None = None
    """Identifier of the stream. None for a batch query."""


class _Writer(Shipped):
    """Base class of the objects with which Spark writes the rows of batch queries and streams."""

    # Spark creates a writer on the driver, and sends it to the tasks. For each micro-batch, it
    # creates two: one that it sends to the tasks, and one that commits the rows. Both have the same
    # `query`, the identifier of the stream.

    def __init__(self, options: WriteOptions, schema: StructType, query: str | None = None) -> None:
        check_columns(schema, options)
        self.options = options
        self.names: list[str] = [name for name in WRITTEN if name in schema.names]
        self.counts: dict[str, int] = partition_counts(Path(options.path))
        self.staging: Path = staging_of(Path(options.path), query)
        remove_leftovers(Path(options.path), self.staging)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task to the staging directory."""
        stage = Stage(self.options, self.counts, new_attempt(self.staging))
        try:
            for rows in iterator:
                stage.add(rows.select(self.names))
            return StagedMessage(stage.finish(), slow_core())
        finally:
            stage.close()

    def put(self, messages: list[Any], version: int | None) -> None:
        """Append the rows of all tasks to the log, unless rows with this `version` were already appended."""
        if not version:  # in a streaming query, log the warnings only for the first micro-batch
            say_slow(m.slow for m in messages if m is not None)
        options = self.options
        if version is not None and options.app_id is None:
            options = replace(options, app_id=next((m.app_id for m in messages if m is not None), None))
        try:
            commit(options, [m.staged for m in messages if m is not None], version)
        finally:
            self.discard(messages)

    def discard(self, messages: list[Any]) -> None:
        """Remove the staging directories of this job and of earlier jobs that have not removed them."""
        directory, staged = Path(self.options.path), [Path(m.staged.folder).parent for m in messages if m is not None]
        remove_staging(directory, [self.staging, *staged])
        remove_leftovers(directory, self.staging)


class KafkaLogWriter(_Writer, DataSourceArrowWriter):
    """Writes the rows of a batch query to a log directory."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise OptionError('the data sink can only append to a log; use .mode("append")')
        super().__init__(options, schema)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Append the rows of all tasks to the log. If a broker uses the log directory, raise BlockingIOError."""
        say_ignored(self.options.hints, NO_BROKER)
        self.put(messages, self.options.version)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Discard the rows that the tasks of a failed job have staged."""
        self.discard(messages)


class KafkaLogStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Writes the micro-batches of a stream to a log directory."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool, query: str | None = None) -> None:
        if overwrite:
            raise OptionError('the data sink can only append to a log; use .outputMode("append")')
        if options.version is not None:
            raise OptionError(
                "txnVersion can be used only in batch queries; in a stream, the number of the micro-batch is the "
                "version"
            )
        # Checkpoints on different machines can have the same path, so the path alone does not identify a stream.
        super().__init__(options, schema, options.app_id or query)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task to the staging directory. Return a message with the id of the streaming query."""
        # The driver cannot always read the id from the checkpoint: its path may not be local, or
        # may be set only in the session setting ``spark.sql.streaming.checkpointLocation``.
        message = super().write(iterator)
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY_PROPERTY)
        assert isinstance(message, StagedMessage)
        return message if query is None else replace(message, app_id=QUERY_ID.format(query))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Append the rows of a micro-batch to the log, unless they were already appended."""
        if batchId == 0:  # log this only once per stream, because Spark creates a new writer for each micro-batch
            say_ignored(self.options.hints, NO_BROKER)
        self.put(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Discard the rows that the tasks of a failed job have staged."""
        self.discard(messages)
