"""Find the partitions in the PATH arguments, and select partitions and records by the options."""

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
    "all partitions are either internal to Kafka or not live (`kafkafmt ls` lists them; --internal includes internal "
    "topics)"
)


class NotThereError(click.UsageError):
    """Raised if an option names something that does not exist, such as a topic.

    The command reports it as a usage error, but without a hint to --help.
    """


class MissingError(Exception):
    """Raised if a package that a command needs is not installed."""


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
        True if the offsets of the consumer group may be outdated, because newer ones are damaged.
    """

    partitions: list[PartitionDir]
    selection: Selection
    damaged: bool = False


def find(paths: Collection[str], replicas: str | None) -> Discovery:
    """Find all partitions in the PATH arguments.

    Print a message about each file that is not read.
    """
    found = discover(paths, replicas)
    for message in found.messages:
        tell(message)
    return found


def not_there(error: PartitionNotFoundError) -> NotThereError:
    """Return the usage error to raise if no partition is selected."""
    return NotThereError("; ".join(error.missing) or ONLY_OTHERS)


def tell_nothing_to_read() -> None:
    """Print that no partition can be read, for a command without -t and -p."""
    tell(f"nothing to read: {ONLY_OTHERS}")


def choose(
    found: Discovery, topics: Collection[str], numbers: Collection[int], internal: bool = True
) -> list[PartitionDir]:
    """Return the partitions that the options -t, -p and --internal select.

    Report each topic and partition number that does not exist. If none exists, raise NotThereError.
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
    """Return the partitions and records that the options and `selection` select.

    If a consumer group is given, only topics for which it has committed offsets are selected. Each
    partition is read from the group's committed offset.
    """
    chosen = choose(found, topics, numbers, internal)
    if group is None:
        return Choice(chosen, selection)
    if selection.start is not None:
        raise click.UsageError("--group sets the start of the range; with --group, -o must have the form :TO")
    state, damaged = read_groups(found)
    committed = state.committed(group)
    if not committed:
        known = like(group, {c.group for c in state.offsets})
        raise NotThereError(f"group {group!r} has not committed any offsets: {known}")
    group_topics = {topic for topic, _ in committed}
    kept = [d for d in chosen if d.topic in group_topics]
    if not kept:
        names = ", ".join(sorted(group_topics))
        raise NotThereError(f"group {group!r} has not committed any offsets for the selected topics, only for {names}")
    for d in kept:
        _tell_start(d, group, committed.get(d.key))
    return Choice(kept, replace(selection, start=OffsetBound("group", committed=committed)), damaged)


def _tell_start(directory: PartitionDir, group: str, offset: int | None) -> None:
    """If a partition is not read from a committed offset of the group, print the reason."""
    name = f"{directory.topic}-{directory.partition}"
    if offset is None:
        tell(f"{name}: group {group} has not committed an offset; reading starts at the log start offset")
    elif offset < directory.log_start_offset:
        start = directory.log_start_offset
        tell(
            f"{name}: the committed offset {offset} of group {group} is below the log start offset; reading starts at {start}"
        )


def read_groups(found: Discovery) -> tuple[GroupState, bool]:
    """Return the state of all consumer groups, and True if damage may have hidden a part of it.

    Damage is reported on stderr.
    """
    directories = [d for d in found.partitions if d.topic == GROUPS_TOPIC and d.readable]
    if not directories:
        raise NoLogError(
            f"PATH does not contain a partition of {GROUPS_TOPIC}, the topic that stores the offsets of consumer groups"
        )
    damaged: list[Damage] = []

    def skip(log: PartitionLog, damage: Damage) -> None:
        damaged.append(damage)
        error = DamagedLogError(damage, str(log.directory.path))
        tell(f"skipped: {error.message}; newer committed offsets may be missing")

    logs = (PartitionLog(d, tell=tell) for d in directories)
    state = read_group_state(logs, skip)
    if state.unreadable:
        tell(f"{state.unreadable} records of {GROUPS_TOPIC} have an unknown format and were skipped")
    return state, bool(damaged)
