"""Choose which of the discovered partitions are read."""

from __future__ import annotations

from collections.abc import Callable, Collection

from .discovery import Discovery
from .partition_dir import PartitionDir
from .selection import not_there, select_partitions


class PartitionNotFoundError(LookupError):
    """Raised if no partition matches the given topics and partition numbers.

    Attributes
    ----------
    missing : tuple of str
        A message for each topic glob or partition number that matches nothing. The message lists
        existing topics or numbers. The tuple is empty if all matching partitions belong to Kafka's
        internal topics or are not live.
    """

    def __init__(self, missing: Collection[str] = ()) -> None:
        self.missing: tuple[str, ...] = tuple(missing)
        super().__init__(
            "; ".join(self.missing) or "all matching partitions belong to Kafka's internal topics or are not live"
        )

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
    """Return the partitions that match the topic globs and partition numbers. An empty collection selects all."""
    # For `internal` and `every_state`, see `select_partitions`. `on_message` gets a message for each glob or number
    # that matches nothing. PartitionNotFoundError: topics or numbers were given, and nothing matches.
    chosen = select_partitions(found.partitions, topics, numbers, internal, every_state)
    readable = (p for p in found.partitions if every_state or p.readable)
    missing = not_there(readable, topics, numbers)
    if not chosen and (topics or numbers):
        raise PartitionNotFoundError(missing)
    for line in missing:
        on_message(line)
    return chosen
