"""The plain values that cross floors: the table of batches, the columns of records."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .constants import MAX_OFFSET
from .errors import KafkaFormatError

if TYPE_CHECKING:
    from typing_extensions import Buffer as _Buffer

    Buffer = _Buffer | npt.NDArray[Any]  # NumPy's stubs make an array a buffer from Python 3.12 on only
else:
    Buffer = Any


def view_of(buffer: Buffer) -> memoryview:
    """Return a memoryview of a buffer."""
    return memoryview(buffer)  # type: ignore[arg-type]  # for NumPy's stubs an array is a buffer from 3.12 on


def byte_view(buffer: Buffer) -> memoryview:
    """Return a one-dimensional memoryview of the bytes of a buffer."""
    return view_of(buffer).cast("B")


BATCH_DTYPE = np.dtype(
    [
        ("position", "i8"),
        ("base_offset", "i8"),
        ("base_timestamp", "i8"),
        ("max_timestamp", "i8"),
        ("producer_id", "i8"),
        ("payload_position", "i8"),
        ("payload_size", "i4"),
        ("size", "i4"),
        ("leader_epoch", "i4"),
        ("crc", "u4"),
        ("last_offset_delta", "i4"),
        ("base_sequence", "i4"),
        ("count", "i4"),
        ("attributes", "i2"),
        ("producer_epoch", "i2"),
        ("magic", "i1"),
    ],
    align=True,
)
"""A row a batch, in native byte order, as a shallow walk finds them.

