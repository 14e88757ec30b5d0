"""`kafkafmt cat`: records as lines."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from typing import Any

import click

from ..log import Damage, DamagedLogError, PartitionLog
from ..log.selection import OffsetRange
from .common import (
    EXIT_DAMAGE,
    choose,
    find,
    format_option,
    isolation_option,
    limit_batch_option,
    moment,
    paths_argument,
    plain,
    range_options,
    replicas_option,
    selection_options,
    tell,
)
from .groups import start_at_group

BYTES: dict[str, Callable[[bytes], str]] = {
    "utf8": lambda b: b.decode(errors="backslashreplace"),
    "base64": lambda b: base64.b64encode(b).decode(),
    "hex": bytes.hex,
}
TYPES = {-1: "", 0: "", 1: " (append)"}


@click.command(epilog="Example: kafkafmt cat /var/lib/kafka/data -t orders -p 3 -o @2026-01-01: -n 10")
@paths_argument
@selection_options
@range_options
@click.option("-n", "--limit", type=click.IntRange(min=0), help="At most so many records in all.")
@isolation_option
@click.option("--on-error", type=click.Choice(["fail", "skip"]), default="fail", show_default=True, help="What damage does.")
@click.option("--control", is_flag=True, help="Control records too, as they lie.")
@click.option("--bytes", "encoding", type=click.Choice(list(BYTES)), default="utf8", show_default=True, help="How keys and values appear.")
@replicas_option
@limit_batch_option
@format_option
def cat(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    numbers: list[int],
    internal: bool,
    offsets: OffsetRange,
    group: str | None,
    below_log_start: bool,
    limit: int | None,
    isolation: str,
    on_error: str,
    control: bool,
    encoding: str,
    replicas: str | None,
    max_batch_bytes: int,
    output_format: str,
) -> int:
    """Records in the order of topic, partition and offset, a line each."""
    found = find(paths, replicas)
    chosen = choose(found, topics, numbers, internal)
    damaged = False
    if group is not None:
        chosen, offsets, damaged = start_at_group(found, chosen, group, offsets)
        if damaged and on_error == "fail":
            return EXIT_DAMAGE
    show = (json_line if output_format == "json" else text_line)(BYTES[encoding])
    left = sys.maxsize if limit is None else limit
    for directory in chosen:
        log = PartitionLog(directory, max_batch_bytes=max_batch_bytes, tell=tell)

        def skip(damage: Damage, log: PartitionLog = log) -> None:
            nonlocal damaged
            damaged = True
            tell(f"skipped: {DamagedLogError(damage, str(log.directory.path)).message}")

        if left == 0:
            break
        start, end = offsets.resolve(log, below_log_start)
        on_damage = skip if on_error == "skip" else None
        committed = isolation == "read_committed"
        if committed:
            damaged = _undecided(log) or damaged
        selection: dict[str, Any] = {"start": start, "end": end, "committed": committed}
        selection |= {"control": control, "below_log_start": below_log_start}
        try:
            for record in log.records(on_damage=on_damage, **selection):
                sys.stdout.write(show(log, record))
                left -= 1
                if left == 0:
                    break
        except DamagedLogError as error:
            sys.stdout.flush()
            tell(error.message)
            return EXIT_DAMAGE
    return EXIT_DAMAGE if damaged else 0


def _undecided(log: PartitionLog) -> bool:
    """Tell what read_committed leaves out beside what was aborted; True where damage is the reason."""
    found, name = log.transactions, f"{log.topic}-{log.partition}"
    if found.open:
        holder = min(found.open, key=lambda producer: found.open[producer])
        tell(f"{name}: undecided from offset {found.last_stable_offset} on: producer {holder} has a transaction open there")
    for d in found.doubts:
        span = f"offsets {d.first_offset} to {d.last_offset} of it are left out"
        tell(f"{name}: damage may hide how producer {d.producer_id}'s transaction ended: {span}")
    return bool(found.doubts)


def json_line(text: Callable[[bytes], str]) -> Callable[[Any, Any], str]:
    """Shows a record of a log, as a line; bytes appear by `text`."""
    encode = json.JSONEncoder(ensure_ascii=False, separators=(", ", ": ")).encode

    def show(log: Any, r: Any) -> str:
        return encode(json_row(log, r, text)) + "\n"

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
        return "null" if value is None else plain(text(value))

    def show(log: Any, r: Any) -> str:
        headers = "".join(f"  {plain(k)}={field(v)}" for k, v in r.headers)
        when = moment(r.timestamp) + TYPES.get(r.timestamp_type, "")
        return f"{log.topic}-{log.partition}  {r.offset}  {when}  {field(r.key)}  {field(r.value)}{headers}\n"

    return show
