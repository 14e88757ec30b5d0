"""Which partitions and offsets a user means: topic globs, partition lists, `FROM:TO`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import NamedTuple

from ...arguments import to_millis
from ...constants import NO_END
from .discovery import INTERNAL_PREFIX, PartitionDir
from .lookups import find_timestamp
from .partition import PartitionLog

ISO_TIME = re.compile(r"[0-9W-]+([Tt ].*)?\Z")


class OffsetBound(NamedTuple):
    """kind: "offset" (n), "before_end" (n offsets before the log end), "time" (n ms), "group" (by partition, else the log start)."""

    kind: str
    n: int = 0
    committed: Mapping[tuple[str, int], int] = MappingProxyType({})

    def resolve(self, log: PartitionLog, below_log_start: bool = False) -> int:
        """The offset that is meant in a partition; of a time later than every record's, the log's end."""
        if self.kind == "offset":
            return min(self.n, NO_END)
        if self.kind == "before_end":
            return max(log.next_offset - self.n, 0)
        if self.kind == "group":
            return self.committed.get((log.topic, log.partition), 0)
        hit = find_timestamp(log, self.n, below_log_start)
        return log.next_offset if hit is None else hit.offset


class OffsetRange(NamedTuple):
    """[start, end) with either end open."""

    start: OffsetBound | None = None
    end: OffsetBound | None = None

    def resolve(self, log: PartitionLog, below_log_start: bool = False) -> tuple[int | None, int | None]:
        return tuple(None if b is None else b.resolve(log, below_log_start) for b in self)  # type: ignore[return-value]


def parse_time(text: str) -> int:
    """Milliseconds since 1970 UTC, or an ISO date or time; UTC where it names no zone. ValueError for anything else."""
    if text.lstrip("-").isdigit() and text.isascii():
        return int(text)
    if not ISO_TIME.match(text):  # Python takes any character for the T, a colon too
        raise ValueError(f"{text!r} is neither milliseconds nor an ISO date or time")
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None and (offset := moment.utcoffset()) is not None and offset.seconds % 60:
        raise ValueError(f"{text!r}: a zone has no seconds")  # Python's extension; ISO 8601 has none
    return to_millis(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment)


def parse_offsets(text: str) -> OffsetRange:
    """`FROM:TO`: offsets, `-N` before the log end, `@ms` or `@ISO-TIME`; either may be missing. ValueError for anything else."""
    start, rest = _bound(text)
    if rest and not rest.startswith(":"):
        raise ValueError(f"{text!r} is not FROM:TO")
    end, rest = _bound(rest[1:])
    if rest:
        raise ValueError(f"{text!r} is not FROM:TO: {rest!r} is left over")
    return OffsetRange(start, end)


def _bound(text: str) -> tuple[OffsetBound | None, str]:
    """The bound that a text begins with, and what follows it. A time is taken as far as it goes, colons included."""
    if text.startswith("@"):
        ends = [len(text), *(i for i in range(len(text) - 1, 0, -1) if text[i] == ":")]
        for end in ends:
            try:
                return OffsetBound("time", parse_time(text[1:end])), text[end:]
            except ValueError:
                continue
        raise ValueError(f"{text!r} does not begin with a time: @MILLISECONDS or @ISO-TIME")
    word, colon, rest = text.partition(":")
    if not word:
        return None, colon + rest
    digits = word.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"{word!r} is not an offset, -N or @TIME")
    return OffsetBound("before_end" if word.startswith("-") else "offset", int(digits)), colon + rest


def select_partitions(
    partitions: Iterable[PartitionDir],
    topics: Collection[str] = (),
    numbers: Collection[int] = (),
    internal: bool = False,
    every_state: bool = False,
) -> list[PartitionDir]:
    """The partitions to read: live ones and those named as a PATH, by topic glob and number; with `every_state` others too.

    Kafka's own topics (`__…`) only where they are a PATH, where a glob that begins with `__` itself names them, or
    with `internal`.
    """
    chosen = []
    for p in partitions:
        if p.state != "live" and not p.named and not every_state:
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
    """What is there in place of a name that is not, for a message: the names most like it, else the first few."""
    names = sorted(set(known), key=lambda name: (name.startswith(INTERNAL_PREFIX), name))
    plain = word.strip("*").lower()
    close = get_close_matches(word, names, 3) or [n for n in names if plain and plain in n.lower()][:3]
    if not names:
        return "there is none"
    if close:
        return f"the nearest {'is' if len(close) == 1 else 'are'} {_listed(close)}"
    return f"there {'is' if len(names) == 1 else 'are'} {_listed(names)}"


def not_there(partitions: Iterable[PartitionDir], topics: Collection[str], numbers: Collection[int] = ()) -> list[str]:
    """A line for each topic glob that matches nothing, and for each number that no partition has of the topics that match."""
    there = list(partitions)
    lines = []
    for glob in dict.fromkeys(topics):
        if not any(fnmatchcase(p.topic, glob) for p in there):
            lines.append(f"no topic matches {glob!r}: {like(glob, (p.topic for p in there))}")
    meant = [p for p in there if not topics or any(fnmatchcase(p.topic, glob) for glob in topics)]
    known, names = sorted({p.partition for p in meant}), sorted({p.topic for p in meant})
    for number in dict.fromkeys(numbers):
        if meant and number not in known:
            who = f"{names[0]} has no" if len(names) == 1 else "no topic has"
            lines.append(f"{who} partition {number}: {_numbers(known)}")
    return lines


def _listed(names: list[str], most: int = 5) -> str:
    more = [f"{len(names) - most} more"] if len(names) > most else []
    shown = [*names[:most], *more]
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def _numbers(known: list[int]) -> str:
    """Partition numbers, a row of them by its ends."""
    if len(known) > 2 and known[-1] - known[0] == len(known) - 1:
        return f"there are {known[0]} to {known[-1]}"
    return f"there {'is' if len(known) == 1 else 'are'} {_listed([str(n) for n in known])}"