`position` and `size` (with its first 12 bytes) are the batch's place in the buffer walked; `payload_position` and
`payload_size` that of its records. A caller that decompresses a batch moves the latter two to where the records are.
Of formats 0 and 1 `attributes` are the bits that these use.
"""

COLUMNS = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")
"""Names of the columns that `decode_records` can fill."""

IntArray = npt.NDArray[np.int64]
LengthArray = npt.NDArray[np.int32]
ByteArray = npt.NDArray[np.uint8]
BatchTable = npt.NDArray[np.void]
"""Rows of BATCH_DTYPE."""


def last_offsets(batches: BatchTable) -> IntArray:
    """Return the last offset of each batch.

    If a batch's last offset delta is negative, this is its base offset. If the last offset does not fit into 64 bits, it is 2**63 - 1.
    """
    first = batches["base_offset"]
    last: IntArray = first + np.maximum(batches["last_offset_delta"], 0)
    last[last < first] = MAX_OFFSET
    return last


class Scan(NamedTuple):
    """What a shallow walk did.

    count: rows filled. position: where it stopped, the start of the first batch not taken. error: what stands there,
    or None where the table is full or the input ends (inside a batch if `position` is not its end).
    """

    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody misses
    position: int
    error: KafkaFormatError | None


_ARRAYS: dict[str, list[tuple[str, Any]]] = {
    "offset": [("offset", np.int64)],
    "timestamp": [("timestamp", np.int64)],
    "timestamp_type": [("timestamp_type", np.int32)],
    "key": [("key_position", np.int64), ("key_length", np.int32)],
    "value": [("value_position", np.int64), ("value_length", np.int32)],
    "headers": [("header_start", np.int64), ("header_count", np.int32)],
    "timestamp_micros": [("timestamp_micros", np.int64)],
}
"""Which arrays, a row a record, hold each column; the last one where it is named only."""


class Spans(NamedTuple):
    """A column of byte strings: where each lies in a buffer, and its length, -1 for null. int64 and int32."""

    buffer: Buffer
    positions: IntArray
    lengths: LengthArray


class HeaderSpans(NamedTuple):
    """A column of headers: of each record, where its headers begin in `keys` and `values`, and how many they are."""

    starts: IntArray
    counts: LengthArray
    keys: Spans
    values: Spans


class RecordColumns:
    """Reusable output of `decode_records`: NumPy arrays of one capacity, a row a record.

    Arrays that were not asked for are None. A span is a position in the buffer that was decoded and a length in
    bytes; a null has length -1.

        offset, timestamp           int64; timestamps in milliseconds
        timestamp_type              int32; 0 CreateTime, 1 LogAppendTime, -1 none
        timestamp_micros            int64; the same in microseconds, MICROS_NONE or MICROS_BEYOND where these are not to be had
        key_position, key_length    int64, int32
        value_position, value_length
        header_start, header_count  int64, int32: a record's headers in the next four arrays
        header_key_position, header_key_length, header_value_position, header_value_length

    `rows` and `headers` say how much is filled, `cursor` where decoding goes on: batch, records of it already given
    out, position behind them, last offset delta seen.
    """

    collects = False
    """Whether rows stay until the holder of the columns takes them, or only until the next chunk."""
    full = False
    """Whether decoding has stopped because nothing more fits: set by RecordReader and `decode_run`."""
    max_headers = 1 << 20
    """Headers that one record may have. Decoding a record with more gives a TooLargeError."""
    odd_times = False
    """Whether timestamp_micros may hold a MICROS_NONE or MICROS_BEYOND: set by decoding, for its reader to set back."""
    key_offsets: LengthArray | None = None
    key_data: ByteArray | None = None
    key_validity: ByteArray | None = None
    value_offsets: LengthArray | None = None
    value_data: ByteArray | None = None
    value_validity: ByteArray | None = None

    def __init__(self, capacity: int, names: Collection[str] = COLUMNS, header_capacity: int = 0) -> None:
        unknown = set(names) - set(_ARRAYS)
        if unknown:
            raise ValueError(f"unknown column {sorted(unknown)[0]!r}; there are {', '.join(_ARRAYS)}")
        if capacity < 1:
            raise ValueError("capacity must be at least 1")
        self.capacity = capacity
        self.names = tuple(n for n in _ARRAYS if n in names)
        self.rows = 0
        self.headers = 0
        self.cursor: IntArray = np.zeros(4, np.int64)
        self.offset: IntArray | None = None
        self.timestamp: IntArray | None = None
        self.timestamp_type: LengthArray | None = None
        self.timestamp_micros: IntArray | None = None
        self.key_position: IntArray | None = None
        self.key_length: LengthArray | None = None
        self.value_position: IntArray | None = None
        self.value_length: LengthArray | None = None
        self.header_start: IntArray | None = None
        self.header_count: LengthArray | None = None
        self.header_capacity = 0
        self.header_key_position: IntArray | None = None
        self.header_key_length: LengthArray | None = None
        self.header_value_position: IntArray | None = None
        self.header_value_length: LengthArray | None = None
        self._make_arrays()
        if "headers" in names:
            self.grow_headers(header_capacity or max(capacity, 16))

    def _make_arrays(self) -> None:
        """Those that have a row a record."""
        for name in self.names:
            for attribute, dtype in _ARRAYS[name]:
                setattr(self, attribute, np.empty(self.capacity, dtype))

    def grow_headers(self, capacity: int) -> None:
        """Replace the four header arrays by larger ones; what they held is lost, so only call it with `rows` at 0."""
        self.header_capacity = capacity
        self.header_key_position = np.empty(capacity, np.int64)
        self.header_key_length = np.empty(capacity, np.int32)
        self.header_value_position = np.empty(capacity, np.int64)
        self.header_value_length = np.empty(capacity, np.int32)

    def clear(self) -> None:
        """Forget the rows, keep the cursor: decoding goes on into the same arrays."""
        self.rows = self.headers = 0

    def grow_data(self) -> None:
        """Only where keys and values are copied."""
        raise NotImplementedError

    def reset(self) -> None:
        """Forget the cursor, and the rows unless they are collected: ready for another table of batches."""
        if not self.collects:
            self.clear()
        self.cursor[:] = 0


class CopiedColumns(RecordColumns):
    """The same, with the bytes of keys and values copied together in Arrow's binary layout instead of spans.

        key_offsets, value_offsets      int32, one more than the capacity: where each row's bytes begin, and the next one's
        key_data, value_data            uint8, `room` bytes
        key_validity, value_validity    uint8, a bit a row, least significant first; 1: not null. Bits of rows to come are 1

    Rows of several calls, and of several buffers, stand behind each other until the holder takes them and sets `rows` to 0;
    headers are spans of the buffer that was decoded last. A record longer than the empty data arrays has them replaced by
    larger ones (`grow_data`).
    """

    collects = True

    def __init__(
        self, capacity: int, names: Collection[str] = COLUMNS, header_capacity: int = 0, room: int = 1 << 16
    ) -> None:
        self.rooms = {name: room for name in ("key", "value") if name in names}
        super().__init__(capacity, names, header_capacity)

    def _make_arrays(self) -> None:
        for name in self.names:
            if name in self.rooms:
                self._make(f"{name}_offsets", self.capacity + 1, np.int32)[0] = 0
                self._make(f"{name}_data", self.rooms[name], np.uint8)
                setattr(self, f"{name}_validity", np.full((self.capacity + 7) // 8, 255, np.uint8))
            else:
                for attribute, dtype in _ARRAYS[name]:
                    self._make(attribute, self.capacity, dtype)

    def _make(self, attribute: str, items: int, dtype: Any) -> Any:
        array = np.empty(items, dtype)
        setattr(self, attribute, array)
        return array

    def clear(self) -> None:
        super().clear()
        for validity in (self.key_validity, self.value_validity):
            if validity is not None:
                validity[:] = 255

    def grow_data(self) -> None:
        """Replace the data arrays by ones of twice the room; what they held is lost, so only call it with `rows` at 0."""
        for name, room in self.rooms.items():
            self.rooms[name] = min(2 * room, 2**31 - 1)
            self._make(f"{name}_data", self.rooms[name], np.uint8)
