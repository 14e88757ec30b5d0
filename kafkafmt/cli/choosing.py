"""Find the partitions in the paths of a command, and select partitions and records by command options."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import click

from ..log import Damage, DamagedLogError, Discovery, PartitionDir, PartitionLog, discover
from ..log.catalog import PartitionNotFoundError, choose_partitions
from ..log.groups import GroupNotFoundError, GroupState, choose_from_group, read_groups
from ..log.reading import Selection
from .output import tell

ONLY_OTHERS = (
    "all partitions are either internal to Kafka or not live (`kafkafmt ls` lists them; --internal includes internal "
    "topics)"
)


class NotThereError(click.UsageError):
    """Raised if an option names something that does not exist. It is a usage error that does not mention --help."""


class MissingError(Exception):
    """Raised if a package that a command needs is not installed."""


@dataclass(frozen=True)
class Choice:
    partitions: list[PartitionDir]
    selection: Selection
    damaged: bool = False  # the group's commits may be outdated, because later ones are damaged


def find(paths: Collection[str], replicas: str | None) -> Discovery:
    """Find all partitions in the paths of a command. Print a message about each file that will not be read."""
    found = discover(paths, replicas)
    for message in found.messages:
        tell(message)
    return found


def not_there(error: PartitionNotFoundError) -> NotThereError:
    """Convert a `PartitionNotFoundError` to a usage error of the command."""
    return NotThereError("; ".join(error.missing) or ONLY_OTHERS)


def tell_nothing_to_read() -> None:
    """Print that there is no partition to read. Do not call this function if -t or -p is given."""
    tell(f"nothing to read: {ONLY_OTHERS}")


def choose(
    found: Discovery, topics: Collection[str], numbers: Collection[int], internal: bool = True
) -> list[PartitionDir]:
    """Return the partitions that the options select, and print what does not exist. NotThereError: none remains."""
    try:
        chosen = choose_partitions(found, topics, numbers, internal, on_message=tell)
    except PartitionNotFoundError as error:
        raise not_there(error) from None
    if not chosen:
        tell_nothing_to_read()
    return chosen


def choose_range(
    found: Discovery,
    topics: Collection[str],
    numbers: Collection[int],
    internal: bool,
    group: str | None,
    selection: Selection,
) -> Choice:
    """Return the partitions that the options select, and the records to read in each of them."""
    # With a consumer group, only its topics are selected, and each partition is read from the
    # committed offset.
    chosen = choose(found, topics, numbers, internal)
    if group is None:
        return Choice(chosen, selection)
    if selection.start is not None:
        raise click.UsageError("--group sets the start; with --group, -o must have the form :TO")
    report = _DamageReport()
    try:
        partitions, selection = choose_from_group(found, chosen, group, selection, report, tell)
    except GroupNotFoundError as error:
        raise NotThereError(str(error)) from None
    return Choice(partitions, selection, report.damaged)


class _DamageReport:
    """Callback for damage in `__consumer_offsets`. It prints a message, and sets `damaged` to True."""

    def __init__(self) -> None:
        self.damaged = False

    def __call__(self, log: PartitionLog, damage: Damage) -> None:
        self.damaged = True
        error = DamagedLogError(damage, str(log.directory.path))
        tell(f"skipped: {error.message}; newer committed offsets may be missing")


def read_all_groups(found: Discovery, at: int | None = None) -> tuple[GroupState, bool]:
    """Return all groups, before the time `at` in ms, and whether damage may have made their state incomplete."""
    report = _DamageReport()
    return read_groups(found.partitions, report, tell, at), report.damaged
