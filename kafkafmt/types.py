"""Define the NumPy arrays in which batch headers and decoded records are passed between modules."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Collection, Iterator
from copy import copy
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from .constants import MAGIC_V2, MAX_OFFSET
from .errors import KafkaFormatError
from .support.text import shown

if TYPE_CHECKING:
    from typing_extensions import Buffer as _Buffer

    Buffer = _Buffer | npt.NDArray[Any]  # NumPy's type stubs declare arrays as buffers only for Python 3.12 and later.
else:
    Buffer = Any


def view_of(buffer: Buffer) -> memoryview:
    return memoryview(buffer)  # type: ignore[arg-type]  # for NumPy's stubs an array is a buffer from 3.12 on


def byte_view(buffer: Buffer) -> memoryview:
    """Return a one-dimensional memoryview of the bytes of a buffer."""
    return memoryview(buffer).cast("B")  # type: ignore[arg-type]  # as in view_of; a call of it would double the cost


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
"""NumPy dtype of an array of batch headers. Each item describes one batch, in native byte order.

`position` and `size` are the position and size of the batch in the scanned buffer, in bytes. `size`
includes the 12 bytes of the fields offset and length. `payload_position` and `payload_size` are the
position and size of the records. If the records are decompressed, these two fields are changed to
the position and size of the decompressed records. For formats 0 and 1, `attributes` contains only
the bits that these formats use.
"""

TABLE_ROWS = 8192
"""Largest number of batch headers in an array."""

COLUMNS = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")
"""Fields of records that `decode_records` can decode, each into separate arrays."""

IntArray = npt.NDArray[np.int64]
LengthArray = npt.NDArray[np.int32]
ByteArray = npt.NDArray[np.uint8]
BatchTable = npt.NDArray[np.void]
"""NumPy array with dtype BATCH_DTYPE."""


def distinct(values: np.ndarray) -> np.ndarray:
    """Return the distinct numbers of an array, in ascending order."""
    # `numpy.unique` takes five times as long, because it uses a hash table.
    ordered = np.sort(values, axis=None)
    found: np.ndarray = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
    return found


def spans_between(spans: list[tuple[int, int]], low: int, high: int) -> list[tuple[int, int]]:
    """Return the spans that begin in [low, high], and the last span that begins before `low`. `spans` is sorted."""
    start = max(bisect_right(spans, low, key=itemgetter(0)) - 1, 0)
    return spans[start : bisect_right(spans, high, start, key=itemgetter(0))]


def last_offsets(batches: BatchTable) -> IntArray:
    """Return the last offset of each batch in an array of batch headers."""
    # It is the base offset if the last offset delta is negative, and 2**63 - 1 if it does not fit
    # into 64 bits.
    first = batches["base_offset"]
    last: IntArray = first + np.maximum(batches["last_offset_delta"], 0)
    last[last < first] = MAX_OFFSET
    return last


def thinned(rows: BatchTable) -> bool:
    """Return whether one of the batches has fewer records than offsets."""
    return bool(((rows["magic"] == MAGIC_V2) & (rows["count"] <= rows["last_offset_delta"])).any())


def divided_at(batches: BatchTable, borders: IntArray) -> Iterator[BatchTable]:
    """Yield the parts of a table that the row numbers in `borders` separate. Empty parts are omitted."""
    # For each part, `np.split` would take forty times as long as a slice.
    for start, end in itertools.pairwise([0, *borders.tolist(), len(batches)]):
        if start < end:
            yield batches[start:end]


def last_offset(batch: np.void) -> int:
    """Return the last offset of one batch, computed as in `last_offsets`."""
    return min(int(batch["base_offset"]) + max(int(batch["last_offset_delta"]), 0), MAX_OFFSET)


ProducerBatch = tuple[int, int, int, int, int, int, int]
"""Producer id and epoch, base offset, last offset delta, base sequence, maximum timestamp, and attributes."""


MarkerT = TypeVar("MarkerT", bound=tuple[int, int, int])
"""Type of a transaction marker: kind, timestamp in ms, and coordinator epoch."""


class BatchSummary(NamedTuple):
    wrappers: bool  # a header belongs to a wrapper message and lacks the number of records
    records: int  # in all batches except wrapper messages, including control records
    attributes: int  # bitwise OR of the attributes of all batches
    codecs: int  # bit mask of the codec ids
    magics: int  # bit mask of the magic values
    min_timestamp: int  # smallest base timestamp in ms, or -1
    max_timestamp: int  # largest maximum timestamp in ms, or -1
    producers: bool  # a batch has a producer id
    negative_delta: bool  # a batch has a negative last offset delta
    lowest: int  # smallest base offset; 2**63 - 1 without batches
    highest: int  # largest base offset; -2**63 without batches
    lowest_epoch: int  # smallest leader epoch; 2**31 - 1 without batches
    highest_epoch: int  # largest leader epoch; -2**31 without batches
    offsets: int  # number of offsets in the ranges of all batches; 1 for a wrapper message
    increasing: bool  # each offset range is above that of the previous batch
    dense: bool  # no offset is missing, and the counts of all batches add up to `offsets`
    first: int  # base offset of the first batch; 0 without batches
    last: int  # last offset of the last batch; -1 without batches
    start: int  # position at which the first batch begins; 0 without batches
    end: int  # position at which the last batch ends; 0 without batches
    adjacent: bool  # each batch begins where the previous one ends


IndexState = tuple[int, int, int, int]
"""State of a segment whose indexes are built: position of the batch with the last entry in the offset
index, largest timestamp of all batches, last offset of the batch with this timestamp, and timestamp of the
last entry in the time index.
"""


class Scan(NamedTuple):
    """Result of a scan of batch headers, without the records."""

    count: int  # type: ignore[assignment]  # hides tuple.count, which is not used
    position: int  # start of the first batch whose header was not read
    error: KafkaFormatError | None  # at `position`; None: the output array is full, or the input ended


_ARRAYS: dict[str, list[tuple[str, Any]]] = {
    "offset": [("offset", np.int64)],
    "timestamp": [("timestamp", np.int64)],
    "timestamp_type": [("timestamp_type", np.int32)],
    "key": [("key_position", np.int64), ("key_length", np.int32)],
    "value": [("value_position", np.int64), ("value_length", np.int32)],
    "headers": [("header_start", np.int64), ("header_count", np.int32)],
    "timestamp_micros": [("timestamp_micros", np.int64)],
}
"""Arrays of each field, with one item per record. "timestamp_micros" is not in COLUMNS."""


class Spans(NamedTuple):
    """Byte strings, stored as positions (int64) and lengths (int32, -1 for null) in a buffer."""

    buffer: Buffer
    positions: IntArray
    lengths: LengthArray


class HeaderSpans(NamedTuple):
    """Headers of many records. Their keys and values are stored as positions and lengths in a buffer."""

    starts: IntArray  # int64; index of the first header of each record in `keys` and `values`
    counts: LengthArray  # int32; number of headers of each record
    keys: Spans
    values: Spans


class RecordColumns:
    """Reusable output of `decode_records`: NumPy arrays of equal capacity, with one item per record.

    The arrays of fields that were not requested are None. Positions and lengths are in bytes.
    Positions are relative to the start of the decoded buffer. Null values have the length -1.

        offset, timestamp           int64; timestamps in milliseconds
        timestamp_type              int32; 0 CreateTime, 1 LogAppendTime, -1 none
        timestamp_micros            int64; timestamps in microseconds, MICROS_NONE if there is none,
                                    MICROS_BEYOND if int64 cannot hold it
        key_position, key_length    int64, int32
        value_position, value_length
        header_start, header_count  int64, int32; a record's headers in the next four arrays
        header_key_position, header_key_length, header_value_position, header_value_length

    Attributes
    ----------
    capacity : int
        Number of records that the arrays can hold.
    rows, headers : int
        Number of records and headers that the arrays contain.
    cursor : array of int64, shape (4,)
        State from which decoding resumes. It consists of the index of the current batch, the number
        of its records that were already decoded, the position after these records, and the offset
        delta of the last of these records.
    """

    collects = False
    """Whether records of several calls are collected. Otherwise, each call overwrites those of the previous one."""
    full = False
    """Whether decoding stopped because the arrays are full. Set by `RecordReader` and `decode_plain_batches`."""
    max_headers = 1 << 20
    """Largest number of headers in a record. If a record has more headers, a TooLargeError is raised."""
    odd_times: bool = False
    """timestamp_micros can contain MICROS_NONE or MICROS_BEYOND. The decoder sets it; its reader resets it."""
    late_times: bool = False
    """`timestamp` can be after the maximum timestamp of its batch. The decoder sets it; its reader resets it."""
    odd_offsets: bool = False
    """Whether a decoded batch can have odd offset deltas: a delta that is negative, above the last offset
    delta, or not above the previous one. The decoder sets this attribute to True, and the code that
    reads it resets it to False.
    """

    odd_codec_ends: bool = False
    """Compressed data of a decoded batch has an odd end. `RecordReader` sets it; its reader resets it."""

    def take_unusual(self) -> bool:
        """Return whether a decoded batch can be unusual (see the attributes above), and reset these attributes."""
        unusual = self.late_times or self.odd_offsets or self.odd_codec_ends
        self.late_times = self.odd_offsets = self.odd_codec_ends = False
        return unusual

    key_offsets: LengthArray | None = None
    key_data: ByteArray | None = None
    key_validity: ByteArray | None = None
    value_offsets: LengthArray | None = None
    value_data: ByteArray | None = None
    value_validity: ByteArray | None = None

    def __init__(self, capacity: int, names: Collection[str] = COLUMNS, header_capacity: int = 0) -> None:
        unknown = set(names) - set(_ARRAYS)
        if unknown:
            raise ValueError(f"there is no column {shown(sorted(unknown)[0])}; the columns are {', '.join(_ARRAYS)}")
        if capacity < 1:
            raise ValueError("capacity must be at least 1")
        self.capacity = capacity
        self.names: tuple[str, ...] = tuple(n for n in _ARRAYS if n in names)
        self.rows: int = 0
        self.headers: int = 0
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
        self.header_capacity: int = 0
        self.header_key_position: IntArray | None = None
        self.header_key_length: LengthArray | None = None
        self.header_value_position: IntArray | None = None
        self.header_value_length: LengthArray | None = None
        self._make_arrays()
        if "headers" in names:
            self.grow_headers(header_capacity or max(capacity, 16))

    def _make_arrays(self) -> None:
        for name in self.names:
            for attribute, dtype in _ARRAYS[name]:
                setattr(self, attribute, np.empty(self.capacity, dtype))

    def grow_headers(self, capacity: int) -> None:
        """Replace the four arrays of header spans with larger ones. `headers` must be 0: old values are not copied."""
        self.header_capacity = capacity
        self.header_key_position = np.empty(capacity, np.int64)
        self.header_key_length = np.empty(capacity, np.int32)
        self.header_value_position = np.empty(capacity, np.int64)
        self.header_value_length = np.empty(capacity, np.int32)

    def clear(self) -> None:
        """Remove all records, but keep the cursor, so that decoding can resume."""
        self.rows = self.headers = 0

    def selected(self, rows: IntArray) -> RecordColumns:
        """Return a copy with only the given rows. The arrays of header keys and values are shared."""
        taken = copy(self)
        for name in self.names:
            for attribute, _ in _ARRAYS[name]:
                setattr(taken, attribute, getattr(self, attribute)[rows])
        taken.rows = taken.capacity = len(rows)
        return taken

    def grow_data(self) -> None:
        """Enlarge the arrays for the bytes of keys and values. Only `CopiedColumns` has these arrays."""
        raise NotImplementedError

    def reset(self) -> None:
        """Reset the decoding position before another array of headers. Rows are removed if `collects` is False."""
        if not self.collects:
            self.clear()
        self.cursor[:] = 0


class CopiedColumns(RecordColumns):
    """Decoded records as NumPy arrays, with copies of keys and values in Arrow's binary layout.

    - `key_offsets`, `value_offsets`: int32 arrays with capacity + 1 items. Item i is the position at
      which the bytes of row i begin.
    - `key_data`, `value_data`: uint8 arrays of `room` bytes, which contain the bytes of all rows.
    - `key_validity`, `value_validity`: uint8 arrays with one bit per row, least significant bit
      first. A bit is 0 only if the row has been filled and is null.

    Records of several calls and buffers are collected, until the caller takes them and sets `rows`
    to 0. Keys and values are copied, but headers are stored as positions in the last decoded
    buffer. Therefore, copy the headers of each buffer before the next buffer is decoded. If a
    single record does not fit into the empty data arrays, `grow_data` replaces the data arrays with
    larger arrays. The sides in `spans` are not copied: their positions are stored, as those of headers.
    """

    collects = True

    def __init__(
        self,
        capacity: int,
        names: Collection[str] = COLUMNS,
        header_capacity: int = 0,
        room: int = 1 << 16,
        spans: Collection[str] = (),
    ) -> None:
        self.rooms: dict[str, int] = {name: room for name in ("key", "value") if name in names and name not in spans}
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
        """Remove all rows, and set all validity bits to 1."""
        super().clear()
        for validity in (self.key_validity, self.value_validity):
            if validity is not None:
                validity[:] = 255

    def grow_data(self) -> None:
        """Double the arrays for the bytes of keys and values. `rows` must be 0: old values are not copied."""
        for name, room in self.rooms.items():
            self.rooms[name] = min(2 * room, 2**31 - 1)
            self._make(f"{name}_data", self.rooms[name], np.uint8)
