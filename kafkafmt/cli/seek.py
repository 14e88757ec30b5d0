"""Implement `kafkafmt seek`, which finds records by offset or by timestamp."""

from __future__ import annotations

import re
from collections.abc import Iterator
from glob import has_magic
from typing import Any

import click

from ..constants import NO_TIMESTAMP
from ..log import PartitionLog
from ..log.damage import ReadLimits
from ..log.reading import EARLIEST, LATEST, MAX_TIMESTAMP, Position
from ..log.reading import seek as seek_in
from ..support.text import counted, encode_json, shown
from ..support.times import parse_time
from .choosing import choose, find
from .options import TIME_FORMS, ParamType, WholeNumber, paths_argument, reading_options
from .output import moment, show, tell

ORDER = "kafkafmt.seek.order"
WORDS = {"-1": LATEST, "-2": EARLIEST, "-3": MAX_TIMESTAMP}
"""Numbers that Kafka's tools accept instead of a time, with their names."""
QUESTIONS = {"--offset": "offset", "--timestamp": "timestamp"}
TIME_HELP = (
    f"Find the first record with this timestamp or a later one. {TIME_FORMS} Special values are latest or -1 (the log "
    "end), earliest or -2 (the log start), and max-timestamp or -3 (the first record with the largest timestamp). May "
    "be repeated."
)


class Time(ParamType[int | str]):
    """Click parameter type for a time: milliseconds, an ISO time (both may start with @), or one of `WORDS`."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Convert the value of --timestamp to milliseconds. The result for a special time is its name in `WORDS`."""
        word = WORDS.get(value, value)
        if word in WORDS.values():
            return str(word)
        text = str(value).removeprefix("@")
        if text == value and re.fullmatch("-[0-9]+", text):
            words = ", ".join(f"{number} is {name}" for number, name in WORDS.items())
            self.fail(
                f"{value} is not a time: {words}; @{value} means {value} milliseconds relative to 1970-01-01 UTC",
                param,
                ctx,
            )
        try:
            return parse_time(text)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class InOrder(click.Command):
    """A click command that stores the order in which --offset and --timestamp were given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. Store the order in which --offset and --timestamp occur on the command line."""
        names = (a.partition("=")[0] for a in args)
        ctx.meta[ORDER] = [QUESTIONS[n] for n in names if n in QUESTIONS]
        return super().parse_args(ctx, args)


@click.command(
    cls=InOrder, epilog="\b\nExample: kafkafmt seek /var/lib/kafka/data -t orders -p 3 --timestamp 2026-01-01T12:00"
)
@paths_argument
@click.option("-t", "--topic", required=True, help="Topic to search.")
@click.option(
    "-p",
    "--partition",
    metavar="N",
    type=WholeNumber(min=0),
    help="Partition to search. By default, all partitions of the topic are searched.",
)
@click.option(
    "--offset",
    "offsets",
    metavar="N",
    type=WholeNumber(min=0),
    multiple=True,
    help="Find the first record at or after this offset. May be repeated.",
)
@click.option("--timestamp", "times", type=Time(), multiple=True, help=TIME_HELP)
@reading_options
@click.pass_context
def seek(
    ctx: click.Context,
    paths: tuple[str, ...],
    topic: str,
    partition: int | None,
    offsets: tuple[int, ...],
    times: tuple[int | str, ...],
    replicas: str | None,
    max_batch_bytes: int,
    output_format: str,
) -> int:
    """Find records by offset or by timestamp, as a broker does for a ListOffsets request.

    For each partition, the command prints one line for each --offset and --timestamp, in the order given.
    A line contains the offset and timestamp of the record, the name of the segment, and the position of
    the batch in the segment. The command uses the indexes, so it reads only a small part of the
    log.
    """
    if not offsets and not times:
        raise click.UsageError("specify --offset or --timestamp")
    if has_magic(topic):
        raise click.UsageError(f"-t is {shown(topic)}; seek reads one topic, so -t must be a name without wildcards")
    waiting: dict[str, Iterator[Any]] = {"offset": iter(offsets), "timestamp": iter(times)}
    questions = [(name, next(waiting[name])) for name in ctx.meta[ORDER]]
    for directory in choose(find(paths, replicas), (topic,), [] if partition is None else [partition]):
        log = PartitionLog(directory, ReadLimits(max_batch_bytes), tell=tell)
        for name, question in questions:
            found = seek_in(log, **{name: question})
            if output_format == "json":
                click.echo(encode_json(found.to_dict()))
            else:
                is_time = name == "timestamp" and isinstance(question, int)
                asked = moment(question) if is_time else str(question)
                _show(found, question, asked if partition is not None else f"{topic}-{log.partition}: {asked}")
    return 0


def _show(found: Position, question: int | str, asked: str) -> None:
    if found.segments_planned:
        cost = f"({counted(found.segments_planned, 'segment')} read completely, {found.bytes_read:,} bytes read)"
    else:
        cost = f"(by the indexes, {found.bytes_read:,} bytes in {counted(found.reads, 'read')})"
    if found.offset is None:
        show(f"{asked}: no record at or after it {cost}")
        return
    time = "" if found.timestamp is None else f", timestamp {found.timestamp} ({moment(found.timestamp)})"
    time = ", no timestamp" if found.timestamp == NO_TIMESTAMP else time
    where = "" if found.segment is None else f", in {found.segment} at {found.position}"
    what = {LATEST: ", the log end offset", EARLIEST: ", the log start offset"}.get(str(question), "")
    show(f"{asked}: offset {found.offset}{what}{time}{where} {cost}")
