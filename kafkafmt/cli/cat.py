"""`kafkafmt cat`: records as lines."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

from ..constants import TIMESTAMP_TYPE_NONE
from ..log import Damage, DamagedLogError, PartitionDir, PartitionLog, discover
from ..log.reading.follow import Follower
from ..log.reading.partition import OnDamage
from ..log.reading.selection import OffsetRange, select_partitions
from ..text import encode_json, plain
from .common import (
    EXIT_DAMAGE,
    choose,
    find,
    isolation_option,
    moment,
    paths_argument,
    range_options,
    reading_options,
    selection_options,
    tell,
)
from .follow import follow_partitions, places
from .groups import start_at_group

BYTES: dict[str, Callable[[bytes], str]] = {
    "utf8": lambda b: b.decode(errors="backslashreplace"),
    "base64": lambda b: base64.b64encode(b).decode(),
    "hex": bytes.hex,
}
EXPLAINED = 3
"""Partitions that a word about an empty range names."""
TYPES = {0: "", 1: " (append)"}


@click.command(epilog="Example: kafkafmt cat /var/lib/kafka/data -t orders -p 3 -o @2026-01-01: -n 10")
@paths_argument
@selection_options
@range_options
@click.option("-n", "--limit", type=click.IntRange(min=0), help="At most so many records in all.")
@click.option(
    "-f", "--follow", is_flag=True, help="Go on with what is appended, until interrupted; `-o -0:` begins with that."
)
@isolation_option
@click.option(
    "--on-error", type=click.Choice(["fail", "skip"]), default="fail", show_default=True, help="What damage does."
)
@click.option("--control", is_flag=True, help="Control records too, as they lie.")
@click.option(
    "--bytes",
    "encoding",
    type=click.Choice(list(BYTES)),
    default="utf8",
    show_default=True,
    help="How keys and values appear.",
)
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
    """Records in the order of topic, partition and offset, a line each."""
    if follow and offsets.end is not None:
        raise click.UsageError("-f has no end: -o can only be FROM: beside it")
    found = find(paths, replicas)
    chosen = choose(found, topics, numbers, internal)
    damaged = False
    if group is not None:
        chosen, offsets, damaged = start_at_group(found, chosen, group, offsets)
        if damaged and on_error == "fail":
            return EXIT_DAMAGE
    show = (json_line if output_format == "json" else text_line)(BYTES[encoding])
    printer = _Printer(show, limit, on_error, damaged)
    committed = isolation == "read_committed"
    options: dict[str, Any] = {"committed": committed, "control": control, "below_log_start": below_log_start}
    if group is not None:
        topics = tuple({d.topic for d in chosen})

    def make(directory: PartitionDir, at_first: bool) -> Follower:
        start = offsets.resolve(PartitionLog(directory), below_log_start)[0] if at_first else None
        follower = Follower(
            directory, places(directory, paths), start, max_batch_bytes=max_batch_bytes, tell=tell, **options
        )
        if committed:
            printer.damaged = _undecided(follower.log) or printer.damaged
        return follower

    def rescan() -> list[PartitionDir]:
        return select_partitions(discover(paths, replicas).partitions, topics, numbers, internal)

    try:
        if follow:
            follow_partitions(chosen, rescan, make, lambda f: printer.write(f.log, f.records(printer.on_damage(f.log))))
            return EXIT_DAMAGE if printer.damaged else 0
        for directory in chosen:
            log = PartitionLog(directory, max_batch_bytes=max_batch_bytes, tell=tell)
            if printer.left == 0:
                break
            start, end = offsets.resolve(log, below_log_start)
            if committed:
                printer.damaged = _undecided(log) or printer.damaged
            printer.write(log, log.records(start=start, end=end, on_damage=printer.on_damage(log), **options))
        if chosen and printer.shown == 0 and limit != 0 and not printer.damaged:
            tell(why_nothing(chosen, offsets))
    except DamagedLogError as error:
        sys.stdout.flush()
        tell(error.message)
        return EXIT_DAMAGE
    return EXIT_DAMAGE if printer.damaged else 0


class _Printer:
    """Prints records until the limit is reached. shown: how many. damaged: something was skipped."""

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
        """False once the limit is reached."""
        for record in records if self.left else ():
            sys.stdout.write(self._show(log, record))
            self.left -= 1
            self.shown += 1
            if self.left == 0:
                break
        return self.left > 0


def why_nothing(chosen: list[PartitionDir], offsets: OffsetRange) -> str:
    """What to say where no record was shown."""
    start, end = offsets
    if start is not None and end is not None and start.kind == end.kind == "offset" and start.n >= end.n:
        return f"no offset lies in {start.n}:{end.n}: the end is exclusive"
    parts = []
    for log in map(PartitionLog, chosen[:EXPLAINED]):
        first, following = log.log_start_offset, log.next_offset
        has = "no records" if first >= following else f"offsets {first} to {following - 1}"
        if first > following:  # see `checkpoint_beyond_end`
            has = f"no records: its log start offset is {first}, beyond its end at {following} (--below-log-start shows them all the same)"
        parts.append(f"{log.topic}-{log.partition} has {has}")
    more = [f"and {len(chosen) - EXPLAINED} more"] if len(chosen) > EXPLAINED else []
    return f"no record{'' if offsets == OffsetRange() else ' in that range'}: {', '.join(parts + more)}"


def _undecided(log: PartitionLog) -> bool:
    """Tell what read_committed leaves out beside what was aborted; True where damage is the reason."""
    found, name = log.transactions, f"{log.topic}-{log.partition}"
    if found.undecided:
        tell(f"{name}: {found.undecided}")
    for d in found.doubts:
        tell(f"{name}: {d.message}")
    return bool(found.doubts)


def json_line(text: Callable[[bytes], str]) -> Callable[[Any, Any], str]:
    """Shows a record of a log, as a line; bytes appear by `text`."""

    def show(log: Any, r: Any) -> str:
        return encode_json(json_row(log, r, text)) + "\n"

    return show


def json_row(log: Any, r: Any, text: Callable[[bytes], str]) -> dict[str, Any]:
    """A record as its line of JSON has it; `log` is whatever has a topic and a partition."""
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
    """The same for people."""

    def field(value: bytes | None) -> str:
        if value is None:
            return "null"
        shown = plain(text(value))
        return (
            f'"{shown}"' if shown.strip('"') in ("", "null") else shown
        )  # so that nothing else looks like null, and empty is seen

    def show(log: Any, r: Any) -> str:
        headers = "".join(f"  {plain(k)}={field(v)}" for k, v in r.headers)
        when = "-" if r.timestamp_type == TIMESTAMP_TYPE_NONE else moment(r.timestamp) + TYPES.get(r.timestamp_type, "")
        return f"{plain(log.topic)}-{log.partition}  {r.offset}  {when}  {field(r.key)}  {field(r.value)}{headers}\n"

    return show
