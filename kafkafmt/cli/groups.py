"""Implement `kafkafmt groups`, which lists consumer groups and their committed offsets."""

from __future__ import annotations

from fnmatch import fnmatchcase

import click

from ..constants import NO_TIMESTAMP
from ..log.reading.groups import CommittedOffset, Group, GroupState, Member, groups_dict
from ..log.reading.selection import like
from ..text import encode_json
from .choosing import NotThereError, find, read_all_groups
from .options import format_option, paths_argument, replicas_option
from .output import EXIT_DAMAGE, moment, show_table, tell


@click.command(epilog="\b\nExample: kafkafmt groups /var/lib/kafka/data -g 'billing*'")
@paths_argument
@click.option(
    "-g",
    "--group",
    "names",
    multiple=True,
    metavar="GLOB",
    help="List only groups whose name matches this pattern. May be repeated.",
)
@click.option("--members", is_flag=True, help="List groups and their members instead of committed offsets.")
@replicas_option
@format_option
def groups(
    paths: tuple[str, ...], names: tuple[str, ...], members: bool, replicas: str | None, output_format: str
) -> int:
    """List consumer groups and their committed offsets, which are read from the topic __consumer_offsets.

    Each group belongs to one partition of __consumer_offsets. A broker's log directory contains
    only the groups whose partition is stored on that broker. To list all groups of a cluster,
    specify the log directories of all brokers, and --replicas longest. Offsets that were committed
    in a transaction are included if the transaction was committed.
    """
    state, damaged = read_all_groups(find(paths, replicas))
    if names:
        _keep(state, names)
    if output_format == "json":
        click.echo(encode_json(groups_dict(state.offsets, state.groups)))
    elif members:
        _show_groups(state.groups)
    else:
        _show_offsets(state.offsets)
    return EXIT_DAMAGE if damaged else 0


def _keep(state: GroupState, names: tuple[str, ...]) -> None:
    """Keep only the consumer groups whose name matches a glob pattern.

    Report each pattern that matches no group. If no pattern matches a group, raise NotThereError.
    """
    known = {c.group for c in state.offsets} | {g.group for g in state.groups}
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
    """Return a time with a precision of one second, or `-` if `ms` is -1."""
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
