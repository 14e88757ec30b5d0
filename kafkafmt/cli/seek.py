"""`kafkafmt seek`: where an offset or a time lies."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from glob import escape
from typing import Any, NamedTuple

import click

from ..constants import NO_TIMESTAMP
from ..log import PartitionLog
from ..log.reading.lookups import Place, find_max_timestamp, find_offset, find_timestamp
from ..log.reading.selection import parse_time
from ..text import encode_json
from .common import choose, counted, find, moment, paths_argument, reading_options, show, tell

ORDER = "kafkafmt.seek.order"
LATEST, EARLIEST, MAX_TIMESTAMP = "latest", "earliest", "max-timestamp"
WORDS = {"-1": LATEST, "-2": EARLIEST, "-3": MAX_TIMESTAMP}
"""What Kafka's tools take in place of a time, by number; or by these words."""

TIME_HELP = (
    "The first at or after a time: milliseconds or ISO (UTC); or latest (-1), earliest (-2), max-timestamp (-3)."
)


class Answer(NamedTuple):
    """A line of output; None for what there is not."""

    offset: int | None = None
    timestamp: int | None = None
    segment: str | None = None
    position: int | None = None


def find_time(log: PartitionLog, time: int | str) -> Answer:
    if time == LATEST:
        return Answer(log.next_offset)
    if time == EARLIEST:
        return _answer(find_offset(log, 0))._replace(offset=log.log_start_offset, timestamp=None)
    return _answer(find_max_timestamp(log) if isinstance(time, str) else find_timestamp(log, time))


def find_record(log: PartitionLog, offset: int) -> Answer:
    return _answer(find_offset(log, offset))


def _answer(place: Place | None) -> Answer:
    return Answer() if place is None else Answer(*place)


LOOKUPS: dict[str, Callable[[PartitionLog, Any], Answer]] = {"--offset": find_record, "--timestamp": find_time}


class Time(click.ParamType):  # type: ignore[type-arg]
    """Milliseconds or ISO, with or without the @ of `cat -o`; or what Kafka's tools take in place of one."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        word = WORDS.get(value, value)
        if word in WORDS.values():
            return str(word)
        text = str(value).removeprefix("@")
        if text == value and re.fullmatch("-[0-9]+", text):
            meant = ", ".join(f"{number} is {name}" for number, name in WORDS.items())
            self.fail(f"{value} is no time here: {meant}; @{value} is so many milliseconds before 1970", param, ctx)
        try:
            return parse_time(text)
        except ValueError as error:
            self.fail(f"{value!r} is no time: {error}", param, ctx)


class InOrder(click.Command):
    """Keeps in which order the questions were asked, across both options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        names = (a.partition("=")[0] for a in args)
        ctx.meta[ORDER] = [LOOKUPS[n] for n in names if n in LOOKUPS]
        return super().parse_args(ctx, args)


@click.command(
    cls=InOrder, epilog="Example: kafkafmt seek /var/lib/kafka/data -t orders -p 3 --timestamp 2026-01-01T12:00"
)
@paths_argument
@click.option("-t", "--topic", required=True, help="The topic.")
@click.option("-p", "--partition", type=click.IntRange(min=0), required=True, help="The partition.")
@click.option(
    "--offset",
    "offsets",
    type=click.IntRange(min=0),
    multiple=True,
    help="The first record at or after it; may be repeated.",
)
@click.option("--timestamp", "times", type=Time(), multiple=True, help=TIME_HELP)
@reading_options
@click.pass_context
def seek(
    ctx: click.Context,
    paths: tuple[str, ...],
    topic: str,
    partition: int,
    offsets: tuple[int, ...],
    times: tuple[int | str, ...],
    replicas: str | None,
    max_batch_bytes: int,
    output_format: str,
) -> int:
    """Where an offset or a time lies, as a broker's ListOffsets answers: one line a question, in the order asked."""
    if not offsets and not times:
        raise click.UsageError("ask for an --offset or a --timestamp")
    chosen = choose(find(paths, replicas), (escape(topic),), [partition])
    log = PartitionLog(chosen[0], max_batch_bytes=max_batch_bytes, tell=tell)
    waiting: dict[Any, Iterator[Any]] = {find_record: iter(offsets), find_time: iter(times)}
    for look in ctx.meta[ORDER]:
        question, before = next(waiting[look]), _spent(log)
        answer = look(log, question)
        asked = moment(question) if look is find_time and isinstance(question, int) else str(question)
        _show(
            log, asked, answer, [after - then for after, then in zip(_spent(log), before, strict=True)], output_format
        )
    return 0


def _spent(log: PartitionLog) -> tuple[int, int, int]:
    return log.bytes_read, log.reads, log.planned


def _show(log: PartitionLog, question: str, answer: Answer, cost: list[int], output_format: str) -> None:
    way = f"{counted(cost[2], 'segment')} walked whole" if cost[2] else "by the indexes"
    read = (
        f"({way}, {cost[0]:,} bytes read)" if cost[2] else f"({way}, {cost[0]:,} bytes in {counted(cost[1], 'read')})"
    )
    if output_format == "json":
        row = {"topic": log.topic, "partition": log.partition} | answer._asdict() | {"bytes_read": cost[0]}
        click.echo(encode_json(row))
    elif answer.offset is None:
        show(f"{question}: nothing at or after it {read}")
    else:
        time = "" if answer.timestamp is None else f", timestamp {answer.timestamp} ({moment(answer.timestamp)})"
        time = ", no timestamp" if answer.timestamp == NO_TIMESTAMP else time
        where = "" if answer.segment is None else f", in {answer.segment} at {answer.position}"
        what = {LATEST: ", where the log ends", EARLIEST: ", where the log starts"}.get(question, "")
        show(f"{question}: offset {answer.offset}{what}{time}{where} {read}")
