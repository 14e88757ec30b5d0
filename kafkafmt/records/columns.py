"""Convert columns of records (lists, NumPy or Arrow arrays) to a form from which batches are built.

If a column cannot be converted exactly, a TypeError or ValueError names the column and the row.
Keys and values are converted in binary_columns.py, timestamps and offsets in number_columns.py, and
headers in header_columns.py.

Arrow arrays are recognized by their methods, so that pyarrow need not be imported. Keys, values and
headers in Arrow arrays are not copied.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..support.text import quantity, shown
from ..types import Buffer, HeaderSpans, IntArray, RecordColumns, Spans
from .binary_columns import binary_column, refuse_masked
from .header_columns import header_column
from .number_columns import offset_column, timestamp_column


class Columns(NamedTuple):
    """Records as columns. Create instances with `columns_of`."""

    rows: int
    """Number of records."""
    keys: Spans | None
    """Keys of the records; None if all keys are null."""
    values: Spans | None
    """Values of the records; None if all values are null."""
    timestamps: IntArray | None
    """Timestamps in ms, with -1 for records without a timestamp; None if no record has a timestamp."""
    offsets: IntArray | None
    """Offsets of the records; None if every record gets the next offset."""
    headers: HeaderSpans | None
    """Headers of the records; None if no record has headers."""

    def __repr__(self) -> str:
        given = [name for name, column in self._asdict().items() if name != "rows" and column is not None]
        return f"<kafkafmt columns of {quantity(self.rows, 'record')}: {', '.join(given) or 'all null'}>"


def columns_of(
    key: Any = None, value: Any = None, timestamp: Any = None, headers: Any = None, offset: Any = None
) -> Columns:
    """Convert columns of records to `Columns`, from which batches are built.

    All columns must have the same length.

    Parameters
    ----------
    key, value : column, optional
        Keys and values. By default, all are null. Each column is one of these:

        - a list, tuple or pandas Series of bytes-like objects and None
        - a NumPy array of dtype object, of dtype S (which drops trailing zero bytes), or of dtype
          uint8 with two dimensions and one row per record
        - an Arrow array of binary or string type, including large, view, fixed-size,
          dictionary-encoded and chunked arrays
        - a Polars Series
        - `Spans`

        Text in Arrow and Polars columns is encoded as UTF-8. Python str objects and NumPy arrays of
        dtype U are rejected; encode them first.
    timestamp : int, numpy.datetime64 or column, optional
        Timestamps in ms since 1970-01-01 UTC; -1 or null means none. The argument is either one
        timestamp for all records, or a column of integers, NumPy datetimes, or Arrow timestamps or
        dates. Times with a finer unit are rounded down to milliseconds. A time before 1970 raises
        ValueError. By default, records have no timestamps.
    headers : column, optional
        Headers of each record: (key, value) tuples, a dict, or None for no headers. The column can
        also be an Arrow array of maps, or of lists of structs with the fields "key" and "value" in
        any order. By default, records have no headers.
    offset : column, optional
        Offsets as integers without nulls. By default, each record gets the next offset.

    Returns
    -------
    Columns
        The argument for `build_columns` or `BatchBuilder.append_columns`. The result refers to the
        memory of the given arrays. Do not change these arrays before the batches are built.

    Raises
    ------
    TypeError
        A column or one of its values has an unsupported type, such as text, float, boolean, decimal
        or duration, or a column is a NumPy masked array, a set, a table, or a Polars Series of
        Python objects.
    ValueError
        The columns differ in length, no column is given, or a value cannot be represented. Integers
        of more than 64 bits, times before 1970, null offsets and null structs among the headers
        cannot be represented.

    Examples
    --------
    >>> kafkafmt.records.columns_of(key=[b"a", None], value=[b"1", b"2"], timestamp=1_700_000_000_000)
    <kafkafmt columns of 2 records: keys, values, timestamps>
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
        raise ValueError(
            f"all columns must have the same length, but {lengths}"
            if counts
            else "no column is given; pass at least one"
        )
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
    """Convert decoded records to `Columns` with offsets. Columns that were not decoded are None."""
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


def taken_rows(columns: Columns, rows: np.ndarray) -> Columns:
    """Return columns that contain only the given rows. Keys, values and headers are not copied."""

    def spans(given: Spans | None) -> Spans | None:
        return None if given is None else Spans(given.buffer, given.positions[rows], given.lengths[rows])

    headers = columns.headers
    if headers is not None:
        headers = HeaderSpans(headers.starts[rows], headers.counts[rows], headers.keys, headers.values)
    timestamps = None if columns.timestamps is None else columns.timestamps[rows]
    offsets = None if columns.offsets is None else columns.offsets[rows]
    return Columns(len(rows), spans(columns.keys), spans(columns.values), timestamps, offsets, headers)


def _length(name: str, column: Any) -> int:
    # A set has no order, and a table can have several columns.
    if isinstance(column, set | frozenset) or hasattr(column, "columns"):
        raise TypeError(f"{name} must be a column, such as a list or an array, not a {type(column).__name__}")
    scalar = isinstance(column, str | bytes | bytearray | memoryview | dict) or getattr(column, "ndim", 1) == 0
    if scalar or not hasattr(column, "__len__"):
        raise TypeError(f"{name} must be a column, such as a list or an array, not {shown(column)}")
    refuse_masked(column, name)
    if isinstance(column, Spans):
        return len(column.lengths)
    return len(column.starts) if isinstance(column, HeaderSpans) else len(column)
