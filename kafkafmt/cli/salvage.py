"""`kafkafmt salvage`: what is intact of a damaged log directory, as one that a broker mounts."""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from threading import Event
from typing import Any

import click

from ..log import Damage, PartitionDir, PartitionLog
from ..log.auditing.open_transactions import (
    OpenTransaction,
    abort_open_transactions,
    open_transactions,
)
from ..log.auditing.salvage import Output, Salvaged, finish_directory, salvage_partition
from ..log.auditing.salvage_source import Bounds, LeftOut
from ..log.auditing.verify import add_damage, verify_partition, verify_report
from ..log.format import files
from ..log.writing.mounting import metadata_logs, strays
from ..text import encode_json
from .common import (
    LocalPath,
    Unreadable,
    choice_options,
    choose,
    counted,
    find,
    jobs_option,
    paths_argument,
    progress_bar,
    reading_options,
    show,
    tell,
)
from .verify import show_lost, show_spans


@click.command(epilog="Example: kafkafmt salvage /mnt/broken-disk --output /var/lib/kafka/salvaged")
@paths_argument
@click.option(
    "--output", "-O", required=True, metavar="DIR", type=LocalPath(), help="The log directory to make; new or empty."
)
@click.option(
    "--stop-at-first", is_flag=True, help="Keep what precedes a partition's first damage, as a broker's recovery would."
)
@click.option(
    "--abort-open-transactions",
    "abort_open",
    is_flag=True,
    help="End every transaction that has no marker with an abort marker at the copy's end. Without it they are only reported.",
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
    """Copy what is intact, byte for byte, into a log directory that a broker can mount.

    Indexes, producer snapshots, leader epochs and checkpoints are rebuilt. The source is never changed.

    Symbolic links are followed only to places below PATH. No file gets a permission that its source lacks. If PATH contains
    Kafka's metadata log, it is always copied too.
    """
    found = find(paths, replicas)
    chosen, unreadable, bounds = choose(found, topics, numbers), Unreadable(), Bounds(paths)
    chosen += metadata_logs(found, chosen)
    roots = list(dict.fromkeys(d.path.parent for d in chosen))
    chosen = [d for d in chosen if _is_usable(d, bounds, unreadable)]
    target = _new_directory(output, chosen)
    logs = list(_opened(chosen, max_batch_bytes, unreadable))
    _note_links((entry for root in roots for entry in bounds.foreign_root_files(root)), unreadable, None)
    filled = Output(target, files.narrowed(0o777, *roots))
    stop = Event()
    try:
        _open_output(filled)
        with progress_bar(2 * sum(s.size for log in logs for s in log.segments), "salvaging") as bar:

            def advance(n: int) -> None:
                if stop.is_set():
                    raise InterruptedError
                bar.update(bar.task_ids[0], advance=n)

            def copy(log: PartitionLog) -> tuple[dict[str, Any], Salvaged, list[OpenTransaction]] | None:
                with unreadable.noting(log.directory, _is_output_error):
                    entry = verify_partition(log, progress=advance)
                    damaged = [Damage(**d) for d in entry["damaged"]]
                    made = salvage_partition(log, damaged, filled.work, stop_at_first, bounds)
                    add_damage(entry, log, made.damaged)
                    advance(entry["bytes"])
                    return entry, made, open_transactions(log, damaged, made)
                return None

            with ThreadPoolExecutor(jobs) as pool:
                try:
                    done = [copied for copied in pool.map(copy, logs) if copied]
                except BaseException:
                    stop.set()
                    raise
        made = [m for _, m, _ in done]
        hanging = [t for _, _, transactions in done for t in transactions]
        messages = finish_directory(filled.work, made, roots, bounds)
        if abort_open:
            abort_open_transactions(filled.work, hanging)
        filled.show(made)
    except KeyboardInterrupt:
        filled.discard()
        tell(f"interrupted: nothing was left in {target}")
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
    except BaseException:
        filled.discard()
        raise
    report = unreadable.add_to(verify_report([entry for entry, _, _ in done]))
    for message in messages:
        tell(message.replace(str(filled.work), str(target)))
    if any(not mode & 0o200 for m in made for mode in [m.mode, *m.modes.values()]):
        remedy = f"chmod -R u+w {shlex.quote(str(target))}"
        tell(f"{target}: some files are read-only, as in the source; a broker must be able to write: {remedy}")
    for stray in strays(target, [(m.topic, m.partition) for m in made]):
        tell(stray)
    if output_format == "json":
        for entry, m, transactions in done:
            entry["open_transactions"] = [_row(t) for t in transactions]
            if m.restored:
                entry["restored_markers"] = m.restored
        click.echo(encode_json(report))
    else:
        show_spans(report)
        show_lost(report)
        for entry, m, _ in done:
            if stop_at_first and m.next_offset < entry["next_offset"]:
                span = f"offsets {m.next_offset} to {entry['next_offset'] - 1}, the intact ones among them too"
                show(f"dropped  {m.topic}-{m.partition}: {span}, since --stop-at-first was given")
            if m.restored:
                where = f"{counted(len(m.restored), 'lost abort marker')} restored, as the transaction index names it; the first at offset"
                show(f"restored {m.topic}-{m.partition}: {where} {m.restored[0]}")
        _show_open(hanging)
        batches, size = sum(m.batches for m in made), sum(m.bytes for m in made)
        kept = f"{counted(len(made), 'partition')}, {batches:,} batches, {size:,} bytes"
        show(f"salvaged {kept} in {target}")
    return unreadable.exit_code(report)


EXIT_INTERRUPTED = 130
OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)


