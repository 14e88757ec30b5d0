"""Columns to build batches from: what users hold (lists, NumPy, Arrow) as spans, which the core takes.

A column is converted exactly or refused: TypeError and ValueError name the column and the row. Keys and values are in
binary_columns.py, timestamps and offsets in number_columns.py, headers in header_columns.py. Arrow arrays are recognized by their
methods, so pyarrow is not imported; their keys, values and headers are not copied.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..types import Buffer, HeaderSpans, IntArray, RecordColumns, Spans
from .binary_columns import binary_column
from .header_columns import header_column
from .number_columns import offset_column, timestamp_column


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


def columns_of(
    key: Any = None, value: Any = None, timestamp: Any = None, headers: Any = None, offset: Any = None
) -> Columns:
    """Take columns of one length, out of whatever holds them, to build batches from.

    Parameters
    ----------
    key, value : column, optional
        Bytes-like objects or None in a list, tuple or pandas Series; a NumPy array of objects, of type S (whose values have no
        trailing zeros) or of rows of uint8; an Arrow array of binary or string of any kind (large, view, fixed-size, dictionary,
        chunked); a Polars Series; `Spans`. Arrow's and Polars' text is taken as UTF-8. A str and a NumPy array of type U are
        refused: encode them. By default, all are null.
    timestamp : int, numpy.datetime64 or column, optional
        Milliseconds since 1970-01-01 UTC; -1 or null: none. One number for all records, or a column of integers, or of NumPy's or
        Arrow's timestamps or dates. A time finer than milliseconds is rounded down, one before 1970 is refused. By default, none.
    headers : column, optional
        For each record (key, value) tuples, a dict, or None: no headers. Or Arrow's maps, or lists of any kind of structures with
        the fields "key" and "value", in any order.
    offset : column, optional
        Integers, none of them null. By default, records get the next offsets.

    Returns
    -------
    Columns
        For `build_columns` and `BatchBuilder.append_columns`. It refers to the memory of the arrays given.

    Raises
    ------
    TypeError
        A column, or a value in it, has another type: text, floats, booleans, decimals, durations.
    ValueError
        The columns differ in length, or a value cannot be held: an integer beyond 64 bits, a time before 1970, a null offset, a null
        structure among the headers.
    """
    given = {
        "key": key,
        "value": value,
        "timestamp": None if np.isscalar(timestamp) else timestamp,
        "headers": headers,
        "offset": offset,
    }
    counts = {name: _length(name, column) for name, column in given.items() if column is not None}
    if len(set(counts.values())) != 1:
        lengths = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise ValueError(f"columns of one length are needed: {lengths}" if counts else "at least one column is needed")
    count = next(iter(counts.values()))
    return Columns(
        count,
        None if key is None else binary_column(key, "key"),
        None if value is None else binary_column(value, "value"),
        None if timestamp is None else timestamp_column(timestamp, count),
        None if offset is None else offset_column(offset),
        None if headers is None else header_column(headers),
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
            Spans(
                source, columns.header_value_position[: columns.headers], columns.header_value_length[: columns.headers]
            ),
        )
    return Columns(columns.rows, keys, values, columns.timestamp, columns.offset, headers)


def _length(name: str, column: Any) -> int:
    scalar = isinstance(column, str | bytes | bytearray | memoryview | dict) or getattr(column, "ndim", 1) == 0
    if scalar or not hasattr(column, "__len__"):
        raise TypeError(f"{name} is a column, such as a list or an array, not {column!r}")
    return (
        len(column.lengths)
        if isinstance(column, Spans)
        else len(column.starts)
        if isinstance(column, HeaderSpans)
        else len(column)
    )
