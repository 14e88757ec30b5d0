"""Define the option `where`, which selects records by topic, partition, offset and timestamp.

The value of the option `where` is a JSON list of conditions, in the form of the argument `filters`
of pyarrow, pandas and Dask:

- `[["topic", "=", "orders"], ["offset", ">=", 100]]`: a record must match both conditions.
- `[[["offset", "<", 10]], [["offset", ">=", 100]]]`: a record must match all conditions of at least
  one inner list.

Tasks are created only for data that can match. A task removes records that do not match before it
sends rows to Spark. As in SQL, a null timestamp does not match any condition.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...log.finding import ANYTHING, COLUMNS, NOTHING, OPERATORS, TIMESTAMP, TOPIC, AllOf, AnyOf, Comparison, Filter
from ...support.text import shown
from ...support.times import EPOCH

EXAMPLE = 'such as [["topic", "=", "orders"], ["offset", ">=", 100]]'
_MASKS: Mapping[str, Any] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_LIMIT = 1 << 63


def parse_where(text: str) -> Filter:
    """Parse the value of the option `where`. Raise ValueError if it is not valid."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ValueError(f"where is not JSON: {error}") from None
    return _parsed(given)


def where_text(given: Iterable[Any]) -> str:
    """Convert Python conditions (column, operator, value), or lists of these, to the value of the option `where`."""
    # A record must match at least one of several lists. A timestamp is an int in milliseconds or a
    # timezone-aware datetime.
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ValueError(f"where is {shown(given)}; it must be a list of conditions, such as [('offset', '>=', 100)]")
    plain = _plain(list(given))
    _parsed(plain)
    return json.dumps(plain)


def _plain(value: Any) -> Any:
    """Convert `value` to types that JSON can represent."""
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise ValueError(
                f"where contains {shown(value)}, which has no time zone; add one, such as .replace(tzinfo=timezone.utc)"
            )
        return value.isoformat()
    if isinstance(value, set | frozenset):
        value = list(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return value
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)  # convert NumPy integers to int
    except TypeError:
        raise ValueError(
            f"where contains {shown(value)}, which is not a string, a whole number or a datetime"
        ) from None


def _parsed(given: Any) -> Filter:
    if not isinstance(given, list):
        raise ValueError(f"where must be a list of conditions, {EXAMPLE}")
    if given and all(isinstance(part, list) and all(isinstance(item, list) for item in part) for part in given):
        return AnyOf(tuple(AllOf(tuple(map(_condition, part))) for part in given))
    return AllOf(tuple(map(_condition, given)))


def _condition(given: Any) -> Comparison:
    if not (isinstance(given, list) and len(given) == 3 and isinstance(given[0], str) and isinstance(given[1], str)):
        raise ValueError(f"where contains {shown(given)}; a condition is a column, an operator and a value, {EXAMPLE}")
    column, sign, value = given[0], " ".join(given[1].split()).lower(), given[2]
    sign = "=" if sign == "==" else sign
    if column not in COLUMNS:
        raise ValueError(f"where names the column {shown(column)}; it can name {', '.join(COLUMNS)}")
    if sign not in OPERATORS:
        raise ValueError(f"where has the operator {shown(given[1])}; the operators are {', '.join(OPERATORS)}")
    several = sign in ("in", "not in")
    if several != isinstance(value, list):
        wanted = "a list of values" if several else "one value"
        raise ValueError(f"where compares {column} with {shown(value)}; the operator {sign} needs {wanted}")
    values = tuple(_value(column, item) for item in (value if several else [value]))
    return Comparison(column, sign, values)  # type: ignore[arg-type]


def _value(column: str, value: Any) -> str | int:
    if column == TIMESTAMP and isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(f"where compares timestamp with {shown(value)}, which is not a time in ISO 8601") from None
        if moment.utcoffset() is None:
            raise ValueError(
                f"where compares timestamp with {shown(value)}, which has no time zone; add one, such as Z"
            )
        return (moment - EPOCH) // timedelta(microseconds=1)
    if column == TOPIC and isinstance(value, str):
        return value
    if column == TOPIC or not isinstance(value, int) or isinstance(value, bool):
        kind = {TOPIC: "a text", TIMESTAMP: "milliseconds since 1970 or a time in ISO 8601"}.get(
            column, "a whole number"
        )
        raise ValueError(f"where compares {column} with {shown(value)}; the value must be {kind}")
    number = value * 1000 if column == TIMESTAMP else value
    if not -_LIMIT <= number < _LIMIT:
        raise ValueError(f"where compares {column} with {value}, which does not fit into 64 bits")
    return number


def matching(batch: pa.RecordBatch, filtered: Filter) -> pa.RecordBatch:
    """Return the rows of an Arrow record batch that match a filter on offsets and timestamps."""
    if filtered == ANYTHING:
        return batch
    if filtered == NOTHING:
        return batch.slice(0, 0)
    return batch.filter(_mask(batch, filtered))  # as in SQL, a row is omitted if its condition is null


def _mask(batch: pa.RecordBatch, filtered: Filter) -> Any:
    if isinstance(filtered, AllOf | AnyOf):
        combine = pc.and_kleene if isinstance(filtered, AllOf) else pc.or_kleene
        first, *others = (_mask(batch, part) for part in filtered.parts)
        for other in others:
            first = combine(first, other)
        return first
    column = batch.column(filtered.column)
    column = pc.cast(column, pa.int64())  # convert timestamps to microseconds
    if filtered.operator not in ("in", "not in"):
        return _MASKS[filtered.operator](column, pa.scalar(filtered.values[0], pa.int64()))
    found = pc.is_in(column, value_set=pa.array(filtered.values, pa.int64()))
    if filtered.operator == "not in":
        found = pc.invert(found)
    return pc.and_(found, pc.is_valid(column))
