"""Find the partitions in the PATH arguments, and choose those that the options select."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import click

from ..log import Damage, DamagedLogError, Discovery, PartitionDir, PartitionLog, discover
from ..log.reading.choice import PartitionNotFoundError, choose_partitions
from ..log.reading.group_choice import GroupNotFoundError, choose_from_group, read_groups
from ..log.reading.groups import GroupState
from ..log.reading.record_selection import Selection
from .output import tell

ONLY_OTHERS = (
    "there are only Kafka's own topics, or partitions that are not live (`kafkafmt ls` lists them; --internal includes "
    "Kafka's own topics)"
)


class NotThereError(click.UsageError):
    """Raised if something that an option names does not exist.

    It is a usage error, but the hint to the help text is omitted.
    """


class MissingError(Exception):
    """Raised if a package that the command needs is not installed."""


@dataclass(frozen=True)
class Choice:
    """The partitions and records to read.

    Attributes
    ----------
    partitions : list of PartitionDir
        The partitions to read.
    selection : Selection
        The records to read in each partition.
    damaged : bool
        Whether newer committed offsets of the consumer group may be missing because of damage.
    """

    partitions: list[PartitionDir]
    selection: Selection
    damaged: bool = False


def find(paths: Collection[str], replicas: str | None) -> Discovery:
    """Return the partitions in the PATH arguments.

    Messages about files that are not read are printed.
    """
    found = discover(paths, replicas)
    for message in found.messages:
        tell(message)
    return found


def not_there(error: PartitionNotFoundError) -> NotThereError:
    """Return the usage error for a selection that matches no partition."""
    return NotThereError("; ".join(error.missing) or ONLY_OTHERS)


def tell_nothing_to_read() -> None:
    """Print that there is no partition to read. Use this if no partition was requested by name."""
    tell(f"nothing to read: {ONLY_OTHERS}")


def choose(
    found: Discovery, topics: Collection[str], numbers: Collection[int], internal: bool = True
) -> list[PartitionDir]:
    """Return the selected partitions.

    Report topics and partition numbers that match nothing. Raise NotThereError if nothing matches.
    """
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
    """Return the partitions and records that -t, -p, --internal, -g and `selection` select.

    If a consumer group is selected, only partitions of topics for which the group has committed
    offsets are returned. Each of them is read from its committed offset onwards.
    """
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
    """Callback that prints damage of `__consumer_offsets`, and notes that there was damage."""

    def __init__(self) -> None:
        self.damaged = False

    def __call__(self, log: PartitionLog, damage: Damage) -> None:
        self.damaged = True
        error = DamagedLogError(damage, str(log.directory.path))
        tell(f"skipped: {error.message}; the offsets shown may not be the last committed ones")


def read_all_groups(found: Discovery) -> tuple[GroupState, bool]:
    """Return the state of all consumer groups, and whether damage may make it incomplete."""
    report = _DamageReport()
    return read_groups(found.partitions, report, tell), report.damaged
