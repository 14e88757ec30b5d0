"""Build columns whose arrays can grow. Their memory comes from a BufferPool, and Arrow uses it without a copy."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from .._backend import core
from ..types import Buffer, ByteArray, CopiedColumns
from .buffer_pool import shared_pool

TARGET_BYTES = 8 << 20
MAX_ROWS = 1 << 17
GROWTH = 8
"""Factor by which an array grows. Each time an array grows, its items are copied. With a factor of
2, these copies would have the same total size as the first Arrow record batch. Unused capacity
costs little, because the operating system provides a page of memory only when the page is first
written.
"""
COPY_SLACK = 160
"""Unused bytes after the data. The native core copies short values in steps, which can write past their end."""


class GrowingArray:
    """A NumPy array that can grow. Its memory comes from a BufferPool, and Arrow uses it without a copy."""

    def __init__(self, dtype: Any, room: int) -> None:
        self.dtype: Any = np.dtype(dtype)
        self.array: Any = self._taken(max(room, 1))

    def _taken(self, items: int) -> Any:
        self._memory: ByteArray | None = shared_pool.take(items * self.dtype.itemsize)
        return self._memory[: items * self.dtype.itemsize].view(self.dtype)

    def ensure(self, room: int) -> None:
        """If the array has fewer than `room` items, replace it with a larger array that begins with the same items."""
        if room > len(self.array):
            before = self.array
            self.array = self._taken(max(room, 2 * len(before)))
            self.array[: len(before)] = before

    def finish(self, n: int) -> pa.Buffer:
        """Return the first `n` items as an Arrow buffer. The array cannot be used afterwards."""
        memory, used, room = self._memory, n * self.dtype.itemsize, len(self.array)
        assert memory is not None
        self._memory = self.array = None
        if n < room // 2:  # copy the items, so that a small Arrow buffer does not keep a large array in memory
            return pa.py_buffer(memory[:used].copy())
        return pa.py_buffer(memory).slice(0, used)


class BinaryColumn:
    """Builds a binary or string column by copying values from other buffers into Arrow buffers."""

    def __init__(self, rows: int, room: int) -> None:
        self.offsets: GrowingArray = GrowingArray(np.int32, rows + 1)
        self.offsets.array[0] = 0
        self.data: GrowingArray = GrowingArray(np.uint8, room + COPY_SLACK)
        self.validity: ByteArray = np.zeros((len(self.offsets.array) + 7) // 8, np.uint8)
        self.rows: int = 0
        self.filled: int = 0
        self.nulls: int = 0

    def append(self, source: Buffer, positions: Any, lengths: Any, n: int, size: int) -> None:
        """Append `n` values, which are copied from `source` and have `size` bytes in total."""
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
        """Return the column. No more values can be appended afterwards."""
        validity = pa.py_buffer(self.validity) if self.nulls else None
        buffers = [validity, self.offsets.finish(self.rows + 1), self.data.finish(self.filled)]
        return pa.Array.from_buffers(type_, self.rows, buffers, self.nulls)


class BytesSide:
    """Copies the keys or the values of records into an Arrow array, for records whose other side is decoded."""

    # The core copies either both sides of a record or none.

    def __init__(self) -> None:
        self._column = BinaryColumn(1 << 12, 1 << 18)

    @property
    def size(self) -> int:
        return self._column.filled

    def add(self, source: Buffer, positions: Any, lengths: Any, offsets: Any, header_ids: Any) -> None:
        rows = len(lengths)
        self._column.append(source, positions, lengths, rows, core.total_length(lengths, rows))

    def finish(self) -> tuple[pa.Array]:
        column, self._column = self._column, BinaryColumn(self._column.rows or 1, self._column.filled)
        return (column.finish(pa.binary()),)


class ArrowColumns(CopiedColumns):
    """Decoded records as columns, in arrays that can be enlarged. Arrow reads these arrays without a copy."""

    capacity: int
    rooms: dict[str, int]

    def __init__(self, names: Iterable[str], spans: Collection[str] = ()) -> None:
        self._arrays: dict[str, GrowingArray] = {}
        super().__init__(1 << 12, tuple(names), room=1 << 18, spans=spans)

    def _make(self, attribute: str, items: int, dtype: Any) -> Any:
        self._arrays[attribute] = numbers = GrowingArray(dtype, items)
        setattr(self, attribute, numbers.array)
        return numbers.array

    def filled(self, name: str) -> int:
        """Return the total size of all keys or of all values, in bytes."""
        return int(getattr(self, f"{name}_offsets")[self.rows])

    def begin(self, capacity: int, rooms: dict[str, int]) -> None:
        """Create new arrays of the given sizes. The previous arrays cannot be reused, because Arrow refers to them."""
        self.capacity, self.rooms = capacity, rooms
        self.rows = self.headers = 0
        self._make_arrays()

    def enlarge(self, target_bytes: int) -> bool:
        """Multiply the capacity of each array by GROWTH, and keep the rows. Return False if all have their maximum."""
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
        """Return the first `items` of an array as an Arrow buffer. The array is unusable until `begin` is called."""
        setattr(self, attribute, None)
        return self._arrays[attribute].finish(items)

    def take_binary(self, name: str, type_: pa.DataType) -> pa.Array:
        """Return the keys or the values as an Arrow array."""
        rows, filled, validity = self.rows, self.filled(name), getattr(self, f"{name}_validity")[: (self.rows + 7) // 8]
        bits = None if (validity == 255).all() else pa.py_buffer(validity)
        buffers = [bits, self.take(f"{name}_offsets", rows + 1), self.take(f"{name}_data", filled)]
        return pa.Array.from_buffers(type_, rows, buffers, 0 if bits is None else -1)
