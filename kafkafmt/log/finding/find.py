"""Select records by conditions for their keys, values and headers.

The conditions are tested on decoded records in columns, before any record is formatted or converted
to an object. `matching` yields columns that contain only the matching records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ...records import Chunk
from ...support.text import decode_header_key
from ...types import COLUMNS, Buffer, IntArray, LengthArray, RecordColumns, byte_view, distinct
from .byte_pattern import BytePattern, find_spans
from .json_paths import JsonEquals, count_not_json

_REPLACEMENT = "\ufffd"


@dataclass(frozen=True)
class HeaderEquals:
    """Condition that a record has a header with a certain key, and optionally with a certain value."""

    key: str
    value: bytes | None = None  # has no effect if `any_value` is True
    any_value: bool = False

    def find(self, source: Buffer, columns: RecordColumns) -> IntArray:
        """Return the row numbers of the records with a header that has the given key and the given value."""
        names, name_sizes, values, value_sizes = _header_spans(columns)
        if _REPLACEMENT in self.key:  # decoding replaces malformed bytes in a header key with U+FFFD
            view, spans = byte_view(source), zip(names.tolist(), name_sizes.tolist(), strict=True)
            matching = [decode_header_key(bytes(view[p : p + n])) == self.key for p, n in spans]
            found = np.flatnonzero(np.array(matching, bool))
        else:
            found = find_spans(source, names, name_sizes, self.key.encode("utf-8", "surrogateescape"), True)
        if not self.any_value:
            values, value_sizes = values[found], value_sizes[found]
            if self.value is None:
                found = found[value_sizes < 0]
            else:
                found = found[find_spans(source, values, value_sizes, self.value, True)]
        return distinct(_rows_of_headers(columns)[found])


@dataclass(frozen=True)
class Conditions:
    """All conditions that a record must meet. Without conditions, every record matches."""

    key: bytes | None = None
    key_regex: BytePattern | None = None
    value_regex: BytePattern | None = None
    headers: tuple[HeaderEquals, ...] = ()
    value_json: tuple[JsonEquals, ...] = ()

    def __bool__(self) -> bool:
        return self != ANY_RECORD

    @property
    def columns(self) -> tuple[str, ...]:
        with_value = self.value_regex is not None or bool(self.value_json)
        tested = {
            "key": self.key is not None or self.key_regex is not None,
            "value": with_value,
            "headers": bool(self.headers),
        }
        return tuple(name for name in COLUMNS if tested.get(name))

    def rows(self, chunk: Chunk, on_not_json: Callable[[int], None] | None = None) -> IntArray:
        """Return the row numbers of the records in `chunk` that meet all conditions, in ascending order."""
        source, columns = chunk
        rows = _Rows(columns.rows)
        if self.key is not None:
            rows.keep(find_spans(source, *rows.spans(columns, "key"), self.key, True))
        if self.key_regex is not None:
            rows.keep(self.key_regex.find(source, *rows.spans(columns, "key")))
        for header in self.headers if len(rows.found) else ():
            rows.keep(np.flatnonzero(np.isin(rows.found, header.find(source, columns))))
        if self.value_regex is not None:
            rows.keep(self.value_regex.find(source, *rows.spans(columns, "value")))
        if self.value_json and on_not_json is not None:
            on_not_json(count_not_json(source, *rows.spans(columns, "value")))
        for member in self.value_json:
            rows.keep(member.find(source, *rows.spans(columns, "value")))
        return rows.found


ANY_RECORD = Conditions()


class _Rows:
    """Row numbers of the records that meet all conditions that have been tested so far."""

    def __init__(self, count: int) -> None:
        self.found: IntArray = np.arange(count)
        self._all = True

    def spans(self, columns: RecordColumns, name: str) -> tuple[IntArray, LengthArray]:
        """Return the positions and lengths of the keys or values of the records that have met all conditions so far."""
        positions: IntArray = getattr(columns, f"{name}_position")
        lengths: LengthArray = getattr(columns, f"{name}_length")
        if self._all:
            return positions[: columns.rows], lengths[: columns.rows]
        return positions[self.found], lengths[self.found]

    def keep(self, indexes: IntArray) -> None:
        """Keep only the row numbers at the given indexes of the array `found`."""
        self.found, self._all = self.found[indexes], False


def _header_spans(columns: RecordColumns) -> tuple[IntArray, LengthArray, IntArray, LengthArray]:
    names, name_sizes = columns.header_key_position, columns.header_key_length
    values, value_sizes = columns.header_value_position, columns.header_value_length
    assert names is not None
    assert name_sizes is not None
    assert values is not None
    assert value_sizes is not None
    count = columns.headers
    return names[:count], name_sizes[:count], values[:count], value_sizes[:count]


def _rows_of_headers(columns: RecordColumns) -> IntArray:
    """Return an array that contains, for each record header, the row number of the header's record."""
    assert columns.header_start is not None
    assert columns.header_count is not None
    counts = np.maximum(columns.header_count[: columns.rows], 0)
    ends = np.cumsum(counts)
    headers = np.arange(int(counts.sum())) + np.repeat(columns.header_start[: columns.rows] - ends + counts, counts)
    rows: IntArray = np.zeros(columns.headers, np.int64)
    rows[headers] = np.repeat(np.arange(columns.rows), counts)
    return rows


def matching(
    chunks: Iterable[Chunk],
    conditions: Conditions,
    limit: int | None = None,
    on_not_json: Callable[[int], None] | None = None,
) -> Iterator[Chunk]:
    """Yield at most `limit` decoded records, as columns, that meet the conditions."""
    left = limit
    if left is not None and left <= 0:
        return
    for chunk in chunks:
        rows = conditions.rows(chunk, on_not_json) if conditions else np.arange(chunk.columns.rows)
        if left is not None:
            rows = rows[:left]
            left -= len(rows)
        if len(rows) == chunk.columns.rows:
            yield chunk
        elif len(rows):
            yield Chunk(chunk.source, chunk.columns.selected(rows))
        if left == 0:
            return
