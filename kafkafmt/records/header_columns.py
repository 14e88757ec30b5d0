"""Convert the headers of many records, given as a column, to positions and lengths of keys and values in a buffer.

Each element of a header column is a dict or a list of pairs. In an Arrow array, each element is a
map or a list of structs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..support.text import shown
from ..types import HeaderSpans
from .binary_columns import arrow_array, arrow_binary, exact_integers, exact_spans, joined, present, starts_of

_FIELDS = ["key", "value"]


def header_column(column: Any) -> HeaderSpans:
    """Convert a column of headers, of any type that `columns_of` accepts, to `HeaderSpans`."""
    if isinstance(column, HeaderSpans):
        return _exact(column)
    array = arrow_array(column, "headers")
    return _pairs(column) if array is None else _of_arrow(array)


def _exact(spans: HeaderSpans) -> HeaderSpans:
    """Convert the positions and lengths of headers to the dtypes that the native code requires."""
    starts = exact_integers(spans.starts, np.int64, "headers (starts)")
    counts = exact_integers(spans.counts, np.int32, "headers (counts)")
    return HeaderSpans(
        starts, counts, exact_spans(spans.keys, "headers (keys)"), exact_spans(spans.values, "headers (values)")
    )


def _of_arrow(array: Any) -> HeaderSpans:
    kind = str(array.type)
    if kind == "null":
        none, empty = np.zeros(len(array), np.int64), arrow_binary(array[:0], "headers")
        return HeaderSpans(none, none.astype(np.int32), empty, empty)
    starts, counts = _places(array, kind)
    not_null = present(array)
    starts, counts = np.where(not_null, starts, 0), np.where(not_null, counts, 0)
    keys, values = (array.keys, array.items) if kind.startswith("map<") else _fields(array.values, starts, counts)
    spans = [
        arrow_binary(arrow_array(part, "headers"), f"headers ({name}s)")
        for part, name in zip((keys, values), _FIELDS, strict=True)
    ]
    return HeaderSpans(np.ascontiguousarray(starts, np.int64), counts.astype(np.int32), *spans)


def _places(array: Any, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the start and the length of each list in an Arrow array of lists or maps."""
    if kind.startswith(("list<", "large_list<", "map<")):
        ends = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        return ends[:-1], np.diff(ends)
    if kind.startswith("fixed_size_list<"):
        size = array.type.list_size
        return (np.arange(len(array), dtype=np.int64) + array.offset) * size, np.full(len(array), size, np.int64)
    if kind.startswith(("list_view<", "large_list_view<")):
        starts, counts = (part.to_numpy(zero_copy_only=False).astype(np.int64) for part in (array.offsets, array.sizes))
        return starts, counts
    raise TypeError(f"the headers column must contain maps or lists of structs, not the Arrow type {kind}")


def _fields(pairs: Any, starts: np.ndarray, counts: np.ndarray) -> tuple[Any, Any]:
    """Return the fields "key" and "value" of an Arrow array of structs, as two arrays."""
    kind = pairs.type
    names = [kind.field(i).name for i in range(kind.num_fields)] if str(kind).startswith("struct<") else []
    if sorted(names) != _FIELDS:
        raise TypeError(
            f"the headers column must contain structs with the fields key and value, not the Arrow type {kind}"
        )
    if pairs.null_count:
        nulls = np.concatenate(([0], np.cumsum(~present(pairs))))
        first, last = (np.clip(n, 0, len(pairs)) for n in (starts, starts + counts))
        wrong = nulls[last] > nulls[first]
        if wrong.any():
            raise ValueError(f"headers, row {int(np.argmax(wrong))}: a header cannot be null")
    return pairs.field(names.index("key")), pairs.field(names.index("value"))


def _pairs(column: Iterable[Any]) -> HeaderSpans:
    counts: list[int] = []
    keys: list[Any] = []
    values: list[Any] = []
    rows: list[int] = []
    for row, headers in enumerate(column):
        pairs = _pairs_of(headers, row)
        counts.append(len(pairs))
        for pair in pairs:
            if (type(pair) is not tuple and not isinstance(pair, tuple | list)) or len(pair) != 2:
                raise TypeError(f"headers, row {row}: a header must be a (key, value) tuple, not {shown(pair)}")
            key, value = pair
            keys.append(key if type(key) is bytes else _key(key, row))
            values.append(value)
        rows += [row] * len(pairs)
    lengths = np.array(counts, np.int32)
    return HeaderSpans(
        starts_of(lengths), lengths, joined(keys, "headers (keys)", rows), joined(values, "headers (values)", rows)
    )


def _pairs_of(headers: Any, row: int) -> list[Any]:
    if headers is None:
        return []
    if type(headers) is list:
        return headers
    if isinstance(headers, str | bytes | bytearray | memoryview) or not isinstance(headers, Iterable):
        raise TypeError(f"headers, row {row}: expected (key, value) tuples, a dict or None, not {shown(headers)}")
    return list(headers.items() if isinstance(headers, dict) else headers)


def _key(key: Any, row: int) -> Any:
    try:
        if isinstance(key, str):
            return key.encode()
    except UnicodeEncodeError:
        raise ValueError(f"headers, row {row}: the key {shown(key)} cannot be encoded as UTF-8") from None
    if key is None:
        raise TypeError(f"headers, row {row}: a header key cannot be null")
    return key
