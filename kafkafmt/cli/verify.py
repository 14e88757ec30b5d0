"""Implement `kafkafmt verify`, which checks log directories and reports damage and other problems."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence

import click

from ..log.catalog import PartitionNotFoundError
from ..log.findings import Damage
from ..log.reading import MISSING_END, MISSING_START, is_loss
from ..log.verifying import LostRange, PartitionReport, VerifyReport
from ..log.verifying import verify as verify_paths
from ..support.paths import without_secrets
from ..support.text import counted, offset_range, quantity
from .choosing import not_there, tell_nothing_to_read
from .options import choice_options, jobs_option, paths_argument, reading_options
from .output import may_be_lost, moment, print_report, progress_bar, say, say_lines, show, tell

SHOWN = 10
"""The summary lists at most this number of lost offset ranges, and of consumer groups, per partition."""


@click.command(epilog="\b\nExample: kafkafmt verify /var/lib/kafka/data --format json > report.json")
@paths_argument
@choice_options
@click.option(
    "--shallow",
    is_flag=True,
    help="Check only batch headers and CRCs. Do not decompress batches, decode records or read indexes.",
)
@click.option("--strict", is_flag=True, help="Exit with code 1 if there are findings, even without damage.")
@jobs_option
@reading_options
def verify(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    numbers: list[int],
    shallow: bool,
    strict: bool,
    jobs: int,
    replicas: str | None,
    max_batch_bytes: int,
    output_format: str,
) -> int:
    """Check every batch, record, index and checkpoint, and report which offsets are lost.

    Damage is data that cannot be read, or that is lost, such as a missing segment. If there is
    damage, the exit code is 1.

    A finding is any other problem, such as a wrong index entry or an incomplete last batch. With --strict, findings also set the exit code to 1.

    If a partition cannot be read at all, the other partitions are still checked, and the exit code
    is 3.
    """
    try:
        with progress_bar("verifying") as progress:
            report = verify_paths(
                paths,
                topics=topics,
                partitions=numbers,
                shallow=shallow,
                strict=strict,
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
    return print_report(report, output_format, lambda: show_report(report, paths))


DELETE_INDEX = "stop the broker and delete the .index file of the segment; the broker then rebuilds all of its indexes"
SALVAGE_REBUILDS = "a broker uses the file as it is; salvage rebuilds it"
MAKE_READABLE = "grant a missing permission, or mount a remote file system again"
ADVICE = {
    "unfinished_tail": "the last batch is incomplete; a broker truncates the log before this batch",
    "duplicate_batch": "no data is lost, but a broker delivers the batch twice; salvage copies it once",
    MISSING_END: "the end of the log is lost on this replica, or the copy was made while the broker ran; another replica "
    "may have it",
    MISSING_START: "the first segments are missing; look for them in the directory from which this copy was made",
    "index_missing": DELETE_INDEX,
    "index_length": DELETE_INDEX,
    "index_garbage": DELETE_INDEX,
    "index_mismatch": DELETE_INDEX,
    "index_beyond_end": DELETE_INDEX,
    "unreadable_index": f"{MAKE_READABLE}; if the disk is damaged, {DELETE_INDEX}",
    "unreadable_sectors": "the disk is failing: copy its content to another disk first",
    "unreadable_snapshot": f"{MAKE_READABLE}; if the content of the snapshot is not valid, a broker deletes the snapshot, "
    "and reads all segments after the previous snapshot",
    "snapshot_mismatch": SALVAGE_REBUILDS,
    "snapshot_beyond_end": "the end of the log is lost; a broker continues without this snapshot",
    "max_timestamp_mismatch": "lookups by time, and brokers, do not find the later records of these batches; read all "
    "records and compare their timestamps",
    "offset_gap": "the offsets may be lost, or compaction or a repair has removed them; other replicas may have them",
    "odd_record_offsets": "nothing is lost; a consumer that continues after one of these offsets may skip a record",
    "odd_codec_end": "nothing is lost; if Kafka's Java code does not read these batches to their end, salvage rebuilds them",
    "refused_by_kafka": "a broker and Java clients fail at these batches; salvage rebuilds them",
    "leader_epoch_mismatch": "a broker uses the file as it is; salvage corrects the file or the batches",
    "checkpoint_beyond_end": "start no broker on this directory before the entry of the log is corrected",
    "unreadable_checkpoint": f"{MAKE_READABLE}; a broker that cannot read the file takes the log directory offline; "
    "salvage rebuilds the file, but omits partition.metadata",
    "read_committed_differs": "salvage writes markers and a transaction index that agree, except for transactions in "
    "doubt; read_uncommitted returns all records",
    "transaction_in_doubt": "read_committed omits the records of the transaction; read_uncommitted returns them; a broker "
    "delivers them if the next marker of the producer is a commit marker",
}
"""Advice for the user. The keys are the error codes of findings."""


def show_report(report: VerifyReport, paths: Iterable[str] = ()) -> None:
    """Print a report. Without the paths that were verified, they are the directories of the partitions."""
    partitions = report.partitions
    paths = paths or dict.fromkeys(os.path.dirname(p.path) for p in partitions)
    show_spans(partitions)
    damage, findings = sum(len(p.damaged) for p in partitions), sum(len(p.findings) for p in partitions)
    total, recovered = sum(p.bytes for p in partitions), sum(p.records_recovered for p in partitions)
    checked = "batches and CRCs" if report.shallow else "every batch, record and index"
    say(
        f"{counted(len(partitions), 'partition')}, {total:,} bytes: {checked} checked; {counted(recovered, 'record')} can be read"
    )
    show_lost(partitions)
    show_remote(partitions)
    given = " ".join(shlex.quote(without_secrets(p)) for p in paths)
    if lost := sum(is_loss(d) for p in partitions for d in p.damaged):
        say(
            f"to do    {counted(lost, 'range')} of offsets in no file. Look for missing files in the source of this copy. "
            "Another replica may also have the offsets:"
        )
        show(f"         kafkafmt salvage {given} REPLICA --replicas merge --output NEW")
    if spans := damage - lost:
        say(
            f"to do    {counted(spans, 'damaged span')}; everything else is intact. Do not start a broker on this directory "
            "before it is copied: its recovery drops everything after the first damage of a log. If a replica is intact, "
            "let it replicate. Otherwise:"
        )
        show(f"         kafkafmt salvage {given} --output NEW    copies the intact batches, for a broker")
        show(f"         kafkafmt cat {given} --on-error skip     prints the intact records")
    advice: dict[str, list[str]] = {}
    for error in dict.fromkeys(f.code for p in partitions for f in p.findings):
        if error in ADVICE:
            advice.setdefault(ADVICE[error], []).append(error)
    for text, errors in advice.items():
        say(f"advice   {', '.join(errors)}: {text}")
    if report.unreadable:
        say(f"unread   {counted(len(report.unreadable), 'partition')}: the messages above give the reasons")
    elif not damage:
        more = f"; {counted(findings, 'finding')}, none of which prevents reading" if findings else ""
        say(f"no damage{more}")


def show_spans(partitions: Sequence[PartitionReport]) -> None:
    """Print one line for each damaged byte range and for each finding."""
    for p in partitions:
        name = f"{p.topic}-{p.partition}"
        say_lines(f"DAMAGE   {name} {_place(d)}: {d.message}; {may_be_lost(d)}" for d in p.damaged)
        say_lines(f"finding  {name} {f.file}: {f.message} [{f.code}]" for f in p.findings)
    if any(p.damaged or p.findings for p in partitions):
        show("")


def _place(damage: Damage) -> str:
    """Return the file of the damage and, unless the offsets are in no file, the byte range."""
    if is_loss(damage):
        return damage.file
    return f"{damage.file} at {damage.position}, {quantity(damage.length, 'byte')}"


def show_remote(partitions: Sequence[PartitionReport]) -> None:
    """Print the offsets of each partition that are in remote storage, which is not checked."""
    for p in partitions:
        if p.remote is not None:
            say(
                f"remote   {p.topic}-{p.partition}: {offset_range(*p.remote)} are in remote storage, which is not checked"
            )


def _when(lost: LostRange) -> str:
    """Return the offsets of a range, and the times of the records before and after it."""
    offsets = offset_range(lost.first_offset, "the end" if lost.last_offset is None else lost.last_offset)
    before, after = lost.timestamp_before, lost.timestamp_after
    if before is not None and after is not None:
        return f"{offsets}, between {moment(before)} and {moment(after)}"
    if before is not None:
        return f"{offsets}, after {moment(before)}"
    return offsets if after is None else f"{offsets}, before {moment(after)}"


def _records_lost(partition: PartitionReport) -> str:
    if partition.records_lost is not None:
        return counted(partition.records_lost, "record")
    most = partition.most_records_lost
    return "an unknown number of records" if most is None else f"at most {counted(most, 'record')}"


def show_lost(partitions: Sequence[PartitionReport]) -> None:
    """For each damaged partition, print the lost offsets and the number of readable records."""
    damaged = [p for p in partitions if p.damaged]
    for p in damaged:
        name = f"{p.topic}-{p.partition}"
        if p.lost:
            ranges = "; ".join(map(_when, p.lost[:SHOWN]))
            more = f"; and {counted(len(p.lost) - SHOWN, 'more range')}" if len(p.lost) > SHOWN else ""
            say(f"lost     {name}: {ranges}{more} ({_records_lost(p)})")
        if p.unread_by:
            groups = ", ".join(f"{c.group} (committed offset {c.offset})" for c in p.unread_by[:SHOWN])
            more = f" and {len(p.unread_by) - SHOWN:,} more" if len(p.unread_by) > SHOWN else ""
            say(f"groups   {name}: had not read all of these offsets: {groups}{more}")
    if damaged:
        safe, intact = sum(p.records_recovered for p in damaged), len(partitions) - len(damaged)
        count = counted(len(damaged), "damaged partition")
        say(f"safe     {counted(safe, 'record')} in the {count}; {counted(intact, 'partition')} without damage")
