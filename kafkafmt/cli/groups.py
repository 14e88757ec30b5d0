"""Implement `kafkafmt groups`, which lists consumer groups, their committed offsets and their lags."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import partial
from itertools import groupby

import click

from ..constants import NO_TIMESTAMP
from ..log.catalog import like
from ..log.groups import CommittedOffset, Group, GroupState, Member
from ..log.inspecting import GroupReport, GroupTotal, report_groups
from ..log.verifying import Run
from ..support.text import shown
from .choosing import NotThereError, find, read_all_groups
from .options import TIME_FORMS, Time, format_option, paths_argument, replicas_option
from .output import moment, print_report, show_table, tell

UNKNOWN = "-"
"""Text for an unknown number, as in the output of `kafka-consumer-groups`."""


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
@click.option(
    "--at",
    type=Time(),
    help="List the latest offsets that were committed at TIME or earlier, and the log end offsets at TIME. "
    f"{TIME_FORMS}",
)
@replicas_option
@format_option
def groups(
    paths: tuple[str, ...],
    names: tuple[str, ...],
    members: bool,
    at: int | None,
    replicas: str | None,
    output_format: str,
) -> int:
    """List consumer groups with their committed offsets and lags.

    Committed offsets are read from the topic __consumer_offsets. The lag is the log end offset minus
    the committed offset. The lag is unknown (-) if PATH does not contain the partition. The line
    "total" contains the total lag of a group, with a plus sign if the lag of a partition is unknown.

    Each group belongs to one partition of __consumer_offsets. A broker's log directory contains
    only the groups whose partition is stored on that broker. To list all groups of a cluster,
    specify the log directories of all brokers, and add --replicas longest. Offsets that were
    committed in a transaction are included if the transaction was committed.

    With --at, offset commits after TIME are ignored. Transactions that were committed after TIME are
    ignored too. The log end is the offset of the first record whose timestamp is TIME or later.
    Compaction deletes old commits. If compaction may have deleted a commit that was valid at
    TIME, a message says so.
    """
    found = find(paths, replicas)
    state, damaged = read_all_groups(found, at)
    if names:
        _keep(state, names)
    report = report_groups(state, found.partitions, Run(on_message=tell), at, damaged)
    show = partial(_show_groups, report.groups) if members else partial(show_report, report)
    return print_report(report, output_format, show)


def _keep(state: GroupState, names: tuple[str, ...]) -> None:
    """Keep the groups that match a pattern, and print patterns without a group. NotThereError: none matches."""
    known = {c.group for c in state.offsets} | {g.group for g in state.groups}
    missing = [
        f"no group matches {shown(glob)}: {like('group', glob, known)}"
        for glob in names
        if not any(fnmatchcase(g, glob) for g in known)
    ]
    if len(missing) == len(names):
        raise NotThereError("; ".join(missing))
    for line in missing:
        tell(line)
    state.offsets = [c for c in state.offsets if any(fnmatchcase(c.group, glob) for glob in names)]
    state.groups = [g for g in state.groups if any(fnmatchcase(g.group, glob) for glob in names)]


def show_report(report: GroupReport) -> None:
    names = ("group", "partition", "offset", "log_end", "lag", "committed (UTC)", "expires", "metadata")
    rows = []
    totals = {t.group: t for t in report.totals}
    any_known = any(c.lag is not None for c in report.offsets)
    for group, offsets in groupby(report.offsets, key=lambda c: c.group):
        rows += [_row(c, UNKNOWN if any_known else "") for c in offsets]
        if any_known:
            rows.append((group, "total", "", "", _total(totals[group]), "", "", ""))
    show_table(names, rows, right=("offset", "log_end", "lag"))
    if not rows:
        tell("no group has committed an offset")


def _row(c: CommittedOffset, unknown: str) -> tuple[str, ...]:
    return (
        c.group,
        f"{c.topic}-{c.partition}",
        f"{c.offset}",
        unknown if c.log_end_offset is None else f"{c.log_end_offset}",
        unknown if c.lag is None else f"{c.lag}",
        _second(c.commit_timestamp),
        "" if c.expire_timestamp is None else _second(c.expire_timestamp),
        c.metadata,
    )


def _total(total: GroupTotal) -> str:
    """Format the total lag of a group. Append a plus sign if the lag of a partition is unknown."""
    if total.unknown == total.partitions:
        return UNKNOWN
    return f"{total.lag}+" if total.unknown else f"{total.lag}"


def _second(ms: int) -> str:
    """Format a time with a precision of one second. Return `-` if `ms` is -1."""
    return "-" if ms == NO_TIMESTAMP else moment(ms)[:19]


def _show_groups(groups: Sequence[Group]) -> None:
    rows = []
    for g in groups:
        about = (g.group, g.type, f"{g.epoch}", g.protocol or g.protocol_type or "")
        rows += [(*about, *_about(m)) for m in g.members] or [(*about, "no members", "", "")]
    show_table(["group", "type", "epoch", "protocol", "member", "client", "topics"], rows, right=("epoch",))


def _about(m: Member) -> tuple[str, str, str]:
    static = f" (static: {m.instance_id})" if m.instance_id else ""
    return m.member_id + static, f"{m.client_id} {m.client_host}", ", ".join(m.topics or [])
