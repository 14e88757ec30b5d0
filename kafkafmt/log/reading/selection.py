"""Apply selections: topic globs, partition numbers and ranges of offsets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import NamedTuple

from ...constants import NO_END
from .lookups import find_timestamp
from .partition import PartitionLog
from .partition_dir import INTERNAL_PREFIX, PartitionDir


class OffsetBound(NamedTuple):
    """One end of an offset range.

    Attributes
    ----------
    kind : str
        Meaning of the bound. "offset": `n` is an offset. "before_end": `n` is a number of offsets
        before the log end. "time": `n` is a time in ms. "group": the offset is taken from
        `committed`.
    n : int
        The number that `kind` describes.
    committed : mapping of (topic, partition) to int
        The committed offset of each partition, if `kind` is "group". For a partition without a
        committed offset, the bound is the log start.
    """

    kind: str
    n: int = 0
    committed: Mapping[tuple[str, int], int] = MappingProxyType({})

    def resolve(self, log: PartitionLog, below_log_start: bool = False) -> int:
        """Return the offset for a partition.

        If `kind` is "time" and no record has this timestamp or a later one, return the end of the
        log.
        """
        if self.kind == "offset":
            return min(self.n, NO_END)
        if self.kind == "before_end":
            return max(log.next_offset - self.n, 0)
        if self.kind == "group":
            return self.committed.get((log.topic, log.partition), 0)
        hit = find_timestamp(log, self.n, below_log_start)
        return log.next_offset if hit is None else hit.offset


class OffsetRange(NamedTuple):
    """A range of offsets from `start` to `end` (exclusive).

    If a bound is None, there is no limit on that side.
    """

    start: OffsetBound | None = None
    end: OffsetBound | None = None

    def resolve(self, log: PartitionLog, below_log_start: bool = False) -> tuple[int | None, int | None]:
        """Return the start and end offsets for a partition. An offset is None if there is no limit."""
        return tuple(None if b is None else b.resolve(log, below_log_start) for b in self)  # type: ignore[return-value]


def select_partitions(
    partitions: Iterable[PartitionDir],
    topics: Collection[str] = (),
    numbers: Collection[int] = (),
    internal: bool = False,
    every_state: bool = False,
) -> list[PartitionDir]:
    """Return the partitions that match the topic globs and partition numbers.

    Partitions that are neither live nor named as a path are returned only if `every_state` is True.
    Partitions of Kafka's internal topics (`__…`) are returned only if `internal` is True, if they
    are named as a path, or if a glob that begins with `__` matches them.
    """
    chosen = []
    for p in partitions:
        if not p.readable and not every_state:
            continue
        if numbers and p.partition not in numbers:
            continue
        globs = [g for g in topics if fnmatchcase(p.topic, g)]
        if topics and not globs:
            continue
        if p.internal and not (internal or p.named or any(g.startswith(INTERNAL_PREFIX) for g in globs)):
            continue
        chosen.append(p)
    return chosen


def like(word: str, known: Iterable[str]) -> str:
    """Return a phrase for messages that suggests existing names if `word` does not exist.

    The phrase contains the `known` names that are most similar to `word`. If none is similar, it
    contains the first few.
    """
    names = sorted(set(known), key=lambda name: (name.startswith(INTERNAL_PREFIX), name))
    plain = word.strip("*").lower()
    close = get_close_matches(word, names, 3) or [n for n in names if plain and plain in n.lower()][:3]
    if not names:
        return "there is none"
    if close:
        return f"the nearest {'is' if len(close) == 1 else 'are'} {_listed(close)}"
    return f"there {'is' if len(names) == 1 else 'are'} {_listed(names)}"


def not_there(partitions: Iterable[PartitionDir], topics: Collection[str], numbers: Collection[int] = ()) -> list[str]:
    """Return a message for each topic glob and each partition number that matches nothing.

    A partition number is reported if no matching topic has this partition.
    """
    found = list(partitions)
    lines = []
    for glob in dict.fromkeys(topics):
        if not any(fnmatchcase(p.topic, glob) for p in found):
            lines.append(f"no topic matches {glob!r}: {like(glob, (p.topic for p in found))}")
    selected = [p for p in found if not topics or any(fnmatchcase(p.topic, glob) for glob in topics)]
    known, names = sorted({p.partition for p in selected}), sorted({p.topic for p in selected})
    for number in dict.fromkeys(numbers):
        if selected and number not in known:
            who = f"{names[0]} has no" if len(names) == 1 else "no topic has"
            lines.append(f"{who} partition {number}: {_numbers(known)}")
    return lines


def _listed(names: list[str], most: int = 5) -> str:
    more = [f"{len(names) - most} more"] if len(names) > most else []
    shown = [*names[:most], *more]
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def _numbers(known: list[int]) -> str:
    """Return a phrase for messages that lists partition numbers.

    Consecutive numbers are abbreviated as a range.
    """
    if len(known) > 2 and known[-1] - known[0] == len(known) - 1:
        return f"there are {known[0]} to {known[-1]}"
    return f"there {'is' if len(known) == 1 else 'are'} {_listed([str(n) for n in known])}"
