"""Assign the rows of `kafkafmt.make` to partitions, and write them as records.

A row with a key is written to the partition of its key, as Kafka's default partitioner chooses it
(``BuiltInPartitioner.partitionForKey``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InvalidError, TooLargeError
from ..log import LogDirectory, LogWriter
from ..log.formats import is_topic_name
from ..records import BatchBuilder, Partitioner, columns_of
from ..records.columns import Columns, taken_rows
from ..support.text import shown
from ..support.times import now_millis
from ..types import IntArray

if TYPE_CHECKING:
    import pyarrow as pa

WRITE_BYTES = 1 << 20
RECORD_OVERHEAD = 12
"""Estimated size of a record without its key and value, in bytes, in batches of format 2."""
COLUMNS = ("topic", "partition", "key", "value", "timestamp", "headers")
ENCODINGS = ("utf8", "base64", "hex")
IGNORED = ("offset", "timestampType", "timestampMillis")
"""Columns of Spark's Kafka source that `make` ignores. Records in the new log get new values."""


def wrong_topic(what: str, topic: object) -> str:
    """Return an error message for the invalid topic name `topic`. `what` is the subject of the message."""
    return f"{what} is {shown(topic)}; a topic name has 1 to 249 characters of a-z, A-Z, 0-9, '.', '_' and '-'"


class _PartitionWriter:
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


class _TopicRows:
    def __init__(self, partitions: int, batch_bytes: int) -> None:
        self.by_key = Partitioner(partitions)
        self._batch_bytes = batch_bytes
        self._keyless_bytes = 0

    def numbers(self, columns: Columns) -> IntArray:
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


class RowWriter:
    """Assigns rows to partitions, and writes the rows as records."""

    def __init__(
        self,
        directory: LogDirectory,
        topic: str | None,
        partitions: int,
        batch_bytes: int,
        new_builder: Callable[[], BatchBuilder],
        say: Callable[[str], None],
        encoding: str | None = None,
    ) -> None:
        self._directory, self._topic, self._partitions = directory, topic, partitions
        self._batch_bytes, self._new_builder, self._say = batch_bytes, new_builder, say
        self._encoding = encoding
        self._topics: dict[str, _TopicRows] = {}
        self._targets: dict[tuple[str, int], _PartitionWriter] = {}
        self._said: set[str] = set()
        if topic is not None:
            self._open(topic)

    def _open(self, topic: str) -> None:
        """Create all partitions of a topic, including those that will contain no records."""
        self._topics[topic] = _TopicRows(self._partitions, self._batch_bytes)
        for number in range(self._partitions):
            self._targets[topic, number] = _PartitionWriter(self._directory.writer(topic, number), self._new_builder())

    def add(self, rows: pa.RecordBatch) -> None:
        """Assign rows to partitions, and write the rows as records."""
        from .table_files import RowsError

        self._check(rows.schema.names)
        for topic, chosen, columns in self._by_topic(rows):
            numbers = self._numbers(topic, rows, chosen, columns)
            for number, part in _by_partition(numbers, columns):
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
            raise RowsError(f"there are two columns {shown(twice)}; rename one of them")
        unknown = [n for n in names if n not in (*COLUMNS, *IGNORED)]
        if unknown:
            raise RowsError(
                f"the column {shown(unknown[0])} is unknown; the columns are {', '.join(COLUMNS)}: rename or remove it"
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
                raise RowsError(f"{what} is null" if topic is None else wrong_topic(what, topic))
            if topic not in self._topics:
                self._open(topic)
            chosen = np.flatnonzero(codes == code)
            yield topic, chosen, columns if len(topics) == 1 else taken_rows(columns, chosen)

    def _columns(self, rows: pa.RecordBatch) -> Columns:
        from .encoded_text import decoded, decoded_headers
        from .table_files import RowsError, header_structs, milliseconds

        names = rows.schema.names
        now = now_millis()
        given: dict[str, Any] = {
            name: decoded(rows.column(name), name, self._encoding) for name in ("key", "value") if name in names
        }
        if "headers" in names:
            given["headers"] = decoded_headers(header_structs(rows.column("headers")), self._encoding)
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
        negative = numbers[~null & (numbers < 0)]
        if len(negative):
            raise RowsError(f"the partition of a row is {negative[0]}, which is negative")
        wrong = numbers[numbers >= self._partitions]
        if len(wrong):
            raise RowsError(
                f"the partition of a row is {wrong[0]}, but the largest partition number of topic {topic} is "
                f"{self._partitions - 1}; pass partitions={max(wrong) + 1} or more"
            )
        if null.any():
            free = np.flatnonzero(null)
            numbers = numbers.copy()
            numbers[free] = self._topics[topic].numbers(taken_rows(columns, free))
        return numbers

    def finish(self) -> list[tuple[str, int, int, int]]:
        """Write the last batches. Return topic, partition, number of records and size in bytes of each partition."""
        written = []
        for (topic, number), target in sorted(self._targets.items()):
            target.finish()
            written.append((topic, number, target.writer.next_offset, target.size))
        return written


def _by_partition(numbers: IntArray, columns: Columns) -> Iterator[tuple[int, Columns]]:
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
