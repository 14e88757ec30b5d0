"""Columns to build batches from: what users hold (lists, NumPy, Arrow) as spans, which the core takes.

Arrow arrays are known by what they offer, so nothing of pyarrow is imported; their keys, values and headers are not
copied.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ..types import Buffer, HeaderSpans, IntArray, LengthArray, RecordColumns, Spans

_OFFSET_TYPES = {"binary": np.int32, "string": np.int32, "large_binary": np.int64, "large_string": np.int64}


class Columns(NamedTuple):
    """Records as columns, of `rows` rows; None is all null, no timestamp, the next offset, no headers."""

    rows: int
    keys: Spans | None
    values: Spans | None
    timestamps: IntArray | None
    offsets: IntArray | None
    headers: HeaderSpans | None

    def __repr__(self) -> str:
        there = [name for name, column in self._asdict().items() if name != "rows" and column is not None]
        return f"<kafkafmt columns of {self.rows} records: {', '.join(there) or 'all null'}>"


def columns_of(key: Any = None, value: Any = None, timestamp: Any = None, headers: Any = None, offset: Any = None) -> Columns:
    """Columns out of whatever holds them, all of one length.

    key, value: bytes or None in a list, tuple or pandas Series; a NumPy array of objects, of type S (which has no trailing zeros)
    or of rows of uint8; an Arrow array (binary, string, fixed-size binary; chunked too) or a Polars Series; Spans; None for all null.
    timestamp: milliseconds, a number for all or an array, null for -1; NumPy's or Arrow's times in any unit.
    headers: pairs of key and value for each record, or a dict, None for none; Arrow's lists of structs, or maps.
    offset: integers.
    """
    given = {"key": key, "value": value, "timestamp": None if np.isscalar(timestamp) else timestamp, "headers": headers, "offset": offset}
    counts = {name: _length(name, column) for name, column in given.items() if column is not None}
    if len(set(counts.values())) != 1:
        lengths = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise ValueError(f"columns of one length are needed: {lengths}" if counts else "at least one column is needed")
    count = next(iter(counts.values()))
    if np.isscalar(timestamp):
        timestamp = np.full(count, timestamp, np.int64)
    return Columns(
        count,
        None if key is None else binary_column(key),
        None if value is None else binary_column(value),
        None if timestamp is None else _numbers(timestamp),
        None if offset is None else _numbers(offset),
        None if headers is None else _headers(headers),
    )


def decoded(source: Buffer, columns: RecordColumns) -> Columns:
    """Decoded records as columns to build from, with their offsets; columns that were not asked for are None."""
    keys, values, headers = None, None, None
    if columns.key_position is not None and columns.key_length is not None:
        keys = Spans(source, columns.key_position, columns.key_length)
    if columns.value_position is not None and columns.value_length is not None:
        values = Spans(source, columns.value_position, columns.value_length)
    if columns.headers:
        assert columns.header_start is not None
        assert columns.header_count is not None
        assert columns.header_key_position is not None
        assert columns.header_key_length is not None
        assert columns.header_value_position is not None
        assert columns.header_value_length is not None
        headers = HeaderSpans(
            columns.header_start,
            columns.header_count,
            Spans(source, columns.header_key_position[: columns.headers], columns.header_key_length[: columns.headers]),
            Spans(source, columns.header_value_position[: columns.headers], columns.header_value_length[: columns.headers]),
        )
    return Columns(columns.rows, keys, values, columns.timestamp, columns.offset, headers)


def _length(name: str, column: Any) -> int:
    if isinstance(column, str | bytes | bytearray | memoryview | dict) or not hasattr(column, "__len__"):
        raise TypeError(f"{name} is a column, such as a list or an array, not {column!r}")
    return len(column.lengths) if isinstance(column, Spans) else len(column.starts) if isinstance(column, HeaderSpans) else len(column)


def _arrow(column: Any) -> Any:
    """The column as one Arrow array, None if it is something else."""
    if hasattr(column, "to_arrow"):  # Polars
        column = column.to_arrow()
    if hasattr(column, "combine_chunks"):
        column = column.combine_chunks()
    if not hasattr(column, "buffers") or not hasattr(column, "null_count"):
        return None
    return column.dictionary_decode() if hasattr(column, "dictionary_decode") else column


def binary_column(column: Any) -> Spans:
    """Keys or values, held in whatever way, as spans."""
    if isinstance(column, Spans):
        return column
    array = _arrow(column)
    if array is not None:
        return _arrow_binary(array)
    if isinstance(column, np.ndarray) and (column.dtype.kind == "S" or (column.dtype == np.uint8 and column.ndim == 2)):
        return _fixed(column)
    return _joined(column)


def _joined(column: Iterable[Any]) -> Spans:
    """Bytes-like objects and None, copied together."""
    parts = []
    for o in column:
        if o is not None and type(o) is not bytes:
            try:
                o = bytes(memoryview(o))
            except TypeError:
                raise TypeError(f"a column holds bytes-like objects or None, not {type(o).__name__}") from None
        parts.append(o)
    lengths = np.fromiter((-1 if p is None else len(p) for p in parts), np.int32, len(parts))
    return Spans(b"".join(p for p in parts if p is not None), _starts(lengths), lengths)


def _starts(lengths: LengthArray) -> IntArray:
    """Where each of these byte strings begins if all lie one behind the other."""
    starts = np.zeros(len(lengths), np.int64)
    np.cumsum(np.maximum(lengths[:-1], 0), out=starts[1:])
    return starts


def _fixed(column: np.ndarray) -> Spans:
    width = column.dtype.itemsize if column.dtype.kind == "S" else column.shape[1]
    rows = np.ascontiguousarray(column)
    lengths = np.full(len(rows), width, np.int32)
    if column.dtype.kind == "S":
        lengths[:] = np.char.str_len(rows)
    return Spans(rows.view(np.uint8).reshape(-1), np.arange(len(rows), dtype=np.int64) * width, lengths)


def _present(array: Any) -> np.ndarray:
    """Which elements of an Arrow array are not null."""
    bits = np.frombuffer(array.buffers()[0], np.uint8)
    present: np.ndarray = np.unpackbits(bits, count=array.offset + len(array), bitorder="little")[array.offset :].astype(bool)
    return present


def _arrow_binary(array: Any) -> Spans:
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
        ends = np.frombuffer(offsets, _OFFSET_TYPES[kind])[array.offset : array.offset + n + 1] if n else np.zeros(1, np.int64)
        positions, sizes = ends[:-1].astype(np.int64), np.diff(ends)
    elif "view" in kind:
        return _joined(None if o is None else o.encode() if isinstance(o, str) else o for o in array.to_pylist())
    else:
        raise TypeError(f"keys and values are binary or string, not Arrow's {kind}")
    if n and int(sizes.max()) > np.iinfo(np.int32).max:
        raise ValueError("a key or value has more than 2**31 - 1 bytes")
    lengths = sizes.astype(np.int32)
    if array.null_count:
        lengths[~_present(array)] = -1
    return Spans(data, positions, lengths)


def _numbers(column: Any) -> IntArray:
    """Integers, or times as milliseconds; -1 for null."""
    array = _arrow(column)
    if array is not None:
        if array.null_count and not str(array.type).startswith("timestamp"):
            array = array.fill_null(-1)
        column = array.to_numpy(zero_copy_only=False)
    elif hasattr(column, "to_numpy"):  # pandas
        column = column.to_numpy()
    elif not isinstance(column, np.ndarray):
        column = np.array([-1 if n is None else n for n in column])
    if column.dtype.kind == "M":
        none = np.isnat(column)
        column = column.astype("datetime64[ms]").astype(np.int64)
        column[none] = -1
    if column.dtype.kind not in "iu" and len(column):
        raise TypeError(f"timestamps and offsets are integers or times, not {column.dtype}")
    return np.ascontiguousarray(column, np.int64)


def _headers(column: Any) -> HeaderSpans:
    if isinstance(column, HeaderSpans):
        return column
    array = _arrow(column)
    if array is None:
        return _pairs(column)
    if hasattr(array, "keys") and hasattr(array, "items"):  # a map
        keys, values = array.keys, array.items
    else:
        keys, values = array.values.field(0), array.values.field(1)
    ends = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    counts = np.diff(ends).astype(np.int32)
    if array.null_count:
        counts[~_present(array)] = 0
    return HeaderSpans(np.ascontiguousarray(ends[:-1]), counts, _arrow_binary(keys), _arrow_binary(values))


def _pairs(column: Iterable[Any]) -> HeaderSpans:
    rows = [list(headers.items() if isinstance(headers, dict) else headers or ()) for headers in column]
    counts = np.fromiter((len(headers) for headers in rows), np.int32, len(rows))
    pairs = [pair for headers in rows for pair in headers]
    keys = [key.encode() if isinstance(key, str) else key for key, _ in pairs]
    return HeaderSpans(_starts(counts), counts, _joined(keys), _joined(value for _, value in pairs))
