"""`kafkafmt export`: export log directories to Parquet with Spark."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..log.auditing.salvage_output import OutputPlaceError
from ..log.reading.record_selection import OffsetRange, Selection
from ..spark.export.api import needed_packages, spark_session
from ..spark.export.errors import OutputExistsError, SparkError
from ..spark.export.layout import OutputLayout
from ..spark.export.options import CODECS, DEFAULT_ZSTD_LEVEL, ON_ERROR, ZSTD_LEVELS, ExportOptions
from ..text import encode_json, plain
from .choosing import MissingError, choose_range, find
from .options import (
    InputPath,
    isolation_option,
    paths_argument,
    range_options,
    reading_options,
    selection_options,
)
from .output import EXIT_DAMAGE, EXIT_INTERRUPTED, EXIT_UNREADABLE, may_be_lost, tell

if TYPE_CHECKING:
    from ..spark.export.report import ExportReport

MOST_LINES = 20
"""Largest number of partitions, damaged spans and transactions that the text output lists."""


@click.command(
    epilog="Example: kafkafmt export /var/lib/kafka/data -t 'orders*' --output /archive/orders --master 'local[8]'"
)
@paths_argument
@click.option(
    "--output",
    required=True,
    metavar="OUT",
    type=InputPath(),
    help="Directory to create, also in a bucket (s3://, gs://, az://). Missing parent directories are created too.",
)
@click.option(
    "--overwrite", is_flag=True, help="Replace an existing OUT. The old OUT stays intact until the new one is complete."
)
@selection_options
@range_options
@isolation_option
@click.option(
    "--on-error",
    type=click.Choice(ON_ERROR),
    default="quarantine",
    show_default=True,
    help='What to do if data is damaged. "quarantine" exports all intact records and copies the damaged spans to OUT/quarantine. '
    '"fail" stops and does not create OUT.',
)
@click.option(
    "--compression",
    type=click.Choice(CODECS),
    default="zstd",
    show_default=True,
    help="Compression codec of the Parquet files.",
)
@click.option(
    "--compression-level",
    type=click.IntRange(*ZSTD_LEVELS),
    help=f"Compression level of zstd. Requires --compression zstd.  [default: {DEFAULT_ZSTD_LEVEL}]",
)
@click.option(
    "--master",
    default="local[*]",
    show_default=True,
    help="Spark master URL. Every executor must be able to access PATH and OUT.",
)
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="Spark setting. May be repeated.")
@reading_options
def export(
    conf: tuple[str, ...],
    output_format: str,
    numbers: list[int],
    offsets: OffsetRange,
    isolation: str,
    below_log_start: bool,
    **given: Any,
) -> int:
    """Export partitions to Parquet with Spark.

    OUT contains data/topic=…/partition=…/*.parquet, quarantine and report.json.

    OUT appears only when the export is complete. By default, damage does not stop the export: intact records
    are exported, the damaged bytes and their offsets are written to OUT/quarantine, and the exit code is 1.
    """
    if given["compression_level"] is not None and given["compression"] != "zstd":
        raise click.UsageError("--compression-level requires --compression zstd")
    selection = Selection(*offsets, isolation=isolation, below_log_start=below_log_start)
    options = ExportOptions(partitions=tuple(numbers), selection=selection, **given)
    settings = dict(_setting(text) for text in conf)
    report: ExportReport | None = None
    try:
        with _errors_as_usage(), needed_packages():
            from ..spark.export.job import Export

            found = find(given["paths"], options.replicas)
            choice = choose_range(found, options.topics, numbers, options.internal, options.group, selection)
            if choice.damaged and options.on_error == "fail":
                return EXIT_DAMAGE
            job = Export(found, choice.partitions, replace(options, selection=choice.selection), tell)
            with _progress() as progress, spark_session(options.master, progress, settings) as spark:
                try:
                    report = job.run(spark, progress)
                except SparkError as error:
                    tell(str(error))
                    return EXIT_UNREADABLE
    except KeyboardInterrupt:
        if report is None:
            tell("interrupted: nothing was exported")
            return EXIT_INTERRUPTED
        raise
    if output_format == "json":
        click.echo(encode_json(report.to_dict()))
    else:
        show(report)
    return 0 if report.ok and not choice.damaged else EXIT_DAMAGE


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.UsageError(f"--conf is {text!r}; it must have the form KEY=VALUE")
    return key, value


@contextlib.contextmanager
def _errors_as_usage() -> Iterator[None]:
    """Convert errors of the export API to usage errors that suggest options of the command."""
    try:
        yield
    except OutputExistsError as error:
        remedy = "" if error.appeared else "; choose another --output, or replace it with --overwrite"
        happened = "was created while the export ran; nothing was replaced" if error.appeared else "already exists"
        raise click.UsageError(f"{error.output} {happened}{remedy}") from error
    except OutputPlaceError as error:
        raise click.UsageError(f"--output {error.output} {error.reason}") from error
    except SparkError as error:
        raise click.UsageError(str(error)) from error
    except ImportError as error:
        if error.name is None:  # an ImportError without a name means that Java is missing
            raise click.ClickException(str(error)) from error
        raise MissingError(str(error)) from error


@contextlib.contextmanager
def _progress() -> Iterator[Any]:
    """Provide a function that shows progress in bytes on stderr.

    If stderr is not a terminal, the function shows nothing.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TransferSpeedColumn,
    )

    numbers = (DownloadColumn(), TransferSpeedColumn(), TimeElapsedColumn())
    columns = (SpinnerColumn(), TextColumn("{task.description:<14}"), BarColumn(), *numbers)
    with contextlib.ExitStack() as stack:
        terminal = sys.stderr
        # Use a duplicate of the descriptor, because stderr is redirected while Java starts.
        if terminal.isatty():
            terminal = stack.enter_context(open(os.dup(terminal.fileno()), "w", encoding=terminal.encoding))
        bar = stack.enter_context(
            Progress(*columns, console=Console(file=terminal), disable=not terminal.isatty(), transient=True)
        )
        tasks: dict[str, Any] = {}

        def progress(step: str, done: int, total: int) -> None:
            if step not in tasks:
                for task in tasks.values():
                    bar.update(task, visible=False)
                tasks[step] = bar.add_task(step, total=total or None)
            bar.update(tasks[step], completed=done, total=total or None)

        yield progress


def show(report: ExportReport) -> None:
    """Print the report as a table, followed by the damage and the paths of the output."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    written, seconds = report.written, report.seconds
    table = Table(box=None, pad_edge=False, header_style="bold", show_footer=len(report.partitions) > 1)
    lost = f"{report.quarantined.spans:,}"
    totals = ("in all", f"{written.records:,}", size(report.read.bytes), size(written.bytes), lost)
    table.add_column("partition", totals[0], overflow="ellipsis", no_wrap=True, max_width=60)
    for name, total in zip(("records", "log", "Parquet", "damaged spans"), totals[1:], strict=True):
        table.add_column(name, total, justify="right")
    rows = report.partitions
    shown = (
        rows
        if len(rows) <= MOST_LINES
        else sorted(rows, key=lambda p: (-p.quarantined.spans, -p.read.bytes))[:MOST_LINES]
    )
    for p in shown:
        spans = p.quarantined.spans
        table.add_row(
            Text(plain(f"{p.topic}-{p.partition}")),
            f"{p.written.records:,}",
            size(p.read.bytes),
            size(p.written.bytes),
            f"[red]{spans:,}[/red]" if spans else "0",
        )
    if len(rows) > len(shown):
        table.add_row(f"… {len(rows) - len(shown)} more partitions", "", "", "", "")
    console.print(table)
    for line in damage_lines(report) + doubt_lines(report):
        console.print(plain(line), style="red", markup=False, highlight=False, soft_wrap=True)
    rate = seconds.rows_per_second
    speed = f", {rate:,} rows/s" if rate else ""
    console.print(
        f"\n{written.records:,} records in {seconds.total:.1f} s{speed} (Spark's start not counted)", highlight=False
    )
    layout = OutputLayout(Path())
    for what, inner in (("Parquet", layout.data), ("quarantine", layout.quarantine), ("report", layout.report)):
        path = report.output / str(inner)
        console.print(plain(f"{what:<12}{path}"), markup=False, highlight=False, soft_wrap=True)


def damage_lines(report: ExportReport) -> list[str]:
    """Return a line for each damaged span, up to MOST_LINES lines."""
    lines = []
    for p in report.partitions:
        for d in p.quarantined.damaged:
            where = f"{d.file} at {d.position}, {d.length} bytes"
            lines.append(f"DAMAGE  {p.topic}-{p.partition}: {may_be_lost(d)} ({where}: {d.message})")
    return _first(lines, "damaged spans")


def doubt_lines(report: ExportReport) -> list[str]:
    """Return a line for each transaction in doubt, up to MOST_LINES lines."""
    lines = [f"DOUBT   {p.topic}-{p.partition}: {d.message}" for p in report.partitions for d in p.in_doubt]
    return _first(lines, "transactions")


def _first(lines: list[str], what: str) -> list[str]:
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], f"… and {more} more {what}: see the report"] if more > 0 else lines


def size(n: float) -> str:
    """Return a number of bytes as text with a unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            return f"{n:.0f} B" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.1f} TB"
