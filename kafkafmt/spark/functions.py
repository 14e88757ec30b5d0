"""Provide functions for `mapInArrow` and `mapPartitions` that decode record data or read Kafka logs.

    decode = decode_batches("records", keep={"topic": "string", "partition": "int"})
    df.mapInArrow(decode, decode.schema)

    rdd.mapPartitions(decode_partition())

Record data consists of consecutive record batches, as in a Fetch response, a Produce request or a
`.log` file. The argument `incomplete` determines whether the last batch may be incomplete.

Use `mapInArrow` to get records as rows, because it creates no Python objects for them. Use
`mapPartitions` with a function that aggregates records and yields only results. If the function yields
the records, Spark pickles each of them before a shuffle or a `collect`, which is slow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from .._backend import core
from ..arrow.builder import ArrowBuilder, schema_of
from ..constants import DEFAULT_MAX_BATCH_BYTES, OnError
from ..records import Chunk
from ..support.arguments import one_of
from ..support.text import shown
from ..types import RecordColumns
from .inputs import Found, OnFault, RecordDataDecoder, decode_path, in_row
from .messages import say
from .schema import WITH_HEADERS, ddl_of

CHUNK_ROWS = 4096
INCOMPLETE = ("error", "ignore")

ERROR = "error"
BLOB_COLUMNS = tuple(n for n in WITH_HEADERS if n not in ("topic", "partition"))
TUPLE_COLUMNS = tuple("timestampMillis" if n == "timestamp" else n for n in WITH_HEADERS)
TUPLE_SCHEMA = ddl_of(TUPLE_COLUMNS)
"""Schema of the tuples that `decode_partition(tuples=True)` yields. It can be passed to `toDF`.
Timestamps are in milliseconds.
"""


def decode_batches(
    column: str = "records",
    *,
    keep: Mapping[str, str] | None = None,
    columns: Sequence[str] = BLOB_COLUMNS,
    on_error: OnError | Literal["column"] = "fail",
    control: bool = False,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    incomplete: str = "error",
) -> ArrowFunction:
    """Return a function for `mapInArrow` that decodes the record data in a binary column.

    Parameters
    ----------
    column : str, default "records"
        Name of the column that contains the record data. A null value yields no records.
    keep : mapping of str to str, optional
        Names and Spark types of other input columns. Their values are repeated in each output row,
        before the record columns. By default, no column is repeated. To repeat all columns, pass
        ``{f.name: f.dataType.simpleString() for f in df.schema if f.name != column}``.
    columns : sequence of str, optional
        Record columns of the output. The default columns are key, value, offset, timestamp,
        timestampType and headers. The column timestampMillis is also available. The columns topic
        and partition are not available, because record data does not contain these values.
    on_error : {"fail", "skip", "column"}, default "fail"
        "fail" raises an error if data is damaged. "skip" omits damaged data and logs a warning.
        "column" replaces each damaged range of bytes with a row whose column `error` contains the
        reason.
    control : bool, default False
        Include control records (transaction markers).
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch, in bytes after decompression. A larger batch is treated as
        damage.
    incomplete : {"error", "ignore"}, default "error"
        How an incomplete batch at the end of record data is handled. "error" treats it as damage,
        because a value of a table is usually complete. Use "ignore" for fetch responses, which usually
        end with an incomplete batch.

    Returns
    -------
    ArrowFunction
        The first argument for `mapInArrow`. Its attribute `schema` is the second argument.

    Raises
    ------
    ValueError
        An argument is wrong, or two columns of the output have the same name.

    Notes
    -----
    If `on_error` is "fail" and data is damaged, the task raises a KafkaFormatError. The message
    names the input row.

    Examples
    --------
    >>> decode = decode_batches("records", keep={"topic": "string"}, on_error="skip")
    >>> records = df.mapInArrow(decode, decode.schema)  # doctest: +SKIP
    """
    if bad := {"topic", "partition"} & set(columns):
        raise ValueError(f"record data does not contain the {min(bad)}; use the argument keep to copy an input column")
    return _Batches(column, keep or {}, columns, on_error, control, max_batch_bytes, incomplete)


def read_paths(
    column: str = "path",
    *,
    keep: Mapping[str, str] | None = None,
    columns: Sequence[str] = WITH_HEADERS,
    on_error: OnError | Literal["column"] = "fail",
    control: bool = False,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> ArrowFunction:
    """Return a function for `mapInArrow` that reads the Kafka logs at the paths in a string column.

    Parameters
    ----------
    column : str, default "path"
        Name of the column that contains the paths of `.log` files, partition directories or log
        directories. Every executor must be able to access these paths. A null value yields no
        records.
    keep : mapping of str to str, optional
        Names and Spark types of other input columns. Their values are repeated in each output row,
        before the record columns. By default, no column is repeated.
    columns : sequence of str, optional
        Record columns of the output. By default, the output has the seven columns of Spark's Kafka
        source, and then the column headers.
    on_error : {"fail", "skip", "column"}, default "fail"
        "fail" raises an error if data is damaged or a path cannot be read. "skip" omits damaged
        data and unreadable paths, and logs warnings. "column" replaces each damaged range of bytes
        and each unreadable path with a row whose column `error` contains the reason.
    control : bool, default False
        Include control records (transaction markers).
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch, in bytes after decompression. A larger batch is treated as
        damage.

    Returns
    -------
    ArrowFunction
        The first argument for `mapInArrow`. Its attribute `schema` is the second argument.

    Raises
    ------
    ValueError
        An argument is wrong, or two columns of the output have the same name.

    Notes
    -----
    If `on_error` is "fail", the task raises a KafkaFormatError for damage and an OSError for a path
    that cannot be read. The message names the input row. Records below the log start offset are
    omitted, because a broker does not return such records.
    """
    return _Paths(column, keep or {}, columns, on_error, control, max_batch_bytes)


class ArrowFunction:
    """A function for `mapInArrow`, as returned by `decode_batches` and `read_paths`.

    Attributes
    ----------
    schema : str
        Schema of the output, as a Spark DDL string. Pass it as the second argument to `mapInArrow`.
    """

    def __init__(
        self,
        column: str,
        keep: Mapping[str, str],
        columns: Sequence[str],
        on_error: str,
        control: bool,
        max_batch_bytes: int,
    ) -> None:
        one_of("on_error", on_error, ("fail", "skip", "column"))
        self.column = column
        self.keep: dict[str, str] = dict(keep)
        self.columns: tuple[str, ...] = tuple(columns)
        self.on_error = on_error
        self.control = control
        self.max_batch_bytes = max_batch_bytes
        self.schema: str = ", ".join(
            [
                *(f"`{n}` {t}" for n, t in self.keep.items()),
                ddl_of(self.columns),
                *([f"{ERROR} string"] if on_error == "column" else []),
            ]
        )
        names = [*self.keep, *self.columns, *([ERROR] if on_error == "column" else [])]
        if twice := [n for n in names if names.count(n) > 1]:
            raise ValueError(f"the output would contain the column {twice[0]} twice; remove it from keep or columns")

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode the values of the input column, and yield the records as Arrow record batches."""
        output = _Output(self)
        decode = self.decoder(output.builder.columns)
        for batch in batches:
            check_columns(batch, (self.column, *self.keep))
            output.batch = batch
            for row, value in enumerate(batch.column(batch.schema.get_field_index(self.column))):
                if not value.is_valid:
                    continue

                def fault(error: Exception, row: int = row) -> None:
                    if self.on_error == "fail":
                        raise in_row(error, row, self.column) from None
                    if self.on_error == "column":
                        output.error(row, str(error))
                    else:
                        say(f"row {row} of column {shown(self.column)}: {error}; omitted")

                for topic, partition, chunks in decode(value, fault):
                    output.move_to(topic, partition)
                    for chunk in chunks:
                        output.add(row, chunk)
                        yield from output.take()
                yield from output.take()
            output.flush()
            yield from output.take()

    def decoder(self, columns: RecordColumns) -> Callable[[Any, OnFault], Found]:
        """Return a function that decodes one value of the input column, and stores its records in `columns`."""
        raise NotImplementedError


