"""The data source `kafkafmt`: Kafka's log directories as a DataFrame, with the options and columns of Spark's Kafka source.

    spark.read.format("kafkafmt").option("subscribe", "orders").load("/var/lib/kafka/data")
    spark.readStream.format("kafkafmt").option("subscribe", "orders").load("/var/lib/kafka/data")     # see stream.py

Spark makes the source, then a reader, in Python processes on the driver; the reader's plan cuts the segments into
tasks, and each task decodes its part into Arrow batches of about 8 MB. The way of those batches into the JVM costs
more than the decoding, so what is not wanted is best left out here: by options, and by a schema of the user's, which
is the projection. Filters are not pushed down: in Spark 4.3 one query's filters reach the next one's plan.
What is there is looked at once a query is planned; what the broker writes afterwards is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from .options import Options, parse
from .planning import make_plan
from .reading import as_partitions, read_task, say
from .schema import STANDARD, WITH_HEADERS, checked_names, struct_of
from .write_options import is_write, parse_write, query_id

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "kafkafmt"


def register(spark: SparkSession) -> None:
    """Make format("kafkafmt") known to a session that did not find it by itself (a source tree, an executor's archive)."""
    spark.dataSource.register(KafkaLogSource)


class KafkaLogSource(DataSource):
    """format("kafkafmt"). Every option is judged when it is made, so a wrong one is told at load(); what only a batch query
    or only a stream can have, once it is known which it is.

    Modes: PERMISSIVE (default) delivers all that is intact and warns of each damaged span: of those a shallow walk
    shows on the driver, of those inside compressed data in the task that meets them. DROPMALFORMED delivers the
    same in silence. FAILFAST fails the query with the first of them, its file, position and offsets.
    """

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        if not is_write(options):
            self.parsed  # noqa: B018 (a wrong option is told now)

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
        self.parsed.check_batch()
        return KafkaLogReader(self.parsed, checked_names(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from .stream import KafkaLogStreamReader

        return KafkaLogStreamReader(self.parsed, checked_names(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from .sink import KafkaLogWriter

        return KafkaLogWriter(parse_write(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from .sink import KafkaLogStreamWriter

        options = parse_write(self.options)
        return KafkaLogStreamWriter(replace(options, app_id=options.app_id or query_id(self.options)), schema, overwrite)


class KafkaLogReader(DataSourceReader):
    """A batch query: `partitions` plans it on the driver, `read` decodes a part of it in a task."""

    def __init__(self, options: Options, names: list[str]) -> None:
        self.options = options
        self.names = names

    def partitions(self) -> list[InputPartition]:
        return as_partitions(make_plan(self.options, say), self.options.mode)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Record batches of a task's records. DamagedLogError in mode FAILFAST."""
        return read_task(partition, self.options, self.names, say)
