"""Create test data: write the rows of a file or table to a new log directory.

Each row becomes a record. The partition of a record is chosen as in Kafka's producer:

- A row with a partition number is written to that partition.
- A row with a key is written to the partition of its key
  (``BuiltInPartitioner.partitionForKey``).
- Rows without a key fill one batch in a partition, and then one batch in the next partition.
  Producers since Kafka 3.3 (KIP-794) choose the next partition randomly.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .arguments import integer, one_of
from .errors import InvalidError, TooLargeError
from .log import LogDirectory, LogWriter, StrayPartitionWarning
from .log.auditing.salvage_output import Output, OutputPlaceError
from .log.format.names import MAX_PARTITION, is_topic_name
from .log.writing.mounting import strays
from .notebook import html_table
from .paths import local_path
from .records import BatchBuilder, Partitioner, columns_of
from .records.build import DEFAULT_BATCH_BYTES
from .records.columns import Columns, taken_rows
from .times import now_millis
from .types import IntArray

if TYPE_CHECKING:
    import pyarrow as pa

WRITE_BYTES = 1 << 20
RECORD_OVERHEAD = 12
"""Estimated size of a record without its key and value, in bytes, in batches of format 2."""
COLUMNS = ("topic", "partition", "key", "value", "timestamp", "headers")
IGNORED = ("offset", "timestampType", "timestampMillis")
"""Columns of Spark's Kafka source that `make` ignores. Records in the new log get new values."""
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")


@dataclass(frozen=True)
class MadePartition:
    """A partition that `kafkafmt.make` has written.

    Attributes
    ----------
    topic : str
        Name of the topic.
    partition : int
        Number of the partition.
    records : int
        Number of records.
    bytes : int
        Size of the `.log` files in bytes.
    """

    topic: str
    partition: int
    records: int
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Return the object that describes this partition in the output of ``kafkafmt make --format json``."""
        return {"topic": self.topic, "partition": self.partition, "records": self.records, "bytes": self.bytes}


@dataclass(frozen=True)
class MakeReport:
    """A log directory that `kafkafmt.make` has written.

    Attributes
    ----------
    output : Path
        The log directory that was written.
    partitions : tuple of MadePartition
        The partitions, ordered by topic and partition number.
    messages : tuple of str
        Messages for the user about the rows and the directory. They are not part of the JSON
        output.
    """

    output: Path
    partitions: tuple[MadePartition, ...]
    messages: tuple[str, ...] = ()

    @property
    def topic(self) -> str | None:
        """The topic of all partitions, or None if there are several topics."""
        topics = {p.topic for p in self.partitions}
        return topics.pop() if len(topics) == 1 else None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that ``kafkafmt make --format json`` prints."""
        return {"topic": self.topic, "partitions": [p.to_dict() for p in self.partitions]}

    def _repr_html_(self) -> str:
        rows = [(f"{p.topic}-{p.partition}", f"{p.records:,}", f"{p.bytes:,}") for p in self.partitions]
        return html_table(f"Log directory {self.output}", ("partition", "records", "bytes"), rows)


