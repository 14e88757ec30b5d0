"""Define `scan_polars`, which returns a Polars LazyFrame over Kafka logs.

Polars passes the projection, the predicate and the number of rows of a query to a Python function.
If the predicate compares the topic, partition, offset or timestamp with constants, the function
reads only data that can match. It then applies the whole predicate to the rows. Therefore, the
result is also correct for predicates that do not reduce the data to read.
"""

from __future__ import annotations

import io
import json
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from ..constants import DEFAULT_MAX_BATCH_BYTES, ON_ERROR, READ_UNCOMMITTED, Isolation, OnError
from ..errors import KafkaFormatError
from ..log import Damage, PartitionLog
from ..log.catalog import Sources, choose_partitions, resolve
from ..log.finding import ANYTHING, COLUMNS, PARTITION, TIMESTAMP, TOPIC, AllOf, AnyOf, Comparison, Filter, narrowed
from ..log.reading import OffsetInterval, Selection, read_pieces
from ..support import arguments
from ..support.extras import install_line
from ..support.text import quantity
from . import Partition
from . import open as open_log
from .pieces import PartitionBatches
from .value_arguments import ArrowPlan, ValueArguments, plan_topic

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

Path = str | os.PathLike[str]

FIRST_ROWS = 8192
"""Approximate number of rows in the first frame of a partition. Each later frame has GROWTH times
as many rows as the previous frame, up to the normal size. Therefore, a query with a limit reads
only a few bytes.
"""
GROWTH = 4
_SIGNS = {"Eq": "=", "NotEq": "!=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_BETWEEN = {"Both": (">=", "<="), "Left": (">=", "<"), "Right": (">", "<="), "None": (">", "<")}


def scan_polars(
    paths: Sources,
    columns: Sequence[str] | None = None,
    *,
    internal: bool = False,
    on_error: OnError = "fail",
    isolation: Isolation = READ_UNCOMMITTED,
    below_log_start: bool = False,
    replicas: str | None = None,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    threads: int | None = None,
    **values: Unpack[ValueArguments],
) -> pl.LazyFrame:
    """Return a Polars LazyFrame over the records of Kafka logs.

    A query decodes only the columns that it uses. Conditions on topic, partition and offset, and
    lower limits of the timestamp, reduce the amount of data that is read. If the query has a limit,
    such as ``head(10)``, reading ends early.

    Parameters
    ----------
    paths : str, os.PathLike, Log, Topic, Partition, or an iterable of these
        Log directories, partition directories or `.log` files. An open log, topic or partition
        is read from its paths, which are listed again.
    columns : sequence of str, optional
        Names and order of the columns. By default, the frame has all columns that
        `Partition.to_arrow` lists except `timestampMillis`.
    internal : bool, default False
        Include Kafka's internal topics, whose names start with "__".
    on_error : {"fail", "skip"}, default "fail"
        "fail" raises an error if data is damaged. "skip" omits damaged data, and warns of each
        damaged range of bytes with a RuntimeWarning.
    isolation : {"read_uncommitted", "read_committed"}, default "read_uncommitted"
        "read_committed" omits aborted records and ends at the last stable offset.
    below_log_start : bool, default False
        Include records below the log start offset, which a broker does not return.
    replicas : "longest", optional
        If two paths contain the same partition, read the copy with the higher end offset. By
        default, such a partition is an error.
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch, in bytes after decompression. A larger batch is reported as
        damage.
    threads : int, optional
        Largest number of threads, 1 or higher. By default, the number of CPUs.
    **values
        Keyword arguments that decode the keys and values of one topic: decode, registry, schema, framing,
        layout, raw and on_undecodable. `Partition.to_arrow` describes them. The schemas are read before the
        first query.

    Returns
    -------
    polars.LazyFrame
        One row per record, ordered by topic, partition and offset. The logs are opened again when a
        query runs.

    Raises
    ------
    ImportError
        polars or pyarrow is not installed.
    OSError
        A path does not exist or cannot be read. The subclass `NoLogError` is raised if a path
        contains no Kafka log.
    DamagedLogError
        Raised by the query if it reads damage and `on_error` is "fail".
    TypeError, ValueError
        An argument is wrong.

    Notes
    -----
    An upper limit of the timestamp does not reduce the amount of data that is read, because a later
    record can have an earlier timestamp. A lower limit is looked up in the time indexes, as in a
    broker. The lookup relies on the maximum timestamps in batch headers. If they are wrong, `verify`
    reports the finding "max_timestamp_mismatch".

    Examples
    --------
    >>> import polars as pl
    >>> orders = kafkafmt.scan_polars("/var/lib/kafka/data").filter(pl.col("topic") == "orders")  # doctest: +SKIP
    >>> orders.filter(pl.col("offset") >= 2000).select("partition", "value").collect()  # doctest: +SKIP
    """
    try:
        import polars as pl
        from polars.io.plugins import register_io_source

        from ..arrow.builder import reader
    except ImportError as missing:
        raise ImportError(f"scan_polars needs polars 1.34 or newer: {install_line('polars')}") from missing
    selection = Selection(isolation=isolation, below_log_start=below_log_start)
    skip = arguments.one_of("on_error", on_error, ON_ERROR) == "skip"
    count = arguments.optional_integer("threads", threads, 1) or os.cpu_count() or 1
    given, replicas = resolve(paths, replicas)

    def partitions() -> list[Partition]:
        log = open_log(*given, replicas=replicas, max_batch_bytes=max_batch_bytes)
        chosen = {d.key for d in choose_partitions(log.discovery, internal=internal)}
        return [p for p in log.partitions if (p.topic, p.partition) in chosen]

    # Find the partitions now, so that a wrong path raises an error before the query runs.
    plan = plan_topic([p.log for p in partitions()], columns, values, selection)

    def read(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        names = plan.schema.names if with_columns is None else with_columns
        used = [] if predicate is None else [n for n in predicate.meta.root_names() if n not in names]
        # Polars applies the limit n_rows before it applies the predicate.
        # If n_rows is given, also read the rows that the predicate removes, because n_rows counts them.
        # In the flat layout, the names of the columns are those of fields.
        is_known = predicate is not None and n_rows is None and plan.flat is None
        filtered: Filter = filter_of(predicate) if is_known and predicate is not None else ANYTHING
        needed = plan.selected([*names, *used] or [PARTITION])
        sources = [_Frames(p.log, needed, selection, filtered, skip, n_rows) for p in partitions()]
        left = n_rows
        for batch in read_pieces(sources, count if n_rows is None else 1) if left != 0 else ():
            frame = pl.DataFrame(batch)
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            if predicate is not None:
                frame = frame.filter(predicate)
            yield frame.select(names) if used or plan.flat is not None else frame
            if left == 0:
                return

    return register_io_source(read, schema=pl.DataFrame(reader(plan.schema, [])).schema)


class _Frames(PartitionBatches):
    """The records of a partition that may match a filter."""

    def __init__(
        self,
        log: PartitionLog,
        plan: ArrowPlan,
        selection: Selection,
        filtered: Filter,
        skip: bool,
        most: int | None,
    ) -> None:
        def interval() -> OffsetInterval | None:
            return narrowed(selection.resolve(log), filtered, log, selection.below_log_start)

        def on_damage(damage: Damage) -> None:
            size = quantity(damage.length, "byte")
            where = f"{log.directory.path / damage.file}, {size} at position {damage.position}"
            warnings.warn(f"{where}, are omitted: {damage.message}", RuntimeWarning, stacklevel=2)

        super().__init__(log, plan, interval, on_damage if skip else None)
        self._most = most

    def plain(self) -> Iterator[pa.RecordBatch]:
        """Yield small Arrow record batches first. Stop after about `most` records."""
        return self._plan.arranged(self._small_first())

    def _small_first(self) -> Iterator[pa.RecordBatch]:
        interval = self._interval()
        if interval is None:
            return
        builder, limit, delivered = self._new_builder(), FIRST_ROWS, 0
        try:
            for chunk in self._log.chunks(builder.columns, interval, on_damage=self._on_damage):
                for batch in builder.add(chunk):
                    delivered += batch.num_rows
                    yield batch
                if self._most is not None and delivered + builder.rows >= self._most:
                    break
                if builder.rows >= limit:
                    limit *= GROWTH
                    delivered += builder.rows
                    yield builder.flush()
        except KafkaFormatError:
            if builder.rows:
                yield builder.flush()
            raise
        if builder.rows:
            yield builder.flush()


def filter_of(predicate: pl.Expr) -> Filter:
    """Convert a Polars predicate to a filter. Every record that matches the predicate also matches the filter."""
    # The serialized form of an expression can change in any release of Polars. An expression that
    # cannot be interpreted is true for every record.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Polars warns that the serialized form is not stable.
            tree = json.loads(predicate.meta.serialize(format="json"))
    except Exception:  # A predicate with a Python function cannot be serialized, so all records are read.
        return ANYTHING
    return _filter(tree)


def _filter(node: Any) -> Filter:
    match node:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            return AllOf((_filter(left), _filter(right)))
        case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
            return AnyOf((_filter(left), _filter(right)))
        case {"BinaryExpr": {"left": left, "op": str(op), "right": right}} if op in _SIGNS:
            sign = _SIGNS[op]
            return _comparison(left, sign, right) or _comparison(right, _MIRRORED[sign], left) or ANYTHING
        case {"Function": {"input": [column, values], "function": {"Boolean": {"IsIn": _}}}}:
            return _comparison(column, "in", values) or ANYTHING
        case {
            "Function": {
                "input": [column, low, high],
                "function": {"Boolean": {"IsBetween": {"closed": "Both" | "Left" | "Right" | "None" as closed}}},
            }
        }:
            first, last = _BETWEEN[closed]
            return AllOf((_comparison(column, first, low) or ANYTHING, _comparison(column, last, high) or ANYTHING))
    return ANYTHING


def _comparison(column: Any, sign: str, value: Any) -> Comparison | None:
    """Convert the comparison of a column with a literal to a `Comparison`. For other arguments, return None."""
    match column:
        case {"Cast": {"expr": {"Column": "partition" | "offset" as name}, "dtype": {"Literal": "Int64"}}}:
            pass
        case {
            "Function": {
                "input": [{"Column": "timestamp" as name}],
                "function": {"TemporalExpr": {"CastTimeUnit": "Microseconds"}},
            }
        }:
            pass  # With this expression, DuckDB converts timestamps to microseconds before it compares them.
        case {"Column": str(name)} if name in COLUMNS:
            pass
        case _:
            return None
    values = _values(name, value, sign == "in")
    return None if values is None else Comparison(name, sign, values)


def _values(column: str, node: Any, several: bool) -> tuple[Any, ...] | None:
    """Return the constant values in a literal, or None if their type cannot be compared with the column."""
    import polars as pl

    if not _is_constant(node):
        return None
    try:
        literal = pl.Expr.deserialize(io.BytesIO(json.dumps(node).encode()), format="json")
        found = pl.select(literal).to_series()
        if several and found.dtype == pl.List:
            found = found.explode()
        if column == TIMESTAMP:
            if not isinstance(found.dtype, pl.Datetime) or found.dtype.time_zone is None:
                return None
            found = found.dt.cast_time_unit("us").to_physical()
        elif found.dtype != pl.String if column == TOPIC else not found.dtype.is_integer():
            return None
    except Exception:  # The constant cannot be converted. The condition is applied to the rows after reading.
        return None
    values = tuple(found.to_list())
    return None if None in values or (len(values) != 1 and not several) else values


def _is_constant(node: Any) -> bool:
    """Return whether an expression is a literal, or a conversion of a literal to another type or time zone."""
    match node:
        case {"Literal": _}:
            return True
        case {"Cast": {"expr": inner}} | {
            "Function": {"input": [inner, {"Literal": _}] | [inner], "function": {"TemporalExpr": _}}
        }:
            return _is_constant(inner)
    return False
