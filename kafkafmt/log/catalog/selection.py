"""Select partitions by topic globs and partition numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase

from ...support.text import shown
from .partition_dir import INTERNAL_PREFIX, PartitionDir


def select_partitions(
    partitions: Iterable[PartitionDir],
    topics: Collection[str] = (),
    numbers: Collection[int] = (),
    internal: bool = False,
    every_state: bool = False,
) -> list[PartitionDir]:
    """Return the partitions that match the topic globs and partition numbers."""
    # A partition that is not live needs `every_state`, or must be a given path. An internal topic (`__…`) needs
    # `internal`, a given path, or a glob that begins with `__`.
    chosen, wanted = [], set(numbers)
    for p in partitions:
        if not p.readable and not every_state:
            continue
        if wanted and p.partition not in wanted:
            continue
        globs = [g for g in topics if fnmatchcase(p.topic, g)]
        if topics and not globs:
            continue
        if p.internal and not (internal or p.named or any(g.startswith(INTERNAL_PREFIX) for g in globs)):
            continue
        chosen.append(p)
    return chosen


def like(kind: str, word: str, known: Iterable[str]) -> str:
    """Return a phrase that lists the names most similar to `word`, or else the first few, for an error message."""
    names = sorted(set(known), key=lambda name: (name.startswith(INTERNAL_PREFIX), name))
    plain = word.strip("*").lower()
    close = get_close_matches(word, names, 3) or [n for n in names if plain and plain in n.lower()][:3]
    if not names:
        return f"there is no {kind}"
    if len(names) == 1:
        return f"the only {kind} is {names[0]}"
    if len(close) == 1:
        return f"the nearest {kind} is {close[0]}"
    return f"the nearest {kind}s are {_listed(close)}" if close else f"the existing {kind}s are {_listed(names)}"


def not_there(partitions: Iterable[PartitionDir], topics: Collection[str], numbers: Collection[int] = ()) -> list[str]:
    """Return a message for each topic glob, and each partition number of the selected topics, that matches nothing."""
    found = list(partitions)
    lines = []
    for glob in dict.fromkeys(topics):
        if not any(fnmatchcase(p.topic, glob) for p in found):
            lines.append(f"no topic matches {shown(glob)}: {like('topic', glob, (p.topic for p in found))}")
    selected = [p for p in found if not topics or any(fnmatchcase(p.topic, glob) for glob in topics)]
    known, names = sorted({p.partition for p in selected}), sorted({p.topic for p in selected})
    present = set(known)
    missing = [number for number in dict.fromkeys(numbers) if number not in present] if selected else []
    for first, last in _runs(missing):
        who = f"{names[0]} has no" if len(names) == 1 else "no topic has"
        which = f"partition {first}" if first == last else f"partitions {first} to {last}"
        lines.append(f"{who} {which}: {existing_partitions(known)}")
    return lines


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Combine three or more consecutive numbers into a range (first, last). Any other number n becomes (n, n)."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return [
        run
        for first, last in runs
        for run in ([(first, last)] if last > first + 1 else [(n, n) for n in range(first, last + 1)])
    ]


def _listed(names: list[str], most: int = 5) -> str:
    more = [f"{len(names) - most} more"] if len(names) > most else []
    shown = [*names[:most], *more]
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def existing_partitions(known: list[int]) -> str:
    """Return a phrase that lists partition numbers, or the first and last of consecutive ones, for an error message."""
    if len(known) > 2 and known[-1] - known[0] == len(known) - 1:
        return f"the existing partitions are {known[0]} to {known[-1]}"
    if len(known) == 1:
        return f"the only partition is {known[0]}"
    return f"the existing partitions are {_listed([str(n) for n in known])}"
