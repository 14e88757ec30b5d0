"""Implement `kafkafmt cat`, which prints records, one per line."""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import click

from ..constants import TIMESTAMP_TYPE_NONE
from ..log import Damage, DamagedLogError, PartitionDir, PartitionLog, discover
from ..log.reading.follow import Follower
from ..log.reading.following import POLL, Followers, paths_to_follow
from ..log.reading.partition import OnDamage
from ..log.reading.read_limits import ReadLimits
from ..log.reading.record_selection import OffsetRange, Selection
from ..log.reading.selection import select_partitions
from ..log.reading.transactions import Doubt, Transactions
from ..text import encode_json, plain
from .choosing import Choice, choose_range, find
from .options import (
    bytes_option,
    isolation_option,
    paths_argument,
    range_options,
    reading_options,
    selection_options,
)
from .output import BYTES, EXIT_DAMAGE, moment, tell

EXPLAINED = 3
"""Largest number of partitions that the message about an empty result lists."""
TYPES = {0: "", 1: " (append)"}


@click.command(epilog="\b\nExample: kafkafmt cat /var/lib/kafka/data -t orders -p 3 -o @2026-01-01: -n 10")
@paths_argument
@selection_options
@range_options
@click.option("-n", "--limit", metavar="N", type=click.IntRange(min=0), help="Print at most N records in total.")
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="After the last record, wait for new records, and print them until the command is interrupted. To print only "
    "new records, add '-o -0:'.",
)
@isolation_option
@click.option(
    "--on-error",
    type=click.Choice(["fail", "skip"]),
    default="fail",
    show_default=True,
    help='How to handle damaged data. "fail" prints the records before the damage and stops. "skip" omits and reports '
    "the damage, and continues. In both cases, the exit code is 1.",
)
@click.option("--control", is_flag=True, help="Include control records, such as transaction markers.")
@bytes_option
@reading_options
def cat(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    numbers: list[int],
    internal: bool,
    offsets: OffsetRange,
    group: str | None,
    below_log_start: bool,
    limit: int | None,
    follow: bool,
    isolation: str,
    on_error: str,
    control: bool,
    encoding: str,
    replicas: str | None,
    max_batch_bytes: int,
    output_format: str,
) -> int:
    """Print records, one per line, sorted by topic, partition and offset.

    \b
    Examples of -o:
      -o 100:200          offsets 100 to 199
      -o -10:             the last 10 offsets
      -o @2026-01-01:     from the first record of 2026 (UTC)
      -o :@1767225600000  to this time, in milliseconds since 1970-01-01 UTC
    """
    if follow and offsets.end is not None:
        raise click.UsageError("--follow cannot be used with an end offset; -o must have the form FROM:")
    found = find(paths, replicas)
    selection = Selection(*offsets, isolation=isolation, control=control, below_log_start=below_log_start)
    limits = ReadLimits(max_batch_bytes)
    choice = choose_range(found, topics, numbers, internal, group, selection)
    if choice.damaged and on_error == "fail":
        return EXIT_DAMAGE
    show = (json_line if output_format == "json" else text_line)(BYTES[encoding])
    printer = _Printer(show, limit, on_error, choice.damaged)
    if group is not None:
        topics = tuple({d.topic for d in choice.partitions})

    def make(directory: PartitionDir, at_first: bool) -> Follower:
        selected = choice.selection if at_first else replace(choice.selection, start=None)
        names = paths_to_follow(directory, paths)
        follower = Follower(directory, names, selected, limits, tell=tell)
        if selected.committed:
            transactions = follower.log.transactions
            printer.damaged = _report_undecided(directory, transactions, transactions.doubts) or printer.damaged
        return follower

    def rescan() -> list[PartitionDir]:
        return select_partitions(discover(paths, replicas).partitions, topics, numbers, internal)

    try:
        if follow:
            _follow(Followers(choice.partitions, make, rescan, tell), printer)
        else:
            _print(choice, printer, limits, limit)
    except DamagedLogError as error:
        sys.stdout.flush()
        tell(error.message)
        return EXIT_DAMAGE
    return EXIT_DAMAGE if printer.damaged else 0


def _print(choice: Choice, printer: _Printer, limits: ReadLimits, limit: int | None) -> None:
    """Print the selected records of all partitions, or explain why there are none."""
    for directory in choice.partitions:
        log = PartitionLog(directory, limits, tell=tell)
        if printer.left == 0:
            break
        interval = choice.selection.resolve(log)
        if interval.committed:
            transactions = log.transactions_in(interval.low, interval.high)
            doubts = transactions.within(interval.low, interval.high - 1).doubts
            printer.damaged = _report_undecided(directory, transactions, doubts) or printer.damaged
        printer.write(log, log.records(interval, on_damage=printer.on_damage(log)))
    if choice.partitions and printer.shown == 0 and limit != 0 and not printer.damaged:
        tell(why_nothing(choice.partitions, choice.selection))


