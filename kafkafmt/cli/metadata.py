"""Implement `kafkafmt metadata`, which shows and compares the state of KRaft clusters."""

from __future__ import annotations

from typing import Any

import click

from ..constants import MAX_OFFSET
from ..kraft.cluster_metadata import ClusterMetadata, MetadataRangeError
from ..kraft.cluster_metadata import metadata as read_metadata
from ..kraft.diff import DIFF_VIEWS, MetadataDiff
from ..kraft.models import VIEWS
from ..kraft.tables import TABLES, cells, difference_text
from ..support.text import encode_json, shown
from ..support.times import parse_time
from .choosing import NotThereError
from .options import TIME_FORMS, Decorator, InputPath, ParamType, format_option, limit_batch_option
from .output import keep_exit_code, raw_in_a_pipe, show, show_table, stdout, tell

Moment = tuple[int | None, int | None]
"""Type of the value of --at: a pair of an offset and a time in milliseconds. At least one of the two is None."""


class OffsetOrTime(ParamType[Moment]):
    """Click parameter type for an offset or a time: `OFFSET` or `@TIME`."""

    name = "OFFSET|@TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Moment:
        if isinstance(value, tuple):
            return value
        try:
            if value.startswith("@"):
                return None, parse_time(value[1:])
            if value.isascii() and value.isdigit() and int(value) <= MAX_OFFSET:
                return int(value), None
        except ValueError as error:
            self.fail(str(error), param, ctx)
        self.fail(f"{shown(value)} is neither an offset nor @TIME", param, ctx)


class WithDiff(click.Command):
    """Click command class for `kafkafmt metadata`. Its first argument is a path or the subcommand `diff`."""

    @property
    def subcommands(self) -> dict[str, click.Command]:
        return {"diff": diff}

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return the click context of `metadata`. If the first argument is a subcommand, return the subcommand's context."""
        if args and args[0] in self.subcommands:
            return self.subcommands[args[0]].make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


at_option: Decorator = click.option(
    "--at",
    "moment",
    type=OffsetOrTime(),
    default=(None, None),
    show_default=False,
    help=f"Show the state before this offset of the metadata log, or at this time. {TIME_FORMS}",
)


@click.command(
    cls=WithDiff,
    epilog="\b\nExamples: kafkafmt metadata /var/lib/kafka/data topics\n"
    "          kafkafmt metadata diff /backup/data /var/lib/kafka/data",
)
@click.argument("path", metavar="PATH", type=InputPath())
@click.argument("view", metavar="[VIEW]", required=False, type=click.Choice(VIEWS))
@at_option
@click.option(
    "--as",
    "form",
    type=click.Choice(["commands"]),
    help="Print a shell script that recreates topics, configs, quotas and ACLs with Kafka's tools.",
)
@limit_batch_option
@format_option
def metadata(
    path: str, view: str | None, moment: Moment, form: str | None, max_batch_bytes: int, output_format: str
) -> int:
    """Show the state of a KRaft cluster: topics, configs, ACLs, brokers, and so on.

    PATH is the log directory of a broker or a controller, the directory __cluster_metadata-0 in it,
    or a snapshot (*.checkpoint). The state is rebuilt from the newest usable snapshot and the log
    after it. Passwords, keys and other sensitive values are never shown.

    \b
    VIEW is one of these tables:
      topics       topics with their ids and numbers of partitions
      partitions   leaders, replicas and in-sync replicas
      configs      dynamic configs of topics, brokers, groups and client metrics
      acls         access control entries
      brokers      registered brokers
      quotas       client quotas
      scram        SCRAM users, without their credentials
      features     finalized features, such as metadata.version
      voters       voters of the controller quorum
      controllers  registered controllers
      delegation_tokens
                   delegation tokens, without their HMACs
      cluster      cluster id, offsets and snapshot of the state
    Without VIEW, all tables that are not empty are shown.

    `kafkafmt metadata diff A B` compares two states.

    Records at the end of the log may be uncommitted, because the files do not contain the high
    watermark. A message reports their offsets. If offsets are missing, a message names them, and
    later records are applied. If the log is damaged, the state before the damage
    is shown, and the exit code is 1.
    """
    if form is not None and (view is not None or output_format == "json"):
        raise click.UsageError("--as cannot be combined with VIEW or --format json")
    state = _read(path, moment, max_batch_bytes)
    with keep_exit_code(state.exit_code):
        if form == "commands":
            click.echo("\n".join(map(raw_in_a_pipe, state.commands().split("\n"))), nl=False)
        elif output_format == "json":
            click.echo(encode_json(state.to_dict(view)))
        elif view is not None:
            _show_table(state, view)
            if not state.view(view):
                tell(f"the table {view} is empty")
        else:
            show_report(state)
    return state.exit_code


def _read(path: str, moment: Moment, max_batch_bytes: int) -> ClusterMetadata:
    offset, millis = moment
    try:
        return read_metadata(path, at=offset, at_time=millis, max_batch_bytes=max_batch_bytes, on_message=tell)
    except MetadataRangeError as error:
        raise NotThereError(str(error)) from None


def _show_table(state: ClusterMetadata, view: str) -> None:
    table = TABLES[view]
    show_table(tuple(table.columns), cells(view, state.view(view)), table.right)


def show_report(state: ClusterMetadata | MetadataDiff) -> None:
    """Print each table that is not empty, with its name, or each difference."""
    if isinstance(state, MetadataDiff):
        for difference in state.differences:
            show(difference_text(difference))
        return
    first = True
    for view in ("cluster", *(name for name in VIEWS if name != "cluster")):
        if not state.view(view):
            continue
        click.echo(("" if first else "\n") + click.style(f"[{view}]", bold=True), file=stdout())
        _show_table(state, view)
        first = False


@click.command(epilog="\b\nExample: kafkafmt metadata diff /backup/data /var/lib/kafka/data --view topics")
@click.argument("first", metavar="A", type=InputPath())
@click.argument("second", metavar="B", type=InputPath())
@click.option(
    "--view",
    "views",
    multiple=True,
    type=click.Choice(DIFF_VIEWS),
    help="Compare only this table. May be repeated.",
)
@limit_batch_option
@format_option
def diff(first: str, second: str, views: tuple[str, ...], max_batch_bytes: int, output_format: str) -> int:
    """Compare the states of two KRaft clusters, or of one cluster in two directories.

    A and B are paths as in `kafkafmt metadata`. Each line of the output describes a row that was
    added, removed or changed from A to B. If A and B belong to different clusters, the command does
    not compare topic ids, directory ids and partition epochs. If there is a difference, the exit
    code is 1.
    """
    old, new = (_read(path, (None, None), max_batch_bytes) for path in (first, second))
    found = old.diff(new, views=views or None)
    exit_code = max(found.exit_code, old.exit_code, new.exit_code)
    with keep_exit_code(exit_code):
        if output_format == "json":
            click.echo(encode_json(found.to_dict()))
        else:
            show_report(found)
            if found.equal:
                tell("no difference")
    return exit_code
