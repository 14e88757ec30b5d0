"""Select the byte ranges of a segment to copy. Divide them into segments within the limits of an offset index."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..._backend import core
from ...constants import MAGIC_V2, MAX_RELATIVE_OFFSET
from ...errors import KafkaFormatError
from ...records import RecordReader
from ...types import BatchTable, Buffer, IntArray, last_offsets
from ..format.span_copier import SpanCopier
from ..reading.damaged_spans import DamageColumns, DamagedSpans
from ..reading.models import Damage
from ..reading.rows import Joined
from ..reading.segment_tables import Scratch
from ..reading.segment_walker import Walker
from ..writing.index_builder import MAX_SEGMENT_BYTES
from .span_tables import tables_of


class Piece(NamedTuple):
    """A byte range of the source file that consists of adjacent batches."""

    position: int
    end: int


class Restored(NamedTuple):
    """A batch that is not a copy: a marker in place of a lost one, or a rebuilt batch in place of the original."""

    offset: int
    """Offset in the header of the batch."""
    data: bytes
    last_offset: int


Items = list[Piece | Restored]


def pieces_of(spans: IntArray) -> list[Piece]:
    """Convert byte ranges to a list of `Piece` objects. Each row of `spans` is a start and an end position."""
    return [Piece(start, end) for start, end in spans.tolist()]


def spans_of(pieces: Sequence[Piece]) -> IntArray:
    """Return byte ranges as an array with two columns: start and end positions in the file."""
    return np.array(pieces, np.int64).reshape(-1, 2)


def paired(starts: IntArray, ends: IntArray) -> IntArray:
    """Return spans as an array with two columns: `starts` and `ends`."""
    spans = np.empty((len(starts), 2), np.int64)
    spans[:, 0], spans[:, 1] = starts, ends
    return spans


def outside(holes: IntArray, spans: IntArray) -> IntArray:
    """Return the parts of the byte ranges `spans` that are outside the byte ranges `holes`.

    `holes` and `spans` are arrays with two columns: start and end positions in the file, in bytes.
    The holes are sorted.
    """
    found = np.empty((len(spans) + len(holes), 2), np.int64)
    return found[: core.spans_outside(holes, spans, found)]


def holes_of(damaged: Sequence[Damage]) -> dict[str, IntArray]:
    """Return the start and end positions of the damage in each file, sorted by position."""
    columns = DamageColumns.of(damaged)
    spans, start = paired(columns.position, columns.end), 0
    found: dict[str, list[IntArray]] = defaultdict(list)
    for part in damaged.parts if isinstance(damaged, Joined) else [damaged]:
        if isinstance(part, DamagedSpans):
            found[part.file].append(spans[start : start + len(part)])
        else:
            for i, damage in enumerate(part, start):
                found[damage.file].append(spans[i : i + 1])
        start += len(part)
    return {file: _sorted(parts) for file, parts in found.items()}


def _sorted(parts: list[IntArray]) -> IntArray:
    """Join arrays of spans, and sort the spans by position."""
    spans = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return spans if len(spans) == 1 else spans[np.lexsort((spans[:, 1], spans[:, 0]))]


@dataclass
class Batches:
    """File positions and offsets of batches, as one list per field, in the order in which batches are copied."""

    positions: list[int]
    ends: list[int]
    firsts: list[int]
    lasts: list[int]


def read_batches(walker: Walker, pieces: Sequence[Piece], bad: list[tuple[Piece, KafkaFormatError]]) -> Batches:
    """Read the headers of the batches in the given byte ranges of a segment.

    If the file has changed since it was checked, invalid byte ranges are appended to the list
    `bad`.
    """
    found = Batches([], [], [], [])
    for piece in pieces:
        start = piece.position
        while start < piece.end:
            following = piece.end
            for position, buffer, table, error in walker.tables(start, piece.end):
                _add(found, walker, position, buffer, table)
                if error is not None:
                    resume = error.resume
                    following = resume if resume is not None and error.position < resume < piece.end else piece.end
                    bad.append((Piece(error.position, following), error))
            start = following
    return found


def offsets_of(buffer: Buffer, table: BatchTable, max_batch_bytes: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return three arrays: first offset, last offset and number of records of each batch in `table`.

    The header of a wrapper message contains only its last offset. Therefore, wrapper messages are
    decompressed to find the first offset. If a wrapper message is empty, or its offset differs from
    the offset of its last inner message, the first offset is set to the last offset + 1.
    """
    firsts, lasts, counts = table["base_offset"].copy(), last_offsets(table), table["count"].astype(np.int64)
    reader = RecordReader(("offset",), max_batch_bytes=max_batch_bytes)
    for i in np.flatnonzero((table["count"] < 0) & (table["magic"] < MAGIC_V2)).tolist():
        inner: list[int] = []
        for _, columns in reader.read(buffer, table[i : i + 1], lambda _, __: None):
            assert columns.offset is not None
            inner += columns.offset[: columns.rows].tolist()
        counts[i] = len(inner)
        # If the inner offsets contradict the wrapper's offset, use the wrapper's offset, as brokers and indexes do.
        firsts[i] = inner[0] if inner and inner[-1] == lasts[i] else lasts[i] + 1
    return firsts, lasts, counts


