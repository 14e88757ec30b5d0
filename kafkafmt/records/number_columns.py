"""Convert timestamp and offset columns to int64.

Timestamp and offset columns can contain integers that fit into int64. Timestamp columns can also
contain times in any unit.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ..constants import MAX_OFFSET, MIN_OFFSET, NO_TIMESTAMP
from ..support.text import shown
from ..types import IntArray
from .binary_columns import arrow_array, present

OnNull = Callable[[IntArray, np.ndarray], None]
"""Called with the numbers and a mask of the nulls if a column contains nulls."""

_ARROW_INTEGER = re.compile(r"u?int(8|16|32|64)\Z")
_ARROW_TIME = re.compile(r"timestamp\[(s|ms|us|ns)[],]|date(32|64)\[(day|ms)]\Z")
_NULL_TYPES = ("NoneType", "NAType", "NaTType")
"""Names of the types of None, pandas.NA and pandas.NaT."""
_NOT_INTEGERS = (bool, np.timedelta64)
"""Types that are not integers, although `bool` is a subclass of `int`, and `timedelta64` of `numpy.integer`."""


def timestamp_column(column: Any, count: int) -> IntArray:
    """Return timestamps in ms as int64, with NO_TIMESTAMP for nulls. A scalar is repeated `count` times."""
    if not np.isscalar(column):
        return _column(column, "timestamp", _null_is_none, times=True)
    if isinstance(column, np.datetime64):
        return np.repeat(_column(np.array([column]), "timestamp", _null_is_none, times=True), count)
    if isinstance(column, _NOT_INTEGERS) or not isinstance(column, int | np.integer):
        raise TypeError(f"timestamp is {shown(column)}; it must be an integer or a column")
    return np.full(count, _fitting(int(column), "timestamp"), np.int64)


def offset_column(column: Any) -> IntArray:
    return _column(column, "offset", _null_is_wrong, times=False)


def _null_is_none(numbers: IntArray, null: np.ndarray) -> None:
    numbers[null] = NO_TIMESTAMP


def _null_is_wrong(numbers: IntArray, null: np.ndarray) -> None:
    raise ValueError(f"offset, row {int(np.argmax(null))}: an offset cannot be null")


def _column(column: Any, name: str, on_null: OnNull, times: bool) -> IntArray:
    array = arrow_array(column, name)
    if array is not None:
        return _of_arrow(array, name, on_null, times)
    if hasattr(column, "to_numpy"):  # In pandas, to_numpy() converts integers with nulls to floats.
        null = column.isna().to_numpy() if getattr(column.dtype, "kind", "") in ("i", "u") else np.zeros(0, bool)
        if null.any():
            numbers = _of_integers(column.fillna(0).to_numpy(), name).copy()
            on_null(numbers, null)
            return numbers
        column = column.to_numpy()
    if not isinstance(column, np.ndarray) or column.dtype.kind == "O":
        return _of_objects(list(column), name, on_null)
    if column.ndim != 1:
        raise TypeError(f"{name} has {column.ndim} dimensions; it must have one")
    if column.dtype.kind == "M" and times:
        null = np.isnat(column)
        numbers = _milliseconds(np.where(null, np.zeros(1, column.dtype), column) if null.any() else column, name)
        if null.any():
            on_null(numbers, null)
        return numbers
    if len(column) == 0:  # Accept any dtype, because an empty NumPy array is float64 by default.
        return np.zeros(0, np.int64)
    if column.dtype.kind in "iu":
        return _of_integers(column, name)
    raise _wrong_type(name, times, f"the NumPy type {column.dtype}")


def _wrong_type(name: str, times: bool, kind: str) -> TypeError:
    return TypeError(f"{name} must contain integers{' or times' if times else ''}, not {kind}")


def _fitting(number: int, name: str, row: int | None = None) -> int:
    if not MIN_OFFSET <= number <= MAX_OFFSET:
        raise ValueError(f"{name}{'' if row is None else f', row {row}'}: {number} does not fit into 64 bits")
    return number


def _of_integers(column: np.ndarray, name: str) -> IntArray:
    """Convert integers of any size and byte order to int64, or raise ValueError."""
    if column.dtype.kind == "u" and len(column) and int(column.max()) > MAX_OFFSET:
        row = int(column.argmax())
        _fitting(int(column[row]), name, row)
    return np.ascontiguousarray(column, np.int64)


def _of_objects(column: list[Any], name: str, on_null: OnNull) -> IntArray:
    """Convert a list of Python and NumPy integers to int64. Booleans and NumPy timedeltas are rejected."""
    kinds = {type(n) for n in column}
    nulls = {kind for kind in kinds if kind.__name__ in _NULL_TYPES}
    wrong = {
        kind for kind in kinds - nulls if issubclass(kind, _NOT_INTEGERS) or not issubclass(kind, int | np.integer)
    }
    if wrong:
        row = next(i for i, n in enumerate(column) if type(n) in wrong)
        raise TypeError(f"{name}, row {row}: expected an integer or None, not {type(column[row]).__name__}")
    null = np.array([type(n) in nulls for n in column], bool) if nulls else np.zeros(0, bool)
    if kinds == {int, type(None)}:  # This fast path for int and None halves the time of the conversion.
        column = [0 if n is None else n for n in column]
    elif kinds - {int}:  # Convert to int, because NumPy's integers overflow silently.
        column = [0 if type(n) in nulls else int(n) for n in column]
    try:
        numbers = np.array(column, np.int64)
    except OverflowError:
        for row, n in enumerate(column):
            _fitting(n, name, row)
        raise
    if null.any():
        on_null(numbers, null)
    return numbers


def _values(array: Any) -> np.ndarray:
    """Return the values of an Arrow array of integers without nulls."""
    # The array's `to_numpy` would import pandas, which takes almost a second.
    data = array.buffers()[1]
    if data is None:
        return np.zeros(0, str(array.type))
    return np.frombuffer(data, str(array.type))[array.offset : array.offset + len(array)]


def _of_arrow(array: Any, name: str, on_null: OnNull, times: bool) -> IntArray:
    kind = str(array.type)
    if kind == "null":
        numbers = np.zeros(len(array), np.int64)
    elif _ARROW_INTEGER.match(kind):
        filled = array.fill_null(0) if array.null_count else array
        numbers = _of_integers(_values(filled), name)
    elif times and (match := _ARROW_TIME.match(kind)):
        unit = match[1] or ("D" if match[3] == "day" else "ms")
        stored = array.cast("int32").cast("int64") if unit == "D" else array.cast("int64")
        values = (stored.fill_null(0) if array.null_count else stored).to_numpy(zero_copy_only=False)
        # The lowest int64 value means NaT in NumPy, but is a valid time in Arrow.
        values = np.where(values == MIN_OFFSET, MIN_OFFSET + 1, values)
        numbers = _milliseconds(values.view(f"datetime64[{unit}]"), name)
    else:
        raise _wrong_type(name, times, f"the Arrow type {kind}")
    if array.null_count:
        numbers = numbers.copy()
        on_null(numbers, ~present(array))
    return numbers


def _milliseconds(times: np.ndarray, name: str) -> IntArray:
    """Convert times (no NaT) to ms, rounded down. ValueError: a time is before 1970 or does not fit into 64 bits."""
    try:
        found = times.astype("datetime64[ms]")
        back = found.astype(times.dtype)
    except OverflowError:  # Only NumPy 2.5 and newer raise OverflowError.
        raise _time_error(times, name, _first_overflow(times)) from None
    numbers: IntArray = found.astype(np.int64)
    one = np.array([1], "datetime64[ms]").astype(times.dtype).astype(np.int64)
    # If the unit of `times` is coarser than milliseconds, `one[0]` is 0. Only coarser units can cause an overflow.
    wrong = numbers < 0 if one[0] else (numbers < 0) | (back != times)
    if wrong.any():
        raise _time_error(times, name, int(np.argmax(wrong)))
    return numbers


def _first_overflow(times: np.ndarray) -> int:
    """Use bisection to find the first row whose time in milliseconds does not fit into 64 bits."""
    low, high = 0, len(times)  # The row is in the range [low, high).
    while high - low > 1:
        middle = (low + high) // 2
        try:
            times[low:middle].astype("datetime64[ms]")
            low = middle
        except OverflowError:
            high = middle
    return low


def _time_error(times: np.ndarray, name: str, row: int) -> ValueError:
    value = times[row].astype(np.int64)
    problem = "is before 1970 or does not fit into 64 bits of milliseconds"
    return ValueError(f"{name}, row {row}: {value} in {times.dtype} {problem}")