def _follow(followers: Followers, printer: _Printer) -> None:
    """Print new records as they are appended, until the limit is reached.

    Raise BrokenPipeError if the program that reads the output closes the pipe.
    """
    wait = _waiter(sys.stdout.fileno())
    while True:
        for follower in followers.look():
            if not printer.write(follower.log, follower.records(printer.on_damage(follower.log))):
                return
        sys.stdout.flush()
        wait(POLL)


def _waiter(handle: int) -> Callable[[float], None]:
    """Return a function that waits, like `time.sleep`.

    The function raises BrokenPipeError if stdout is a pipe or a socket and its reader closes it
    during the wait.
    """
    mode = os.fstat(handle).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return time.sleep
    poll = select.poll()
    # poll() always reports POLLERR and POLLHUP, so no other events are requested.
    poll.register(handle, 0)

    def wait(seconds: float) -> None:
        if poll.poll(seconds * 1000):
            raise BrokenPipeError

    return wait


class _Printer:
    """Prints records until a limit is reached.

    Attributes
    ----------
    shown : int
        Number of printed records.
    damaged : bool
        True if damage was skipped.
    """

    def __init__(
        self, show: Callable[[PartitionLog, Any], str], limit: int | None, on_error: str, damaged: bool
    ) -> None:
        self.left = sys.maxsize if limit is None else limit
        self.shown = 0
        self.damaged = damaged
        self._show = show
        self._skips = on_error == "skip"

    def on_damage(self, log: PartitionLog) -> OnDamage | None:
        def skip(damage: Damage) -> None:
            self.damaged = True
            tell(f"skipped: {DamagedLogError(damage, str(log.directory.path)).message}")

        return skip if self._skips else None

    def write(self, log: PartitionLog, records: Iterator[Any]) -> bool:
        """Print records, and return False if the limit was reached."""
        for record in records if self.left else ():
            sys.stdout.write(self._show(log, record))
            self.left -= 1
            self.shown += 1
            if self.left == 0:
                break
        return self.left > 0


def why_nothing(chosen: list[PartitionDir], selection: Selection) -> str:
    """Return a message that explains why no record was printed."""
    start, end = selection.start, selection.end
    if start is not None and end is not None and start.kind == end.kind == "offset" and start.n >= end.n:
        return f"the range {start.n}:{end.n} contains no offset, because its end is exclusive"
    parts = []
    for log in map(PartitionLog, chosen[:EXPLAINED]):
        first, following = log.log_start_offset, log.next_offset
        has = "no records" if first >= following else f"offsets {first} to {following - 1}"
        # verify reports this condition as the finding `checkpoint_beyond_end`.
        if first > following:
            has = f"no records: the log start offset {first} is higher than the log end offset {following} (--below-log-start ignores it)"
        parts.append(f"{log.topic}-{log.partition} has {has}")
    more = [f"and {len(chosen) - EXPLAINED} more"] if len(chosen) > EXPLAINED else []
    return f"no record{'' if start is None and end is None else ' in that range'}: {', '.join(parts + more)}"


def _report_undecided(directory: PartitionDir, transactions: Transactions, doubts: list[Doubt]) -> bool:
    """Report records that read_committed omits although no marker aborts their transaction.

    Return True if damage may have destroyed such a marker.
    """
    name = f"{directory.topic}-{directory.partition}"
    if transactions.undecided:
        tell(f"{name}: {transactions.undecided}")
    for doubt in doubts:
        tell(f"{name}: {doubt.message}")
    return bool(doubts)


def json_line(text: Callable[[bytes], str]) -> Callable[[Any, Any], str]:
    """Return a function that formats a record as a JSON line, with `text` for keys and values."""

    def show(log: Any, r: Any) -> str:
        return encode_json(json_row(log, r, text)) + "\n"

    return show


def json_row(log: Any, r: Any, text: Callable[[bytes], str]) -> dict[str, Any]:
    """Return the dict that represents a record in JSON.

    `log` can be any object with the attributes `topic` and `partition`.
    """
    return {
        "topic": log.topic,
        "partition": log.partition,
        "offset": r.offset,
        "timestamp": r.timestamp,
        "timestampType": r.timestamp_type,
        "key": None if r.key is None else text(r.key),
        "value": None if r.value is None else text(r.value),
        "headers": [[k, None if v is None else text(v)] for k, v in r.headers],
    }


def text_line(text: Callable[[bytes], str]) -> Callable[[Any, Any], str]:
    """Return a function that formats a record as a line of text, with `text` for keys and values."""

    def field(value: bytes | None) -> str:
        if value is None:
            return "null"
        shown = plain(text(value))
        # With quotes, empty values are visible, and the text "null" differs from null.
        quoted = shown.strip('"') in ("", "null")
        return f'"{shown}"' if quoted else shown

    def show(log: Any, r: Any) -> str:
        headers = "".join(f"  {plain(k)}={field(v)}" for k, v in r.headers)
        when = "-" if r.timestamp_type == TIMESTAMP_TYPE_NONE else moment(r.timestamp) + TYPES.get(r.timestamp_type, "")
        return f"{plain(log.topic)}-{log.partition}  {r.offset}  {when}  {field(r.key)}  {field(r.value)}{headers}\n"

    return show
