"""`kafkafmt salvage`: what is intact of a damaged log directory, as one that a broker mounts."""

from __future__ import annotations

import json
import os
import shlex
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ..log import Damage, PartitionDir, PartitionLog
from ..log.hanging import OpenTransaction, abort_open_transactions, open_transactions
from ..log.salvage import Salvaged, finish_directory, salvage_partition
from ..log.verify import verify_partition, verify_report
from .common import (
    Unreadable,
    choice_options,
    choose,
    counted,
    find,
    jobs_option,
    paths_argument,
    plain,
    progress_bar,
    reading_options,
    tell,
)
from .verify import show_lost, show_spans


@click.command(epilog="Example: kafkafmt salvage /mnt/broken-disk --output /var/lib/kafka/salvaged")
@paths_argument
@click.option("--output", "-O", required=True, metavar="DIR", type=click.Path(), help="The log directory to make; new or empty.")
@click.option("--stop-at-first", is_flag=True, help="Keep what precedes a partition's first damage, as a broker's recovery would.")
@click.option(
    "--abort-open-transactions",
    "abort_open",
    is_flag=True,
    help="End every transaction that has no marker with an abort marker at the copy's end; without it they are only told.",
)
@choice_options
@jobs_option
@reading_options
def salvage(
    paths: tuple[str, ...],
    output: str,
    stop_at_first: bool,
    abort_open: bool,
    topics: tuple[str, ...],
    numbers: list[int],
    jobs: int,
    replicas: str | None,
    max_batch_bytes: int,
    output_format: str,
) -> int:
    """Copy what is intact, byte for byte, into a log directory that a broker mounts.

    Indexes, producer snapshots, leader epochs and checkpoints are made anew. What is read stays untouched.
    """
    chosen, unreadable = choose(find(paths, replicas), topics, numbers), Unreadable()
    target = _new_directory(output, chosen)
    logs = [PartitionLog(d, max_batch_bytes=max_batch_bytes, tell=tell) for d in chosen]
    with progress_bar(2 * sum(s.size for log in logs for s in log.segments), "salvaging") as bar:

        def advance(n: int) -> None:
            bar.update(bar.task_ids[0], advance=n)

        def copy(log: PartitionLog) -> tuple[dict[str, Any], Salvaged, list[OpenTransaction]] | None:
            entry = None
            with unreadable.noting(log.directory):
                entry = verify_partition(log, progress=advance)
            if entry is None:
                return None
            damaged = [Damage(**d) for d in entry["damaged"]]
            made = salvage_partition(log, damaged, target, stop_at_first)
            advance(entry["bytes"])
            return entry, made, open_transactions(log, damaged, made)

        with ThreadPoolExecutor(jobs) as pool:
            done = [copied for copied in pool.map(copy, logs) if copied]
    report = unreadable.add_to(verify_report([entry for entry, _, _ in done]))
    made = [m for _, m, _ in done]
    hanging = [t for _, _, transactions in done for t in transactions]
    for message in finish_directory(target, made, dict.fromkeys(d.path.parent for d in chosen)):
        tell(message)
    if abort_open:
        abort_open_transactions(target, hanging)
    if output_format == "json":
        for entry, _, transactions in done:
            entry["open_transactions"] = [_row(t) for t in transactions]
        click.echo(json.dumps(report, ensure_ascii=False))
    else:
        show_spans(report)
        show_lost(report)
        for entry, m, _ in done:
            if stop_at_first and m.next_offset < entry["next_offset"]:
                span = f"offsets {m.next_offset} to {entry['next_offset'] - 1}, the intact ones among them too"
                click.echo(plain(f"dropped  {m.topic}-{m.partition}: {span}, since --stop-at-first was given"))
        _show_open(hanging)
        batches, size = sum(m.batches for m in made), sum(m.bytes for m in made)
        kept = f"{counted(len(made), 'partition')}, {batches:,} batches, {size:,} bytes"
        click.echo(plain(f"salvaged {kept} in {target}"))
    return unreadable.exit_code(report)


CAUSES = {
    "damage": "damage may have taken its marker",
    "dropped": "its marker may be in what was dropped",
    "open": "the source has it open too",
}


def _remedy(t: OpenTransaction) -> str:
    """What ends a transaction once a broker has the copy."""
    words = ["--topic", t.topic, "--partition", str(t.partition), "--start-offset", str(t.first_offset)]
    return f"kafka-transactions.sh --bootstrap-server HOST:PORT abort {shlex.join(words)}"


def _row(t: OpenTransaction) -> dict[str, Any]:
    shown = {k: v for k, v in asdict(t).items() if k not in ("topic", "partition")}
    return shown | {"remedy": None if t.aborted_at is not None else _remedy(t)}


def _show_open(hanging: list[OpenTransaction]) -> None:
    """The transactions that the copy's batches leave open, and what to do about those that still are."""
    for t in hanging:
        who = f"producer {t.producer_id}, epoch {t.producer_epoch}"
        which = f"{t.topic}-{t.partition}: transaction of {who}, from offset {t.first_offset} on"
        if t.aborted_at is None:
            click.echo(plain(f"open     {which}; {CAUSES[t.cause]}"))
        else:
            click.echo(plain(f"aborted  {which}, by a new marker at offset {t.aborted_at}; {CAUSES[t.cause]}"))
    left = [t for t in hanging if t.aborted_at is None]
    if left:
        click.echo("to do    On a broker, consumers at read_committed stop at a partition's first open transaction until it is ended.")
        click.echo("         One that the copy's __transaction_state has open too ends at its timeout. For the others, salvage again with")
        click.echo("         --abort-open-transactions, or end each on the broker; the first above:")
        click.echo(plain(f"         {_remedy(left[0])}"))


def _new_directory(output: str, sources: list[PartitionDir]) -> Path:
    """The directory to fill, made where it is missing; wrong usage where it holds something, or lies in what is read."""
    target = Path(os.path.abspath(output))
    real = Path(os.path.realpath(target))
    for source in sources:
        folder = Path(os.path.realpath(source.path.parent))
        if real.is_relative_to(os.path.realpath(source.path)) or real == folder or (not source.named and real.is_relative_to(folder)):
            raise click.UsageError(f"{output!r} lies in what is read")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise click.UsageError(f"{output!r} is there and not an empty directory")
    target.mkdir(parents=True, exist_ok=True)
    return target
