"""Convert decoded columns to Arrow record batches with the schema of Spark's Kafka source.

    key binary, value binary, topic string, partition int32, offset int64,
    timestamp timestamp(us, UTC), timestampType int32,
    headers list<struct<key: string, value: binary>>; on request timestampMillis int64

Arrow record batches have about 8 MB, regardless of the sizes of the Kafka batches. In smaller ones,
the overhead of about 10 µs per Arrow record batch would matter. Larger ones would not fit into the
CPU caches, and would block Spark's channel.

The core decodes keys and values directly into the buffers of the Arrow record batch. Only headers
are copied a second time. The memory comes from a pool (buffer_pool.py), which reuses it after the
consumer has released the Arrow record batch. The columns topic and partition are slices of one
array.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from . import arguments
from ._backend import core
from .buffer_pool import shared_pool
from .constants import MICROS_BEYOND, MICROS_NONE
from .errors import KafkaFormatError
from .extras import install_line
from .log.reading.groups import CommittedOffset
from .records import Chunk, read_chunks
from .records.signatures import BufferSelection
from .sharing import shared
from .text import decode_header_key
from .types import Buffer, ByteArray, CopiedColumns

try:
    import pyarrow as pa
except ImportError as _missing:
    raise ImportError(f"Arrow output needs pyarrow: {install_line('arrow')}") from _missing

HEADER_FIELDS = [pa.field("key", pa.string()), pa.field("value", pa.binary())]
HEADERS_TYPE = pa.list_(pa.field("element", pa.struct(HEADER_FIELDS)))
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", HEADERS_TYPE),
    ]
)
"""Schema of the default columns."""

OPTIONAL = pa.schema([("timestampMillis", pa.int64())])
"""Schema of the columns that are included only if they are requested by name. `timestampMillis` is
the stored timestamp, which int64 microseconds may not be able to represent.
"""

_DECODED = {
    "key": ("key",),
    "value": ("value",),
    "offset": ("offset",),
    "timestamp": ("timestamp_micros",),
    "timestampType": ("timestamp_type",),
    "timestampMillis": ("timestamp",),
    "headers": ("headers",),
}
TARGET_BYTES = 8 << 20
MAX_ROWS = 1 << 17
GROWTH = 8
"""Factor by which arrays grow. With a factor of 2, growing them to TARGET_BYTES would copy as many
bytes as the first Arrow record batch contains. A large capacity is cheap: the operating system
provides a page of memory only when it is first written.
"""
ROW_BYTES, HEADER_BYTES = 16, 8
"""Assumed size of each row and of each header, in bytes, without keys and values."""
COPY_SLACK = 160
"""Free space after the data, in bytes. Because of this space, the core can copy short spans in
steps of a fixed size.
"""
_COPIED = {"offset": "offset", "timestampMillis": "timestamp", "timestampType": "timestamp_type"}
"""Columns that are copied unchanged from the decoded columns."""
_HEADER_SPANS = [(name, f"{name}_position", f"{name}_length") for name in ("header_key", "header_value")]


def schema_of(names: Iterable[str] | None = None) -> pa.Schema:
    """Return the schema of the named columns, in the given order.

    If `names` is None, the schema has the eight default columns.
    """
    given = arguments.names("columns", names, SCHEMA.names + OPTIONAL.names)
    if given is None:
        return SCHEMA
    return pa.schema([(SCHEMA if name in SCHEMA.names else OPTIONAL).field(name) for name in given])


def decoded_names(schema: pa.Schema) -> tuple[str, ...]:
    """Return the names of the columns that the core must decode for a schema.

    If a schema contains only topic and partition, the offsets are decoded to count the rows.
    """
    wanted = {n for name in schema.names for n in _DECODED.get(name, ())}
    return tuple(sorted(wanted)) or ("offset",)


class _Numbers:
    """A growing NumPy array in memory of a BufferPool. Arrow can use it without a copy."""

    def __init__(self, dtype: Any, room: int) -> None:
        self.dtype: Any = np.dtype(dtype)
        self.array: Any = self._taken(max(room, 1))

    def _taken(self, items: int) -> Any:
        self._memory: ByteArray | None = shared_pool.take(items * self.dtype.itemsize)
        return self._memory[: items * self.dtype.itemsize].view(self.dtype)

    def ensure(self, room: int) -> None:
        if room > len(self.array):
            before = self.array
            self.array = self._taken(max(room, 2 * len(before)))
            self.array[: len(before)] = before

    def finish(self, n: int) -> pa.Buffer:
        """Return a buffer with the first `n` items. No more items can be added afterwards."""
        memory, used, room = self._memory, n * self.dtype.itemsize, len(self.array)
        assert memory is not None
        self._memory = self.array = None
        if n < room // 2:  # a small Arrow record batch must not keep the memory of a large one
            return pa.py_buffer(memory[:used].copy())
        return pa.py_buffer(memory).slice(0, used)


class _Binary:
    """A binary or string column that is being built. It copies spans into Arrow buffers."""

    def __init__(self, rows: int, room: int) -> None:
        self.offsets = _Numbers(np.int32, rows + 1)
        self.offsets.array[0] = 0
        self.data = _Numbers(np.uint8, room + COPY_SLACK)
        self.validity = np.zeros((len(self.offsets.array) + 7) // 8, np.uint8)
        self.rows = self.filled = self.nulls = 0

    def append(self, source: Buffer, positions: Any, lengths: Any, n: int, size: int) -> None:
        """Append `n` spans of `source`, which have `size` bytes in total."""
        if self.rows + n >= len(self.offsets.array):
            self.offsets.ensure(self.rows + n + 1)
            self.validity = np.concatenate(
                (self.validity, np.zeros((len(self.offsets.array) + 7) // 8 - len(self.validity), np.uint8))
            )
        if self.filled + size > len(self.data.array):
            self.data.ensure(self.filled + size)
        self.filled, nulls = core.gather(
            source, positions, lengths, n, self.offsets.array, self.data.array, self.validity, self.rows, self.filled
        )
        self.rows += n
        self.nulls += nulls

    def finish(self, type_: pa.DataType) -> pa.Array:
        validity = pa.py_buffer(self.validity) if self.nulls else None
        buffers = [validity, self.offsets.finish(self.rows + 1), self.data.finish(self.filled)]
        return pa.Array.from_buffers(type_, self.rows, buffers, self.nulls)


class _Columns(CopiedColumns):
    """Columns of decoded records. Their arrays can grow, and Arrow can use them without a copy."""

    capacity: int
    rooms: dict[str, int]

    def __init__(self, names: Iterable[str]) -> None:
        self._arrays: dict[str, _Numbers] = {}
        super().__init__(1 << 12, tuple(names), room=1 << 18)

    def _make(self, attribute: str, items: int, dtype: Any) -> Any:
        self._arrays[attribute] = numbers = _Numbers(dtype, items)
        setattr(self, attribute, numbers.array)
        return numbers.array

    def filled(self, name: str) -> int:
        """Return the total size of all keys or of all values, in bytes."""
        return int(getattr(self, f"{name}_offsets")[self.rows])

    def begin(self, capacity: int, rooms: dict[str, int]) -> None:
        """Create new arrays of the given sizes, which replace the arrays that Arrow took over."""
        self.capacity, self.rooms = capacity, rooms
        self.rows = self.headers = 0
        self._make_arrays()

    def enlarge(self, target_bytes: int) -> bool:
        """Multiply the capacity of every array by GROWTH, and keep the rows.

        Return False if the arrays can already hold a full Arrow record batch.
        """
        grown = False
        if self.capacity < MAX_ROWS:
            grown, self.capacity = True, min(GROWTH * self.capacity, MAX_ROWS)
            for attribute in self._arrays:
                if not attribute.endswith("_data"):
                    self._ensure(attribute, self.capacity + attribute.endswith("_offsets"))
            for name in self.rooms:
                validity = getattr(self, f"{name}_validity")
                more = np.full((self.capacity + 7) // 8 - len(validity), 255, np.uint8)
                setattr(self, f"{name}_validity", np.concatenate((validity, more)))
        if self.header_capacity and self.header_capacity < MAX_ROWS and not self.headers:
            grown = True
            self.grow_headers(min(GROWTH * self.header_capacity, MAX_ROWS))
        for name, room in self.rooms.items():
            if room < target_bytes:
                grown, self.rooms[name] = True, min(GROWTH * room, target_bytes + COPY_SLACK)
                self._ensure(f"{name}_data", self.rooms[name])
        return grown

    def _ensure(self, attribute: str, items: int) -> None:
        self._arrays[attribute].ensure(items)
        setattr(self, attribute, self._arrays[attribute].array)

    def take(self, attribute: str, items: int) -> pa.Buffer:
        """Return the buffer of an array with only its first `items` items.

        The array cannot be used again until `begin` is called.
        """
        setattr(self, attribute, None)
        return self._arrays[attribute].finish(items)

    def take_binary(self, name: str, type_: pa.DataType) -> pa.Array:
        rows, filled, validity = self.rows, self.filled(name), getattr(self, f"{name}_validity")[: (self.rows + 7) // 8]
        bits = None if (validity == 255).all() else pa.py_buffer(validity)
        buffers = [bits, self.take(f"{name}_offsets", rows + 1), self.take(f"{name}_data", filled)]
        return pa.Array.from_buffers(type_, rows, buffers, 0 if bits is None else -1)


def _topic_bytes(topic: str) -> bytes:
    """Return a topic name as UTF-8, which Arrow and Spark require.

    Raise ValueError if the name is not valid UTF-8. It comes from a directory name, which can
    contain any bytes.
    """
    try:
        return topic.encode()
    except UnicodeEncodeError:
        message = f"the topic name {topic!a}, which comes from a directory name, is not valid UTF-8 and cannot be an Arrow string; omit the column topic"
        raise ValueError(message) from None


class ArrowBuilder:
    """Builds Arrow record batches of about `target_bytes` from rows that are decoded into `columns`.

    A builder never contains rows of different partitions at the same time.

    Attributes
    ----------
    columns : _Columns
        The columns into which a RecordReader decodes one chunk after another.
    timestamps_out_of_range : int
        Number of timestamps that int64 microseconds cannot represent. They are null in the column
        timestamp.
    """

    def __init__(
        self, topic: str, partition: int, schema: pa.Schema = SCHEMA, target_bytes: int = TARGET_BYTES
    ) -> None:
        self.schema = schema
        self.target_bytes = target_bytes
        self.columns: _Columns = _Columns(decoded_names(schema))
        self.timestamps_out_of_range: int = 0
        self.rows: int = 0
        self._with_headers = "headers" in schema.names
        self._header_bytes = 0
        self._header_ends: _Numbers | None = None
        self._header_parts: dict[str, _Binary] = {}
        self.move_to(topic, partition)

    def move_to(self, topic: str, partition: int) -> None:
        """Continue with another partition. The builder must not contain rows."""
        if self.rows:
            raise ValueError("rows of the previous partition are pending; call flush() first")
        self._home = topic, partition
        self._constants: dict[str, pa.Array] = {}

    @property
    def bytes(self) -> int:
        """Estimated size of the collected rows, in bytes."""
        return (
            ROW_BYTES * self.rows + sum(self.columns.filled(name) for name in self.columns.rooms) + self._header_bytes
        )

    def add(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """Add the rows that were decoded from `chunk` into `columns`.

        If the Arrow record batch is then full, yield it.
        """
        columns = self.columns
        if self._with_headers and columns.headers:
            self._put_headers(chunk.source)
        self.rows = columns.rows
        size = self.bytes
        if size >= self.target_bytes or (
            columns.full and (2 * size >= self.target_bytes or not columns.enlarge(self.target_bytes))
        ):
            yield self.flush()

    def flush(self) -> pa.RecordBatch:
        """Return the collected rows as an Arrow record batch.

        The Arrow record batch is empty if no rows were collected.
        """
        columns, scale = self.columns, 1.06 * self.target_bytes / max(self.bytes, 1)
        rows = min(max(int(self.rows * scale), 1 << 12), MAX_ROWS)
        rooms = {
            name: min(max(int(columns.filled(name) * scale), 1 << 16), 2 * self.target_bytes) + COPY_SLACK
            for name in columns.rooms
        }
        arrays = [self._array(field) for field in self.schema]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        self.rows = self._header_bytes = 0
        self._header_ends = None
        columns.begin(rows, rooms)
        return batch

    def _put_headers(self, source: Buffer) -> None:
        """Copy the headers of the new rows. They are spans of `source`."""
        columns, start = self.columns, self.rows
        stop, count = columns.rows, columns.headers
        sizes = {name: core.total_length(getattr(columns, lengths), count) for name, _, lengths in _HEADER_SPANS}
        if self._header_ends is None:
            self._header_ends = _Numbers(np.int32, columns.capacity + 1)
            self._header_ends.array[: start + 1] = 0
            self._header_parts = {name: _Binary(4 * count, 4 * sizes[name]) for name in sizes}
            self._header_rows = start
        ends = self._header_ends
        ends.ensure(stop + 1)
        ends.array[self._header_rows + 1 : start + 1] = ends.array[self._header_rows]  # rows without headers
        assert columns.header_count is not None
        out = ends.array[start + 1 : stop + 1]
        np.cumsum(columns.header_count[start:stop], out=out)
        out += ends.array[start]
        for name, positions, lengths in _HEADER_SPANS:
            self._header_parts[name].append(
                source, getattr(columns, positions), getattr(columns, lengths), count, sizes[name]
            )
        self._header_rows = stop
        self._header_bytes += HEADER_BYTES * count + sum(sizes.values())
        columns.headers = 0

    def _array(self, field: pa.Field) -> pa.Array:
        name, type_ = field.name, field.type
        if name in self.columns.rooms:
            return self.columns.take_binary(name, type_)
        if name == "topic" or name == "partition":
            return self._constant(name, type_)
        if name == "timestamp":
            return self._times(type_)
        if name == "headers":
            return self._headers(type_)
        return pa.Array.from_buffers(type_, self.rows, [None, self.columns.take(_COPIED[name], self.rows)], 0)

    def _times(self, type_: pa.DataType) -> pa.Array:
        """Return the timestamps in microseconds.

        A timestamp is null if the record has no timestamp, or if int64 cannot represent it in
        microseconds.
        """
        columns, rows, nulls, validity = self.columns, self.rows, 0, None
        if columns.odd_times:
            assert columns.timestamp_micros is not None
            micros = columns.timestamp_micros[:rows]
            self.timestamps_out_of_range += int(np.count_nonzero(micros == MICROS_BEYOND))
            present = micros > MICROS_NONE
            nulls = rows - int(np.count_nonzero(present))
            validity = pa.py_buffer(np.packbits(present, bitorder="little"))
            columns.odd_times = False
        return pa.Array.from_buffers(type_, rows, [validity, columns.take("timestamp_micros", rows)], nulls)

    def _constant(self, name: str, type_: pa.DataType) -> pa.Array:
        """Return `rows` items of an array in which the topic or the partition is repeated."""
        known = self._constants.get(name)
        if known is None or len(known) < self.rows:
            size = min(max(self.rows, 1 << 14) * 2, MAX_ROWS)
            if name == "topic":
                raw = _topic_bytes(self._home[0])
                offsets = (
                    np.arange(0, (size + 1) * len(raw), len(raw), dtype=np.int32)[: size + 1]
                    if raw
                    else np.zeros(size + 1, np.int32)
                )
                known = pa.Array.from_buffers(type_, size, [None, pa.py_buffer(offsets), pa.py_buffer(raw * size)], 0)
            else:
                known = pa.array(np.full(size, self._home[1], np.int32), type_)
            self._constants[name] = known
        return known.slice(0, self.rows)

    def _headers(self, type_: pa.DataType) -> pa.Array:
        ends = self._header_ends
        if ends is None:
            return pa.nulls(self.rows, type_)
        ends.ensure(self.rows + 1)
        ends.array[self._header_rows + 1 : self.rows + 1] = ends.array[self._header_rows]
        keys, values = (
            self._header_parts["header_key"].finish(pa.string()),
            self._header_parts["header_value"].finish(pa.binary()),
        )
        pairs = pa.StructArray.from_arrays([_as_text(keys), values], fields=HEADER_FIELDS)
        present = np.diff(ends.array[: self.rows + 1]) > 0
        nulls = self.rows - int(np.count_nonzero(present))
        validity = pa.py_buffer(np.packbits(present, bitorder="little"))
        return pa.Array.from_buffers(type_, self.rows, [validity, ends.finish(self.rows + 1)], nulls, children=[pairs])


def _as_text(keys: pa.StringArray) -> pa.StringArray:
    """Return header keys unchanged if all are valid UTF-8. Otherwise, decode them as Java does."""
    try:
        keys.validate(full=True)
        return keys
    except pa.ArrowInvalid:
        raw: Sequence[bytes] = keys.view(pa.binary()).to_pylist()
        return pa.array([decode_header_key(k) for k in raw], pa.string())


@shared
def record_batches(
    chunks: Iterable[Chunk], builder: ArrowBuilder, limit: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield Arrow record batches from chunks whose rows are decoded into the builder's columns.

    The last Arrow record batch may be small, but no Arrow record batch is empty. If a chunk raises
    an error, the rows before the error are yielded first. If `limit` is given, yield only the first
    `limit` rows, and read no more chunks than these rows need.
    """
    if limit is not None:
        yield from _first_rows(chunks, builder, limit)
        return
    try:
        for chunk in chunks:
            yield from builder.add(chunk)
    except KafkaFormatError:
        if builder.rows:
            yield builder.flush()
        raise
    if builder.rows:
        yield builder.flush()