def make(
    source: Any,
    output: str | os.PathLike[str],
    *,
    topic: str | None = None,
    partitions: int = 1,
    input_format: str | None = None,
    codec: str | int = "none",
    level: int | None = None,
    timestamp_type: str = "CreateTime",
    batch_bytes: int = DEFAULT_BATCH_BYTES,
    segment_bytes: int = 1 << 30,
    on_message: Callable[[str], None] | None = None,
) -> MakeReport:
    """Create test data: write the rows of a file or table to a new log directory.

    Parameters
    ----------
    source : str, os.PathLike or table
        A Parquet file, a CSV file, a file with JSON lines, "-" for JSON lines on stdin, or a table
        with the method ``__arrow_c_stream__``, such as a pyarrow Table or a Polars DataFrame. The
        source can have the columns of Spark's Kafka sink, and the column `timestamp`:

        - `value`: text or binary. Text is encoded as UTF-8. This column is required.
        - `key`: text or binary. By default, all keys are null.
        - `headers`: a list of structs with the fields `key` and `value`, or a list of pairs of
          strings.
        - `timestamp`: milliseconds since 1970-01-01 UTC, an Arrow timestamp, or text in ISO format.
          Rows without a timestamp get the current time, as in Kafka's producer.
        - `partition`: integer. If a row has no partition number, its key determines the partition.
        - `topic`: text. It is required if the argument `topic` is not given.
    output : str or os.PathLike
        The log directory to write. It must be new or empty.
    topic : str, optional
        Topic of all rows. By default, each row has its topic in the column `topic`.
    partitions : int, default 1
        Number of partitions of each topic.
    input_format : {"parquet", "csv", "json"}, optional
        Format of the file. By default, the format follows from the suffix of the file name.
    codec : str or int, default "none"
        Codec of the batches: none, gzip, snappy, lz4 or zstd.
    level : int, optional
        Compression level. By default, the default level of the codec is used.
    timestamp_type : {"CreateTime", "LogAppendTime"}, default "CreateTime"
        With "LogAppendTime", all records get the current time, and the column `timestamp` is
        ignored.
    batch_bytes : int, default 16384
        Largest size of a batch in bytes, like the setting ``batch.size`` of Kafka's producer.
    segment_bytes : int, default 1073741824 (1 GiB)
        Largest size of a segment in bytes, like the topic setting ``segment.bytes``.
    on_message : callable, optional
        Function that is called with each message for the user, as soon as the message is created.
        `MakeReport.messages` also contains these messages.

    Returns
    -------
    MakeReport
        `MakeReport.to_dict` returns the object that ``kafkafmt make --format json`` prints.

    Raises
    ------
    FileExistsError
        `output` is not empty.
    OSError
        The source cannot be read, or `output` cannot be written.
    ImportError
        pyarrow is not installed.
    TypeError, ValueError
        An argument is wrong. If a column or a value is wrong, `RowsError` is raised, a subclass of
        ValueError.

    Notes
    -----
    A row with a key is written to the partition that Kafka's default partitioner chooses. Rows with
    null keys fill one batch in a partition, and then one batch in the next partition. If an error
    is raised, no files are left in `output`.

    Examples
    --------
    >>> table = pyarrow.table({"key": ["a", "b", None], "value": ["1", "2", "3"]})
    >>> report = kafkafmt.make(table, "made", topic="orders", partitions=2)
    >>> sum(p.records for p in report.partitions)
    3
    """
    if topic is not None and not is_topic_name(topic):
        raise ValueError(_wrong_topic("topic", topic))
    if integer("partitions", partitions, 1) > MAX_PARTITION:
        raise ValueError(f"partitions is {partitions}; it must be at most {MAX_PARTITION}")
    integer("batch_bytes", batch_bytes, 1)
    append_time = now_millis() if one_of("timestamp_type", timestamp_type, TIMESTAMP_TYPES) == "LogAppendTime" else None
    from .table_files import read_rows

    target = Path(os.path.abspath(local_path(output)))
    if target.exists() and not target.is_dir():
        raise OutputPlaceError(os.fspath(output), "exists and is not a directory")
    messages: list[str] = []

    def say(message: str) -> None:
        messages.append(message)
        if on_message is not None:
            on_message(message)

    def new_builder() -> BatchBuilder:
        return BatchBuilder(
            codec=codec, level=level, max_bytes=batch_bytes, base_offset=0, log_append_time=append_time, leader_epoch=0
        )

    # Create one builder only to check the arguments before any file is written.
    new_builder()
    filled = Output(target)
    try:
        filled.open()
        with warnings.catch_warnings():
            # Ignore the warning here, because it would contain the path of the temporary directory.
            # strays() reports stray partitions later, with their final paths.
            warnings.simplefilter("ignore", StrayPartitionWarning)
            with LogDirectory(filled.work, segment_bytes=segment_bytes) as directory:
                making = _Making(directory, topic, partitions, batch_bytes, new_builder, say)
                for rows in read_rows(source, input_format):
                    making.add(rows)
                made = making.finish()
        (filled.work / ".lock").unlink()
        filled.publish([])
    except BaseException:
        filled.discard()
        raise
    for message in strays(target, [(p.topic, p.partition) for p in made]):
        say(message)
    return MakeReport(target, tuple(made), tuple(messages))


def _wrong_topic(what: str, topic: object) -> str:
    return f"{what} is {topic!r}; a topic name has 1 to 249 characters of a-z, A-Z, 0-9, '.', '_' and '-'"


