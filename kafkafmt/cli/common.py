"""What the subcommands share: options, exit codes, one line a message."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from textwrap import fill
from typing import Any

import click

from ..arguments import EPOCH
from ..constants import DEFAULT_MAX_BATCH_BYTES, ISOLATION_LEVELS
from ..log import Discovery, PartitionDir, discover
from ..log.reading.selection import OffsetRange, not_there, parse_offsets, select_partitions
from ..paths import local_path
from ..text import plain

ONLY_OTHERS = "there are only Kafka's own topics, or partitions that are not live (see `kafkafmt ls`, and --internal)"
SET_IN = 9
"""Where the text of a line begins that has a word before it: `DAMAGE   orders-3 …`."""
NOTHING_MISSING = "no offset is missing"
EXIT_DAMAGE, EXIT_USAGE, EXIT_UNREADABLE, EXIT_INTERRUPTED = 1, 2, 3, 130


def tell(message: str) -> None:
    """Print a line on stderr."""
    click.echo(f"kafkafmt: {plain(message)}", err=True)


def show(line: str) -> None:
    """Print a line for people on stdout."""
    click.echo(plain(line))


def raw_in_a_pipe(text: str) -> str:
    """Return the text as it is if stdout is a pipe or a file, as Kafka's own tools print it, and escaped for a terminal."""
    return plain(text) if sys.stdout.isatty() else text


def reason(error: OSError) -> str:
    """Why a file cannot be read or written, and which."""
    return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else error.strerror or str(error)


def say(line: str) -> None:
    """A line for people on stdout; on a terminal broken between words, what follows set in like the first line's text."""
    text = plain(line)
    if sys.stdout.isatty():
        width = max(shutil.get_terminal_size().columns, 40)
        text = fill(text, width, subsequent_indent=" " * SET_IN, break_long_words=False, break_on_hyphens=False)
    click.echo(text)


