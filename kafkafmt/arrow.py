"""Decoded columns as Arrow record batches, with the names, types and order of Spark's Kafka source.

    key binary, value binary, topic string, partition int32, offset int64, timestamp timestamp(us, UTC),
    timestampType int32, headers list<struct<key: string, value: binary>>; on request timestampMillis int64

Record batches are of some 8 MB whatever the sizes of Kafka's batches: smaller ones cost their overhead (about 10 µs
each), larger ones fall out of the caches and choke Spark's channel. Keys, values and headers are gathered by the
core straight into Arrow's buffers; topic and partition are slices of one array.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ._backend import core
from .log.groups import CommittedOffset
from .records import Chunk
from .text import decode_header_key
from .types import Buffer, RecordColumns

try:
    import pyarrow as pa
except ImportError as missing:
    raise ImportError("Arrow output needs pyarrow: pip install 'kafkafmt[arrow]'") from missing

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
"""The columns that are there unless others are asked for."""

OPTIONAL = pa.schema([("timestampMillis", pa.int64())])
"""Columns that are there when asked for: the timestamp as it stands, also where microseconds cannot hold it."""

_DECODED = {
    "key": ("key",),
    "value": ("value",),
    "offset": ("offset",),
    "timestamp": ("timestamp", "timestamp_type"),
    "timestampType": ("timestamp_type",),
    "timestampMillis": ("timestamp",),
    "headers": ("headers",),
}
TARGET_BYTES = 8 << 20
MAX_ROWS = 1 << 17
ROW_BYTES, HEADER_BYTES = 16, 8
"""What a row and a header count for beside their keys and values."""
MAX_MILLIS = (2**63 - 1) // 1000
COPY_SLACK = 160
"""Bytes behind what is gathered that let the core copy short spans in whole steps."""
_COPIED: dict[str, tuple[str, Any]] = {
    "offset": ("offset", np.int64),
    "timestampMillis": ("timestamp", np.int64),
    "timestampType": ("timestamp_type", np.int32),
}
"""Columns that are copied as they are: the decoded one, and its type."""
_HEADER_SPANS = [(name, f"{name}_position", f"{name}_length") for name in ("header_key", "header_value")]


def schema_of(names: Iterable[str] | None = None) -> pa.Schema:
    """The schema of the columns named, in that order; the standard eight for None."""
    if names is None:
        return SCHEMA
    fields = []
    for name in names:
        schema = SCHEMA if name in SCHEMA.names else OPTIONAL
        if name not in schema.names:
            raise ValueError(f"there is no column {name!r}; there are {', '.join(SCHEMA.names + OPTIONAL.names)}")
        fields.append(schema.field(name))
    return pa.schema(fields)


def decoded_names(schema: pa.Schema) -> tuple[str, ...]:
    """What the core has to decode for these columns; offsets where only topic and partition are asked for."""
    wanted = {n for name in schema.names for n in _DECODED.get(name, ())}
    return tuple(sorted(wanted)) or ("offset",)


class _Numbers:
    """A growing array in a buffer of Arrow's, which takes it over as it is."""

    def __init__(self, dtype: Any, room: int) -> None:
        self.dtype: Any = np.dtype(dtype)
        self.buffer = pa.allocate_buffer(max(room, 1) * self.dtype.itemsize, resizable=True)
        self.array: Any = np.frombuffer(self.buffer, self.dtype)

    def ensure(self, room: int) -> None:
        if room > len(self.array):
            self._resize(max(room, 2 * len(self.array)), False)
            self.array = np.frombuffer(self.buffer, self.dtype)

    def finish(self, n: int) -> pa.Buffer:
        """The first `n`; nothing can be added afterwards."""
        self._resize(n, n < len(self.array) // 2)
        return self.buffer

    def _resize(self, n: int, shrink: bool) -> None:
        self.array = None  # its memory may move
        self.buffer.resize(n * self.dtype.itemsize, shrink_to_fit=shrink)


class _Binary:
    """A binary or string column under way: spans gathered into Arrow's buffers."""

    def __init__(self, rows: int, room: int) -> None:
        self.offsets = _Numbers(np.int32, rows + 1)
        self.offsets.array[0] = 0
        self.data = _Numbers(np.uint8, room + COPY_SLACK)
        self.validity = np.zeros((len(self.offsets.array) + 7) // 8, np.uint8)
        self.rows = self.filled = self.nulls = 0

    def append(self, source: Buffer, positions: Any, lengths: Any, n: int, size: int) -> None:
        """The first `n` spans, which have `size` bytes together."""
        if self.rows + n >= len(self.offsets.array):
            self.offsets.ensure(self.rows + n + 1)
            self.validity = np.concatenate((self.validity, np.zeros((len(self.offsets.array) + 7) // 8 - len(self.validity), np.uint8)))
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


class BatchBuilder:
    """Collects decoded chunks of one partition and gives record batches of about `target_bytes`.

    timestamps_out_of_range counts the timestamps that microseconds cannot hold; they are null in `timestamp`.
    """

    def __init__(self, topic: str, partition: int, schema: pa.Schema = SCHEMA, target_bytes: int = TARGET_BYTES) -> None:
        self.schema = schema
        self.target_bytes = target_bytes
        self.timestamps_out_of_range = 0
        self._topic = topic
        self._partition = partition
        self._constants: dict[str, pa.Array] = {}
        self._copied = [(name, _COPIED[name]) for name in schema.names if name in _COPIED]
        self._timed = "timestamp" in schema.names
        self._spans = [(name, f"{name}_position", f"{name}_length") for name in ("key", "value") if name in schema.names]
        self._with_headers = "headers" in schema.names
        self._clear()

    def _clear(self) -> None:
        self.rows = self.bytes = 0
        self._numbers: dict[str, _Numbers] = {}
        self._binary: dict[str, _Binary] = {}
        self._no_times: Any = None

    def add(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """Take a chunk's rows; the batches that they fill."""
        columns, start = chunk.columns, 0
        size = self._size(columns, 0, columns.rows)
        if self.bytes + size["all"] < self.target_bytes and self.rows + columns.rows <= MAX_ROWS:
            self._append(chunk.source, columns, 0, columns.rows, size)
            return
        sizes = self._sizes(columns)
        while start < columns.rows:
            stop = self._fitting(columns, sizes, start)
            if stop > start:
                self._append(chunk.source, columns, start, stop, self._size(columns, start, stop))
            start = stop
            if start < columns.rows or self.bytes >= self.target_bytes:
                yield self.flush()

    def flush(self) -> pa.RecordBatch:
        """What has been collected, as a record batch; of no rows where there is nothing."""
        if self.rows == 0:
            self._begin(0, {"all": 1})
        arrays = [self._array(field) for field in self.schema]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        self._clear()
        return batch

    def _size(self, columns: RecordColumns, start: int, stop: int) -> dict[str, int]:
        """What rows of a chunk count for, together and by columns of bytes."""
        size = {}
        all_ = ROW_BYTES * (stop - start)
        for name, _, lengths in self._spans:
            size[name] = core.total_length(_from(getattr(columns, lengths), start), stop - start)
            all_ += size[name]
        if self._with_headers and columns.headers:
            first, last = _headers_of(columns, start, stop)
            for name, _, lengths in _HEADER_SPANS:
                size[name] = core.total_length(_from(getattr(columns, lengths), first), last - first)
                all_ += size[name]
            all_ += HEADER_BYTES * (last - first)
        size["all"] = all_
        return size

    def _sizes(self, columns: RecordColumns) -> Any:
        """Bytes of keys, values and headers up to each row, as a running sum that begins at 0."""
        n = columns.rows
        sizes = np.full(n, ROW_BYTES, np.int64)
        for _, _, lengths in self._spans:
            sizes += np.maximum(getattr(columns, lengths)[:n], 0)
        if self._with_headers and columns.headers:
            assert columns.header_count is not None
            assert columns.header_key_length is not None
            assert columns.header_value_length is not None
            assert columns.header_start is not None
            h = columns.headers
            each = np.maximum(columns.header_key_length[:h], 0) + np.maximum(columns.header_value_length[:h], 0).astype(np.int64)
            each += HEADER_BYTES
            running = np.concatenate(([0], np.cumsum(each)))
            sizes += running[columns.header_start[:n] + columns.header_count[:n]] - running[columns.header_start[:n]]
        return np.concatenate(([0], np.cumsum(sizes)))

    def _fitting(self, columns: RecordColumns, sizes: Any, start: int) -> int:
        """The row before which this record batch is full; at least one row goes in."""
        room = self.target_bytes - self.bytes
        stop = int(np.searchsorted(sizes, sizes[start] + room, "right")) - 1
        stop = min(stop, start + MAX_ROWS - self.rows, columns.rows)
        return stop if stop > start else start + 1 if self.rows == 0 else start

    def _begin(self, rows: int, size: dict[str, int]) -> None:
        """Make the arrays of a record batch, of the sizes to be expected if it goes on as it begins: with these rows."""
        scale = 1.06 * max(1.0, self.target_bytes / size["all"])
        self._room = min(int(rows * scale) + 1, MAX_ROWS)
        for name, (_, dtype) in self._copied:
            self._numbers[name] = _Numbers(dtype, self._room)
        if self._timed:
            self._numbers["timestamp"] = _Numbers(np.int64, self._room)
        for name, _, _ in self._spans:
            self._binary[name] = _Binary(self._room, int(size.get(name, 0) * scale))

    def _append(self, source: Buffer, columns: RecordColumns, start: int, stop: int, size: dict[str, int]) -> None:
        if self.rows == 0:
            self._begin(stop - start, size)
        at, end = self.rows, self.rows + stop - start
        if end > self._room:
            self._room = min(max(end, 2 * self._room), MAX_ROWS)
            for numbers in self._numbers.values():
                numbers.ensure(self._room)
        for name, (decoded, _) in self._copied:
            self._numbers[name].array[at:end] = getattr(columns, decoded)[start:stop]
        if self._timed:
            self._put_times(columns, start, stop)
        for name, positions, lengths in self._spans:
            self._binary[name].append(
                source, _from(getattr(columns, positions), start), _from(getattr(columns, lengths), start), stop - start, size[name]
            )
        if self._with_headers and (columns.headers or "headers" in self._numbers):
            self._put_headers(source, columns, start, stop, size)
        self.rows = end
        self.bytes += size["all"]

    def _put_times(self, columns: RecordColumns, start: int, stop: int) -> None:
        assert columns.timestamp is not None
        millis = columns.timestamp[start:stop]
        out = self._numbers["timestamp"].array[self.rows : self.rows + stop - start]
        np.multiply(millis, 1000, out=out)
        if int(np.maximum.reduce(millis.view(np.uint64))) <= MAX_MILLIS:  # none is negative, as one is where there is no timestamp
            return
        assert columns.timestamp_type is not None
        beyond, none = (millis > MAX_MILLIS) | (millis < -MAX_MILLIS), columns.timestamp_type[start:stop] < 0
        self.timestamps_out_of_range += int(np.count_nonzero(beyond & ~none))
        none |= beyond
        if none.any():
            out[none] = 0
            if self._no_times is None:
                self._no_times = np.zeros(MAX_ROWS, bool)
            self._no_times[self.rows : self.rows + stop - start] = none

    def _put_headers(self, source: Buffer, columns: RecordColumns, start: int, stop: int, size: dict[str, int]) -> None:
        first, last = _headers_of(columns, start, stop) if columns.headers else (0, 0)
        if "headers" not in self._numbers:
            if first == last:
                return
            self._numbers["headers"] = _Numbers(np.int32, self._room + 1)
            self._numbers["headers"].array[: self.rows + 1] = 0
            scale = max(1.0, (self.target_bytes - self.bytes) / size["all"])
            for name, _, _ in _HEADER_SPANS:
                self._binary[name] = _Binary(int((last - first) * scale), int(size[name] * scale))
        assert columns.header_count is not None
        ends = self._numbers["headers"]
        ends.ensure(self.rows + stop - start + 1)
        out = ends.array[self.rows + 1 : self.rows + stop - start + 1]
        np.cumsum(columns.header_count[start:stop], out=out)
        out += ends.array[self.rows]
        if first < last:
            for name, positions, lengths in _HEADER_SPANS:
                self._binary[name].append(
                    source, _from(getattr(columns, positions), first), _from(getattr(columns, lengths), first), last - first, size[name]
                )

    def _array(self, field: pa.Field) -> pa.Array:
        name, type_ = field.name, field.type
        if name in self._binary:
            return self._binary[name].finish(type_)
        if name == "topic" or name == "partition":
            return self._constant(name, type_)
        if name == "headers":
            return self._headers(type_)
        validity, nulls = None, 0
        if name == "timestamp" and self._no_times is not None:
            none = self._no_times[: self.rows]
            validity, nulls = pa.py_buffer(np.packbits(~none, bitorder="little")), int(np.count_nonzero(none))
        return pa.Array.from_buffers(type_, self.rows, [validity, self._numbers[name].finish(self.rows)], nulls)

    def _constant(self, name: str, type_: pa.DataType) -> pa.Array:
        """A slice of an array that repeats the topic or partition."""
        known = self._constants.get(name)
        if known is None or len(known) < self.rows:
            size = min(max(self.rows, 1 << 14) * 2, MAX_ROWS)
            if name == "topic":
                raw = self._topic.encode()
                offsets = np.arange(0, (size + 1) * len(raw), len(raw), dtype=np.int32)[: size + 1] if raw else np.zeros(size + 1, np.int32)
                known = pa.Array.from_buffers(type_, size, [None, pa.py_buffer(offsets), pa.py_buffer(raw * size)], 0)
            else:
                known = pa.array(np.full(size, self._partition, np.int32), type_)
            self._constants[name] = known
        return known.slice(0, self.rows)

    def _headers(self, type_: pa.DataType) -> pa.Array:
        if "headers" not in self._numbers:
            return pa.nulls(self.rows, type_)
        keys, values = self._binary["header_key"].finish(pa.string()), self._binary["header_value"].finish(pa.binary())
        pairs = pa.StructArray.from_arrays([_as_text(keys), values], fields=HEADER_FIELDS)
        ends = self._numbers["headers"]
        present = np.diff(ends.array[: self.rows + 1]) > 0
        nulls = self.rows - int(np.count_nonzero(present))
        validity = pa.py_buffer(np.packbits(present, bitorder="little"))
        return pa.Array.from_buffers(type_, self.rows, [validity, ends.finish(self.rows + 1)], nulls, children=[pairs])


def _from(array: Any, start: int) -> Any:
    return array[start:] if start else array


def _headers_of(columns: RecordColumns, start: int, stop: int) -> tuple[int, int]:
    """Where the headers of these rows begin and end in the arrays of headers."""
    assert columns.header_start is not None
    assert columns.header_count is not None
    return int(columns.header_start[start]), int(columns.header_start[stop - 1]) + int(columns.header_count[stop - 1])


def _as_text(keys: pa.StringArray) -> pa.StringArray:
    """The keys as they are if they are UTF-8, else as Java decodes them."""
    try:
        keys.validate(full=True)
        return keys
    except pa.ArrowInvalid:
        raw: Sequence[bytes] = keys.view(pa.binary()).to_pylist()
        return pa.array([decode_header_key(k) for k in raw], pa.string())


def record_batches(chunks: Iterable[Chunk], builder: BatchBuilder) -> Iterator[pa.RecordBatch]:
    """Record batches of about the builder's size out of decoded chunks; the last one may be small, none is empty."""
    for chunk in chunks:
        yield from builder.add(chunk)
    if builder.rows:
        yield builder.flush()


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
    ]
)
"""The fields of a CommittedOffset."""


def committed_offsets(offsets: Sequence[CommittedOffset]) -> pa.Table:
    """Committed offsets as a table."""
    columns = zip(*offsets, strict=True) if offsets else [()] * len(COMMITTED)
    return pa.table([pa.array(column, f.type) for column, f in zip(columns, COMMITTED, strict=True)], schema=COMMITTED)


def reader(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader:
    """Record batches of one schema as a reader, which is what Arrow's stream interface hands on."""
    return pa.RecordBatchReader.from_batches(schema, batches)
