"""Print messages, lines of text, tables and progress bars on stdout and stderr."""

from __future__ import annotations

import base64
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from datetime import timedelta
from importlib import import_module
from io import StringIO
from textwrap import fill
from typing import Any, TextIO

import click

from ..log import Damage
from ..support.paths import without_secrets
from ..support.report import Report
from ..support.text import encode_json, offset_range, plain
from ..support.times import EPOCH

EXIT_DAMAGE, EXIT_USAGE, EXIT_UNREADABLE, EXIT_INTERRUPTED = 1, 2, 3, 130
LABEL_WIDTH = 9
"""Width of the labels at the start of lines, such as `DAMAGE`, in characters."""
NOTHING_MISSING = "no offset is missing"
BYTES: dict[str, Callable[[bytes], str]] = {
    "utf8": lambda b: b.decode(errors="backslashreplace"),
    "base64": lambda b: base64.b64encode(b).decode(),
    "hex": bytes.hex,
}
"""Functions that format keys and values as text. The dict keys are the values of the option `--bytes`."""


class ClosedPipeError(BrokenPipeError):
    """Raised if the program that reads stdout closed the pipe while a command printed its report."""

    def __init__(self, exit_code: int) -> None:
        super().__init__()
        self.exit_code = exit_code


@contextmanager
def keep_exit_code(exit_code: int) -> Iterator[None]:
    """Keep the exit code of a report, even if the program that reads stdout closes the pipe."""
    # Without this, ``kafkafmt verify … | head`` would hide damage from ``set -o pipefail``.
    try:
        yield
    except BrokenPipeError:
        raise ClosedPipeError(exit_code) from None


_captured: ContextVar[StringIO | None] = ContextVar("captured", default=None)


def stdout() -> TextIO:
    """Return stdout or, within `report_text`, the buffer for the text."""
    return _captured.get() or sys.stdout


def report_text(report: Report) -> str:
    """Return what the command of a report prints, without the last line break. Other threads still print on stdout."""
    command = import_module(f".{report.command}", __package__)
    buffer = StringIO()
    token = _captured.set(buffer)
    try:
        command.show_report(report)
    finally:
        _captured.reset(token)
    return buffer.getvalue().removesuffix("\n")


def print_report(report: Report, output_format: str, show: Callable[[], None]) -> int:
    """Print a report as JSON, or with `show` if `output_format` is not "json". Return its exit code."""
    with keep_exit_code(report.exit_code):
        if output_format == "json":
            click.echo(encode_json(report.to_dict()))
        else:
            show()
    return report.exit_code


def _wrapped(line: str, terminal: bool, indent: int) -> str:
    """Escape control characters in a line. For output on a terminal, also wrap the line between words."""
    text = plain(line)
    if not terminal:
        return text
    width = max(shutil.get_terminal_size().columns, 40)
    return fill(text, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def tell(message: str) -> None:
    """Print a message on stderr, and wrap it if stderr is a terminal."""
    _print(sys.stderr, _wrapped(f"kafkafmt: {without_secrets(message)}", sys.stderr.isatty(), 0))


def show(line: str) -> None:
    """Print a line on stdout, with control characters escaped."""
    _print(stdout(), plain(line))


def say(line: str, indent: int = LABEL_WIDTH) -> None:
    """Print a line. On a terminal, wrap it, and indent continuation lines by `indent` to align them after the label."""
    _print(stdout(), _wrapped(line, stdout().isatty(), indent))


def say_lines(lines: Iterable[str]) -> None:
    """Print lines on stdout like `say`. Many lines are written together, so this is faster than calling `say` for each."""
    stream = stdout()
    terminal = stream.isatty()
    for line in lines:
        stream.write(_wrapped(line, terminal, LABEL_WIDTH) + "\n")
    stream.flush()


def _print(stream: TextIO, line: str) -> None:
    """Print a line at once. `click.echo` takes four times as long, and commands print a line for each damaged batch."""
    stream.write(line + "\n")
    stream.flush()


def write_bytes(data: bytes) -> None:
    """Write bytes to stdout. On a terminal, they appear immediately."""
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:  # a test has replaced stdout
        sys.stdout.write(data.decode(errors="surrogateescape"))
        return
    stream.write(data)
    if sys.stdout.isatty():
        stream.flush()


def raw_in_a_pipe(text: str) -> str:
    """Escape control characters if stdout is a terminal. Kafka's tools do not escape text in a pipe or file either."""
    return plain(text) if sys.stdout.isatty() else text


def moment(ms: int) -> str:
    """Return a timestamp in ISO format, in UTC, or the number of ms if `datetime` cannot represent it."""
    try:
        time = EPOCH + timedelta(milliseconds=ms)
        return time.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    except OverflowError:
        return f"{ms} ms"


def with_option_names(message: str, **options: str) -> str:
    """Replace "pass ARGUMENT" in a library error by "use OPTION". The keywords map arguments to options."""
    return re.sub(rf"\bpass ({'|'.join(options)})\b", lambda found: f"use {options[found[1]]}", message)


def may_be_lost(damage: Damage | dict[str, Any]) -> str:
    """Return a phrase with the offsets that damage may have destroyed. A dict is from a JSON report."""
    if isinstance(damage, Damage):
        first, last = damage.first_offset, damage.last_offset
    else:
        first, last = damage["first_offset"], damage["last_offset"]
    if first is not None and last is not None and last < first:
        return NOTHING_MISSING
    return f"{offset_range('?' if first is None else first, 'the end' if last is None else last)} may be lost"


def show_table(
    names: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = (), spare: Sequence[str] = ()
) -> None:
    """Print a table. Columns in `spare` are omitted, with a message, until it fits the terminal."""
    # Cells are escaped and never truncated. Empty columns are omitted. Columns in `right` are
    # aligned to the right.
    from rich.cells import cell_len

    rows = [[plain(cell) for cell in row] for row in rows]
    if not rows:
        return
    kept = [i for i in range(len(names)) if any(row[i] for row in rows)]
    widths = {i: max(cell_len(row[i]) for row in [names, *rows]) for i in kept}
    available = shutil.get_terminal_size().columns if stdout().isatty() else sys.maxsize
    omitted = []
    while sum(widths[i] + 2 for i in kept) - 2 > available and (more := [n for n in spare if names.index(n) in kept]):
        kept.remove(names.index(more[0]))
        omitted.append(more[0])
    for row in [names, *rows]:
        cells = ((" " * (widths[i] - cell_len(row[i])), row[i], names[i] in right) for i in kept)
        line = "  ".join(fill + text if to_right else text + fill for fill, text, to_right in cells).rstrip()
        click.echo(click.style(line, bold=True) if row is names else line, file=stdout())
    if omitted:
        tell(f"the terminal is too narrow for these columns: {', '.join(omitted)}; append `| cat` to show all columns")


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function ``update(done, total)`` that shows the progress in bytes, if stderr is a terminal."""
    with ExitStack() as stack:
        bars: list[Any] = []

        def update(done: int, total: int) -> None:
            if not bars:
                bars.append(stack.enter_context(_bar()))
                bars[0].add_task(label, total=total)
            bars[0].update(bars[0].task_ids[0], completed=done, total=total)

        yield update


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    numbers = (DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    columns = (TextColumn("{task.description}"), BarColumn(), *numbers)
    return Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True)
