"""Implement `kafkafmt export`, which exports log directories to Parquet."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..exporting.api import needed_packages, open_engine, with_default_engine
from ..exporting.errors import DecodingError, OutputExistsError, ResumeError, SparkError
from ..exporting.layout import EMPTY_NAME, OutputLayout, report_of
from ..exporting.options import (
    CODECS,
    COLUMN_NAMES,
    DEFAULT_FILE_SIZE,
    DEFAULT_MASTER,
    DEFAULT_ZSTD_LEVEL,
    ENGINES,
    ON_ERROR,
    PERIODS,
    SMALLEST_FILE_SIZE,
    ZSTD_LEVELS,
    ExportOptions,
    check_columns,
    check_output_name,
)
from ..log.reading import OffsetRange, Selection
from ..log.repairing import OutputPlaceError
from ..support.paths import full_disk_named, without_secrets
from ..support.text import counted, encode_json, plain, quantity, shown, size
from ..values.sides import SIDES, side_of
from .choosing import MissingError, choose_range, find
from .options import (
    ByteSize,
    DecodingCommand,
    InputPath,
    Names,
    Sides,
    WholeNumber,
    framing_option,
    isolation_option,
    paths_argument,
    range_options,
    reading_options,
    registry_option,
    selection_options,
)
from .output import EXIT_DAMAGE, EXIT_INTERRUPTED, EXIT_UNREADABLE, keep_exit_code, may_be_lost, stdout, tell

if TYPE_CHECKING:
    from ..exporting.report import ExportReport, SideDecoded

MOST_LINES = 20
"""The text output lists at most this number of partitions, damaged byte ranges or transactions."""
FEWEST_FOR_A_RATE = 100_000
"""The time of an export with fewer records is mostly that of its start, so the text output contains no rate."""


class Columns(Names):
    """Click parameter type for a list of columns, and of fields of decoded keys and values, such as `value.id`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Split a list of names at the commas, and check that each column is known."""
        if not isinstance(value, tuple):
            names = [name.strip() for name in value.split(",")]
            super().convert(",".join(map(side_of, names)), param, ctx)
            value = tuple(names)
        return tuple(value)


@click.command(
    cls=DecodingCommand,
    epilog="Example: kafkafmt export /var/lib/kafka/data -t 'orders*' --output /archive/orders --master 'local[8]'",
)
@paths_argument
@click.option(
    "--output",
    "-O",
    required=True,
    metavar="OUT",
    type=InputPath(),
    help="Directory to create: a local path, or a URL in a bucket (s3://, gs://, az://). Missing parent directories are "
    "created too. If the name ends with .parquet, OUT is a single local file, and OUT.report.json is its report.",
)
@click.option(
    "--overwrite",
    is_flag=True,
    help="If OUT exists, replace it. The old OUT remains intact until the new OUT is complete.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="If OUT exists, add the records that are new since the last export. No record is exported twice. OUT must be a local "
    "directory.",
)
@selection_options
@range_options
@isolation_option
@click.option(
    "--on-error",
    type=click.Choice(ON_ERROR),
    default="quarantine",
    show_default=True,
    help='How to handle damaged data. "quarantine" exports all intact records, and copies the damaged bytes to '
    'OUT/quarantine. "fail" stops at the first damage and does not create OUT.',
)
@click.option(
    "--compression",
    type=click.Choice(CODECS),
    default="zstd",
    show_default=True,
    help="Compression codec for the Parquet files.",
)
@click.option(
    "--compression-level",
    type=WholeNumber(*ZSTD_LEVELS),
    help=f"Compression level for zstd. Requires --compression zstd.  [default: {DEFAULT_ZSTD_LEVEL}]",
)
@click.option(
    "--columns",
    type=Columns(COLUMN_NAMES),
    help="Write only these columns, in this order. In a directory, the names of the subdirectories also contain the topic "
    "and the partition. With --decode, value.FIELD selects a field.  [default: all except timestampMillis]",
)
@click.option(
    "--decode",
    type=Sides(),
    default={},
    metavar="[=key,value]",
    help="Decode keys and values into typed columns, by the schemas with which they were written. By default, both. What "
    "cannot be decoded is in the columns value_raw and value_error (key_raw and key_error), and the exit code is 1.",
)
@registry_option
@framing_option
@click.option(
    "--schema",
    metavar="SCHEMA",
    default="union",
    show_default=True,
    help='With --decode: the schemas that decide the columns: all versions ("union"), "latest", a version, or id:N.',
)
@click.option(
    "--layout",
    type=click.Choice(["nested", "flat"]),
    default="nested",
    show_default=True,
    help="With --decode: flat writes the fields of the value as columns of their own, those of the key with the prefix "
    "key_, and all other columns with the prefix kafka_.",
)
@click.option(
    "--file-size",
    type=ByteSize(),
    metavar="BYTES",
    default=DEFAULT_FILE_SIZE,
    help="Target size of a Parquet file, such as 64MB. k, m and g are powers of 1024. In small exports, "
    "files are smaller, so that every core writes several files.  [default: 256MB]",
)
@click.option(
    "--partition-by",
    type=click.Choice(PERIODS),
    help="Add a directory level date=YYYY-MM-DD, or two levels with hour=HH, from the timestamp in UTC. Records without a "
    f"timestamp are in date={EMPTY_NAME}, the null partition of Hive and Spark.",
)
@click.option(
    "--join-small",
    is_flag=True,
    help="Write small partitions of a topic to the same files. The files then contain the column partition, and have no "
    "directory partition=N.",
)
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    help='Engine that runs the tasks: "spark", or "local" with one thread per CPU of this process. The local engine needs '
    "neither pyspark nor Java, and starts at once. Both engines write the same output.  [default: spark, or local if "
    "pyspark or Java is missing]",
)
@click.option(
    "--master",
    default=DEFAULT_MASTER,
    show_default=True,
    help="Master URL for Spark. Every executor must be able to access PATH and OUT.",
)
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="Spark setting. May be repeated.")
@reading_options
def export(
    conf: tuple[str, ...],
    engine: str | None,
    output_format: str,
    numbers: list[int],
    offsets: OffsetRange,
    isolation: str,
    below_log_start: bool,
    **given: Any,
) -> int:
    """Export partitions to Parquet files, with Spark or in threads of this process.

    The command creates the directory OUT with data/topic=…/partition=…/*.parquet, quarantine and
    report.json.

    OUT does not exist until the export is complete. By default, damage does not stop the export.
    All intact records are exported, the damaged bytes and their offsets are written to
    OUT/quarantine, and the exit code is 1.
    """
    if given["file_size"] < SMALLEST_FILE_SIZE:
        raise click.UsageError(f"--file-size is {given['file_size']} bytes; it must be at least 1MB")
    try:
        check_output_name(given["output"])
    except ValueError as error:
        raise click.UsageError(f"--{error}") from error
    if given["columns"] is not None:
        try:
            check_columns(given["columns"], str(given["output"]).endswith(".parquet"), given["decode"])
        except ValueError as error:
            raise click.UsageError(f"--{error}") from error
    if not given["decode"] and (*(given[name] for name in ("registry", "schema", "framing", "layout")),) != (
        None,
        "union",
        "auto",
        "nested",
    ):
        raise click.UsageError("--registry, --schema, --framing and --layout need --decode")
    if given["compression_level"] is not None and given["compression"] != "zstd":
        raise click.UsageError("--compression-level requires --compression zstd")
    if engine == "local" and (conf or given["master"] != DEFAULT_MASTER):
        raise click.UsageError("--master and --conf are settings of Spark; with --engine local, omit them")
    if given["resume"] and given["overwrite"]:
        raise click.UsageError("--resume and --overwrite cannot both be given")
    if str(given["output"]).endswith(".parquet"):
        for name in ("resume", "partition_by", "join_small"):
            if given[name]:
                raise click.UsageError(
                    f"--{name.replace('_', '-')} needs a directory, but --output is a single Parquet file"
                )
    selection = Selection(*offsets, isolation=isolation, below_log_start=below_log_start)
    options = ExportOptions(partitions=tuple(numbers), selection=selection, engine=engine or "spark", **given)
    settings = dict(_setting(text) for text in conf)
    report: ExportReport | None = None
    try:
        with full_disk_named(given["output"]), _errors_as_usage(), needed_packages(engine):
            from ..exporting.job import Export

            found = find(given["paths"], options.replicas)
            choice = choose_range(found, options.topics, numbers, options.internal, options.group, selection)
            if choice.damaged and options.on_error == "fail":
                return EXIT_DAMAGE
            options = replace(options, selection=choice.selection)
            if engine is None:
                options = with_default_engine(options, tell)
            job = Export(found, choice.partitions, options, tell)
            with _progress() as progress, open_engine(options, progress, settings) as tasks:
                try:
                    report = job.run(tasks, progress)
                except SparkError as error:
                    tell(str(error))
                    return EXIT_UNREADABLE
    except KeyboardInterrupt:
        if report is None:
            tell("interrupted: nothing was exported")
            return EXIT_INTERRUPTED
        raise
    code = report.exit_code or (EXIT_DAMAGE if choice.damaged else 0)
    with keep_exit_code(code):
        if output_format == "json":
            click.echo(encode_json(report.to_dict()))
        else:
            show_report(report)
    return code


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.UsageError(f"--conf is {shown(text)}; it must have the form KEY=VALUE")
    return key, value


@contextlib.contextmanager
def _errors_as_usage() -> Iterator[None]:
    """Convert errors of `kafkafmt.export` to usage errors, whose messages name options of the command."""
    try:
        yield
    except OutputExistsError as error:
        remedy = "" if error.appeared else "; choose another --output, or use --overwrite to replace it"
        happened = "was created by another process during the export" if error.appeared else "already exists"
        raise click.UsageError(f"{error.output} {happened}{remedy}") from error
    except OutputPlaceError as error:
        raise click.UsageError(f"--output {error.output} {error.reason}") from error
    except (DecodingError, SparkError, ResumeError) as error:
        raise click.UsageError(str(error)) from error
    except ImportError as error:
        if error.name is None:  # If Java is missing, ImportError.name is None.
            raise click.ClickException(str(error)) from error
        raise MissingError(str(error)) from error


@contextlib.contextmanager
def _progress() -> Iterator[Any]:
    """Yield a function that shows on stderr how many bytes were exported, if stderr is a terminal."""
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
        # Write to a duplicate of stderr's file descriptor, because stderr itself is redirected while Java starts.
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


def show_report(report: ExportReport) -> None:
    """Print the report as a table. Then list the damaged byte ranges and the output paths."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    class Output(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # The method of the base class exits with code 1, which means damage.

    console = Output(file=stdout())
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
        table.add_row(f"… and {counted(len(rows) - len(shown), 'more partition')}", "", "", "", "")
    console.print(table)
    for line in damage_lines(report) + doubt_lines(report):
        # On a terminal, rich wraps lines between words. Lines in other output are not wrapped.
        console.print(plain(line), style="red", markup=False, highlight=False, soft_wrap=not console.is_terminal)
    if report.decoded is not None:
        parts = [_decoded_text(side, getattr(report.decoded, side)) for side in SIDES if getattr(report.decoded, side)]
        style = "red" if report.decoded.undecodable else None
        console.print(f"decoded     {'; '.join(parts)}", style=style, markup=False, highlight=False, soft_wrap=True)
    rate = seconds.rows_per_second
    speed = f", {rate:,} rows/s" if rate and written.records >= FEWEST_FOR_A_RATE else ""
    without = " (without the start of Spark)" if report.options.engine == "spark" else ""
    console.print(f"\n{counted(written.records, 'record')} in {seconds.total:.1f} s{speed}{without}", highlight=False)
    layout, out = OutputLayout(Path()), report.output
    paths = {
        "Parquet": out / str(layout.data),
        "quarantine": out / str(layout.quarantine),
        "report": out / str(layout.report),
    }
    if isinstance(out, Path) and report.options.single_file:
        paths = {"Parquet": out, "report": report_of(out)}
    for what, path in paths.items():
        console.print(plain(f"{what:<12}{without_secrets(str(path))}"), markup=False, highlight=False, soft_wrap=True)


def _decoded_text(side: str, decoded: SideDecoded) -> str:
    """Describe how many keys or values were decoded, and why others could not be."""
    text = counted(decoded.records, side)
    if not decoded.undecodable:
        return text
    return f"{text}, {decoded.undecodable:,} undecodable ({', '.join(f'{n:,} {code}' for code, n in decoded.by_error.items())})"


def damage_lines(report: ExportReport) -> list[str]:
    """Return a line for each damaged byte range, but at most MOST_LINES lines."""
    lines: list[str] = []
    for p in report.partitions:
        for d in p.quarantined.damaged[: MOST_LINES - len(lines)]:
            where = f"{d.file} at {d.position}, {quantity(d.length, 'byte')}"
            lines.append(f"DAMAGE  {p.topic}-{p.partition}: {may_be_lost(d)} ({where}: {d.message})")
    return _first(lines, sum(len(p.quarantined.damaged) for p in report.partitions), "damaged spans")


def doubt_lines(report: ExportReport) -> list[str]:
    """Return at most MOST_LINES lines, one for each transaction with an unknown outcome."""
    lines = [f"DOUBT   {p.topic}-{p.partition}: {d.message}" for p in report.partitions for d in p.in_doubt]
    return _first(lines, len(lines), "transactions")


def _first(lines: list[str], count: int, what: str) -> list[str]:
    more = count - MOST_LINES
    return [*lines[:MOST_LINES], f"… and {more} more {what}; the report lists all of them"] if more > 0 else lines
