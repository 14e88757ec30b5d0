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


class _Binary:
    """A binary or string column under way: spans gathered into Arrow's buffers."""

    def __init__(self, room: int, rows: int) -> None:
        self.offsets_buffer = pa.allocate_buffer(4 * (rows + 1))
        self.offsets: Any = np.frombuffer(self.offsets_buffer, np.int32)
        self.data_buffer = pa.allocate_buffer(room, resizable=True)
        self.data: Any = np.frombuffer(self.data_buffer, np.uint8)
        self.validity = np.zeros((rows + 7) // 8, np.uint8)
        self.rows = self.filled = self.nulls = 0

    def append(self, source: Buffer, positions: Any, lengths: Any) -> None:
        n = len(lengths)
        self.filled, nulls = core.gather(source, positions, lengths, n, self.offsets, self.data, self.validity, self.rows, self.filled)
        self.rows += n
        self.nulls += nulls

    def finish(self, type_: pa.DataType) -> pa.Array:
        if self.rows == 0:
            self.offsets[0] = 0
        self.data = None
        self.data_buffer.resize(self.filled, shrink_to_fit=self.filled < self.data_buffer.size // 2)
        validity = pa.py_buffer(self.validity) if self.nulls else None
        return pa.Array.from_buffers(type_, self.rows, [validity, self.offsets_buffer, self.data_buffer], self.nulls)


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
        self._clear()

    def _clear(self) -> None:
        self.rows = self.bytes = 0
        self._parts: dict[str, list[Any]] = {"offset": [], "timestamp": [], "timestamp_type": [], "header_count": []}
        self._binary: dict[str, _Binary] = {}

    def add(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """Take a chunk's rows; the batches that they fill."""
        columns, start = chunk.columns, 0
        total = _size(columns)
        if self.bytes + total < self.target_bytes and self.rows + columns.rows <= MAX_ROWS:
            self._append(chunk.source, columns, 0, columns.rows, total)
            return
        sizes = self._sizes(columns)
        while start < columns.rows:
            stop = self._fitting(columns, sizes, start)
            self._append(chunk.source, columns, start, stop, int(sizes[stop] - sizes[start]))
            start = stop
            if start < columns.rows or self.bytes >= self.target_bytes:
                yield self.flush()

    def flush(self) -> pa.RecordBatch:
        """What has been collected, as a record batch; of no rows where there is nothing."""
        arrays = [self._array(field) for field in self.schema]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        self._clear()
        return batch

    def _sizes(self, columns: RecordColumns) -> Any:
        """Bytes of keys, values and headers up to each row, as a running sum that begins at 0."""
        n = columns.rows
        sizes = np.full(n, ROW_BYTES, np.int64)
        for lengths in (columns.key_length, columns.value_length):
            if lengths is not None:
                sizes += np.maximum(lengths[:n], 0)
        if columns.header_count is not None and columns.headers:
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

    def _append(self, source: Buffer, columns: RecordColumns, start: int, stop: int, size: int) -> None:
        if stop == start:
            return
        for name in ("offset", "timestamp", "timestamp_type"):
            values = getattr(columns, name)
            if values is not None:
                self._parts[name].append(values[start:stop].copy())
        room = max(self.target_bytes, size)
        for name in ("key", "value"):
            if getattr(columns, f"{name}_length") is not None:
                lengths = getattr(columns, f"{name}_length")[start:stop]
                self._column(name, room, MAX_ROWS).append(source, getattr(columns, f"{name}_position")[start:stop], lengths)
        if columns.header_count is not None and columns.header_start is not None:
            counts = columns.header_count[start:stop]
            self._parts["header_count"].append(counts.copy())
            first, last = int(columns.header_start[start]), int(columns.header_start[stop - 1]) + int(counts[-1])
            if last > first:
                self._append_headers(source, columns, first, last, room)
        self.rows += stop - start
        self.bytes += size

    def _append_headers(self, source: Buffer, columns: RecordColumns, first: int, last: int, room: int) -> None:
        for name in ("header_key", "header_value"):
            binary = self._column(name, room, max(last - first, room // 8))
            positions, lengths = getattr(columns, f"{name}_position"), getattr(columns, f"{name}_length")
            binary.append(source, positions[first:last], lengths[first:last])

    def _column(self, name: str, room: int, rows: int) -> _Binary:
        if name not in self._binary:
            self._binary[name] = _Binary(room, rows)
        return self._binary[name]

    def _array(self, field: pa.Field) -> pa.Array:
        name = field.name
        if name in ("key", "value"):
            return self._column(name, 0, 0).finish(field.type)
        if name == "topic" or name == "partition":
            return self._constant(name, field.type)
        if name == "offset" or name == "timestampMillis":
            return pa.array(self._joined("offset" if name == "offset" else "timestamp", np.int64), field.type)
        if name == "timestampType":
            return pa.array(self._joined("timestamp_type", np.int32), field.type)
        return self._timestamps(field.type) if name == "timestamp" else self._headers(field.type)

    def _joined(self, name: str, dtype: Any) -> Any:
        parts = self._parts[name]
        return np.concatenate(parts) if parts else np.empty(0, dtype)

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

    def _timestamps(self, type_: pa.DataType) -> pa.Array:
        millis, types = self._joined("timestamp", np.int64), self._joined("timestamp_type", np.int32)
        if len(millis) and (int(millis.max()) > MAX_MILLIS or int(millis.min()) < -MAX_MILLIS or int(types.min()) < 0):
            beyond = (millis > MAX_MILLIS) | (millis < -MAX_MILLIS)
            self.timestamps_out_of_range += int(np.count_nonzero(beyond & (types >= 0)))
            null = beyond | (types < 0)
            return pa.array(np.where(null, 0, millis) * 1000, pa.int64(), mask=null).cast(type_)
        np.multiply(millis, 1000, out=millis)  # `_joined` gave a copy
        return pa.array(millis, pa.int64()).cast(type_)

    def _headers(self, type_: pa.DataType) -> pa.Array:
        counts = self._joined("header_count", np.int32)
        if not counts.any():
            return pa.nulls(self.rows, type_)
        keys, values = self._column("header_key", 0, 0).finish(pa.string()), self._column("header_value", 0, 0).finish(pa.binary())
        pairs = pa.StructArray.from_arrays([_as_text(keys), values], fields=HEADER_FIELDS)
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        present = np.packbits(counts > 0, bitorder="little")
        nulls = int(np.count_nonzero(counts == 0))
        return pa.Array.from_buffers(type_, self.rows, [pa.py_buffer(present), pa.py_buffer(offsets)], nulls, children=[pairs])


def _size(columns: RecordColumns) -> int:
    """What all rows of a chunk count for: the end of `BatchBuilder._sizes`, without an array."""
    size = ROW_BYTES * columns.rows + HEADER_BYTES * columns.headers
    for lengths in (columns.key_length, columns.value_length):
        size += 0 if lengths is None else core.total_length(lengths, columns.rows)
    for lengths in (columns.header_key_length, columns.header_value_length):
        size += 0 if lengths is None else core.total_length(lengths, columns.headers)
    return size


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


def reader(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader:
    """Record batches of one schema as a reader, which is what Arrow's stream interface hands on."""
    return pa.RecordBatchReader.from_batches(schema, batches)
