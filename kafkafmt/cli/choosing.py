"""Find the partitions in the PATH arguments, and choose those that the options select."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import click

from ..log import Damage, DamagedLogError, Discovery, NoLogError, PartitionDir, PartitionLog, discover
from ..log.reading.choice import PartitionNotFoundError, choose_partitions
from ..log.reading.groups import GROUPS_TOPIC, GroupState, read_group_state
from ..log.reading.record_selection import OffsetBound, Selection
from ..log.reading.selection import like
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
    state, damaged = read_groups(found)
    committed = state.committed(group)
    if not committed:
        known = like(group, {c.group for c in state.offsets})
        raise NotThereError(f"group {group!r} has committed no offsets: {known}")
    group_topics = {topic for topic, _ in committed}
    kept = [d for d in chosen if d.topic in group_topics]
    if not kept:
        names = ", ".join(sorted(group_topics))
        raise NotThereError(f"group {group!r} has committed no offsets for the selected topics, only for {names}")
    for d in kept:
        _tell_start(d, group, committed.get(d.key))
    return Choice(kept, replace(selection, start=OffsetBound("group", committed=committed)), damaged)


def _tell_start(directory: PartitionDir, group: str, offset: int | None) -> None:
    """If reading a partition does not start at a committed offset, print the reason."""
    name = f"{directory.topic}-{directory.partition}"
    if offset is None:
        tell(f"{name}: group {group} has committed no offset; read from the log start offset")
    elif offset < directory.log_start_offset:
        start = directory.log_start_offset
        tell(f"{name}: group {group} is at offset {offset}, below the log start offset; read from {start}")


def read_groups(found: Discovery) -> tuple[GroupState, bool]:
    """Return the state of all consumer groups, and whether damage may make it incomplete.

    Damage is reported on stderr.
    """
    directories = [d for d in found.partitions if d.topic == GROUPS_TOPIC and d.readable]
    if not directories:
        raise NoLogError(f"PATH contains no partition of {GROUPS_TOPIC}, which stores the offsets of consumer groups")
    damaged: list[Damage] = []

    def skip(log: PartitionLog, damage: Damage) -> None:
        damaged.append(damage)
        error = DamagedLogError(damage, str(log.directory.path))
        tell(f"skipped: {error.message}; the offsets shown may not be the last committed ones")

    logs = (PartitionLog(d, tell=tell) for d in directories)
    state = read_group_state(logs, skip)
    if state.unreadable:
        tell(f"{state.unreadable} records of {GROUPS_TOPIC} have an unknown format and were omitted")
    return state, bool(damaged)