class _Target:
    """Writes one partition with a batch builder and a log writer."""

    def __init__(self, writer: LogWriter, builder: BatchBuilder) -> None:
        self.writer, self.builder = writer, builder
        self.size = 0
        self._pending: list[bytes] = []
        self._pending_bytes = 0

    def add(self, columns: Columns) -> None:
        taken = 0
        while taken < columns.rows:
            taken, batches = self.builder.append_many(columns, taken)
            self._write(batches)

    def _write(self, batches: list[bytes], at_once: bool = False) -> None:
        self._pending += batches
        self._pending_bytes += sum(map(len, batches))
        if self._pending and (at_once or self._pending_bytes >= WRITE_BYTES):
            try:
                self.writer.append_batches(b"".join(self._pending), assign_offsets=False)
            except TooLargeError:
                largest, limit = max(map(len, self._pending)), self.writer.settings.segment_bytes
                raise ValueError(
                    f"a segment can have at most {limit} bytes, but a batch has {largest} bytes; choose a larger segment size"
                ) from None
            self.size += self._pending_bytes
            self._pending, self._pending_bytes = [], 0

    def finish(self) -> None:
        self._write([self.builder.finish()] if self.builder.count else [], at_once=True)


class _Topic:
    """Assigns the rows of a topic to partitions."""

    def __init__(self, partitions: int, batch_bytes: int) -> None:
        self.by_key = Partitioner(partitions)
        self._batch_bytes = batch_bytes
        self._keyless_bytes = 0

    def numbers(self, columns: Columns) -> IntArray:
        """Return the partition number of each row."""
        if columns.keys is None:
            return self._keyless(columns, np.arange(columns.rows))
        numbers = self.by_key.column(columns.keys).astype(np.int64)
        null = np.flatnonzero(columns.keys.lengths < 0)
        if len(null):
            numbers[null] = self._keyless(columns, null)
        return numbers

    def _keyless(self, columns: Columns, rows: np.ndarray) -> IntArray:
        """Return the partition numbers of rows without a key. The partition changes whenever a batch is full."""
        sizes = np.full(len(rows), RECORD_OVERHEAD, np.int64)
        if columns.values is not None:
            sizes += np.maximum(columns.values.lengths[rows], 0)
        ends = self._keyless_bytes + np.cumsum(sizes)
        numbers: IntArray = (ends - sizes) // self._batch_bytes % self.by_key.partitions
        if len(rows):
            self._keyless_bytes = int(ends[-1]) % (self._batch_bytes * self.by_key.partitions)
        return numbers


