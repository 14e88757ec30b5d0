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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    CaseInsensitiveDict,
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from ..option_text import OptionError, check_names
from ..schema import STANDARD, WITH_HEADERS, checked_names, struct_of
from ..sink.write_options import NAMES as WRITE_NAMES
from ..sink.write_options import is_write, parse_write, query_id
from .options import HINTS, Options, parse
from .options import NAMES as READ_NAMES
from .planning import make_plan
from .reading import as_partitions, read_task, say
from .tables import kept_options, table_options, with_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "kafkafmt"
OTHER_TABLE = (
    "the columns carry the options of the SQL table that they were read from, which the new table would take over: read that log by"
    " .load() instead of its table"
)
NO_TABLE_TO_WRITE = (
    "no path: say to .save() or .start() which log directory to write; Spark does not tell a Python data source the path of a table, so"
    " INSERT INTO and toTable cannot be used"
)
NO_TABLE_OPTIONS = (
    "no path: say which log directories to .load(); Spark passes on a table's options only if it was made by CREATE TABLE … USING kafkafmt"
    " OPTIONS (path '…') without a list of columns, or CREATE TEMPORARY VIEW, not by saveAsTable"
)


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
        self.table: dict[str, str] | None = table_options(options, (*READ_NAMES, *WRITE_NAMES))
        super().__init__(options if self.table is None else CaseInsensitiveDict(self.table))
        if self.table is not None or (self._names_path and not is_write(options)):
            self.parsed  # noqa: B018 (a wrong option is told now)

    @classmethod
    def name(cls) -> str:
        return NAME

    @cached_property
    def parsed(self) -> Options:
        """The options of a query that reads."""
        return self._read_options(self.options, for_table=self.table is not None)

    def _read_options(self, given: Mapping[str, str], for_table: bool) -> Options:
        """Parse the options for reading; those of a table may be for writing too."""
        if for_table:
            check_names(given, (*READ_NAMES, *WRITE_NAMES), HINTS)
        return parse(_without(given, WRITE_NAMES, READ_NAMES) if for_table else given)

    def schema(self) -> StructType:
        schema = struct_of(WITH_HEADERS if self.parsed.include_headers else STANDARD)
        return schema if self.table is None else with_options(schema, self.table)

    @property
    def _names_path(self) -> bool:
        return "path" in self.options or "paths" in self.options

    def _for_reading(self, schema: StructType) -> Options:
        """Return the options of the query; if it names no path, those of the table that it reads, with its own."""
        if self._names_path:
            return self.parsed
        kept = kept_options(schema)
        if not kept:
            raise OptionError(NO_TABLE_OPTIONS)
        return self._read_options(CaseInsensitiveDict({**kept, **self.options}), for_table=True)

    def _for_writing(self, schema: StructType) -> Mapping[str, str]:
        """Return the options of a query that writes.

        The columns of the rows may carry the options of the table that they were read from. Spark does not say which table they go to,
        and saveAsTable would keep those options for the new table.
        """
        if not self._names_path:
            raise OptionError(NO_TABLE_TO_WRITE)
        if kept_options(schema):
            raise OptionError(OTHER_TABLE)
        return self.options

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._for_reading(schema)
        options.check_batch()
        for name in options.stream_only:
            say(f"{name} is ignored in a batch query")
        return KafkaLogReader(options, checked_names(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from .stream import KafkaLogStreamReader

        return KafkaLogStreamReader(self._for_reading(schema), checked_names(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from ..sink.sink import KafkaLogWriter

        return KafkaLogWriter(parse_write(self._for_writing(schema)), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from ..sink.sink import KafkaLogStreamWriter

        given = self._for_writing(schema)
        options = parse_write(given)
        options = replace(options, app_id=options.app_id or query_id(given))
        return KafkaLogStreamWriter(options, schema, overwrite, given.get("checkpointLocation"))


def _without(given: Mapping[str, str], names: Sequence[str], kept: Sequence[str]) -> CaseInsensitiveDict:
    """Return options without those of the names that are not also among the kept ones."""
    dropped = {name.lower() for name in names} - {name.lower() for name in kept}
    return CaseInsensitiveDict({name: value for name, value in given.items() if name.lower() not in dropped})


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
