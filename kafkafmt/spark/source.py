"""The data source `kafkafmt`: Kafka's log directories as a DataFrame, with the options and columns of Spark's Kafka source.

    spark.read.format("kafkafmt").option("subscribe", "orders").load("/var/lib/kafka/data")

Spark makes the source, then a reader, in Python processes on the driver; the reader's plan cuts the segments into
tasks, and each task decodes its part into Arrow batches of about 8 MB. The way of those batches into the JVM costs
more than the decoding, so what is not wanted is best left out here: by options, and by a schema of the user's, which
is the projection. Filters are not pushed down: in Spark 4.3 one query's filters reach the next one's plan.
What is there is looked at once a query is planned; what the broker writes afterwards is not seen.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamWriter, DataSourceWriter, InputPartition
from pyspark.sql.types import StructType

from ..arrow import ArrowBuilder, schema_of
from ..log import Damage, DamagedLogError, PartitionDir
from .options import Options, parse
from .planning import Task, make_plan
from .schema import STANDARD, WITH_HEADERS, checked_names, struct_of
from .write_options import parse_write, query_id

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "kafkafmt"
log = logging.getLogger("kafkafmt.spark")


def register(spark: SparkSession) -> None:
    """Make format("kafkafmt") known to a session that did not find it by itself (a source tree, an executor's archive)."""
    spark.dataSource.register(KafkaLogSource)


class KafkaLogSource(DataSource):
    """format("kafkafmt"). Every option is judged when it is made, so a wrong one is told at load().

    Modes: PERMISSIVE (default) delivers all that is intact and warns of each damaged span: of those a shallow walk
    shows on the driver, of those inside compressed data in the task that meets them. DROPMALFORMED delivers the
    same in silence. FAILFAST fails the query with the first of them, its file, position and offsets.
    """

    @classmethod
    def name(cls) -> str:
        return NAME

    @cached_property
    def parsed(self) -> Options:
        """The options of a query that reads."""
        return parse(self.options)

    def schema(self) -> StructType:
        return struct_of(WITH_HEADERS if self.parsed.include_headers else STANDARD)

    def reader(self, schema: StructType) -> DataSourceReader:
        return KafkaLogReader(self, checked_names(schema))


    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from .sink import KafkaLogWriter

        return KafkaLogWriter(parse_write(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from .sink import KafkaLogStreamWriter

        options = parse_write(self.options)
        return KafkaLogStreamWriter(replace(options, app_id=options.app_id or query_id(self.options)), schema, overwrite)


class TaskPartition(InputPartition):
    """What one task reads, as it travels there."""

    def __init__(self, task: Task) -> None:
        super().__init__(None)
        self.task = task


class KafkaLogReader(DataSourceReader):
    """A batch query: `partitions` plans it on the driver, `read` decodes a part of it in a task."""

    def __init__(self, source: KafkaLogSource, names: list[str]) -> None:
        self.options = source.parsed
        self.names = names

    def partitions(self) -> list[InputPartition]:
        plan = make_plan(self.options, say)
        if plan.damaged and self.options.mode == "FAILFAST":
            directory, damage = plan.damaged[0]
            raise DamagedLogError(damage, str(directory.path))
        if self.options.mode == "PERMISSIVE":
            for directory, damage in plan.damaged:
                warn(directory, damage)
        return [TaskPartition(task) for task in plan.tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Record batches of a task's records. DamagedLogError in mode FAILFAST."""
        if not isinstance(partition, TaskPartition):  # there was nothing to plan
            return iter(())
        return ahead(self._batches(partition.task))

    def _batches(self, task: Task) -> Generator[pa.RecordBatch, None, None]:
        schema, limit = schema_of(self.names), self.options.max_batch_bytes
        for split in task.splits:
            builder = ArrowBuilder(split.topic, split.partition, schema)
            for piece in split.pieces:

                def hurt(damage: Damage, directory: PartitionDir = piece.directory) -> None:
                    if self.options.mode == "PERMISSIVE":
                        warn(directory, damage)

                on_damage = None if self.options.mode == "FAILFAST" else hurt
                for chunk in piece.chunks(builder.columns, on_damage=on_damage, max_batch_bytes=limit, tell=say):
                    yield from builder.add(chunk)
            if builder.rows:
                yield builder.flush()


def ahead(batches: Generator[pa.RecordBatch, None, None]) -> Iterator[pa.RecordBatch]:
    """The same batches, each made in a thread while the one before it travels to the JVM: decoding needs no GIL."""
    with ThreadPoolExecutor(1) as thread:
        try:
            coming = thread.submit(next, batches, None)
            while (batch := coming.result()) is not None:
                coming = thread.submit(next, batches, None)
                yield batch
        finally:  # Spark closes a generator that it needs no more of
            thread.shutdown()
            batches.close()


def say(message: str) -> None:
    """A line for whoever runs the query: to stderr, or to Spark's log of its Python workers where that is on."""
    _listen()
    log.warning("kafkafmt: %s", message)


def warn(directory: PartitionDir, damage: Damage) -> None:
    """Tell of a damaged span that is left out."""
    lost = "nothing is lost" if damage.empty else f"offsets {_or_open(damage.first_offset)} to {_or_open(damage.last_offset)} are left out"
    where = f"{Path(directory.path, damage.file)}, {damage.length} bytes at position {damage.position}"
    say(f"{directory.topic}-{directory.partition}: {lost}: {where}: {damage.message}")


def _or_open(offset: int | None) -> str:
    return "unknown" if offset is None else str(offset)


def _listen() -> None:
    """Give the lines a way to stderr where nobody has configured logging."""
    if not log.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        log.addHandler(handler)
