"""Select records by conditions for their keys, values and headers.

The conditions are tested on decoded records in columns, before any record is formatted or converted
to an object. Several threads can search one partition.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from ..._backend import core
from ...records import Chunk
from ...support.text import decode_header_key
from ...types import COLUMNS, Buffer, IntArray, LengthArray, RecordColumns, byte_view, distinct, view_of
from ..reading import Convert, OffsetInterval, OnDamage, PartitionLog, PartitionPieces
from .byte_pattern import BytePattern, find_spans
from .json_paths import JsonEquals, count_not_json

T = TypeVar("T")

CHUNK_ROWS = 4096
"""Largest number of records that a search decodes in one call. Their data fits into a CPU cache."""
STORED_BYTES = 2 << 20
"""Smallest size of the stored batches of a piece, except the last one of a partition."""
FOUND_BYTES = 4 << 20
"""Approximate size of the matching records that a thread passes on at once, in bytes."""
RECORD_BYTES = 128
"""Assumed size of a record without its key, value and headers."""
_REPLACEMENT = "\ufffd"

RowTest: TypeAlias = Callable[[Buffer, RecordColumns, IntArray], IntArray]


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
    test: RowTest | None = None
    """Further condition. It gets the row numbers of the records that meet the others, and returns indexes of them."""

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
        if self.test is not None:
            rows.keep(self.test(source, columns, rows.found))
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


@dataclass
class Found(Generic[T]):
    """What a search made of matching records."""

    items: list[T] = field(default_factory=list)
    tested: int = 0  # number of records that were tested since the previous `Found`
    not_json: int = 0  # number of these whose value was to be JSON, but is not


@dataclass(frozen=True)
class Search(Generic[T]):
    """A search for at most `limit` records."""

    conditions: Conditions
    convert: Callable[[Buffer, RecordColumns, int, int], list[T]]
    """Makes items of the rows in a range. Several threads call it at the same time."""
    limit: int | None = None

    def found(self, chunks: Iterable[Chunk], size: int = 0) -> Generator[Found[T], None, None]:
        """Yield items of the matching records, at least about `size` bytes at once. Larger chunks are divided."""
        left, found, filled = self.limit, Found[T](), 0
        if left is not None and left <= 0:
            return
        counts: list[int] = []
        try:
            for source, columns in chunks:
                conditions = self.conditions
                rows = conditions.rows(Chunk(source, columns), counts.append) if conditions else np.arange(columns.rows)
                if left is not None:
                    rows = rows[:left]
                    left -= len(rows)
                found.tested += columns.rows
                found.not_json += sum(counts)
                counts.clear()
                if len(rows) < columns.rows:
                    columns = columns.selected(rows)
                most = max(1, len(rows) * FOUND_BYTES // max(view_of(source).nbytes, FOUND_BYTES))
                for start in range(0, len(rows), most):
                    stop = min(start + most, len(rows))
                    found.items += self.convert(source, columns, start, stop)
                    filled += _size(columns, start, stop)
                    if filled >= size:
                        yield found
                        found, filled = Found[T](), 0
                if left == 0:
                    return
        except Exception:
            yield found
            raise
        yield found


def _size(columns: RecordColumns, start: int, stop: int) -> int:
    """Return the approximate memory of some records in bytes, without headers."""
    assert columns.key_length is not None
    assert columns.value_length is not None
    lengths = (columns.key_length[start:stop], columns.value_length[start:stop])
    return RECORD_BYTES * (stop - start) + sum(core.total_length(array, stop - start) for array in lengths)


class PartitionSearch(PartitionPieces[Found[T]]):
    """The records of a partition that a search finds. For the other parameters, see `PartitionPieces`."""

    def __init__(
        self,
        log: PartitionLog,
        interval: Callable[[], OffsetInterval | None],
        on_damage: OnDamage | None,
        search: Search[T],
    ) -> None:
        super().__init__(log, interval, on_damage)
        self._search = search

    def _decoder(self) -> tuple[RecordColumns, Convert[Found[T]]]:
        return RecordColumns(CHUNK_ROWS, COLUMNS), self._found

    def _found(self, chunks: Iterable[Chunk], stored: int) -> Iterator[Found[T]]:
        # A limit ends the search after any chunk. Damage after this chunk is not reported.
        return self._search.found(chunks, FOUND_BYTES if stored and self._search.limit is None else 0)

    def _is_full(self, stored: int) -> bool:
        return stored >= STORED_BYTES
