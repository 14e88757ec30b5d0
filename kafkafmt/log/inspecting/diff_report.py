"""Define the results of `kafkafmt.diff`: the differences between copies of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...support.notebook import html_table
from ...support.report import Report
from ...support.text import counted
from ..verifying import EXIT_DAMAGE, EXIT_UNREADABLE, UnreadablePartition, unreadable_dict

MISSING = "missing"
LOG_START = "log_start_differs"
DAMAGED = "damaged"
BYTES = "bytes_differ"
RECORDS = "records_differ"
LEADER_EPOCH = "leader_epoch_differs"
EPOCH_CHECKPOINT = "leader_epoch_checkpoint_differs"
TRANSACTIONS = "transactions_differ"
KINDS = (MISSING, LOG_START, DAMAGED, RECORDS, BYTES, LEADER_EPOCH, EPOCH_CHECKPOINT, TRANSACTIONS)
PRESENCE = (MISSING, LOG_START, TRANSACTIONS)
"""Kinds of differences for data that exists in some copies and is missing from the others."""


@dataclass(frozen=True)
class Difference:
    """A range of offsets in which copies of a partition differ.

    Attributes
    ----------
    kind : str
        - "missing": only the copies in `paths` contain batches or records with these offsets.
        - "log_start_differs": only the copies in `paths` still contain these offsets, because their
          log start offset is lower. Retention usually causes this.
        - "damaged": the copies in `paths` are damaged here. The range can contain offsets that are
          intact in another copy.
        - "records_differ": the records at these offsets differ.
        - "bytes_differ": the records are the same, but the batches differ, for example in the
          codec, the producer or the batch boundaries.
        - "leader_epoch_differs": the leader epochs of the batches differ.
        - "leader_epoch_checkpoint_differs": the files `leader-epoch-checkpoint` assign different
          epochs to these offsets.
        - "transactions_differ": only the transaction indexes of the copies in `paths` contain this
          aborted transaction.
    first_offset, last_offset : int or None
        The first and the last offset of the range. None if the damage makes the offset unknown.
    paths : tuple of str
        The copies to which the difference refers. For "missing", "log_start_differs", "damaged" and
        "transactions_differ", the description of `kind` says which copies these are. For the other
        kinds, these are the first copy and all copies that differ from the first copy.
    """

    kind: str
    first_offset: int | None
    last_offset: int | None
    paths: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the difference as it appears in the JSON output. The key `in` contains the paths."""
        return {
            "kind": self.kind,
            "first_offset": self.first_offset,
            "last_offset": self.last_offset,
            "in": list(self.paths),
        }


@dataclass(frozen=True)
class PartitionDiff:
    """The differences between the copies of one partition.

    Attributes
    ----------
    topic, partition : str, int
        The partition.
    paths : tuple of str
        The copies that were compared, in the order in which they were given.
    differences : tuple of Difference
        The differences, ordered by offset. Empty if the copies are equal.
    """

    topic: str
    partition: int
    paths: tuple[str, ...]
    differences: tuple[Difference, ...]

    @property
    def equal(self) -> bool:
        """Whether all copies of the partition are equal."""
        return not self.differences

    @property
    def first_difference(self) -> int | None:
        """The lowest offset at which copies differ. None if no difference has a known first offset."""
        return min((d.first_offset for d in self.differences if d.first_offset is not None), default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the partition as it appears in the JSON output."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "equal": self.equal,
            "first_difference": self.first_difference,
            "differences": [d.to_dict() for d in self.differences],
        }


@dataclass(frozen=True)
class DiffReport(Report):
    """Differences between copies of partitions, as returned by `kafkafmt.diff`.

    Attributes
    ----------
    partitions : tuple of PartitionDiff
        The partitions that were compared, ordered by topic and number.
    unreadable : tuple of UnreadablePartition
        Copies that could not be read. If a copy of a partition could not be read, `partitions`
        does not contain this partition.
    messages : tuple of str
        Other messages. They are not part of the JSON output.
    """

    command = "diff"

    partitions: tuple[PartitionDiff, ...]
    unreadable: tuple[UnreadablePartition, ...] = ()
    messages: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether all copies could be read and are equal."""
        return not self.unreadable and all(p.equal for p in self.partitions)

    @property
    def exit_code(self) -> int:
        """Exit code of ``kafkafmt diff``: 3 if a copy could not be read, 1 if copies differ, else 0."""
        if self.unreadable:
            return EXIT_UNREADABLE
        return 0 if self.equal else EXIT_DAMAGE

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that ``kafkafmt diff --format json`` prints."""
        row: dict[str, Any] = {"equal": self.equal, "partitions": [p.to_dict() for p in self.partitions]}
        return row | unreadable_dict(self.unreadable)

    def _repr_html_(self) -> str:
        names = ("partition", "difference", "first offset", "last offset", "in")
        rows = [
            (f"{p.topic}-{p.partition}", d.kind, d.first_offset, d.last_offset, ", ".join(d.paths))
            for p in self.partitions
            for d in p.differences
        ]
        return html_table(
            f"{counted(len(self.partitions), 'partition')}, {counted(len(rows), 'difference')}", names, rows
        )


