"""Define the data source `kafkafmt`, which reads log directories as a DataFrame.

It has the same options and columns as Spark's Kafka source. The module `stream` implements streams.

    spark.read.format("kafkafmt").option("subscribe", "orders").load("/var/lib/kafka/data")
    spark.readStream.format("kafkafmt").option("subscribe", "orders").load("/var/lib/kafka/data")

Spark creates the data source and its reader in Python processes on the driver. The reader divides
the logs among tasks. Each task decodes its part into Arrow record batches of about 8 MB.

Sending Arrow record batches to the JVM takes longer than decoding the records. Therefore, the
options and the schema of a query should select only the records and columns that it needs. The data
source does not implement filter pushdown, because Spark 4.3 also passes the filters of one query to
the next query.

A batch query reads the records that exist when it is planned. Records that are appended later are
not read.
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

from ..messages import say, say_ignored
from ..option_text import NO_BROKER, OptionError, check_names
from ..schema import STANDARD, WITH_HEADERS, checked_names, struct_of
from ..shipped import Shipped
from ..sink.write_options import NAMES as WRITE_NAMES
from ..sink.write_options import is_write, parse_write, query_id
from .decoding import QueryDecoding, Sources, default_schema, plan_query, read_sources
from .options import HINTS, Options, parse
from .options import NAMES as READ_NAMES
from .planning import make_plan
from .reading import as_partitions, read_task
from .tables import kept_options, table_options, with_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "kafkafmt"
OTHER_TABLE = (
    "the columns contain the options of the SQL table that they were read from, and the new table would keep them; read the log with"
    " .load() instead of the table"
)
NO_TABLE_TO_WRITE = (
    "no path was given; pass the log directory to .save() or .start(); Spark does not pass the path of a table to a Python data source, so INSERT"
    " INTO and toTable cannot be used"
)
NO_TABLE_OPTIONS = (
    "no path was given; pass log directories to .load(); Spark passes a table's options only if it was created by CREATE TABLE … USING kafkafmt"
    " OPTIONS (path '…') without a list of columns, or by CREATE TEMPORARY VIEW, not by saveAsTable"
)


def register(spark: SparkSession) -> None:
    """Register the data source "kafkafmt" with a Spark session.

    If kafkafmt is installed as a package, Spark finds the data source without registration. This
    function is only needed if kafkafmt is used from a source tree or from an archive in
    ``spark.archives``.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    """
    spark.dataSource.register(KafkaLogSource)


class KafkaLogSource(Shipped, DataSource):
    """The data source and data sink for ``format("kafkafmt")``. Spark creates the instances of this class."""

    # Options that are valid only for batch queries or only for streams are checked when the query
    # starts. If planning finds damage, the driver logs the warning; if a task finds it inside
    # compressed data, the task does.

    def __init__(self, options: Any) -> None:
        self._read_sources: Sources | None = None
        self.table: dict[str, str] | None = table_options(options, (*READ_NAMES, *WRITE_NAMES))
        super().__init__(options if self.table is None else CaseInsensitiveDict(self.table))
        if self.table is not None or (self._names_path and not is_write(options)):
            self.parsed  # noqa: B018 (raises OptionError now)

    @classmethod
    def name(cls) -> str:
        return NAME

    @cached_property
    def parsed(self) -> Options:
        return self._read_options(self.options, for_table=self.table is not None)

    def _read_options(self, given: Mapping[str, str], for_table: bool) -> Options:
        """Parse the options for reading. If `for_table` is True, options for writing are ignored."""
        if for_table:
            check_names(given, (*READ_NAMES, *WRITE_NAMES), HINTS)
        return parse(_without(given, WRITE_NAMES, READ_NAMES) if for_table else given)

    def schema(self) -> StructType:
        """Return the default schema, for queries without a user-defined schema."""
        schema = self._schema_of(self.parsed)
        return schema if self.table is None else with_options(schema, self.table)

    def _schema_of(self, options: Options) -> StructType:
        if options.decode:
            return default_schema(options, self._sources(options))
        if options.columns is not None:
            return struct_of(options.columns)
        return struct_of(WITH_HEADERS if options.include_headers else STANDARD)

    def _sources(self, options: Options) -> Sources:
        """Return the schemas of the registry. They are read once, and pickled together with this object."""
        if self._read_sources is None:
            self._read_sources = read_sources(options)
        return self._read_sources

    def _columns(self, options: Options, schema: StructType) -> tuple[list[str], QueryDecoding | None]:
        """Return the names of the columns in a schema, and how they are decoded."""
        if not options.decode:
            return checked_names(schema), None
        return schema.fieldNames(), plan_query(options, self._sources(options), schema)

    @property
    def _names_path(self) -> bool:
        return "path" in self.options or "paths" in self.options

    def _for_reading(self, schema: StructType) -> Options:
        # A query without a path reads an SQL table. Then the result also contains the options that
        # were stored when the table was created.
        if self._names_path:
            return self.parsed
        kept = kept_options(schema)
        if not kept:
            raise OptionError(NO_TABLE_OPTIONS)
        return self._read_options(CaseInsensitiveDict({**kept, **self.options}), for_table=True)

    def _for_writing(self, schema: StructType) -> Mapping[str, str]:
        """Return the options of a write query. OptionError: the query writes to or reads from an SQL table."""
        # The column metadata of rows from an SQL table contains the options of this table.
        # saveAsTable would store them for the new table. The error affects all write queries,
        # because Spark does not pass the name of the new table.
        if not self._names_path:
            raise OptionError(NO_TABLE_TO_WRITE)
        if kept_options(schema):
            raise OptionError(OTHER_TABLE)
        return self.options

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for a batch query that reads the columns in `schema`."""
        options = self._for_reading(schema)
        options.check_batch()
        say_ignored(options.stream_only, "in a batch query")
        say_ignored(options.hints, NO_BROKER)
        return KafkaLogReader(options, *self._columns(options, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from .stream import KafkaLogStreamReader

        options = self._for_reading(schema)
        say_ignored(options.hints, NO_BROKER)
        return KafkaLogStreamReader(options, *self._columns(options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer for a batch query whose rows have the given schema."""
        from ..sink.sink import KafkaLogWriter

        return KafkaLogWriter(parse_write(self._for_writing(schema)), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return a writer for a streaming query that writes rows with the given schema."""
        from ..sink.sink import KafkaLogStreamWriter

        given = self._for_writing(schema)
        options = parse_write(given)
        options = replace(options, app_id=options.app_id or query_id(given))
        return KafkaLogStreamWriter(options, schema, overwrite, given.get("checkpointLocation"))


def _without(given: Mapping[str, str], names: Sequence[str], kept: Sequence[str]) -> CaseInsensitiveDict:
    """Return a copy of `given` without the options in `names`. Options that are also in `kept` are not removed."""
    dropped = {name.lower() for name in names} - {name.lower() for name in kept}
    return CaseInsensitiveDict({name: value for name, value in given.items() if name.lower() not in dropped})


class KafkaLogReader(Shipped, DataSourceReader):
    """Reads the records for a batch query: Spark calls `partitions` on the driver, and `read` in each task."""

    def __init__(self, options: Options, names: list[str], decoding: QueryDecoding | None = None) -> None:
        self.options = options
        self.names = names
        self.decoding = decoding

    def partitions(self) -> list[InputPartition]:
        return as_partitions(make_plan(self.options, say), self.options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the Arrow record batches of one task. If `mode` is FAILFAST, damage raises DamagedLogError."""
        return read_task(partition, self.options, self.names, say, self.decoding)
