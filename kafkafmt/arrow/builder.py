"""Convert decoded Kafka records to Arrow record batches with the schema of Spark's Kafka source.

    key binary, value binary, topic string, partition int32, offset int64,
    timestamp timestamp(us, UTC), timestampType int32,
    headers list<struct<key: string, value: binary>>; on request timestampMillis int64

Arrow record batches have a size of about 8 MB, regardless of the sizes of the Kafka batches. For
smaller Arrow record batches, the overhead of about 10 µs per batch would be significant. Larger
Arrow record batches would not fit into the CPU caches, and would block Spark's channel.

Keys and values are decoded directly into the buffers of an Arrow record batch. Only headers are
copied a second time. A pool (buffer_pool.py) provides the memory, and reuses it after the consumer
has released the Arrow record batch. The columns topic and partition of all Arrow record batches are
slices of the same arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

try:
    import pyarrow as pa
except ImportError as _missing:
    from ..support.extras import install_line

    raise ImportError(f"Arrow output needs pyarrow: {install_line('arrow')}") from _missing

from .._backend import core
from ..constants import MICROS_BEYOND, MICROS_NONE
from ..errors import KafkaFormatError
from ..log.groups import CommittedOffset
from ..records import Chunk, read_chunks
from ..records.signatures import BufferSelection
from ..support import arguments
from ..support.sharing import shared
from ..support.text import decode_header_key
from ..types import Buffer, byte_view
from .columns import COPY_SLACK, MAX_ROWS, TARGET_BYTES, ArrowColumns, BinaryColumn, BytesSide, GrowingArray

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
"""Schema of the columns that are returned by default."""

OPTIONAL = pa.schema([("timestampMillis", pa.int64())])
"""Columns that are included only by name. `timestampMillis` may not fit into int64 microseconds."""

_DECODED = {
    "key": ("key",),
    "value": ("value",),
    "offset": ("offset",),
    "timestamp": ("timestamp_micros",),
    "timestampType": ("timestamp_type",),
    "timestampMillis": ("timestamp",),
    "headers": ("headers",),
}
ROW_BYTES, HEADER_BYTES = 16, 8
"""Assumed sizes of a row and of a header, in bytes. Keys and values are not included."""
_COPIED = {"offset": "offset", "timestampMillis": "timestamp", "timestampType": "timestamp_type"}
"""Arrow columns that contain decoded values without conversion, with the names of the arrays of these values."""
_HEADER_SPANS = [(name, f"{name}_position", f"{name}_length") for name in ("header_key", "header_value")]


def schema_of(names: Iterable[str] | None = None) -> pa.Schema:
    """Return the schema of the named columns, in the given order; by default, of the eight default columns."""
    given = arguments.names("columns", names, SCHEMA.names + OPTIONAL.names)
    if given is None:
        return SCHEMA
    return pa.schema([(SCHEMA if name in SCHEMA.names else OPTIONAL).field(name) for name in given])


def selected_schema(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    """Return the schema of the named columns. The types are those of `schema`, or else the usual ones."""
    return pa.schema([schema.field(n) if n in schema.names else schema_of([n]).field(0) for n in names])


def decoded_names(schema: pa.Schema) -> tuple[str, ...]:
    """Return which fields of Kafka records must be decoded for the columns of an Arrow schema."""
    # If the schema contains only topic and partition, offsets are decoded to count the rows.
    wanted = {n for name in schema.names for n in _DECODED.get(name, ())}
    return tuple(sorted(wanted)) or ("offset",)


def _topic_bytes(topic: str) -> bytes:
    """Return a topic name as UTF-8, which Arrow and Spark require, or raise ValueError."""
    # Topic names come from directory names, which can contain any bytes.
    try:
        return topic.encode()
    except UnicodeEncodeError:
        message = f"the topic name {topic!a}, which comes from a directory name, is not valid UTF-8 and cannot be an Arrow string; omit the column topic"
        raise ValueError(message) from None


def repeated_topic(topic: str, rows: int) -> pa.StringArray:
    """Return a column that contains the topic name in each row."""
    # pyarrow imports pandas if it converts Python or NumPy values and pandas is installed. This
    # takes almost a second, so the column is made from buffers.
    raw = _topic_bytes(topic)
    ends = np.arange(rows + 1, dtype=np.int32) * np.int32(len(raw))
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(ends), pa.py_buffer(raw * rows)], 0)


def repeated_partition(partition: int, rows: int) -> pa.Int32Array:
    """Return a column that contains the partition number in each row. As in `repeated_topic`, pandas is not imported."""
    numbers = np.full(rows, partition, np.int32)
    return pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(numbers)], 0)


class SideDecoder(Protocol):
    """Decodes the keys or the values of records into an Arrow array."""

    @property
    def size(self) -> int: ...
    def add(
        self, source: Buffer, positions: Any, lengths: Any, offsets: Any, header_ids: Mapping[int, bytes]
    ) -> None: ...
    def finish(self) -> tuple[pa.Array, ...]: ...


class ArrowBuilder:
    """Builds Arrow record batches of about `target_bytes` bytes from decoded Kafka records of one partition."""

    # `timestamps_out_of_range` counts timestamps that int64 microseconds cannot hold. The column
    # contains null for them. `built_bytes` is the estimated size of all Arrow record batches. A side
    # with a decoder has three columns: the decoded values, the errors and the raw bytes.

    def __init__(
        self,
        topic: str,
        partition: int,
        schema: pa.Schema = SCHEMA,
        target_bytes: int = TARGET_BYTES,
        decoders: Mapping[str, SideDecoder] | None = None,
    ) -> None:
        self.schema = schema
        self.target_bytes = target_bytes
        names = set(decoded_names(schema))
        self.decoders: Mapping[str, SideDecoder] = decoders or {}
        self._decoders: dict[str, SideDecoder] = {}
        if decoders:
            names |= {*decoders, "offset", "headers"}
            self._decoders = {side: decoders.get(side) or BytesSide() for side in ("key", "value") if side in names}
        self._decoded: dict[str, pa.Array] = {}
        self.columns: ArrowColumns = ArrowColumns(sorted(names), self._decoders)
        self.timestamps_out_of_range: int = 0
        self.rows: int = 0
        self.built_bytes: int = 0
        self._with_headers = "headers" in schema.names
        self._header_bytes = 0
        self._header_ends: GrowingArray | None = None
        self._header_parts: dict[str, BinaryColumn] = {}
        self.move_to(topic, partition)

    def move_to(self, topic: str, partition: int) -> None:
        """Set the topic and partition of all following rows. The builder must not contain any rows."""
        if self.rows:
            raise ValueError("rows of the previous partition are pending; call flush() first")
        self._home = topic, partition
        self._constants: dict[str, pa.Array] = {}

    @property
    def bytes(self) -> int:
        """Estimated size, in bytes, of the rows that the builder contains."""
        return (
            ROW_BYTES * self.rows
            + sum(self.columns.filled(name) for name in self.columns.rooms)
            + sum(decoder.size for decoder in self._decoders.values())
            + self._header_bytes
        )

    def add(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """Append the most recently decoded records of `chunk`. Yield an Arrow record batch when it is large enough."""
        columns = self.columns
        failures = list(self._decode(chunk)) if self._decoders else []
        if self._with_headers and columns.headers:
            self._put_headers(chunk.source)
        columns.headers = 0
        if failures:  # the records before it can still be flushed
            first = min(failures, key=_records_before)
            self.rows += _records_before(first)
            raise first
        self.rows = columns.rows
        size = self.bytes
        if size >= self.target_bytes or (
            columns.full and (2 * size >= self.target_bytes or not columns.enlarge(self.target_bytes))
        ):
            yield self.flush()

    def _decode(self, chunk: Chunk) -> Iterator[KafkaFormatError]:
        """Decode keys and values. Yield the errors about records that cannot be decoded, at most one per side."""
        columns = self.columns
        assert columns.offset is not None
        new = slice(self.rows, columns.rows)
        for side, decoder in self._decoders.items():
            positions, lengths = getattr(columns, f"{side}_position"), getattr(columns, f"{side}_length")
            ids = header_ids(chunk.source, columns, side, self.rows) if columns.headers else {}
            try:
                decoder.add(chunk.source, positions[new], lengths[new], columns.offset[new], ids)
            except KafkaFormatError as error:
                yield error

    def flush(self) -> pa.RecordBatch:
        """Remove all rows from the builder, and return them as an Arrow record batch, possibly an empty one."""
        columns, size = self.columns, self.bytes
        scale = 1.06 * self.target_bytes / max(size, 1)
        self.built_bytes += size
        rows = min(max(int(self.rows * scale), 1 << 12), MAX_ROWS)
        rooms = {
            name: min(max(int(columns.filled(name) * scale), 1 << 16), 2 * self.target_bytes) + COPY_SLACK
            for name in columns.rooms
        }
        self._decoded = {
            name: array.slice(0, self.rows)
            for side, decoder in self._decoders.items()
            for name, array in zip(
                (side, f"{side}_error", f"{side}_raw", f"{side}_rest"), decoder.finish(), strict=False
            )
        }
        arrays = [self._array(field) for field in self.schema]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        self.rows = self._header_bytes = 0
        self._header_ends = None
        columns.begin(rows, rooms)
        return batch

    def _put_headers(self, source: Buffer) -> None:
        """Copy the headers of the most recently decoded records from the buffer `source`."""
        columns, start = self.columns, self.rows
        stop, count = columns.rows, columns.headers
        sizes = {name: core.total_length(getattr(columns, lengths), count) for name, _, lengths in _HEADER_SPANS}
        if self._header_ends is None:
            self._header_ends = GrowingArray(np.int32, columns.capacity + 1)
            self._header_ends.array[: start + 1] = 0
            self._header_parts = {name: BinaryColumn(4 * count, 4 * sizes[name]) for name in sizes}
            self._header_rows = start
        ends = self._header_ends
        ends.ensure(stop + 1)
        # The rows between `_header_rows` and `start` have no headers.
        ends.array[self._header_rows + 1 : start + 1] = ends.array[self._header_rows]
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

    def _array(self, field: pa.Field) -> pa.Array:
        name, type_ = field.name, field.type
        if name in self._decoded:
            return self._decoded[name]
        if name in self.columns.rooms:
            return self.columns.take_binary(name, type_)
        if name == "topic" or name == "partition":
            return self._constant(name)
        if name == "timestamp":
            return self._times(type_)
        if name == "headers":
            return self._headers(type_)
        return pa.Array.from_buffers(type_, self.rows, [None, self.columns.take(_COPIED[name], self.rows)], 0)

    def _times(self, type_: pa.DataType) -> pa.Array:
        """Return the column timestamp, in microseconds. Missing and unrepresentable timestamps are null."""
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

    def _constant(self, name: str) -> pa.Array:
        """Return the column `topic` or `partition`. All rows of the column have the same value."""
        known = self._constants.get(name)
        if known is None or len(known) < self.rows:
            size = min(max(self.rows, 1 << 14) * 2, MAX_ROWS)
            known = repeated_topic(self._home[0], size) if name == "topic" else repeated_partition(self._home[1], size)
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


def header_ids(source: Buffer, columns: ArrowColumns, side: str, first: int) -> dict[int, bytes]:
    """Return the schema ids in the headers of the most recently decoded records, by row after `first`."""
    # The last header that is not null counts, as in Confluent's ``DualSchemaIdDeserializer``.
    wanted, view, found = f"__{side}_schema_id".encode(), byte_view(source), {}
    assert columns.header_start is not None
    assert columns.header_count is not None
    names, name_sizes, values, value_sizes = (
        getattr(columns, f"header_{part}")[: columns.headers].tolist()
        for part in ("key_position", "key_length", "value_position", "value_length")
    )
    starts, counts = (
        columns.header_start[first : columns.rows].tolist(),
        columns.header_count[first : columns.rows].tolist(),
    )
    for row, (start, count) in enumerate(zip(starts, counts, strict=True)):
        for h in range(start, start + max(count, 0)):
            if (
                name_sizes[h] == len(wanted)
                and value_sizes[h] >= 0
                and view[names[h] : names[h] + len(wanted)] == wanted
            ):
                found[row] = bytes(view[values[h] : values[h] + value_sizes[h]])
    return found


def _records_before(error: KafkaFormatError) -> int:
    """Return the number of records of a chunk before the one that cannot be decoded."""
    return int(getattr(error, "records_before", 0))


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
    """Collect decoded Kafka records in `builder`, and yield them as Arrow record batches."""
    # The last one may be small, but none is empty. If damaged data raises a KafkaFormatError, the
    # rows before the damage are yielded first. With `limit`, reading ends after that many rows.
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
            enough = builder.rows >= limit
            yield builder.flush().slice(0, limit)
            if enough:
                return
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
    columns = zip(*offsets, strict=True) if offsets else [()] * len(COMMITTED)
    return pa.table([pa.array(column, f.type) for column, f in zip(columns, COMMITTED, strict=True)], schema=COMMITTED)


def reader(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader:
    """Convert Arrow record batches to a RecordBatchReader, which the Arrow C stream interface requires."""
    return pa.RecordBatchReader.from_batches(schema, batches)


def read_table(
    buffer: Buffer | None,
    columns: Sequence[str] | None,
    topic: str,
    partition: int,
    selection: BufferSelection,
    incomplete: str,
) -> pa.Table:
    """Read the records of consecutive batches in a buffer into a pyarrow Table."""
    # `topic` and `partition` are the values of these columns. If `incomplete` is "error", an
    # incomplete batch at the end raises TruncatedError.
    complete = arguments.one_of("incomplete", incomplete, ("error", "ignore")) == "error"
    builder = ArrowBuilder(topic, partition, schema_of(columns))
    return pa.Table.from_batches(
        record_batches(read_chunks(buffer, builder.columns, complete=complete, **selection), builder), builder.schema
    )
