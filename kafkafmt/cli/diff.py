"""Implement `kafkafmt diff`, which compares copies of partitions."""

from __future__ import annotations

import click

from ..log.catalog import PartitionNotFoundError
from ..log.inspecting import Difference, DiffReport
from ..log.inspecting import diff as diff_of
from ..support.text import counted
from .choosing import not_there, tell_nothing_to_read
from .options import choice_options, format_option, jobs_option, limit_batch_option, paths_argument
from .output import print_report, progress_bar, show, show_table, tell

SHOWN = 20
"""The table lists at most this number of differences per partition."""


@click.command(epilog="\b\nExample: kafkafmt diff /mnt/broker-1/data /mnt/broker-2/data -t orders")
@paths_argument
@choice_options
@click.option(
    "--records-only",
    is_flag=True,
    help="Report only differences between records. Ignore differences between batches, leader epochs and log start offsets.",
)
@jobs_option
@limit_batch_option
@format_option
def diff(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    numbers: list[int],
    records_only: bool,
    jobs: int,
    max_batch_bytes: int,
    output_format: str,
) -> int:
    """Compare replicas or other copies of the same partitions. Each PATH is one copy.

    \b
    missing               only the listed copies contain these offsets
    log_start_differs     only the listed copies still contain these offsets
    damaged               the listed copies are damaged here
    records_differ        the records differ
    bytes_differ          the records are equal, but their batches differ
    leader_epoch_differs  the leader epochs of the batches differ
    leader_epoch_checkpoint_differs
                          the leader epoch checkpoints differ
    transactions_differ   only the transaction indexes of the listed copies
                          contain this aborted transaction

    If the copies differ, the exit code is 1. If a copy of a partition cannot be read, an error message
    names the copy, and the exit code is 3. The other partitions are still compared.
    """
    try:
        with progress_bar("comparing") as progress:
            report = diff_of(
                list(paths),
                topics=topics,
                partitions=numbers,
                records_only=records_only,
                max_batch_bytes=max_batch_bytes,
                threads=jobs,
                progress=progress,
                on_message=tell,
            )
    except PartitionNotFoundError as error:
        raise not_there(error) from None
    except ValueError as error:
        if type(error) is not ValueError:
            raise
        raise click.UsageError(str(error)) from None
    if not report.partitions and not report.unreadable:
        tell_nothing_to_read()
    return print_report(report, output_format, lambda: show_report(report))


def show_report(report: DiffReport) -> None:
    rows = []
    for p in report.partitions:
        name = f"{p.topic}-{p.partition}"
        rows += [(name, d.kind, _text(d.first_offset), _text(d.last_offset), _where(d)) for d in p.differences[:SHOWN]]
        if len(p.differences) > SHOWN:
            rows.append((name, f"… {len(p.differences) - SHOWN:,} more", "", "", ""))
    show_table(("partition", "difference", "first", "last", "in"), rows, ("first", "last"))
    different = sum(not p.equal for p in report.partitions)
    if different:
        show(f"{different:,} of {counted(len(report.partitions), 'partition')} differ")
    elif report.partitions:
        show(f"{counted(len(report.partitions), 'partition')}: equal")


def _text(offset: int | None) -> str:
    return "?" if offset is None else f"{offset}"


def _where(d: Difference) -> str:
    return ", ".join(d.paths)
