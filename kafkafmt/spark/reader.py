"""Define `kafkafmt.spark.read`, whose Python arguments replace the options of the data source."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..constants import ISOLATION_LEVELS, READ_UNCOMMITTED, Isolation
from ..log.catalog import Source, Sources, resolve, single_path
from ..registry import SchemaRegistry
from ..support.arguments import millis, one_of, optional_integer
from ..values.sides import UNION, Decode, side_formats
from .option_text import check_names
from .schema import struct_of
from .source.data_source import register
from .source.options import HINTS, ISOLATION_OPTION, MODES, NAMES
from .source.where import where_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Time = int | datetime


def read(
    spark: SparkSession,
    paths: Sources,
    *,
    columns: Iterable[str] | None = None,
    topics: str | Iterable[str] | None = None,
    start_time: Time | None = None,
    end_time: Time | None = None,
    where: Iterable[Any] | None = None,
    decode: Decode = False,
    registry: Source | None = None,
    schema: str | int = UNION,
    framing: str = "auto",
    raw: bool = False,
    isolation: Isolation = READ_UNCOMMITTED,
    mode: str = MODES[0],
    min_partitions: int | None = None,
    options: dict[str, str] | None = None,
) -> DataFrame:
    """Read Kafka logs into a Spark DataFrame.

    Spark does not pass the columns and filters of a query to a Python data source. To read and
    decode less data, pass columns and conditions to this function.

    Parameters
    ----------
    spark : SparkSession
        The Spark session. The function registers the data source "kafkafmt" with this session.
    paths : str, os.PathLike, Log, Topic, Partition, or an iterable of these
        Log directories, partition directories or `.log` files. An open log, topic or partition
        is read from its paths, which are listed again.
    columns : iterable of str, optional
        Names and order of the columns. Other columns are not decoded. By default, the result has
        the columns of Spark's Kafka source. With `decode`, names such as "value.customer.country"
        choose fields.
    topics : str or iterable of str, optional
        Names of topics. By default, all topics except Kafka's internal topics are read.
    start_time, end_time : int or datetime, optional
        Milliseconds since 1970-01-01 UTC, or timezone-aware datetimes. In each partition, reading
        starts at the first record whose timestamp is `start_time` or later. Reading ends before the
        first record whose timestamp is `end_time` or later.
    where : iterable of tuples, optional
        Conditions in the form of pyarrow's `filters`. Each condition is a tuple of a column, an
        operator and a value. A record must match all conditions. If `where` consists of lists of
        conditions, a record must match all conditions of at least one list.

        The columns are "topic", "partition", "offset" and "timestamp". The operators are "=", "!=",
        "<", "<=", ">", ">=", "in" and "not in". A timestamp is compared with an int in milliseconds
        or a timezone-aware datetime.
    decode : bool, "key", "value", list of both, or mapping, default False
        What is decoded by the schemas of a registry, or in the formats that a mapping has, as in
        `Partition.to_arrow`. True decodes keys and values. A decoded column has
        the type of its schemas. It is followed by the columns ``value_error`` (string) and
        ``value_raw`` (binary), or ``key_error`` and ``key_raw``, which are null unless it cannot be
        decoded. All topics that are read must have the same columns.
    registry : str, os.PathLike, Log, Topic or Partition, optional
        Where the schemas are, as in `kafkafmt.schemas`. By default, they are in the topic ``_schemas``
        in one of the log directories. The driver reads them once.
    schema : "union", "latest", int or "id:N", default "union"
        Which schemas decide the columns, as in `Partition.to_arrow`.
    framing : {"auto", "confluent", "apicurio", "single-object", "none"}, default "auto"
        What precedes keys and values, as in `Partition.to_arrow`.
    raw : bool, default False
        Keep the bytes of all decoded keys and values in ``key_raw`` and ``value_raw``.
    isolation : {"read_uncommitted", "read_committed"}, default "read_uncommitted"
        "read_committed" omits aborted records and ends at the last stable offset.
    mode : {"PERMISSIVE", "DROPMALFORMED", "FAILFAST"}, default "PERMISSIVE"
        "PERMISSIVE" omits damaged data and logs a warning for each damaged range of bytes.
        "DROPMALFORMED" omits damaged data without warnings. "FAILFAST" fails the query if data is
        damaged. With `decode`, "DROPMALFORMED" also omits records whose key or value cannot be
        decoded, and "FAILFAST" fails at the first one.
    min_partitions : int, optional
        Approximate minimum number of tasks.
    options : dict of str, optional
        Other options of the data source, such as ``{"startingOffsets": …}``.

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
    The result contains exactly the records that match `where`. Conditions on topics, partitions and
    offsets, and lower limits of the timestamp, reduce the amount of data that is read. Upper limits
    of the timestamp do not reduce it, because a later record can have an earlier timestamp. To read
    less data, use `end_time` instead of an upper limit.

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
    check_names(options or {}, NAMES, HINTS)  # check the names here, because Spark converts them to lower case
    reader = spark.read.format("kafkafmt").options(
        **(options or {}), **_decode_options(decode, registry, schema, framing, raw)
    )
    if columns is not None and decode is False:
        reader = reader.schema(struct_of(columns))
    elif columns is not None:
        reader = reader.option("columns", json.dumps([columns] if isinstance(columns, str) else list(columns)))
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
    given, replicas = resolve(paths, (options or {}).get("replicas"))
    if replicas is not None:
        reader = reader.option("replicas", replicas)
    return reader.option("paths", json.dumps([os.fspath(path) for path in given])).load()


def _decode_options(
    decode: Decode, registry: Source | None, schema: str | int, framing: str, raw: bool
) -> dict[str, str]:
    """Return the options of the data source that decode keys and values."""
    if decode is False:
        given = {"registry": registry is not None, "schema": schema != UNION, "framing": framing != "auto", "raw": raw}
        if name := next((name for name, is_given in given.items() if is_given), None):
            raise ValueError(f"{name} needs decode; pass decode=True too")
        return {}
    sides = {side: str(given) for side, given in side_formats(decode).items()}
    options = {
        "schema": str(schema),
        "raw": "true" if raw else "false",
        "framing": framing,
        "decode": json.dumps(sides),
    }
    if isinstance(registry, SchemaRegistry):
        raise TypeError(
            "registry is a SchemaRegistry, but Spark needs its path or URL; pass what kafkafmt.schemas was called with"
        )
    if registry is not None:
        options["registry"] = os.fspath(single_path("registry", registry))
    return options