def check_columns(batch: pa.RecordBatch, names: Iterable[str]) -> None:
    """Raise ValueError if the input of a function for `mapInArrow` lacks a column."""
    for name in names:
        if name not in batch.schema.names:
            raise ValueError(
                f"the input has no column {shown(name)}; the input columns are {', '.join(batch.schema.names)}"
            )


class _Batches(ArrowFunction):
    def __init__(
        self,
        column: str,
        keep: Mapping[str, str],
        columns: Sequence[str],
        on_error: str,
        control: bool,
        max_batch_bytes: int,
        incomplete: str,
    ) -> None:
        super().__init__(column, keep, columns, on_error, control, max_batch_bytes)
        self.incomplete = one_of("incomplete", incomplete, INCOMPLETE)

    def decoder(self, columns: RecordColumns) -> Callable[[Any, OnFault], Found]:
        blobs = RecordDataDecoder(columns, self.control, self.max_batch_bytes, self.incomplete)
        return lambda value, fault: iter([("", 0, blobs.read(value.as_buffer(), fault))])


class _Paths(ArrowFunction):
    def decoder(self, columns: RecordColumns) -> Callable[[Any, OnFault], Found]:
        return lambda value, fault: decode_path(value.as_py(), columns, self.control, self.max_batch_bytes, fault)


