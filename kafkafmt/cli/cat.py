"""`kafkafmt cat`: print records, one line each."""

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
"""Largest number of partitions in the message that explains an empty result."""
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
    help="After the last record, wait for new records and print them until interrupted. To print only new records, add "
    "-o -0:.",
)
@isolation_option
@click.option(
    "--on-error",
    type=click.Choice(["fail", "skip"]),
    default="fail",
    show_default=True,
    help='What to do if data is damaged. "fail" prints the records before the damage and stops. "skip" reports the '
    "damage and continues. In both cases, the exit code is 1.",
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
    """Print records, one line each, sorted by topic, partition and offset.

    \b
    Examples of -o:
      -o 100:200          offsets 100 to 199
      -o -10:             the last 10 offsets
      -o @2026-01-01:     from the first record of 2026 on (UTC)
      -o :@1767225600000  up to that time, in milliseconds since 1970
    """
    if follow and offsets.end is not None:
        raise click.UsageError("-f never ends; with -f, -o must have the form FROM:")
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
            printer.damaged = _report_undecided(follower.log) or printer.damaged
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
    """Print the selected records of all partitions. If there are none, explain why."""
    for directory in choice.partitions:
        log = PartitionLog(directory, limits, tell=tell)
        if printer.left == 0:
            break
        interval = choice.selection.resolve(log)
        if interval.committed:
            printer.damaged = _report_undecided(log) or printer.damaged
        printer.write(log, log.records(interval, on_damage=printer.on_damage(log)))
    if choice.partitions and printer.shown == 0 and limit != 0 and not printer.damaged:
        tell(why_nothing(choice.partitions, choice.selection))


def _follow(followers: Followers, printer: _Printer) -> None:
    """Print new records until the limit is reached.

    Raise BrokenPipeError if the program that reads the output closes it.
    """
    wait = _waiter(sys.stdout.fileno())
    while True:
        for follower in followers.look():
            if not printer.write(follower.log, follower.records(printer.on_damage(follower.log))):
                return
        sys.stdout.flush()
        wait(POLL)


def _waiter(handle: int) -> Callable[[float], None]:
    """Return a function that waits for a number of seconds.

    The function raises BrokenPipeError if stdout is a pipe or socket that is closed during the
    wait.
    """
    mode = os.fstat(handle).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return time.sleep
    poll = select.poll()
    # The event mask is 0 because poll() always reports POLLERR and POLLHUP.
    poll.register(handle, 0)

    def wait(seconds: float) -> None:
        if poll.poll(seconds * 1000):
            raise BrokenPipeError

    return wait


class _Printer:
    """Prints records until the limit is reached.

    Attributes
    ----------
    shown : int
        Number of records printed.
    damaged : bool
        Whether damage was skipped.
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
        """Print records. Return False if the limit was reached."""
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
        return f"no offset is in {start.n}:{end.n}, because TO is exclusive"
    parts = []
    for log in map(PartitionLog, chosen[:EXPLAINED]):
        first, following = log.log_start_offset, log.next_offset
        has = "no records" if first >= following else f"offsets {first} to {following - 1}"
        # verify reports this state as the finding `checkpoint_beyond_end`.
        if first > following:
            has = (
                f"no records: its log start offset {first} is after its end {following} (--below-log-start shows them)"
            )
        parts.append(f"{log.topic}-{log.partition} has {has}")
    more = [f"and {len(chosen) - EXPLAINED} more"] if len(chosen) > EXPLAINED else []
    return f"no record{'' if start is None and end is None else ' in that range'}: {', '.join(parts + more)}"


def _report_undecided(log: PartitionLog) -> bool:
    """Report records that read_committed omits although no marker aborts their transaction.

    Return True if damage may have destroyed the marker.
    """
    found, name = log.transactions, f"{log.topic}-{log.partition}"
    if found.undecided:
        tell(f"{name}: {found.undecided}")
    for d in found.doubts:
        tell(f"{name}: {d.message}")
    return bool(found.doubts)


def json_line(text: Callable[[bytes], str]) -> Callable[[Any, Any], str]:
    """Return a function that formats a record as a JSON line. `text` formats keys and values."""

    def show(log: Any, r: Any) -> str:
        return encode_json(json_row(log, r, text)) + "\n"

    return show


def json_row(log: Any, r: Any, text: Callable[[bytes], str]) -> dict[str, Any]:
    """Return a record as the dict for its JSON line.

    `log` is any object with the attributes `topic` and `partition`.
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
    """Return a function that formats a record as a line of text. `text` formats keys and values."""

    def field(value: bytes | None) -> str:
        if value is None:
            return "null"
        shown = plain(text(value))
        # Quotes make an empty value visible, and distinguish the text "null" from null.
        quoted = shown.strip('"') in ("", "null")
        return f'"{shown}"' if quoted else shown

    def show(log: Any, r: Any) -> str:
        headers = "".join(f"  {plain(k)}={field(v)}" for k, v in r.headers)
        when = "-" if r.timestamp_type == TIMESTAMP_TYPE_NONE else moment(r.timestamp) + TYPES.get(r.timestamp_type, "")
        return f"{plain(log.topic)}-{log.partition}  {r.offset}  {when}  {field(r.key)}  {field(r.value)}{headers}\n"

    return show