class _Making:
    """Assigns rows to partitions, and writes the rows as records."""

    def __init__(
        self,
        directory: LogDirectory,
        topic: str | None,
        partitions: int,
        batch_bytes: int,
        new_builder: Callable[[], BatchBuilder],
        say: Callable[[str], None],
    ) -> None:
        self._directory, self._topic, self._partitions = directory, topic, partitions
        self._batch_bytes, self._new_builder, self._say = batch_bytes, new_builder, say
        self._topics: dict[str, _Topic] = {}
        self._targets: dict[tuple[str, int], _Target] = {}
        self._said: set[str] = set()
        if topic is not None:
            self._open(topic)

    def _open(self, topic: str) -> None:
        """Create all partitions of a topic, including those that will contain no records."""
        self._topics[topic] = _Topic(self._partitions, self._batch_bytes)
        for number in range(self._partitions):
            self._targets[topic, number] = _Target(self._directory.writer(topic, number), self._new_builder())

    def add(self, rows: pa.RecordBatch) -> None:
        """Assign rows to partitions, and write the rows as records."""
        from .table_files import RowsError

        self._check(rows.schema.names)
        for topic, chosen, columns in self._by_topic(rows):
            numbers = self._numbers(topic, rows, chosen, columns)
            for number, part in _groups(numbers, columns):
                try:
                    self._targets[topic, number].add(part)
                except InvalidError as error:
                    # Use error.message without the position, because the position is in a batch that users do not see.
                    raise RowsError(f"a row of topic {topic} cannot be written: {error.message}") from None

    def _check(self, names: list[str]) -> None:
        """Raise RowsError if columns are missing or unknown. Report each ignored column once."""
        from .table_files import RowsError

        if len(set(names)) < len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise RowsError(f"there are two columns {twice!r}; rename one of them")
        unknown = [n for n in names if n not in (*COLUMNS, *IGNORED)]
        if unknown:
            raise RowsError(
                f"the column {unknown[0]!r} is unknown; the columns are {', '.join(COLUMNS)}: rename or remove it"
            )
        if "value" not in names:
            raise RowsError(f"the column 'value' is missing; the columns of the rows are {', '.join(names) or 'none'}")
        if self._topic is None and "topic" not in names:
            raise RowsError("the topic is missing; pass topic, or add a column 'topic'")
        ignored = [n for n in names if n in IGNORED]
        notes = [f"ignored columns: {', '.join(ignored)}; records get new offsets"] if ignored else []
        if self._topic is not None and "topic" in names:
            notes.append(f"the column topic is ignored, because all rows are written to {self._topic}")
        for note in notes:
            if note not in self._said:
                self._said.add(note)
                self._say(note)

    def _by_topic(self, rows: pa.RecordBatch) -> Iterator[tuple[str, IntArray, Columns]]:
        """Yield the name of each topic, the indexes of its rows in `rows`, and the data of these rows."""
        from .table_files import RowsError, text_codes

        columns = self._columns(rows)
        if self._topic is not None:
            yield self._topic, np.arange(columns.rows), columns
            return
        try:
            topics, codes = text_codes(rows.column("topic"))
        except (TypeError, NotImplementedError, ValueError):
            raise RowsError(f"the column 'topic' has the type {rows.column('topic').type}; cast it to text") from None
        for code, topic in enumerate(topics):
            if not isinstance(topic, str) or not is_topic_name(topic):
                what = "the topic of a row"
                raise RowsError(f"{what} is null" if topic is None else _wrong_topic(what, topic))
            if topic not in self._topics:
                self._open(topic)
            chosen = np.flatnonzero(codes == code)
            yield topic, chosen, columns if len(topics) == 1 else taken_rows(columns, chosen)

    def _columns(self, rows: pa.RecordBatch) -> Columns:
        from .table_files import RowsError, header_structs, milliseconds

        names = rows.schema.names
        now = now_millis()
        given: dict[str, Any] = {name: rows.column(name) for name in ("key", "value") if name in names}
        if "headers" in names:
            given["headers"] = header_structs(rows.column("headers"))
        try:
            timestamp = milliseconds(rows.column("timestamp"), now) if "timestamp" in names else now
            return columns_of(**given, timestamp=timestamp)
        except TypeError as error:
            raise RowsError(f"{error}; cast the column") from None
        except RowsError:
            raise
        except ValueError as error:
            raise RowsError(str(error)) from None

    def _numbers(self, topic: str, rows: pa.RecordBatch, chosen: IntArray, columns: Columns) -> IntArray:
        from .table_files import RowsError, whole_numbers

        if "partition" not in rows.schema.names:
            return self._topics[topic].numbers(columns)
        numbers: IntArray
        numbers, null = (part[chosen] for part in whole_numbers(rows.column("partition")))
        wrong = numbers[(~null & (numbers < 0)) | (numbers >= self._partitions)]
        if len(wrong):
            raise RowsError(
                f"the partition of a row is {wrong[0]}, but the largest partition number of topic {topic} is "
                f"{self._partitions - 1}; pass a larger number of partitions"
            )
        if null.any():
            free = np.flatnonzero(null)
            numbers = numbers.copy()
            numbers[free] = self._topics[topic].numbers(taken_rows(columns, free))
        return numbers

    def finish(self) -> list[MadePartition]:
        """Write the last, incomplete batch of each partition. Return a description of each partition."""
        made = []
        for (topic, number), target in sorted(self._targets.items()):
            target.finish()
            made.append(MadePartition(topic, number, target.writer.next_offset, target.size))
        return made


def _groups(numbers: IntArray, columns: Columns) -> Iterator[tuple[int, Columns]]:
    """Yield each partition number with the rows of this partition. The order of the rows does not change."""
    if not len(numbers):
        return
    if int(numbers.max()) == (lowest := int(numbers.min())):
        yield lowest, columns
        return
    # NumPy sorts 16-bit integers several times faster than 64-bit integers.
    order = np.argsort(numbers.astype(np.uint16) if int(numbers.max()) < 1 << 16 else numbers, kind="stable")
    ordered = numbers[order]
    borders = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    for rows in np.split(order, borders):
        yield int(numbers[rows[0]]), taken_rows(columns, rows)
