"""Functions for mapInArrow and mapPartitions: record data, or paths of logs, go in, records come out.

    decode = decode_batches("records", keep={"topic": "string", "partition": "int"})
    df.mapInArrow(decode, decode.schema)

    rdd.mapPartitions(decode_partition())

Record data is what a Fetch response, a Produce request or a `.log` file holds: batches back to back, the last of which may be
cut off (a normal end). mapInArrow is the fast way by far, since a record never becomes a Python object; mapPartitions gives
Record objects or tuples, at some 100,000 records a second through Spark.

What is damaged is treated as `on_error` says: "fail" raises, naming the input row; "skip" goes on behind it, with a warning
in the task's log; "column" does too and gives a row for each damaged span, in its place among the others, in which
the records' columns are null and a last column `error` says what was wrong (null in all other rows).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from .._backend import core
from ..arrow import ArrowBuilder, schema_of
from ..constants import BATCH_HEADER_SIZE, CONTROL_BIT, DEFAULT_MAX_BATCH_BYTES
from ..errors import KafkaFormatError
from ..log import Damage, DamagedLogError, PartitionLog, discover
from ..records import Chunk, RecordReader
from ..records.damage import DamageScanner
from ..types import BATCH_DTYPE, Buffer, RecordColumns
from .schema import WITH_HEADERS, ddl_of
from .source.reading import say

OnFault = Callable[[Exception], None]
Found = Iterator[tuple[str, int, Iterator[Chunk]]]
"""Topic, partition and decoded records, to be read through before the next."""
CHUNK_ROWS = 4096

ERROR = "error"
BLOB_COLUMNS = tuple(n for n in WITH_HEADERS if n not in ("topic", "partition"))
TUPLE_COLUMNS = tuple("timestampMillis" if n == "timestamp" else n for n in WITH_HEADERS)
TUPLE_SCHEMA = ddl_of(TUPLE_COLUMNS)
"""The tuples of `decode_partition(tuples=True)`, for toDF; their timestamps are numbers."""


def decode_batches(
    column: str = "records",
    *,
    keep: Mapping[str, str] | None = None,
    columns: Sequence[str] = BLOB_COLUMNS,
    on_error: str = "fail",
    control: bool = False,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> ArrowFunction:
    """For mapInArrow: the records of a binary column of record data; nulls have none.

    keep: other columns of the input and their types, repeated in front of each record; for all of them
    `{f.name: f.dataType.simpleString() for f in df.schema if f.name != column}`. columns: those of the records.
    """
    if bad := {"topic", "partition"} & set(columns):
        raise ValueError(f"record data does not say its {min(bad)}: keep the input's column")
    return _Batches(column, keep or {}, columns, on_error, control, max_batch_bytes)


def read_paths(
    column: str = "path",
    *,
    keep: Mapping[str, str] | None = None,
    columns: Sequence[str] = WITH_HEADERS,
    on_error: str = "fail",
    control: bool = False,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> ArrowFunction:
    """For mapInArrow: the records under a string column of paths (`.log` files, partition or log directories).

    The rest as in `decode_batches`. A path that cannot be read is an error of its row.
    """
    return _Paths(column, keep or {}, columns, on_error, control, max_batch_bytes)


class ArrowFunction:
    """What mapInArrow takes; its second argument is `schema`."""

    def __init__(
        self,
        column: str,
        keep: Mapping[str, str],
        columns: Sequence[str],
        on_error: str,
        control: bool,
        max_batch_bytes: int,
    ) -> None:
        if on_error not in ("fail", "skip", "column"):
            raise ValueError(f"on_error is {on_error!r}; it can be 'fail', 'skip' or 'column'")
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
            raise ValueError(f"the output would have {twice[0]} twice: leave it out of keep or columns")

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        output = _Output(self)
        decode = self.decoder(output.builder.columns)
        for batch in batches:
            for name in (self.column, *self.keep):
                if name not in batch.schema.names:
                    raise ValueError(f"the input has no column {name!r}; it has {', '.join(batch.schema.names)}")
            output.batch = batch
            for row, value in enumerate(batch.column(batch.schema.get_field_index(self.column))):
                if not value.is_valid:
                    continue

                def fault(error: Exception, row: int = row) -> None:
                    if self.on_error == "fail":
                        raise _in_row(error, row, self.column) from None
                    if self.on_error == "column":
                        output.error(row, str(error))
                    else:
                        say(f"row {row} of column {self.column!r}: {error}; left out")

                for topic, partition, chunks in decode(value, fault):
                    output.move_to(topic, partition)
                    for chunk in chunks:
                        output.add(row, chunk)
                        yield from output.take()
                yield from output.take()
            output.flush()
            yield from output.take()

    def decoder(self, columns: RecordColumns) -> Callable[[Any, OnFault], Found]:
        """What decodes the records of one value of the column, into `columns`."""
        raise NotImplementedError


class _Batches(ArrowFunction):
    def decoder(self, columns: RecordColumns) -> Callable[[Any, OnFault], Found]:
        blobs = _Blobs(columns, self.control, self.max_batch_bytes)
        return lambda value, fault: iter([("", 0, blobs.read(value.as_buffer(), fault))])


class _Paths(ArrowFunction):
    def decoder(self, columns: RecordColumns) -> Callable[[Any, OnFault], Found]:
        return lambda value, fault: _read_path(value.as_py(), columns, self.control, self.max_batch_bytes, fault)


class _Output:
    """The rows that come out of input batches: records, the columns kept beside them, and errors in their place."""

    def __init__(self, function: ArrowFunction) -> None:
        self.function = function
        self.batch: pa.RecordBatch | None = None
        self.fields = schema_of(function.columns)
        self.builder = ArrowBuilder("", 0, self.fields)
        self.origins = np.empty(0, np.int64)  # the input row of each record that the builder holds
        self.home = "", 0
        self.ready: list[pa.RecordBatch] = []

    def move_to(self, topic: str, partition: int) -> None:
        if self.home != (topic, partition):
            self.flush()
            self.home = topic, partition
            self.builder.move_to(topic, partition)

    def add(self, row: int, chunk: Chunk) -> None:
        if self.function.keep:
            self.origins = np.concatenate((self.origins, np.full(chunk.columns.rows - self.builder.rows, row)))
        self.ready += [self._beside(records) for records in self.builder.add(chunk)]

    def flush(self) -> None:
        if self.builder.rows:
            self.ready.append(self._beside(self.builder.flush()))

    def error(self, row: int, text: str) -> None:
        """A row that tells of damage, behind the records before it."""
        self.flush()
        records = [pa.nulls(1, field.type) for field in self.fields]
        self.ready.append(self._batch(np.array([row]), records, pa.array([text], pa.string())))

    def take(self) -> Iterator[pa.RecordBatch]:
        """What is ready."""
        ready, self.ready = self.ready, []
        return iter(ready)

    def _beside(self, records: pa.RecordBatch) -> pa.RecordBatch:
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
    tuples: bool = False,
    on_error: str = "fail",
    control: bool = False,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """For rdd.mapPartitions: the records of each element, which is record data (bytes) or a path (str, Path).

    column: where the elements are Rows or tuples, which field of them it is. tuples: tuples as in TUPLE_SCHEMA instead of
    Record objects; topic and partition are None for record data. on_error: "fail" or "skip".
    """
    if on_error not in ("fail", "skip"):
        raise ValueError(f"on_error is {on_error!r}; it can be 'fail' or 'skip'")

    def decode(elements: Iterable[Any]) -> Iterator[Any]:
        columns = RecordColumns(CHUNK_ROWS)
        blobs = _Blobs(columns, control, max_batch_bytes)
        for row, element in enumerate(elements):
            value = element if column is None else element[column]

            def fault(error: Exception, row: int = row) -> None:
                if on_error == "fail":
                    raise _in_row(error, row, column) from None
                say(f"element {row}: {error}; left out")

            if value is None:
                continue
            if isinstance(value, str | os.PathLike):
                for topic, partition, chunks in _read_path(value, columns, control, max_batch_bytes, fault):
                    for chunk in chunks:
                        yield from _rows(chunk, topic, partition, tuples)
            else:
                for chunk in blobs.read(value, fault):
                    yield from _rows(chunk, None, None, tuples)

    return decode


def _rows(chunk: Chunk, topic: str | None, partition: int | None, tuples: bool) -> list[Any]:
    records: list[Any] = core.make_records(chunk.source, chunk.columns)
    if not tuples:
        return records
    return [
        (r.key, r.value, topic, partition, r.offset, r.timestamp, r.timestamp_type, list(r.headers) or None)
        for r in records
    ]


class _Blobs:
    """Decodes one value of record data after another, into the same columns."""

    def __init__(self, columns: RecordColumns, control: bool, max_batch_bytes: int) -> None:
        self.reader = RecordReader(columns, max_batch_bytes=max_batch_bytes)
        self.control = control
        self.table = np.zeros(256, BATCH_DTYPE)

    def read(self, blob: Buffer, fault: OnFault) -> Iterator[Chunk]:
        """The records of whole batches; what is wrong goes to `fault`, and reading goes on behind it where that returns."""
        scanner, position = DamageScanner(blob), 0
        while position < scanner.size:
            scan = scanner.scan(self.table, position)
            table = self.table[: scan.count]
            if not self.control:
                table = table[(table["attributes"] & CONTROL_BIT) == 0]
            yield from self.reader.read(blob, table, lambda _, error: fault(error))
            if scan.error is None and scan.count < len(self.table):
                return
            position = scan.position
            if scan.error is not None:
                fault(scan.error)
                position = _after(scanner, scan.error, position)


def _after(scanner: DamageScanner, error: KafkaFormatError, position: int) -> int:
    """Return where to resume after a corrupted batch: by its length if that leads to a header or near the end, else by searching."""
    after = error.resume
    if after is not None and after > position:
        header_end = after + BATCH_HEADER_SIZE
        if header_end > scanner.size or core.find_batch(scanner.buffer, after, header_end, False) == after:
            return after
    found = scanner.find(position + 1)
    return scanner.size if found is None else found


def _read_path(
    path: str | os.PathLike[str], columns: RecordColumns, control: bool, max_batch_bytes: int, fault: OnFault
) -> Found:
    try:
        found = discover([path])
    except OSError as error:
        fault(error)
        return
    for message in found.messages:
        say(message)
    for directory in found.partitions:
        if not directory.readable:
            continue
        try:
            log = PartitionLog(directory, max_batch_bytes=max_batch_bytes, tell=say)
        except OSError as error:  # the directory cannot be listed
            fault(error)
            continue

        def hurt(damage: Damage, where: str = str(directory.path)) -> None:
            fault(DamagedLogError(damage, where))

        yield directory.topic, directory.partition, log.chunks(columns, control=control, on_damage=hurt)


def _in_row(error: Exception, row: int, column: str | int | None) -> Exception:
    """The error with the input row in its message."""
    where = f"row {row} of this task" + ("" if column is None else f", column {column!r}")
    if isinstance(error, KafkaFormatError):
        return KafkaFormatError(f"{where}: {error.message}", error.position, error.base_offset, error.resume)
    return OSError(f"{where}: {error}")
