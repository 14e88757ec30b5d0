"""Implement `kafkafmt ls`, which lists partitions."""

from __future__ import annotations

import click

from ..log.catalog import PartitionNotFoundError
from ..log.inspecting import Summary, describe
from .choosing import not_there, tell_nothing_to_read
from .options import choice_options, format_option, paths_argument, replicas_option
from .output import moment, print_report, progress_bar, show_table, tell

SPARE = ("format", "epoch", "segments", "codecs", "gaps", "times (UTC)")
"""Columns that are omitted if the terminal is too narrow. The first column is omitted first."""


@click.command(epilog="\b\nExample: kafkafmt ls /var/lib/kafka/data -t 'orders*'")
@paths_argument
@choice_options
@replicas_option
@format_option
def ls(
    paths: tuple[str, ...], topics: tuple[str, ...], numbers: list[int], replicas: str | None, output_format: str
) -> int:
    """List partitions with their state, offsets, records, size, codecs and time range.

    \b
    state   live, delete, stray or future, according to the directory name
    first   log start offset
    next    log end offset
    stable  last stable offset; shown only if a transaction is open
    gaps    number of offsets without a record, usually because of compaction
    epoch   latest leader epoch

    The command reads every batch header and counts damaged spans. `kafkafmt verify` shows where
    they are. If a partition cannot be read, an error message names it, the other partitions are
    listed, and the exit code is 3.
    """
    try:
        with progress_bar("reading headers") as progress:
            found = describe(
                paths, topics=topics, partitions=numbers, replicas=replicas, progress=progress, on_message=tell
            )
    except PartitionNotFoundError as error:
        raise not_there(error) from None
    if not found.partitions and not found.unreadable:
        tell_nothing_to_read()
    return print_report(found, output_format, lambda: show_report(found))


def show_report(report: Summary) -> None:
    numbers = ("segments", "first", "next", "stable", "records", "gaps", "bytes", "epoch")
    lines = []
    for p in report.partitions:
        lines.append(
            (
                f"{p.topic}-{p.partition}",
                p.state + (f", {p.damaged} damaged" if p.damaged else ""),
                f"{p.segments}",
                f"{p.log_start_offset}",
                f"{p.next_offset}",
                f"{p.last_stable_offset}" if p.open_transactions else "",
                "?" if p.records is None else f"{p.records:,}",
                f"{p.gaps:,}" if p.gaps else "",
                f"{p.bytes:,}",
                f"{p.leader_epochs[-1].epoch}" if p.leader_epochs else "",
                ",".join(map(str, p.formats)),
                ",".join(p.codecs),
                _times(p.min_timestamp, p.max_timestamp),
            )
        )
    show_table(("partition", "state", *numbers, "format", "codecs", "times (UTC)"), lines, numbers, SPARE)


def _times(first: int | None, last: int | None) -> str:
    """Format a time range, with the date only once if it is the same. An unknown first time is shown as `-`."""
    if last is None:
        return ""
    start, end = ("-" if ms is None else moment(ms).partition(".")[0] for ms in (first, last))
    day = start[:11] if "T" in start else ""  # moment() returns a number if `datetime` cannot represent the time
    return f"{start} to {end.removeprefix(day)}"