def _first_rows(chunks: Iterable[Chunk], builder: ArrowBuilder, limit: int) -> Iterator[pa.RecordBatch]:
    """Yield Arrow record batches that contain the first `limit` rows of the chunks."""
    if not limit:
        return
    try:
        for chunk in chunks:
            for batch in builder.add(chunk):
                yield batch.slice(0, limit)
                limit -= min(limit, batch.num_rows)
            if builder.rows >= limit:
                break
    except KafkaFormatError:
        if builder.rows:
            yield builder.flush()
        raise
    if limit and builder.rows:
        yield builder.flush().slice(0, limit)


COMMITTED = pa.schema(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("metadata", pa.string()),
        ("commit_timestamp", pa.timestamp("ms", "UTC")),
        ("expire_timestamp", pa.timestamp("ms", "UTC")),
        ("log_end_offset", pa.int64()),
        ("lag", pa.int64()),
    ]
)
"""Schema of a table of committed offsets, with the fields of CommittedOffset."""


def committed_offsets(offsets: Sequence[CommittedOffset]) -> pa.Table:
    """Return committed offsets as a pyarrow Table."""
    columns = zip(*offsets, strict=True) if offsets else [()] * len(COMMITTED)
    return pa.table([pa.array(column, f.type) for column, f in zip(columns, COMMITTED, strict=True)], schema=COMMITTED)


def reader(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader:
    """Return Arrow record batches as a RecordBatchReader, as the Arrow C stream interface requires."""
    return pa.RecordBatchReader.from_batches(schema, batches)


def read_table(
    buffer: Buffer | None, columns: Sequence[str] | None, topic: str, partition: int, selection: BufferSelection
) -> pa.Table:
    """Read the records of consecutive batches in a buffer into a pyarrow Table.

    `topic` and `partition` are the values of the columns with these names. `selection` is passed to
    `read_chunks`.
    """
    builder = ArrowBuilder(topic, partition, schema_of(columns))
    return pa.Table.from_batches(
        record_batches(read_chunks(buffer, builder.columns, **selection), builder), builder.schema
    )