def _add(found: Batches, walker: Walker, position: int, buffer: np.ndarray, table: BatchTable) -> None:
    """Append the batches in `table` to `found`. `position` is the file position of the first byte of `buffer`."""
    if not len(table):
        return
    firsts, lasts, _ = offsets_of(buffer, table, walker.max_batch_bytes)
    starts = table["position"] + position
    found.positions += starts.tolist()
    found.ends += (starts + table["size"]).tolist()
    found.firsts += firsts.tolist()
    found.lasts += lasts.tolist()


def rising(batches: Batches) -> list[int]:
    """Find the longest subsequence of batches with increasing offsets. Return the indexes of its batches."""
    tops: list[int] = []
    ends: list[int] = []
    parents: list[int] = []
    for i, (first, last) in enumerate(zip(batches.firsts, batches.lasts, strict=True)):
        at = bisect_left(tops, first) if first <= last else -1
        parents.append(ends[at - 1] if at > 0 else -1)
        if at == len(tops):
            tops.append(last)
            ends.append(i)
        elif at >= 0 and last < tops[at]:
            tops[at], ends[at] = last, i
    chain = []
    at = ends[-1] if ends else -1
    while at >= 0:
        chain.append(at)
        at = parents[at]
    return chain[::-1]


def indexable(
    walker: Walker, name: str, pieces: Sequence[Piece], lower: int, next_base: int | None
) -> tuple[list[Piece], list[Damage]]:
    """Return the batches with increasing offsets as byte ranges, and all other batches as damage.

    Parameters
    ----------
    walker : Walker
        Reads the source segment.
    name : str
        Name of the segment's file.
    pieces : sequence of Piece
        The byte ranges of the segment that contain the batches.
    lower : int
        Base offset of the segment.
    next_base : int or None
        Base offset of the next segment. None if there is no next segment.
    """
    bad: list[tuple[Piece, KafkaFormatError]] = []
    batches = read_batches(walker, pieces, bad)
    chain = rising(batches)
    kept = [Piece(batches.positions[i], batches.ends[i]) for i in chain]
    damage = []
    end = None if next_base is None else next_base - 1
    at = 0
    for i in sorted(set(range(len(batches.positions))) - set(chain)):
        while at < len(chain) and chain[at] < i:
            at += 1
        first = batches.lasts[chain[at - 1]] + 1 if at else lower
        last = batches.firsts[chain[at]] - 1 if at < len(chain) else end
        length = batches.ends[i] - batches.positions[i]
        message = f"offset {batches.lasts[i]} in the batch's header contradicts its messages or the batches around it"
        damage.append(Damage(name, batches.positions[i], length, first, last, "contradicting_offsets", message))
    positions = [k.position for k in kept]
    in_order = positions == sorted(positions)
    for piece, error in bad:
        first, last = lower, end
        if in_order:
            at = bisect_left(positions, piece.position)
            first = batches.lasts[chain[at - 1]] + 1 if at else first
            last = batches.firsts[chain[at]] - 1 if at < len(chain) else last
        damage.append(Damage(name, piece.position, piece.end - piece.position, first, last, error.code, error.message))
    return _joined(kept), damage


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Merge byte ranges that are adjacent in the file."""
    joined: list[Piece] = []
    for piece in pieces:
        if joined and joined[-1].end == piece.position:
            joined[-1] = Piece(joined[-1].position, piece.end)
        else:
            joined.append(piece)
    return joined


def bytes_before(
    tables: Iterable[tuple[IntArray, BatchTable]], spans: IntArray, restored: Sequence[Restored]
) -> list[int]:
    """Return, for each restored batch, how many bytes of the byte ranges `spans` are copied before it.

    Parameters
    ----------
    tables : iterable of (positions, table)
        File positions and headers of the batches in `spans`, in offset order.
    spans : array of int64, shape (n, 2)
        Start and end position of each byte range to copy.
    restored : sequence of Restored
        The restored batches, in offset order.
    """
    sizes = spans[:, 1] - spans[:, 0]
    found = np.full(len(restored), sizes.sum(), np.int64)
    # In each byte range, a byte's position in the copy is its position in the file plus the shift of the range.
    shifts = np.cumsum(sizes) - sizes - spans[:, 0]
    order = np.argsort(spans[:, 0], kind="stable")
    starts, shifts = spans[order, 0], shifts[order]
    offsets, waiting = np.array([batch.offset for batch in restored], np.int64), 0
    for positions, table in tables:
        bases = table["base_offset"]
        stop = waiting + int(np.searchsorted(offsets[waiting:], bases[-1]))
        at = positions[np.searchsorted(bases, offsets[waiting:stop], "right")]
        found[waiting:stop] = at + shifts[np.searchsorted(starts, at, "right") - 1]
        waiting = stop
        if waiting == len(restored):
            break
    counts: list[int] = found.tolist()
    return counts


def size_of(items: Sequence[Piece | Restored]) -> int:
    """Return the total size of batches in bytes."""
    return sum(len(i.data) if isinstance(i, Restored) else i.end - i.position for i in items)


def fits(size: int, relative_offset: int) -> bool:
    """Return whether an offset index can refer to all batches of a segment.

    The limits are MAX_SEGMENT_BYTES and MAX_RELATIVE_OFFSET, inclusive. `size` is the size of the segment in bytes. `relative_offset` is the largest offset minus the base offset.
    """
    return size <= MAX_SEGMENT_BYTES and relative_offset <= MAX_RELATIVE_OFFSET


def split(walker: Walker, items: Items, base: int, highest: int) -> Iterator[tuple[int, Items]]:
    """Divide batches into segments within the size and offset limits of an offset index.

    Yield the base offset and the items of each segment. Usually there is only one segment.
    `highest` is the largest offset in the items.
    """
    if fits(size_of(items), highest - base):
        yield base, items
        return
    part: Items = []
    size = 0
    for first, last, item in _single(walker, items):
        length = size_of([item])
        if last - base > MAX_RELATIVE_OFFSET or size + length > MAX_SEGMENT_BYTES:
            if part:
                yield base, part
            base, part, size = first, [], 0
        before = part[-1] if part else None
        if isinstance(before, Piece) and isinstance(item, Piece) and before.end == item.position:
            part[-1] = Piece(before.position, item.end)
        else:
            part.append(item)
        size += length
    yield base, part


class Content(NamedTuple):
    """What is written to one segment of a copy.

    Attributes
    ----------
    base : int
        Base offset of the segment.
    spans : array of int64, shape (n, 2)
        Byte ranges to copy.
    inserted : list of (int, bytes)
        The number of bytes from `spans` before each restored batch, and the batch.
    """

    base: int
    spans: IntArray
    inserted: list[tuple[int, bytes]]


def divide(
    walker: Walker, spans: IntArray, restored: Sequence[Restored], base: int, highest: int, copier: SpanCopier
) -> Iterator[Content]:
    """Assign byte ranges and restored batches to the segments of a copy, usually to one segment.

    For the parameters, see `bytes_before` and `split`. `copier` reads small byte ranges.
    """
    places: list[int] = []
    if restored:
        places = bytes_before(tables_of(walker, spans, copier, Scratch()), spans, restored)
    if fits(walker.size + sum(len(batch.data) for batch in restored), highest - base):
        yield Content(base, spans, [(place, batch.data) for place, batch in zip(places, restored, strict=True)])
        return
    for part_base, part in split(walker, _in_order(spans, places, restored), base, highest):
        pieces = [item for item in part if isinstance(item, Piece)]
        inserted, size = [], 0
        for item in part:
            if isinstance(item, Restored):
                inserted.append((size, item.data))
            else:
                size += item.end - item.position
        yield Content(part_base, spans_of(pieces), inserted)


def _in_order(spans: IntArray, places: Sequence[int], restored: Sequence[Restored]) -> Items:
    """Return byte ranges and restored batches as one list, in offset order.

    For each restored batch, `places` contains the number of bytes of the byte ranges before it.
    """
    items: Items = []
    copied, waiting = 0, 0
    for start, end in spans.tolist():
        while waiting < len(places) and places[waiting] < copied + end - start:
            cut = start + places[waiting] - copied
            items += [Piece(start, cut), restored[waiting]] if cut > start else [restored[waiting]]
            copied, start, waiting = places[waiting], cut, waiting + 1
        items.append(Piece(start, end))
        copied += end - start
    return [*items, *restored[waiting:]]


def _single(walker: Walker, items: Items) -> Iterator[tuple[int, int, Piece | Restored]]:
    """Yield the first offset, the last offset and the bytes of every batch.

    A batch is represented by its byte range (`Piece`), or by its bytes (`Restored`).
    """
    for item in items:
        if isinstance(item, Restored):
            yield item.offset, item.last_offset, item
            continue
        for position, _, table, _ in walker.tables(*item):
            for i in range(len(table)):
                (batch,) = walker.runs(table[i : i + 1], position)
                yield batch.first_offset, batch.last_offset, Piece(batch.position, batch.end)
