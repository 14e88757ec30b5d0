"""The plain values that cross floors: the table of batches, the columns of records."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .errors import KafkaFormatError

if TYPE_CHECKING:
    from typing_extensions import Buffer as _Buffer

    Buffer = _Buffer | npt.NDArray[Any]  # NumPy's stubs make an array a buffer from Python 3.12 on only
else:
    Buffer = Any

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
"""

COLUMNS = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")
"""Names of the columns that `decode_records` can fill."""

IntArray = npt.NDArray[np.int64]
LengthArray = npt.NDArray[np.int32]
ByteArray = npt.NDArray[np.uint8]
BatchTable = npt.NDArray[np.void]
"""Rows of BATCH_DTYPE."""


class Scan(NamedTuple):
    """What a shallow walk did.

    count: rows filled. position: where it stopped, the start of the first batch not taken. error: what stands there,
    or None where the table is full or the input ends (inside a batch if `position` is not its end).
    """

    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody misses
    position: int
    error: KafkaFormatError | None


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
        key_position, key_length    int64, int32
        value_position, value_length
        header_start, header_count  int64, int32: a record's headers in the next four arrays
        header_key_position, header_key_length, header_value_position, header_value_length

    `rows` and `headers` say how much is filled, `cursor` where decoding goes on: batch, records of it already given
    out, position behind them, last offset delta seen.
    """

    def __init__(self, capacity: int, names: Collection[str] = COLUMNS, header_capacity: int = 0) -> None:
        unknown = set(names) - set(COLUMNS)
        if unknown:
            raise ValueError(f"unknown column {sorted(unknown)[0]!r}; there are {', '.join(COLUMNS)}")
        if capacity < 1:
            raise ValueError("capacity must be at least 1")
        self.capacity = capacity
        self.names = tuple(n for n in COLUMNS if n in names)
        self.rows = 0
        self.headers = 0
        self.cursor: IntArray = np.zeros(4, np.int64)

        def column(name: str, dtype: Any) -> Any:
            return np.empty(capacity, dtype) if name in names else None

        self.offset: IntArray | None = column("offset", np.int64)
        self.timestamp: IntArray | None = column("timestamp", np.int64)
        self.timestamp_type: LengthArray | None = column("timestamp_type", np.int32)
        self.key_position: IntArray | None = column("key", np.int64)
        self.key_length: LengthArray | None = column("key", np.int32)
        self.value_position: IntArray | None = column("value", np.int64)
        self.value_length: LengthArray | None = column("value", np.int32)
        self.header_start: IntArray | None = column("headers", np.int64)
        self.header_count: LengthArray | None = column("headers", np.int32)
        self.header_capacity = 0
        self.header_key_position: IntArray | None = None
        self.header_key_length: LengthArray | None = None
        self.header_value_position: IntArray | None = None
        self.header_value_length: LengthArray | None = None
        if "headers" in names:
            self.grow_headers(header_capacity or max(capacity, 16))

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

    def reset(self) -> None:
        """Forget the rows and the cursor: ready for another table of batches."""
        self.clear()
        self.cursor[:] = 0
