"""`kafkafmt seek`: where an offset or a time lies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from glob import escape
from typing import Any

import click

from ..log import PartitionLog
from ..log.selection import parse_time
from ..log.times import Place, find_max_timestamp, find_offset, find_timestamp
from .common import choose, counted, find, format_option, limit_batch_option, paths_argument, replicas_option, tell

ORDER = "kafkafmt.seek.order"
MAX_TIMESTAMP = "max-timestamp"


def find_time(log: PartitionLog, time: int | str) -> Place | None:
    return find_max_timestamp(log) if isinstance(time, str) else find_timestamp(log, time)


LOOKUPS: dict[str, Callable[[PartitionLog, Any], Place | None]] = {"--offset": find_offset, "--timestamp": find_time}


class Time(click.ParamType):  # type: ignore[type-arg]
    """Milliseconds or ISO, or `max-timestamp`."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value == MAX_TIMESTAMP:
            return MAX_TIMESTAMP
        try:
            return parse_time(str(value))
        except ValueError as error:
            self.fail(f"{value!r} is no time: {error}", param, ctx)


class InOrder(click.Command):
    """Keeps in which order the questions were asked, across both options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        names = (a.partition("=")[0] for a in args)
        ctx.meta[ORDER] = [LOOKUPS[n] for n in names if n in LOOKUPS]
        return super().parse_args(ctx, args)


@click.command(cls=InOrder, epilog="Example: kafkafmt seek /var/lib/kafka/data -t orders -p 3 --timestamp 2026-01-01T12:00")
@paths_argument
@click.option("-t", "--topic", required=True, help="The topic.")
@click.option("-p", "--partition", type=click.IntRange(min=0), required=True, help="The partition.")
@click.option("--offset", "offsets", type=click.IntRange(min=0), multiple=True, help="The first record at or after it; may be repeated.")
@click.option("--timestamp", "times", type=Time(), multiple=True, help="By time: milliseconds, ISO (UTC) or max-timestamp.")
@replicas_option
@limit_batch_option
@format_option
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
    waiting: dict[Any, Iterator[Any]] = {find_offset: iter(offsets), find_time: iter(times)}
    for look in ctx.meta[ORDER]:
        question, before = next(waiting[look]), _spent(log)
        place = look(log, question)
        _show(log, question, place, [after - then for after, then in zip(_spent(log), before, strict=True)], output_format)
    return 0


def _spent(log: PartitionLog) -> tuple[int, int, int]:
    return log.bytes_read, log.reads, log.planned


def _show(log: PartitionLog, question: int | str, place: Place | None, cost: list[int], output_format: str) -> None:
    answer = (None, None, None, None) if place is None else tuple(place)
    row = {"topic": log.topic, "partition": log.partition} | dict(zip(("offset", "timestamp", "segment", "position"), answer, strict=True))
    row["bytes_read"] = cost[0]
    way = f"{counted(cost[2], 'segment')} walked whole" if cost[2] else "by the indexes"
    read = f"({way}, {cost[0]:,} bytes read)" if cost[2] else f"({way}, {cost[0]:,} bytes in {counted(cost[1], 'read')})"
    if output_format == "json":
        click.echo(json.dumps(row, ensure_ascii=False))
    elif place is None:
        click.echo(f"{question}: nothing at or after it {read}")
    else:
        where = f"{place.segment} at {place.position}"
        click.echo(f"{question}: offset {place.offset}, timestamp {place.timestamp}, in {where} {read}")
