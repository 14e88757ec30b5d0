"""Read Kafka logs into a Spark DataFrame with Python arguments instead of options."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..arguments import millis, one_of, optional_integer
from ..constants import ISOLATION_LEVELS, READ_UNCOMMITTED
from .option_text import check_names
from .schema import struct_of
from .source.data_source import register
from .source.options import HINTS, ISOLATION_OPTION, MODES, NAMES
from .source.where import where_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Path = str | os.PathLike[str]
Time = int | datetime


def read(
    spark: SparkSession,
    paths: Path | Iterable[Path],
    *,
    columns: Iterable[str] | None = None,
    topics: str | Iterable[str] | None = None,
    start_time: Time | None = None,
    end_time: Time | None = None,
    where: Iterable[Any] | None = None,
    isolation: str = READ_UNCOMMITTED,
    mode: str = MODES[0],
    min_partitions: int | None = None,
    options: dict[str, str] | None = None,
) -> DataFrame:
    """Read Kafka logs into a Spark DataFrame.

    Spark does not pass the columns and filters of a query to a Python data source. Therefore, tasks
    read and decode only the columns and offsets that are passed to this function.

    Parameters
    ----------
    spark : SparkSession
        The Spark session, with which the data source "kafkafmt" is registered.
    paths : path or iterable of paths
        Log directories, partition directories or `.log` files.
    columns : iterable of str, optional
        Names of the columns, in the order of the result. Other columns are not decoded. By default,
        the columns of Spark's Kafka source.
    topics : str or iterable of str, optional
        Names of topics. By default, all topics except Kafka's internal topics are read.
    start_time, end_time : int or datetime, optional
        Milliseconds since 1970-01-01 UTC, or timezone-aware datetimes. Reading starts at the first
        record that has the timestamp `start_time` or a later one. It ends before the first record
        that has the timestamp `end_time` or a later one.
    where : iterable of tuples, optional
        Conditions that all records must match, as tuples of a column, an operator and a value; or
        lists of such tuples, one of which must match. This is the form of `filters` in pyarrow. The
        columns are "topic", "partition", "offset" and "timestamp". The operators are "=", "!=",
        "<", "<=", ">", ">=", "in" and "not in". A timestamp is compared with an int in milliseconds
        or a timezone-aware datetime.
    isolation : {"read_uncommitted", "read_committed"}, default "read_uncommitted"
        "read_committed" omits aborted records and ends at the last stable offset.
    mode : {"PERMISSIVE", "DROPMALFORMED", "FAILFAST"}, default "PERMISSIVE"
        "PERMISSIVE" omits damaged spans and logs a warning for each. "DROPMALFORMED" omits them
        without warnings. "FAILFAST" fails the query at the first damage.
    min_partitions : int, optional
        Approximate minimum number of tasks.
    options : dict of str, optional
        Further options of the data source, such as ``{"startingOffsets": …}``.

    Returns
    -------
    pyspark.sql.DataFrame
        One row per record.

    Raises
    ------
    TypeError, ValueError
        An argument is wrong.

    Notes
    -----
    Exactly the records that match `where` are returned. Topics, partitions, offsets and lower
    limits of the timestamp restrict what is read. An upper limit of the timestamp does not, because
    a later record can have an earlier timestamp. `end_time` stops at the first later timestamp
    instead, and reads less.

    Examples
    --------
    >>> lengths = kafkafmt.spark.read(spark, "/var/lib/kafka/data", columns=["value"])  # doctest: +SKIP
    >>> lengths.count()  # doctest: +SKIP
    6048
    >>> where = [("topic", "=", "orders"), ("offset", ">=", 2000)]
    >>> kafkafmt.spark.read(spark, "/var/lib/kafka/data", where=where).count()  # doctest: +SKIP
    48
    """
    register(spark)
    check_names(options or {}, NAMES, HINTS)  # Spark would pass the names in lower case
    reader = spark.read.format("kafkafmt").options(**(options or {}))
    if columns is not None:
        reader = reader.schema(struct_of(columns))
    if topics is not None:
        reader = reader.option("subscribe", topics if isinstance(topics, str) else ",".join(topics))
    if start_time is not None:
        reader = reader.option("startingTimestamp", str(millis("start_time", start_time)))
    if end_time is not None:
        reader = reader.option("endingTimestamp", str(millis("end_time", end_time)))
    if where is not None:
        reader = reader.option("where", where_text(where))
    least = optional_integer("min_partitions", min_partitions, 1)
    if least is not None:
        reader = reader.option("minPartitions", str(least))
    reader = reader.option(ISOLATION_OPTION, one_of("isolation", isolation, ISOLATION_LEVELS))
    reader = reader.option("mode", one_of("mode", mode, MODES))
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    return reader.option("paths", json.dumps([os.fspath(path) for path in listed])).load()