class Span(NamedTuple):
    """A difference of a kind of `KINDS` between the first copy (side 0) and another copy (side 1)."""

    # `side` is the damaged copy, or for `PRESENCE` the copy that contains what the other lacks; otherwise it is -1.

    kind: str
    first: int | None
    last: int | None
    side: int = -1


def merged(paths: Sequence[str], pairs: Iterable[Sequence[Span]]) -> tuple[Difference, ...]:
    """Combine the differences between the first copy and each other copy into one list for all copies."""
    found: list[Difference] = []
    by_kind: dict[str, list[tuple[int, Span]]] = {}
    for other, spans in enumerate(pairs, 1):
        for span in spans:
            if span.kind == DAMAGED or span.first is None or span.last is None:
                where = (paths[other if span.side == 1 else 0],)
                found.append(Difference(span.kind, span.first, span.last, where))
            else:
                by_kind.setdefault(span.kind, []).append((other, span))
    found = _joined_damage(found)
    for kind, numbered in by_kind.items():
        found += _swept(kind, numbered, paths)
    order = {kind: i for i, kind in enumerate(KINDS)}
    found.sort(key=lambda d: (-1 if d.first_offset is None else d.first_offset, order[d.kind], d.paths))
    return tuple(found)


def _joined_damage(found: list[Difference]) -> list[Difference]:
    """Merge duplicate entries. Every comparison with another copy reports the damage of the first copy."""
    joined: dict[tuple[str, int | None, int | None], dict[str, None]] = {}
    for d in found:
        joined.setdefault((d.kind, d.first_offset, d.last_offset), {}).update(dict.fromkeys(d.paths))
    return [Difference(*key, tuple(paths)) for key, paths in joined.items()]


def _swept(kind: str, numbered: list[tuple[int, Span]], paths: Sequence[str]) -> list[Difference]:
    """Split overlapping offset ranges, so that the same copies differ at all offsets of each returned range."""
    if len(paths) == 2 or kind == TRANSACTIONS:
        rows = [_difference(kind, s.first, s.last, {other: s.side}, paths) for other, s in numbered]
        return rows if kind != TRANSACTIONS else _joined_transactions(numbered, paths)
    events: list[tuple[int, int, int, int]] = []
    for other, s in numbered:
        assert s.first is not None
        assert s.last is not None
        if s.last < s.first:
            continue
        events += [(s.first, 1, other, s.side), (s.last + 1, 0, other, s.side)]
    events.sort()
    found: list[Difference] = []
    active: dict[int, int] = {}
    start = 0
    for offset, begins, other, side in events:
        if active and offset > start:
            d = _difference(kind, start, offset - 1, active, paths)
            last = found[-1] if found else None
            if last is not None and last.paths == d.paths and last.last_offset == start - 1:
                found[-1] = Difference(kind, last.first_offset, offset - 1, d.paths)
            else:
                found.append(d)
        if begins:
            active[other] = side
        else:
            active.pop(other, None)
        start = offset
    return found


def _difference(
    kind: str, first: int | None, last: int | None, sides: dict[int, int], paths: Sequence[str]
) -> Difference:
    """Return the `Difference` between the first copy and the copies whose indexes and sides are in `sides`."""
    if kind in PRESENCE:
        in_first = 0 in sides.values()
        named = [path for i, path in enumerate(paths) if sides.get(i, -1) == 1 or (in_first and i not in sides)]
    else:
        named = [path for i, path in enumerate(paths) if i == 0 or i in sides]
    return Difference(kind, first, last, tuple(named))


def _joined_transactions(numbered: list[tuple[int, Span]], paths: Sequence[str]) -> list[Difference]:
    """Return the differences between transaction indexes. The offset ranges of two differences can overlap."""
    sides: dict[tuple[int | None, int | None], dict[int, int]] = {}
    for other, s in numbered:
        sides.setdefault((s.first, s.last), {})[other] = s.side
    return [_difference(TRANSACTIONS, first, last, found, paths) for (first, last), found in sides.items()]