def moment(ms: int) -> str:
    """A timestamp in ISO form, UTC; as a number where the calendar does not reach."""
    try:
        return (EPOCH + timedelta(milliseconds=ms)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    except OverflowError:
        return f"{ms} ms"


def counted(n: int, thing: str) -> str:
    """`1 record`, `2 records`."""
    return f"{n:,} {thing}{'' if n == 1 else 's'}"


def may_be_lost(d: dict[str, Any]) -> str:
    """What a damaged span of a report may have cost."""
    first, last = d["first_offset"], d["last_offset"]
    if first is not None and last is not None and last < first:
        return NOTHING_MISSING
    return f"offsets {'?' if first is None else first} to {'the end' if last is None else last} may be lost"


def options(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several click options as one decorator, in the order of --help."""

    def apply(command: Any) -> Any:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return apply


class NotThereError(click.UsageError):
    """What was asked for by name is not there: wrong usage too, but no help text would help."""


class MissingError(Exception):
    """Something that the command needs is not installed."""


class Numbers(click.ParamType):  # type: ignore[type-arg]
    """`N[,N…]`"""

    name = "N[,N…]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        if isinstance(value, list):
            return value
        try:
            words = [n.strip() for n in str(value).split(",")]
            if not all(n.isascii() and n.isdigit() for n in words):
                raise ValueError("not digits alone")
            return [int(n) for n in words]
        except ValueError:
            self.fail(f"{value!r} is not a list of partition numbers", param, ctx)


class Offsets(click.ParamType):  # type: ignore[type-arg]
    """`FROM:TO`"""

    name = "FROM:TO"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> OffsetRange:
        if isinstance(value, OffsetRange):
            return value
        try:
            return parse_offsets(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class LocalPath(click.ParamType):  # type: ignore[type-arg]
    """A path of the local file system, or its `file:` URL."""

    name = "PATH"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return local_path(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


paths_argument = click.argument("paths", nargs=-1, required=True, metavar="PATH…", type=LocalPath())
replicas_option = click.option(
    "--replicas",
    type=click.Choice(["longest"]),
    help="Of a partition that lies in two PATHs, take the one that ends higher.",
)
format_option = click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json stays stable, for programs.",
)
limit_batch_option = click.option(
    "--max-batch-bytes",
    type=click.IntRange(min=1),
    default=DEFAULT_MAX_BATCH_BYTES,
    show_default=True,
    help="What one batch may decompress to; a larger one is damage.",
)
jobs_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    help="Partitions at a time.  [default: one a core]",
)
isolation_option = click.option(
    "--isolation",
    type=click.Choice(ISOLATION_LEVELS),
    default="read_uncommitted",
    show_default=True,
    help="read_committed: neither aborted records nor what is not decided yet.",
)
topic_option = click.option(
    "-t", "--topic", "topics", multiple=True, metavar="GLOB", help="Only these topics; may be repeated."
)
partition_option = click.option(
    "-p", "--partition", "numbers", type=Numbers(), default=[], help="Only these partitions."
)
internal_option = click.option("--internal", is_flag=True, help="Kafka's own topics (__…) too.")
choice_options = options(topic_option, partition_option)
selection_options = options(choice_options, internal_option)
reading_options = options(replicas_option, limit_batch_option, format_option)
range_options = options(
    click.option(
        "-o",
        "--offsets",
        "offsets",
        type=Offsets(),
        default=OffsetRange(),
        show_default=False,
        help="Offsets, TO exclusive; -N is N before the end, @MS or @ISO-TIME the first at or after a time (UTC).",
    ),
    click.option(
        "-g", "--group", metavar="NAME", help="Begin where this consumer group has committed; its topics alone."
    ),
    click.option(
        "--below-log-start", is_flag=True, help="Records below the log start offset too, which a broker hides."
    ),
)


def find(paths: tuple[str, ...], replicas: str | None) -> Discovery:
    """Discovery, its messages told."""
    found = discover(paths, replicas)
    for message in found.messages:
        tell(message)
    return found


@contextmanager
def workers(jobs: int) -> Iterator[ThreadPoolExecutor]:
    """Yield a pool of threads. An error or Ctrl-C does not wait for the work that they still have."""
    pool = ThreadPoolExecutor(jobs)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


class Unreadable:
    """Partitions that cannot be read, so that the others still are: a failing disk rarely takes all of them."""

    def __init__(self) -> None:
        self.partitions: list[dict[str, Any]] = []

    @contextmanager
    def noting(self, directory: PartitionDir, passes: Callable[[OSError], bool] = lambda _: False) -> Iterator[None]:
        """Report an OSError and continue. Errors that `passes` accepts are raised."""
        try:
            yield
        except OSError as error:
            if passes(error):
                raise
            tell(f"{directory.topic}-{directory.partition} cannot be read: {reason(error)}")
            where = {"topic": directory.topic, "partition": directory.partition, "path": str(directory.path)}
            self.partitions.append(where | {"error": reason(error)})

    def note(self, directory: PartitionDir | None, path: Path, why: str) -> None:
        """Report a file that is not read. directory: its partition, None for a file of the whole log directory."""
        tell(f"{path}: {why}")
        topic, partition = (None, None) if directory is None else directory.key
        self.partitions.append({"topic": topic, "partition": partition, "path": str(path), "error": why})

    def add_to(self, report: dict[str, Any]) -> dict[str, Any]:
        """A verify report that tells of them, where there are any."""
        return report | {"ok": False, "unreadable": self.partitions} if self.partitions else report

    def exit_code(self, report: dict[str, Any]) -> int:
        """What a command ends with that has shown such a report."""
        if self.partitions:
            return EXIT_UNREADABLE
        return 0 if report["ok"] else EXIT_DAMAGE


def choose(
    found: Discovery, topics: tuple[str, ...], numbers: list[int], internal: bool = True, every_state: bool = False
) -> list[PartitionDir]:
    """The partitions meant. What of a selection is not there is told; wrong usage where that is all of it."""
    chosen = select_partitions(found.partitions, topics, numbers, internal, every_state)
    missing = not_there((p for p in found.partitions if every_state or p.state == "live" or p.named), topics, numbers)
    if not chosen and (topics or numbers):
        raise NotThereError("; ".join(missing) or ONLY_OTHERS)
    for line in missing:
        tell(line)
    if not chosen:
        tell(f"nothing to read: {ONLY_OTHERS}")
    return chosen


def show_table(
    names: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = (), spare: Sequence[str] = ()
) -> None:
    """Print a table for people, a line a row. Cells are escaped and never cut off; empty columns are left out.

    If the table is wider than the terminal, columns of `spare` are left out too, in that order, and a message names them.
    """
    from rich.cells import cell_len

    rows = [[plain(cell) for cell in row] for row in rows]
    if not rows:
        return
    kept = [i for i in range(len(names)) if any(row[i] for row in rows)]
    widths = {i: max(cell_len(row[i]) for row in [names, *rows]) for i in kept}
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    left_out = []
    while sum(widths[i] + 2 for i in kept) - 2 > room and (more := [n for n in spare if names.index(n) in kept]):
        kept.remove(names.index(more[0]))
        left_out.append(more[0])
    for row in [names, *rows]:
        cells = ((" " * (widths[i] - cell_len(row[i])), row[i], names[i] in right) for i in kept)
        line = "  ".join(fill + text if to_right else text + fill for fill, text, to_right in cells).rstrip()
        click.echo(click.style(line, bold=True) if row is names else line)
    if left_out:
        tell(f"left out for this terminal's width: {', '.join(left_out)}")


def progress_bar(total: int, label: str) -> Any:
    """A progress bar over bytes on stderr, shown on a terminal only."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True)
    bar.add_task(label, total=total)
    return bar