class _Output:
    """Builds the Arrow record batches that an `ArrowFunction` returns: decoded records, input columns and errors."""

    def __init__(self, function: ArrowFunction) -> None:
        self.function = function
        self.batch: pa.RecordBatch | None = None
        self.fields = schema_of(function.columns)
        self.builder = ArrowBuilder("", 0, self.fields)
        self.origins = np.empty(0, np.int64)  # for each record, the index of its input row
        self.partition = "", 0
        self.ready: list[pa.RecordBatch] = []

    def move_to(self, topic: str, partition: int) -> None:
        if self.partition != (topic, partition):
            self.flush()
            self.partition = topic, partition
            self.builder.move_to(topic, partition)

    def add(self, row: int, chunk: Chunk) -> None:
        if self.function.keep:
            self.origins = np.concatenate((self.origins, np.full(chunk.columns.rows - self.builder.rows, row)))
        self.ready += [self._with_kept(records) for records in self.builder.add(chunk)]

    def flush(self) -> None:
        if self.builder.rows:
            self.ready.append(self._with_kept(self.builder.flush()))

    def error(self, row: int, text: str) -> None:
        """Add a row that reports damage. In the output, it follows all records that were already added."""
        self.flush()
        records = [pa.nulls(1, field.type) for field in self.fields]
        self.ready.append(self._batch(np.array([row]), records, pa.array([text], pa.string())))

    def take(self) -> Iterator[pa.RecordBatch]:
        """Remove all completed Arrow record batches from this object, and return them."""
        ready, self.ready = self.ready, []
        return iter(ready)

    def _with_kept(self, records: pa.RecordBatch) -> pa.RecordBatch:
        rows, self.origins = self.origins[: records.num_rows], self.origins[records.num_rows :]
        return self._batch(rows, records.columns, pa.nulls(records.num_rows, pa.string()))

    def _batch(self, rows: Any, records: list[pa.Array], errors: pa.Array) -> pa.RecordBatch:
        assert self.batch is not None
        keep = list(self.function.keep)
        kept = [self.batch.column(self.batch.schema.get_field_index(name)).take(pa.array(rows)) for name in keep]
        names, arrays = [*keep, *self.function.columns], [*kept, *records]
        if self.function.on_error == "column":
            names, arrays = [*names, ERROR], [*arrays, errors]
        return pa.RecordBatch.from_arrays(arrays, names)


def decode_partition(
    column: str | int | None = None,
    *,
    keep: Sequence[str | int] = (),
    tuples: bool = False,
    on_error: OnError = "fail",
    control: bool = False,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    incomplete: str = "error",
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return a function for `mapPartitions` that decodes record data or reads Kafka logs.

    Parameters
    ----------
    column : str or int, optional
        Name or index of the field that contains the input, for an RDD of Rows or tuples. By
        default, each element of the RDD is the input itself. An input is record data (bytes-like)
        or a path (str or os.PathLike). An input that is None yields no records.
    keep : sequence of str or int, optional
        Names or indexes of other fields. Each record is then yielded as a tuple of the values of these
        fields and the record. With `tuples`, the values precede the others.
    tuples : bool, default False
        Yield tuples that match `TUPLE_SCHEMA` instead of `Record` objects. For record data, the
        topic and the partition in a tuple are None.
    on_error : {"fail", "skip"}, default "fail"
        "fail" raises an error if data is damaged or a path cannot be read. "skip" omits damaged
        data and unreadable paths, and logs warnings.
    control : bool, default False
        Include control records (transaction markers).
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch, in bytes after decompression. A larger batch is treated as
        damage.
    incomplete : {"error", "ignore"}, default "error"
        How an incomplete batch at the end of record data is handled. "error" treats it as damage,
        because a value of a table is usually complete. Use "ignore" for fetch responses, which usually
        end with an incomplete batch.

    Returns
    -------
    callable
        A function that takes an iterator of elements and yields records.

    Raises
    ------
    ValueError
        An argument is wrong.

    Notes
    -----
    If `on_error` is "fail", the task raises a KafkaFormatError for damage and an OSError for a path
    that cannot be read. The message names the element.

    Examples
    --------
    >>> [record.value for record in decode_partition()([kafkafmt.build_batch([(b"key", b"value")])])]  # doctest: +SKIP
    [b'value']
    """
    one_of("on_error", on_error, ("fail", "skip"))
    one_of("incomplete", incomplete, INCOMPLETE)
    if keep and column is None:
        raise ValueError("keep needs column, because each element is the input itself")

    def decode(elements: Iterable[Any]) -> Iterator[Any]:
        columns = RecordColumns(CHUNK_ROWS)
        blobs = RecordDataDecoder(columns, control, max_batch_bytes, incomplete)
        for row, element in enumerate(elements):
            value = element if column is None else element[column]

            def fault(error: Exception, row: int = row) -> None:
                if on_error == "fail":
                    raise in_row(error, row, column) from None
                say(f"element {row}: {error}; omitted")

            if value is None:
                continue
            found: Iterable[tuple[str | None, int | None, Iterator[Chunk]]]
            if isinstance(value, str | os.PathLike):
                found = decode_path(value, columns, control, max_batch_bytes, fault)
            else:
                found = [(None, None, blobs.read(value, fault))]
            kept = tuple(element[name] for name in keep)
            for topic, partition, chunks in found:
                for chunk in chunks:
                    rows = _rows(chunk, topic, partition, tuples)
                    yield from rows if not kept else ((*kept, *(r if tuples else (r,))) for r in rows)

    return decode


def _rows(chunk: Chunk, topic: str | None, partition: int | None, tuples: bool) -> list[Any]:
    records: list[Any] = core.make_records(chunk.source, chunk.columns)
    if not tuples:
        return records
    return [
        (r.key, r.value, topic, partition, r.offset, r.timestamp, r.timestamp_type, list(r.headers) or None)
        for r in records
    ]
