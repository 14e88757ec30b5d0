"""Implement `kafkafmt stats`, which shows what topics contain."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import click

from ..log.catalog import PartitionNotFoundError
from ..log.inspecting import TOP, Content, DecodedSide, Sizes, StatsReport, TopicStats
from ..registry import SchemaNotFoundError
from ..support.text import counted, offset_range, plain
from ..values.errors import NoSchemasError
from ..values.sides import Formats
from ..view.stats import stats as stats_of
from .chart import sparkline
from .choosing import not_there, tell_nothing_to_read
from .options import (
    DecodingCommand,
    LocalPath,
    Sides,
    WholeNumber,
    choice_options,
    framing_option,
    jobs_option,
    paths_argument,
    reading_options,
    registry_option,
)
from .output import moment, print_report, progress_bar, say, show, show_table, stdout, tell

UNKNOWN = "?"
SPARE = ("batches", "tombstones", "keys", "uncompressed", "times (UTC)")
"""Columns that are omitted if the terminal is too narrow. The first column is omitted first."""
LABEL = 12
"""Width of the first column, which contains labels such as `keys` and `headers`, in characters."""
LONGEST_KEY = 40
"""Longer keys, header keys and values are truncated to this number of characters."""
MOST_LINES = 8
"""Largest number of partitions that are listed for a schema."""


@click.command(cls=DecodingCommand, epilog="\b\nExample: kafkafmt stats /var/lib/kafka/data -t 'orders*' --deep")
@paths_argument
@choice_options
@click.option(
    "--deep",
    is_flag=True,
    help="Also read the records, and show their sizes, keys, null values, headers and decompressed sizes.",
)
@click.option(
    "--top",
    metavar="N",
    type=WholeNumber(min=0),
    default=TOP,
    show_default=True,
    help="Largest number of keys, header keys and producers to list.",
)
@click.option(
    "--decode",
    "sides",
    type=Sides(),
    default={},
    metavar="[=key,value]",
    help="Also decode all keys and values, and show how many records each schema has, what cannot be decoded, and the "
    "nulls and the range of each field. By default, both.",
)
@registry_option
@framing_option
@click.option(
    "--plot",
    "plot_file",
    metavar="FILE",
    type=LocalPath(),
    help="Also write charts to this file: .png or .svg (needs matplotlib), or .html (needs plotly). Internal topics are "
    "shown if -t selects them by a name that begins with _, or if there are no others.",
)
@jobs_option
@reading_options
def stats(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    numbers: list[int],
    deep: bool,
    top: int,
    sides: Formats,
    registry: str | None,
    framing: str,
    plot_file: str | None,
    jobs: int,
    replicas: str | None,
    max_batch_bytes: int,
    output_format: str,
) -> int:
    """Show what topics contain: records, sizes, codecs, keys, headers, producers and rates.

    Without --deep, only batch headers are read. Numbers that require reading the records are then
    unknown (? in the table, null in JSON). Damage inside batches of more than 8 KiB is not detected.

    Only records from the log start offset onwards are counted. "bytes" is the size of the .log
    files. If a partition cannot be read, an error message names it, and the exit code is 3. If there
    is damage, or if keys or values cannot be decoded, the exit code is 1.
    """
    if not sides and (registry is not None or framing != "auto"):
        raise click.UsageError("--registry and --framing need --decode")
    if plot_file is not None:
        from ..log.inspecting import check_plot_path

        try:
            check_plot_path(plot_file)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
    try:
        with progress_bar("reading records" if deep else "reading headers") as progress:
            report = stats_of(
                paths,
                topics=topics,
                partitions=numbers,
                deep=deep,
                top=top,
                decode=sides or False,
                registry=registry,
                framing=framing,
                replicas=replicas,
                max_batch_bytes=max_batch_bytes,
                threads=jobs,
                progress=progress,
                on_message=tell,
            )
    except PartitionNotFoundError as error:
        raise not_there(error) from None
    except (NoSchemasError, SchemaNotFoundError) as error:
        raise click.UsageError(str(error)) from None
    if not report.topics and not report.unreadable:
        tell_nothing_to_read()
    if plot_file is not None and report.topics:
        report.plot(plot_file, internal=any(glob.startswith("_") for glob in topics))
        tell(f"charts: {Path(plot_file)}")
    return print_report(report, output_format, lambda: show_report(report))


def show_report(report: StatsReport) -> None:
    numbers = (
        "records",
        "batches",
        "bytes",
        "uncompressed",
        "ratio",
        "record p50",
        "p99",
        "keys",
        "tombstones",
        "damaged",
    )
    rows = []
    for t in report.topics:
        rows.append((t.topic, *_cells(t.content, report.deep)))
        if len(t.partitions) > 1:
            rows += [(f"  {t.topic}-{p.partition}", *_cells(p.content, report.deep)) for p in t.partitions]
    show_table(("topic", *numbers, "times (UTC)"), rows, numbers, SPARE)
    for t in report.topics:
        _show_topic(t)


def _cells(c: Content, deep: bool) -> tuple[str, ...]:
    sizes, keys = c.record_bytes, c.keys
    return (
        _number(c.records),
        f"{c.batches:,}",
        f"{c.bytes:,}",
        _number(c.bytes_uncompressed),
        UNKNOWN if c.ratio is None else f"{c.ratio:.2f}",
        f"{sizes.p50:,}" if sizes else "",
        f"{sizes.p99:,}" if sizes else "",
        "" if not deep else UNKNOWN if keys is None else f"{'' if keys.exact else '~'}{keys.distinct:,}",
        f"{c.tombstones:,}" if c.tombstones else "",
        f"{c.damaged:,}" if c.damaged else "",
        _times(c),
    )


def _number(n: int | None) -> str:
    return UNKNOWN if n is None else f"{n:,}"


def _times(c: Content) -> str:
    if c.last_timestamp is None:
        return ""
    first = "-" if c.first_timestamp is None else _second(c.first_timestamp)
    return f"{first} to {_second(c.last_timestamp)}"


def _second(ms: int) -> str:
    return moment(ms).partition(".")[0]


def _show_topic(t: TopicStats) -> None:
    c = t.content
    show("")
    show(f"{t.topic}: {counted(len(t.partitions), 'partition')}")
    for name, codec in c.codecs.items():
        batches = counted(codec.batches, "batch")
        records = "an unknown number of records" if codec.records is None else counted(codec.records, "record")
        ratio = "" if codec.ratio is None else f", ratio {codec.ratio:.2f}"
        sizes = f"; batch {_sizes(codec.batch_bytes)}" if codec.batch_bytes else ""
        _line("codec", f"{name}: {batches}, {records}, {codec.bytes:,} bytes{ratio}{sizes}")
    if c.record_bytes is not None and c.null_keys is not None and c.null_values is not None:
        nulls = f"{counted(c.null_keys, 'null key')}, {counted(c.null_values, 'null value')}"
        _line("records", f"{_sizes(c.record_bytes)}; {nulls}")
    if c.keys is not None:
        about = counted(c.keys.distinct, "distinct key") if c.keys.exact else f"about {c.keys.distinct:,} distinct keys"
        _line("keys", about + _top((k.key.decode(errors="backslashreplace"), k.records) for k in c.keys.top))
    if c.headers is not None and c.headers.headers:
        _line(
            "headers",
            f"{counted(c.headers.headers, 'header')} in {counted(c.headers.records, 'record')}{_top(c.headers.names.items())}",
        )
    p = c.producers
    if p.ids != 0 or p.transactional_batches:
        known = "many producers" if p.ids is None else counted(p.ids, "producer")
        more = (
            f"; {p.transactional_batches:,} transactional and {p.control_batches:,} control batches"
            if p.transactional_batches
            else ""
        )
        _line("producers", f"{known}{_top((f'id {i}', n) for i, n in p.top.items())}{more}")
    for side, decoded in (t.decoded or {}).items():
        _show_decoded(side, decoded)
    if c.rate.buckets:
        _show_rate(c)


def _show_decoded(side: str, decoded: DecodedSide) -> None:
    errors = ", ".join(f"{n:,} {code}" for code, n in decoded.by_error.items())
    undecodable = f"; {decoded.undecodable:,} cannot be decoded ({errors})" if errors else ""
    unknown = f"; {counted(decoded.unknown_fields, 'unknown field')}" if decoded.unknown_fields else ""
    _line(f"{side}s", f"{decoded.records:,} decoded{undecodable}{unknown}")
    for use in decoded.by_schema:
        places = ", ".join(
            f"partition {p}: {offset_range(*ends)}" for p, ends in sorted(use.offsets.items())[:MOST_LINES]
        )
        more = f" and {len(use.offsets) - MOST_LINES} more" if len(use.offsets) > MOST_LINES else ""
        name = f"{plain(use.subject)} version {use.version}" + ("" if use.id is None else f" (id {use.id})")
        _line("", f"{name}: {counted(use.records, 'record')}; {places}{more}")
    for field in decoded.fields:
        if field.min is not None or field.nulls:
            spread = "" if field.min is None else f"{_value(field.min)} to {_value(field.max)}"
            nulls = counted(field.nulls, "null") if field.nulls else ""
            _line("", f"{plain(field.name)}: {'; '.join(filter(None, (spread, nulls)))}")


def _value(value: Any) -> str:
    return _short(plain(str(value).lower() if isinstance(value, bool) else str(value)))


def _show_rate(c: Content) -> None:
    width = shutil.get_terminal_size().columns if stdout().isatty() else 80
    chart, start, end, outside = sparkline(c.rate, max(width - LABEL - 2, 10))
    per = (end - start) // len(chart)
    show(f"  {'rate':{LABEL - 2}}{chart}".rstrip())
    more = f"; {counted(outside, 'record')} outside" if outside else ""
    _line("", f"{_second(start)} to {_second(end)}, {_duration(per)} per character{more}")


def _duration(ms: int) -> str:
    for name, unit in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if ms >= unit and ms % unit == 0:
            return f"{ms // unit} {name}"
    return f"{ms // 1000} s"


def _line(label: str, text: str) -> None:
    say(f"  {label:{LABEL - 2}}{text}", LABEL)


def _sizes(sizes: Sizes) -> str:
    return f"size mean {sizes.mean:,.0f}, p50 {sizes.p50:,}, p99 {sizes.p99:,}, max {sizes.max:,} bytes"


def _top(items: Any) -> str:
    """Format the most frequent names and their counts, after a colon. Return "" if there are no names."""
    names = ", ".join(f"{_short(plain(name))} {n:,}" for name, n in items)
    return f": {names}" if names else ""


def _short(name: str) -> str:
    if not name:
        return '""'
    return name if len(name) <= LONGEST_KEY else name[: LONGEST_KEY - 1] + "…"
