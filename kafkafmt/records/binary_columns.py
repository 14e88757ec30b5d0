"""Convert columns of keys and values, such as Arrow arrays, to positions and lengths in a buffer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..types import IntArray, LengthArray, Spans

_OFFSET_TYPES = {"binary": np.int32, "string": np.int32, "large_binary": np.int64, "large_string": np.int64}
_VIEW_TYPES = ("binary_view", "string_view")
_MAX_LENGTH = 2**31 - 1
_NOT_BYTES_LIKE = (np.generic, np.ma.MaskedArray)


def arrow_array(column: Any, name: str) -> Any:
    """Return an Arrow or Polars column as one array without dictionary encoding; None for other columns."""
    if hasattr(column, "to_arrow"):  # a Polars Series
        if str(getattr(column, "dtype", "")) == "Object":  # Polars would export the addresses of the objects.
            raise TypeError(f"{name} is a Polars Series of Python objects; pass a list")
        column = column.to_arrow()
    if hasattr(column, "combine_chunks") and hasattr(column, "chunks"):
        column = column.combine_chunks()
        if hasattr(column, "chunks"):
            raise ValueError(f"{name} has more bytes than one Arrow array can hold; pass its chunks one at a time")
    if not hasattr(column, "buffers") or not hasattr(column, "null_count"):
        return None
    return column.dictionary_decode() if hasattr(column, "dictionary_decode") else column


def present(array: Any) -> np.ndarray:
    """Return a boolean array that is True for each non-null element of an Arrow array."""
    if str(array.type) == "null":
        return np.zeros(len(array), bool)
    bitmap = array.buffers()[0]
    if bitmap is None:
        return np.ones(len(array), bool)
    bits = np.frombuffer(bitmap, np.uint8)
    found: np.ndarray = np.unpackbits(bits, count=array.offset + len(array), bitorder="little")[array.offset :].astype(
        bool
    )
    return found


def starts_of(lengths: LengthArray) -> IntArray:
    """Return the start position of each value in a buffer that contains values of the given lengths back to back."""
    starts = np.zeros(len(lengths), np.int64)
    np.cumsum(np.maximum(lengths[:-1], 0), out=starts[1:])
    return starts


def binary_column(column: Any, name: str = "keys") -> Spans:
    """Convert a column of keys or values to `Spans`. `columns_of` documents the accepted types."""
    if isinstance(column, Spans):
        return exact_spans(column, name)
    refuse_masked(column, name)
    array = arrow_array(column, name)
    if array is not None:
        return arrow_binary(array, name)
    if isinstance(column, np.ndarray):
        if (column.dtype.kind == "S" and column.ndim == 1) or (column.dtype == np.uint8 and column.ndim == 2):
            return _fixed(column)
        if column.dtype.kind != "O":
            raise TypeError(
                f"{name} is a NumPy array of {column.dtype} with {column.ndim} dimensions; "
                "it must have dtype object or S and one dimension, or dtype uint8 and two"
            )
    return joined(column, name)


def refuse_masked(column: Any, name: str) -> None:
    """Raise TypeError if the column is a masked array. NumPy would return the values under the mask."""
    if isinstance(column, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; pass a list that contains None for each masked value")


def exact_spans(spans: Spans, name: str) -> Spans:
    """Convert the positions and lengths of values to the dtypes that the native code requires."""
    positions = exact_integers(spans.positions, np.int64, f"{name} (positions)")
    lengths = exact_integers(spans.lengths, np.int32, f"{name} (lengths)")
    return (
        spans if positions is spans.positions and lengths is spans.lengths else Spans(spans.buffer, positions, lengths)
    )


def exact_integers(column: Any, dtype: Any, name: str) -> Any:
    """Convert an array of integers to a contiguous array of `dtype`, or return it if it is one."""
    # ValueError: an integer does not fit into `dtype`. TypeError: there are several dimensions, or
    # no integers.
    if isinstance(column, np.ndarray) and column.dtype == dtype and column.ndim == 1 and column.flags.c_contiguous:
        return column
    array = np.asarray(column)
    wanted = np.dtype(dtype)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
        raise TypeError(
            f"{name} is an array of {array.dtype} with {array.ndim} dimensions; it must be {wanted} with one dimension"
        )
    if len(array):
        limits = np.iinfo(wanted)
        for i in (int(array.argmin()), int(array.argmax())):
            if not limits.min <= int(array[i]) <= limits.max:
                raise ValueError(f"{name}, row {i}: {int(array[i])} does not fit into {wanted}")
    return np.ascontiguousarray(array, wanted) if len(array) else np.zeros(0, wanted)


def joined(column: Iterable[Any], name: str, rows: list[int] | None = None) -> Spans:
    """Copy bytes-like objects into one buffer, and return their positions and lengths (-1 for None)."""
    # Error messages name the row numbers in `rows`; by default, rows are numbered from 0.
    parts: list[bytes | None] = []
    for o in column:
        if o is not None and type(o) is not bytes:
            o = _as_bytes(o, name, len(parts) if rows is None else rows[len(parts)])
        parts.append(o)
    sizes = np.fromiter((-1 if p is None else len(p) for p in parts), np.int64, len(parts))
    check_sizes(sizes, name)
    lengths = sizes.astype(np.int32)
    return Spans(b"".join(p for p in parts if p is not None), starts_of(lengths), lengths)


def _as_bytes(o: Any, name: str, row: int) -> bytes:
    """Return the bytes of a bytes-like object."""
    # NumPy scalars other than `numpy.bytes_`, and masked arrays, are errors, although they support
    # the buffer protocol.
    try:
        view = None if isinstance(o, _NOT_BYTES_LIKE) and not isinstance(o, bytes) else memoryview(o)
    except TypeError:
        view = None
    if view is None or view.itemsize != 1:
        raise TypeError(f"{name}, row {row}: expected a bytes-like object or None, not {type(o).__name__}")
    return bytes(view)


def check_sizes(sizes: np.ndarray, name: str) -> None:
    """Raise ValueError if a key or value is larger than Kafka allows."""
    if len(sizes) and int(sizes.max()) > _MAX_LENGTH:
        raise ValueError(
            f"{name}, row {int(sizes.argmax())}: {int(sizes.max())} bytes exceed the limit of {_MAX_LENGTH}"
        )


def _fixed(column: np.ndarray) -> Spans:
    width = column.dtype.itemsize if column.dtype.kind == "S" else column.shape[1]
    rows = np.ascontiguousarray(column)
    lengths = np.full(len(rows), width, np.int32)
    if column.dtype.kind == "S":
        lengths[:] = np.char.str_len(rows)
    return Spans(rows.view(np.uint8).reshape(-1), np.arange(len(rows), dtype=np.int64) * width, lengths)


def arrow_binary(array: Any, name: str) -> Spans:
    """Return the positions and lengths of the values in an Arrow binary or string array, without a copy."""
    kind, n = str(array.type), len(array)
    if kind == "null":
        return Spans(b"", np.zeros(n, np.int64), np.full(n, -1, np.int32))
    if kind.startswith("fixed_size_binary"):
        width = array.type.byte_width
        data = array.buffers()[1] or b""
        positions, sizes = (np.arange(n, dtype=np.int64) + array.offset) * width, np.full(n, width, np.int64)
    elif kind in _OFFSET_TYPES:
        _, offsets, data = array.buffers()
        data = data or b""
        ends = (
            np.frombuffer(offsets, _OFFSET_TYPES[kind])[array.offset : array.offset + n + 1]
            if n
            else np.zeros(1, np.int64)
        )
        positions, sizes = ends[:-1].astype(np.int64), np.diff(ends)
    elif kind in _VIEW_TYPES:
        return joined((o.encode() if isinstance(o, str) else o for o in array.to_pylist()), name)
    else:
        raise TypeError(f"{name} is an Arrow array of {kind}; it must be binary or string")
    if array.null_count:
        sizes = np.where(present(array), sizes, -1)
    check_sizes(sizes, name)
    return Spans(data, positions, sizes.astype(np.int32))
