"""Accept valid batches inside damage that nothing confirms, if they fit between their confirmed neighbours.

A search accepts only batches that the bytes after them confirm, because a record value can contain
batches. If every second batch is overwritten, nothing confirms the others. They are accepted here if
they belong to the heaviest chain of rising offsets between the batches before and after the damage,
if their leader epochs are between those of these two batches, and if no length says that they are a
record value. At the end of a log, the offsets must continue without a gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..._backend import core
from ...constants import BATCH_HEADER_SIZE, LEADER_EPOCH_AT, MAGIC_V2, MAX_OFFSET
from ...errors import KafkaFormatError
from ...records.batches import iter_batches
from ...types import IntArray
from ..scanning import Head, offset_in_reach
from .batch_finder import LARGEST_WINDOW
from .conflicts import REACH, chain_to
from .parts import UNKNOWN_COUNT, BadColumns, Parts, Run, RunColumns
from .segment_walker import Walker

EPOCH = slice(LEADER_EPOCH_AT, LEADER_EPOCH_AT + 4)


class _Found(NamedTuple):
    position: int
    end: int
    first: int
    last: int


def with_unconfirmed(walker: Walker, parts: Parts, lower: int, upper: int | None, cut_gaps: bool) -> Parts:
    """Return `parts` with the accepted batches as ranges of valid batches. `upper` is None at the end of a log."""
    bads, runs = parts.bads, parts.runs
    if not len(bads):
        return parts
    searched = np.flatnonzero(
        (bads.end - bads.position > BATCH_HEADER_SIZE) & (bads.records == UNKNOWN_COUNT) & ~bads.whole
    )
    before = np.searchsorted(parts.run_at, parts.bad_at[searched])
    lows, highs = np.append(lower - 1, runs.last), np.append(runs.first, MAX_OFFSET if upper is None else upper)
    missing = lows[before] + 1 < highs[before]
    searched, before = searched[missing], before[missing]
    if not len(searched):
        return parts
    accepted: dict[int, list[_Found]] = {}
    for rows in np.split(searched, np.flatnonzero(np.diff(before)) + 1):
        i = int(np.searchsorted(parts.run_at, parts.bad_at[rows[0]]))
        found = [(row, f) for row in rows.tolist() for f in _found_in(walker, bads, row, int(lows[i]), int(highs[i]))]
        if not found:
            continue
        at_end = i == len(runs) and upper is None
        epochs = _epoch_before(walker, runs, i), _epoch_at(walker, int(runs.position[i])) if i < len(runs) else None
        chosen = [item for item in found if _fits(walker, item[1], int(lows[i]), int(highs[i]), epochs)]
        for k in _continuing(chosen, int(lows[i])) if at_end else _heaviest(chosen):
            accepted.setdefault(chosen[k][0], []).append(chosen[k][1])
    return _divided(walker, parts, accepted, cut_gaps) if accepted else parts


def _found_in(walker: Walker, bads: BadColumns, row: int, low: int, high: int) -> Iterator[_Found]:
    """Yield the valid batches in a damaged byte range that are not in another batch, or the value of a record."""
    start, end, search = int(bads.position[row]), int(bads.end[row]), walker.search
    damaged = Head(start, search.head(start))
    if damaged.dense and damaged.first_offset < high and offset_in_reach(damaged.first_offset, low + 1):
        if damaged.end == end or not _fills(walker, damaged, end):
            return  # the length field may be wrong, so the batches may be in a value of the damaged batch
        start = damaged.end - 1
    covered = start
    for at in search.find(start + 1, min(end, search.zero_tail())):
        head = Head(at, search.head(at))
        if at < covered or head.end > end:
            continue
        covered = head.end
        # The offsets of uncompressed messages of format 1 can be relative offsets of a damaged wrapper message.
        if head.magic < MAGIC_V2 and not search.among_plain:
            continue
        if value := search.value_end(head):
            covered = value
        else:
            yield _Found(at, head.end, head.first_offset, head.last_offset)


def _fills(walker: Walker, damaged: Head, end: int) -> bool:
    """Return whether the records of a damaged batch can be decoded, and end where its length field states."""
    size = damaged.end - damaged.position
    if not 0 < size <= min(LARGEST_WINDOW, end - damaged.position):
        return False
    try:
        batches = iter_batches(walker.view.read(damaged.position, size), check_crc=False)
        return sum(1 for batch in batches for _ in batch.records()) > 0
    except KafkaFormatError:
        return False


def _fits(walker: Walker, found: _Found, low: int, high: int, epochs: tuple[int | None, int | None]) -> bool:
    if not (low < found.first and found.last < high):
        return False
    epoch, (lowest, highest) = _epoch_at(walker, found.position), epochs
    return epoch is None or ((lowest is None or lowest <= epoch) and (highest is None or epoch <= highest))


def _epoch_at(walker: Walker, position: int) -> int | None:
    head = walker.search.head(position)
    return int.from_bytes(head[EPOCH], "big", signed=True) if Head(position, head).magic == MAGIC_V2 else None


def _epoch_before(walker: Walker, runs: RunColumns, i: int) -> int | None:
    """Return the leader epoch of the last batch before range `i`."""
    row = None
    if i:
        for _, _, table, _ in walker.tables(int(runs.position[i - 1]), int(runs.end[i - 1])):
            row = table[-1:].copy() if len(table) else row
    return int(row["leader_epoch"][0]) if row is not None and row["magic"][0] == MAGIC_V2 else None


def _continuing(found: list[tuple[int, _Found]], low: int) -> Iterator[int]:
    """Yield the indexes of the batches that continue the offsets after `low` without a gap."""
    for k, (_, batch) in enumerate(found):
        if batch.first == low + 1:
            low = batch.last
            yield k


def _heaviest(found: list[tuple[int, _Found]]) -> list[int]:
    """Return the indexes of the batches in the chain of rising offsets with the most bytes, or the first such chain."""
    if not found:
        return []
    position, end, first, last = np.array([batch for _, batch in found], np.int64).T
    n, weight = len(found), (end - position) << 8
    score, parent, nothing = np.empty(n, np.int64), np.empty(n, np.int64), np.zeros(n + 1, np.int64)
    # Doubled offsets are never adjacent, so only the bytes count.
    first, last = 2 * (first - first.min()), 2 * (last - first.min())
    core.heaviest_chain(first, last, weight, nothing, np.arange(n), nothing[:n], parent, score, REACH)
    return chain_to(int(np.argmax(score)), parent)


def _divided(walker: Walker, parts: Parts, accepted: dict[int, list[_Found]], cut_gaps: bool) -> Parts:
    """Return `parts` with the accepted batches, and with the rest of the damage around them."""
    runs: list[Run] = []
    bads = BadColumns()
    bads.extend(parts.bads)
    for row, batches in accepted.items():
        stop = int(bads.end[row])
        bads.end[row], bads.records[row] = batches[0].position, UNKNOWN_COUNT
        for batch, following in zip(batches, [*batches[1:], None], strict=True):
            for start, _, table, _ in walker.tables(batch.position, batch.end):
                walker.stats.add(len(table), core.summarize_batches(table))
                runs += walker.runs(table, start, cut_gaps)
            end = stop if following is None else following.position
            if batch.end < end:
                code, message = bads.code(row), bads.message(row)
                for _, _, _, error in walker.tables(batch.end, walker.size):
                    if error is not None:
                        code, message = error.code, error.message
                bads.add(batch.end, end, code, message, None)
    joined = RunColumns.joined([parts.runs, RunColumns.of(runs)])
    joined, bads = joined.at(np.argsort(joined.position)), bads.at(np.argsort(bads.position))
    at: IntArray = np.argsort(np.argsort(np.concatenate((joined.position, bads.position))))
    return Parts(joined, bads, at[: len(joined)], at[len(joined) :])
