"""Implement `kafkafmt salvage`, which copies the intact batches of a damaged log directory."""

from __future__ import annotations

import click

from ..log.catalog import PartitionNotFoundError
from ..log.repairing import OpenTransaction, SalvageReport
from ..log.repairing import salvage as salvage_paths
from ..support.text import counted, offset_range
from .choosing import not_there, tell_nothing_to_read
from .new_directory import new_directory
from .options import LocalPath, choice_options, format_option, jobs_option, limit_batch_option, paths_argument
from .output import print_report, progress_bar, say, show, tell
from .verify import show_lost, show_spans


@click.command(epilog="\b\nExample: kafkafmt salvage /mnt/broken-disk --output /var/lib/kafka/salvaged")
@paths_argument
@click.option(
    "--output",
    "-O",
    required=True,
    metavar="DIR",
    type=LocalPath(),
    help="New log directory to write. DIR must be empty, or must not exist.",
)
@click.option(
    "--stop-at-first",
    is_flag=True,
    help="Copy only the batches before the first damage of each partition. A broker's recovery does the same.",
)
@click.option(
    "--abort-open-transactions",
    "abort_open",
    is_flag=True,
    help="End every open transaction in the copy with an abort marker, after the last batch. Without this option, open "
    "transactions are only reported.",
)
@choice_options
@jobs_option
@click.option(
    "--replicas",
    type=click.Choice(["longest", "merge"]),
    help="What to do if several paths contain the same partition. longest: copy the replica with the higher end offset. "
    "merge: take each range of offsets from a replica in which it is valid. Without this option, such a partition is "
    "an error.",
)
@limit_batch_option
@format_option
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
    """Copy all intact batches, byte for byte, into a new log directory that a broker can mount.

    Indexes, producer snapshots, leader epochs and checkpoints are rebuilt. The command never writes
    to PATH. The exit code is 1 if data was lost, and 3 if a partition could not be read.

    Symbolic links are followed only if they lead to a place inside PATH. A copied file never gets a
    permission that its source does not have. If PATH contains Kafka's metadata log
    (__cluster_metadata), it is always copied too.

    With --replicas merge, the directories of several brokers are merged. The replica with the latest
    leader epoch is treated as the leader. Ranges of offsets that are damaged in the leader's log are
    copied from other replicas. Each replica is used only up to the offset at which it diverges from
    the leader. The report describes the merged copy.
    """
    try:
        with new_directory(output, "salvaged data"), progress_bar("salvaging") as progress:
            report = salvage_paths(
                paths,
                output,
                topics=topics,
                partitions=numbers,
                stop_at_first=stop_at_first,
                abort_open_transactions=abort_open,
                replicas=replicas,
                max_batch_bytes=max_batch_bytes,
                threads=jobs,
                progress=progress,
                on_message=tell,
            )
    except PartitionNotFoundError as error:
        raise not_there(error) from None
    if not report.partitions and not report.unreadable:
        tell_nothing_to_read()
    return print_report(report, output_format, lambda: show_report(report))


def show_report(report: SalvageReport) -> None:
    sources = [p.source for p in report.partitions]
    show_spans(sources)
    show_lost(sources)
    _show_sources(report)
    for p in report.partitions:
        name = f"{p.topic}-{p.partition}"
        if report.stop_at_first and p.next_offset < p.source.next_offset:
            span = f"all offsets from {p.next_offset} to {p.source.next_offset - 1}, including intact ones"
            show(f"dropped  {name}: {span}, because of --stop-at-first")
        if p.restored_markers:
            markers = counted(len(p.restored_markers), "lost transaction marker")
            why = f"restored with the transaction index, the first at offset {p.restored_markers[0]}"
            show(f"restored {name}: {markers} {why}")
        if in_doubt := sum(f.code == "transaction_in_doubt" for f in p.source.findings):
            unknown = f"the outcome of {counted(in_doubt, 'transaction')} is unknown"
            show(f"in doubt {name}: {unknown}; in the copy, the next marker of the same producer decides it")
    _show_open([t for p in report.partitions for t in p.open_transactions])
    batches, size = sum(p.batches for p in report.partitions), sum(p.bytes for p in report.partitions)
    kept = f"{counted(len(report.partitions), 'partition')}, {counted(batches, 'batch')}, {size:,} bytes"
    show(f"salvaged {kept} in {report.output}")


RANGES_SHOWN = 10
"""The summary lists at most this number of offset ranges per partition."""


def _show_sources(report: SalvageReport) -> None:
    """For each range of offsets, print the replica from which it was copied, or the reason why it was not copied."""
    for p in report.partitions:
        name = f"{p.topic}-{p.partition}"
        ranges = p.sources or ()
        for s in ranges[:RANGES_SHOWN]:
            show(f"source   {name}: {offset_range(s.first_offset, s.last_offset)} from {s.path}")
        if len(ranges) > RANGES_SHOWN:
            show(
                f"source   {name}: {counted(len(ranges) - RANGES_SHOWN, 'more range')}; --format json lists all ranges"
            )
        for s in p.diverged:
            why = "these batches contradict the replica with the latest leader epoch"
            show(f"diverged {name}: salvage omitted {offset_range(s.first_offset, s.last_offset)} of {s.path}; {why}")


CAUSES = {
    "damage": "damage may have destroyed the marker of the transaction",
    "dropped": "the marker of the transaction may be in the part that --stop-at-first dropped",
    "open": "the transaction is open in the source too",
}


def _show_open(transactions: list[OpenTransaction]) -> None:
    """Print which transactions in the copy are open or aborted, and how to end the open transactions."""
    for t in transactions:
        who = f"producer {t.producer_id}, epoch {t.producer_epoch}"
        which = f"{t.topic}-{t.partition}: transaction of {who}, which starts at offset {t.first_offset}"
        if t.aborted_at is None:
            show(f"open     {which}; {CAUSES[t.cause]}")
        else:
            show(f"aborted  {which}, by a new marker at offset {t.aborted_at}; {CAUSES[t.cause]}")
    remedies = [t.remedy for t in transactions if t.remedy is not None]
    if remedies:
        say(
            "to do    On a broker, consumers with isolation level read_committed stop at the first open transaction of "
            "a partition. A transaction that is also open in the copy's __transaction_state ends at its timeout. "
            "To end the other transactions, salvage again with --abort-open-transactions, or abort each of them "
            "on the broker. This command aborts the first of them:"
        )
        show(f"         {remedies[0]}")
