"""`kafkafmt groups`: consumer groups and what they have committed."""

from __future__ import annotations

from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import click

from ..constants import NO_TIMESTAMP
from ..log import Damage, DamagedLogError, Discovery, NoLogError, PartitionDir, PartitionLog
from ..log.reading.groups import (
    GROUPS_TOPIC,
    CommittedOffset,
    Group,
    GroupState,
    Member,
    read_group_state,
)
from ..log.reading.selection import OffsetBound, OffsetRange, like
from ..text import encode_json
from .common import (
    EXIT_DAMAGE,
    NotThereError,
    find,
    format_option,
    moment,
    paths_argument,
    replicas_option,
    show_table,
    tell,
)


class GroupStart(NamedTuple):
    """Where --group begins. damaged: the committed offsets may be older than the last ones."""

    chosen: list[PartitionDir]
    offsets: OffsetRange
    damaged: bool


@click.command(epilog="Example: kafkafmt groups /var/lib/kafka/data -g 'billing*'")
@paths_argument
@click.option("-g", "--group", "names", multiple=True, metavar="GLOB", help="Only these groups; may be repeated.")
@click.option("--members", is_flag=True, help="The groups with their members, in place of the offsets.")
@replicas_option
@format_option
def groups(
    paths: tuple[str, ...], names: tuple[str, ...], members: bool, replicas: str | None, output_format: str
) -> int:
    """Consumer groups: the offsets that they have committed, as __consumer_offsets has them.

    A broker's directory holds the groups that it coordinates. Offsets of a transaction count once it is committed.
    """
    state, damaged = read_groups(find(paths, replicas))
    if names:
        _only(state, names)
    if output_format == "json":
        rows = {"offsets": [c._asdict() for c in state.offsets], "groups": [_as_json(g) for g in state.groups]}
        click.echo(encode_json(rows))
    elif members:
        _show_groups(state.groups)
    else:
        _show_offsets(state.offsets)
    return EXIT_DAMAGE if damaged else 0


def _only(state: GroupState, names: tuple[str, ...]) -> None:
    """Leave the groups that globs mean. One that matches nothing is told, and wrong usage where that is all of them."""
    known = _known(state)
    missing = [
        f"no group matches {glob!r}: {like(glob, known)}"
        for glob in names
        if not any(fnmatchcase(g, glob) for g in known)
    ]
    if len(missing) == len(names):
        raise NotThereError("; ".join(missing))
    for line in missing:
        tell(line)
    state.offsets = [c for c in state.offsets if any(fnmatchcase(c.group, glob) for glob in names)]
    state.groups = [g for g in state.groups if any(fnmatchcase(g.group, glob) for glob in names)]


def _known(state: GroupState) -> set[str]:
    return {c.group for c in state.offsets} | {g.group for g in state.groups}


def read_groups(found: Discovery) -> tuple[GroupState, bool]:
    """The state of all groups, and whether damage may have cost a part of it, which is told."""
    directories = [d for d in found.partitions if d.topic == GROUPS_TOPIC and (d.state == "live" or d.named)]
    if not directories:
        raise NoLogError(
            f"there is no partition of {GROUPS_TOPIC} under PATH, where consumer groups keep their offsets"
        )
    hurt: list[Damage] = []

    def skip(log: PartitionLog, damage: Damage) -> None:
        hurt.append(damage)
        tell(
            f"skipped: {DamagedLogError(damage, str(log.directory.path)).message}; offsets may be older than the last committed ones"
        )

    logs = (PartitionLog(d, tell=tell) for d in directories)
    state = read_group_state(logs, skip)
    if state.unreadable:
        tell(f"{state.unreadable} records of {GROUPS_TOPIC} have a form that is not known; left out")
    return state, bool(hurt)


def start_at_group(found: Discovery, chosen: list[PartitionDir], name: str, offsets: OffsetRange) -> GroupStart:
    """For --group: the partitions of the topics that the group has committed offsets of, read from those on."""
    if offsets.start is not None:
        raise click.UsageError("--group says where to begin: -o can only be :TO beside it")
    state, damaged = read_groups(found)
    committed = {(c.topic, c.partition): c.offset for c in state.offsets if c.group == name}
    topics = {topic for topic, _ in committed}
    kept = [d for d in chosen if d.topic in topics]
    if not committed:
        raise NotThereError(f"group {name!r} has committed no offset: {like(name, {c.group for c in state.offsets})}")
    if not kept:
        raise NotThereError(
            f"group {name!r} has committed no offset of what is chosen, but of topic {', '.join(sorted(topics))}"
        )
    for d in kept:
        offset = committed.get(d.key)
        if offset is None:
            tell(f"{d.topic}-{d.partition}: group {name} has committed no offset of it; read from the log start")
        elif offset < d.log_start_offset:
            tell(
                f"{d.topic}-{d.partition}: group {name} is at offset {offset}, below the log start; read from {d.log_start_offset} on"
            )
    return GroupStart(kept, OffsetRange(OffsetBound("group", committed=committed), offsets.end), damaged)


def _as_json(group: Group) -> dict[str, Any]:
    return asdict(group) | {"members": [m._asdict() for m in group.members]}


def _show_offsets(offsets: list[CommittedOffset]) -> None:
    rows = [
        (
            c.group,
            f"{c.topic}-{c.partition}",
            f"{c.offset}",
            _second(c.commit_timestamp),
            "" if c.expire_timestamp is None else _second(c.expire_timestamp),
            c.metadata,
        )
        for c in offsets
    ]
    names = ("group", "partition", "offset", "committed (UTC)", "expires", "metadata")
    show_table(names, rows, right=("offset",))
    if not rows:
        tell("no group has committed an offset")


def _second(ms: int) -> str:
    """Return a time to the second; `-` if there is none."""
    return "-" if ms == NO_TIMESTAMP else moment(ms)[:19]


def _show_groups(groups: list[Group]) -> None:
    rows = []
    for g in groups:
        about = (g.group, g.type, f"{g.epoch}", g.protocol or g.protocol_type or "")
        rows += [(*about, *_about(m)) for m in g.members] or [(*about, "no members", "", "")]
    show_table(["group", "type", "epoch", "protocol", "member", "client", "topics"], rows, right=("epoch",))


def _about(m: Member) -> tuple[str, str, str]:
    static = f" (static: {m.instance_id})" if m.instance_id else ""
    return m.member_id + static, f"{m.client_id} {m.client_host}", ", ".join(m.topics or [])