def _is_output_error(error: OSError) -> bool:
    """Return whether an error concerns the output, so that all other partitions would fail too."""
    return error.errno in OUTPUT_ERRORS or isinstance(error, InterruptedError)


def _is_usable(directory: PartitionDir, bounds: Bounds, unreadable: Unreadable) -> bool:
    """Return whether a partition can be salvaged; report what is left out of it, or all of it."""
    with unreadable.noting(directory):
        bounds.check_partition(directory)
        _note_links(bounds.without_foreign_files(directory), unreadable, directory)
        return True
    return False


def _opened(chosen: list[PartitionDir], max_batch_bytes: int, unreadable: Unreadable) -> Iterator[PartitionLog]:
    """Yield the log of each partition whose directory can be listed; report the others."""
    for directory in chosen:
        with unreadable.noting(directory):
            yield PartitionLog(directory, max_batch_bytes=max_batch_bytes, tell=tell)


def _note_links(left_out: Iterable[LeftOut], unreadable: Unreadable, directory: PartitionDir | None) -> None:
    for entry in left_out:
        unreadable.note(directory, entry.path, f"left out, {entry.reason}")


def _open_output(output: Output) -> None:
    try:
        output.open()
    except FileExistsError as error:
        raise click.UsageError(f"{str(output.target)!r}: {error.strerror}") from None


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
            show(f"open     {which}; {CAUSES[t.cause]}")
        else:
            show(f"aborted  {which}, by a new marker at offset {t.aborted_at}; {CAUSES[t.cause]}")
    left = [t for t in hanging if t.aborted_at is None]
    if left:
        click.echo(
            "to do    On a broker, consumers at read_committed stop at a partition's first open transaction until it is ended."
        )
        click.echo(
            "         One that the copy's __transaction_state has open too ends at its timeout. For the others, salvage again with"
        )
        click.echo("         --abort-open-transactions, or end each on the broker; the first above:")
        show(f"         {_remedy(left[0])}")


def _new_directory(output: str, sources: list[PartitionDir]) -> Path:
    """Return the absolute path of the directory to fill. Wrong usage if it is no directory, or is inside what is read."""
    target = Path(os.path.abspath(output))
    real = Path(os.path.realpath(target))
    for source in sources:
        folder = Path(os.path.realpath(source.path.parent))
        if (
            real.is_relative_to(os.path.realpath(source.path))
            or real == folder
            or (not source.named and real.is_relative_to(folder))
        ):
            raise click.UsageError(f"{output!r} lies in what is read")
    if target.exists() and not target.is_dir():
        raise click.UsageError(f"{output!r} is there and not a directory")
    return target
