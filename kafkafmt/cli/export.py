"""`kafkafmt export`: log directories become Parquet, on Spark."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import click

from ..extras import install_line
from ..log.reading.selection import OffsetRange
from ..text import encode_json, plain
from .choosing import MissingError, choose_range, find
from .options import (
    LocalPath,
    isolation_option,
    paths_argument,
    range_options,
    reading_options,
    selection_options,
)
from .output import EXIT_DAMAGE, EXIT_INTERRUPTED, EXIT_UNREADABLE, may_be_lost, tell

MOST_LINES = 20
PACKAGES = ("pyspark", "py4j", "pyarrow")
CODECS = ["zstd", "snappy", "lz4", "none"]


@click.command(
    epilog="Example: kafkafmt export /var/lib/kafka/data -t 'orders*' --output /archive/orders --master 'local[8]'"
)
@paths_argument
@click.option(
    "--output", required=True, metavar="OUT", type=LocalPath(), help="The directory to make; its parents are made too."
)
@click.option("--overwrite", is_flag=True, help="Replace an OUT that is there; it stays whole until the new one is.")
@selection_options
@range_options
@isolation_option
@click.option(
    "--on-error",
    type=click.Choice(["quarantine", "fail"]),
    default="quarantine",
    show_default=True,
    help="What damage does.",
)
@click.option(
    "--compression", type=click.Choice(CODECS), default="zstd", show_default=True, help="Of the Parquet files."
)
@click.option("--compression-level", "level", type=click.IntRange(-7, 22), help="Of zstd.  [default: 1]")
@click.option(
    "--master", default="local[*]", show_default=True, help="Spark's master; every executor must see PATH and OUT."
)
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark's; may be repeated.")
@reading_options
def export(
    paths: tuple[str, ...],
    output: str,
    overwrite: bool,
    topics: tuple[str, ...],
    numbers: list[int],
    internal: bool,
    offsets: OffsetRange,
    group: str | None,
    below_log_start: bool,
    isolation: str,
    on_error: str,
    compression: str,
    level: int | None,
    master: str,
    conf: tuple[str, ...],
    replicas: str | None,
    max_batch_bytes: int,
    output_format: str,
) -> int:
    """Partitions become Parquet on Spark: OUT/data/topic=…/partition=…/*.parquet, OUT/quarantine, OUT/report.json.

    OUT is there, complete, once the command has ended, or not at all. Damage costs nothing but itself: its bytes and offsets go to
    OUT/quarantine, and the exit code is 1.
    """
    if level is not None and compression != "zstd":
        raise click.UsageError("--compression-level is for --compression zstd")
    settings = dict(_setting(text) for text in conf)
    report: dict[str, Any] | None = None
    try:
        with _missing():
            from ..spark.export.job import Export, ExportOptions, OutputPlaceError
            from ..spark.export.spark_jobs import (
                SparkError,
                in_thread,
                interruptible,
                spark_errors,
            )
            from ..spark.export.staging import OutputExistsError
            from ..spark.quiet import quiet_start
            from ..spark.session import make_session, prepare_environment, stop_quietly

            prepare_environment()
        found = find(paths, replicas)
        choice = choose_range(found, topics, numbers, internal, group, offsets)
        if choice.damaged and on_error == "fail":
            return EXIT_DAMAGE
        shown = {
            "topics": list(topics),
            "partitions": numbers,
            "internal": internal,
            "replicas": replicas,
            "group": group,
        }
        try:
            job = Export(
                found,
                choice.partitions,
                ExportOptions(
                    output,
                    paths,
                    offsets=choice.offsets,
                    below_log_start=below_log_start,
                    committed=isolation == "read_committed",
                    on_error=on_error,
                    compression=compression,
                    level=level,
                    overwrite=overwrite,
                    max_batch_bytes=max_batch_bytes,
                    shown=shown,
                ),
                tell,
            )
            with _progress() as progress, interruptible():
                progress("starting Spark", 0, 0)
                with _missing(), spark_errors(), quiet_start():
                    spark = in_thread(lambda: make_session(master, "kafkafmt export", **settings))
                try:
                    report = job.run(spark, progress)
                except SparkError as error:
                    tell(str(error))
                    return EXIT_UNREADABLE
                finally:
                    with contextlib.suppress(Exception):
                        in_thread(lambda: stop_quietly(spark))
        except OutputExistsError as error:
            what = f"{error.output} exists already: choose another --output, or replace it with --overwrite"
            raise click.UsageError(what) from error
        except (OutputPlaceError, SparkError) as error:
            raise click.UsageError(str(error)) from error
    except KeyboardInterrupt:
        if report is None:
            tell("interrupted: nothing was exported")
            return EXIT_INTERRUPTED
        raise
    if output_format == "json":
        click.echo(encode_json(report))
    else:
        show(report)
    return 0 if report["ok"] and not choice.damaged else EXIT_DAMAGE


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.UsageError(f"--conf {text!r} is not KEY=VALUE")
    return key, value


@contextlib.contextmanager
def _missing() -> Iterator[None]:
    """What is missing, in one line that names the remedy."""
    try:
        yield
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package in PACKAGES:
            raise MissingError(f"export needs {package}: {install_line('spark')}") from error
        raise click.ClickException(str(error)) from error


@contextlib.contextmanager
def _progress() -> Iterator[Any]:
    """A progress bar over bytes on stderr, on a terminal only."""
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
        if terminal.isatty():  # of its own, since stderr is led elsewhere while Java starts
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


def show(report: dict[str, Any]) -> None:
    """The report for people: a table, the damage, where things lie."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    written, seconds = report["written"], report["seconds"]
    table = Table(box=None, pad_edge=False, header_style="bold", show_footer=len(report["partitions"]) > 1)
    lost = report["quarantined"]["spans"]
    totals = ("in all", f"{written['records']:,}", size(report["read"]["bytes"]), size(written["bytes"]), f"{lost:,}")
    table.add_column("partition", totals[0], overflow="ellipsis", no_wrap=True, max_width=60)
    for name, total in zip(("records", "log", "Parquet", "damaged spans"), totals[1:], strict=True):
        table.add_column(name, total, justify="right")
    rows = report["partitions"]
    shown = (
        rows
        if len(rows) <= MOST_LINES
        else sorted(rows, key=lambda r: (-r["quarantined"]["spans"], -r["read"]["bytes"]))[:MOST_LINES]
    )
    for r in shown:
        spans = r["quarantined"]["spans"]
        table.add_row(
            Text(plain(f"{r['topic']}-{r['partition']}")),
            f"{r['written']['records']:,}",
            size(r["read"]["bytes"]),
            size(r["written"]["bytes"]),
            f"[red]{spans:,}[/red]" if spans else "0",
        )
    if len(rows) > len(shown):
        table.add_row(f"… {len(rows) - len(shown)} partitions more", "", "", "", "")
    console.print(table)
    for line in damage_lines(report) + doubt_lines(report):
        console.print(plain(line), style="red", markup=False, highlight=False, soft_wrap=True)
    rate = seconds["rows_per_second"]
    speed = f", {rate:,} rows/s" if rate else ""
    console.print(
        f"\n{written['records']:,} records in {seconds['total']:.1f} s{speed} (Spark's start not counted)",
        highlight=False,
    )
    out = report["output"]
    for what, path in (
        ("Parquet", f"{out}/data"),
        ("quarantine", f"{out}/quarantine"),
        ("report", f"{out}/report.json"),
    ):
        console.print(plain(f"{what:<12}{path}"), markup=False, highlight=False, soft_wrap=True)


def damage_lines(report: dict[str, Any]) -> list[str]:
    """A line for each damaged span, of many the first."""
    lines = []
    for r in report["partitions"]:
        for d in r["quarantined"]["damaged"]:
            where = f"{d['file']} at {d['position']}, {d['length']} bytes"
            lines.append(f"DAMAGE  {r['topic']}-{r['partition']}: {may_be_lost(d)} ({where}: {d['message']})")
    if len(lines) > MOST_LINES:
        lines[MOST_LINES:] = [f"… and {len(lines) - MOST_LINES} damaged spans more: see the report"]
    return lines


def doubt_lines(report: dict[str, Any]) -> list[str]:
    """Return a line for each transaction that is left out because its outcome is not known; if there are many, for the first ones."""
    lines = [
        f"DOUBT   {r['topic']}-{r['partition']}: {d['message']}" for r in report["partitions"] for d in r["in_doubt"]
    ]
    if len(lines) > MOST_LINES:
        lines[MOST_LINES:] = [f"… and {len(lines) - MOST_LINES} transactions more: see the report"]
    return lines


def size(n: float) -> str:
    """Bytes, for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            return f"{n:.0f} B" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.1f} TB"
