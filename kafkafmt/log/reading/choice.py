"""Choose the partitions to read among those that discovery found."""

from __future__ import annotations

from collections.abc import Callable, Collection

from .discovery import Discovery
from .partition_dir import PartitionDir
from .selection import not_there, select_partitions


class PartitionNotFoundError(LookupError):
    """No partition matches the topics and partition numbers that were asked for.

    Attributes
    ----------
    missing : tuple of str
        One sentence for each topic glob or number that matches nothing. It names what exists.
        Empty if all matching partitions are of Kafka's own topics, or not live.
    """

    def __init__(self, missing: Collection[str] = ()) -> None:
        self.missing: tuple[str, ...] = tuple(missing)
        super().__init__("; ".join(self.missing) or "all matching partitions are of Kafka's own topics, or not live")

    def __reduce__(self) -> tuple[type[PartitionNotFoundError], tuple[tuple[str, ...]]]:
        return type(self), (self.missing,)


def choose_partitions(
    found: Discovery,
    topics: Collection[str] = (),
    numbers: Collection[int] = (),
    internal: bool = True,
    every_state: bool = False,
    on_message: Callable[[str], None] = lambda _: None,
) -> list[PartitionDir]:
    """Return the partitions that match topic globs and partition numbers.

    Parameters
    ----------
    found : Discovery
        The partitions of the paths.
    topics, numbers : collections of str and int
        Topic globs and partition numbers. Empty stands for all.
    internal : bool, default True
        Include Kafka's own topics (``__…``). They are also included if they are a path of their
        own, or if a glob that begins with ``__`` matches them.
    every_state : bool, default False
        Include partitions that are not live (``-delete``, ``-stray``, ``-future``).
    on_message : callable, optional
        Called with a sentence for each glob or number that matches nothing, if others match.

    Raises
    ------
    PartitionNotFoundError
        Topics or numbers were given, and no partition matches.
    """
    chosen = select_partitions(found.partitions, topics, numbers, internal, every_state)
    readable = (p for p in found.partitions if every_state or p.readable)
    missing = not_there(readable, topics, numbers)
    if not chosen and (topics or numbers):
        raise PartitionNotFoundError(missing)
    for line in missing:
        on_message(line)
    return chosen
