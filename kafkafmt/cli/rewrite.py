"""Implement `kafkafmt rewrite`, which copies logs and removes records, compacts logs, or recompresses batches."""

from __future__ import annotations

import click

from ..constants import ON_ERROR, OnError
from ..constants import Codec as CodecName
from ..log import DamagedLogError
from ..log.catalog import PartitionNotFoundError
from ..log.finding import BytePattern
from ..log.rewriting import MARKER_LOST, RewriteReport
from ..log.rewriting import rewrite as rewrite_paths
from ..support.text import counted
from .choosing import not_there, tell_nothing_to_read
from .find_options import BytesText, Regex
from .new_directory import new_directory
from .options import TIME_FORMS, Codec, LocalPath, Time, choice_options, jobs_option, paths_argument, reading_options
from .output import EXIT_DAMAGE, print_report, progress_bar, say_lines, show, show_table, tell


@click.command(
    epilog="\b\nExample: kafkafmt rewrite /var/lib/kafka/data -t users --drop-key user-42 --output /srv/rewritten"
)
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
    "--drop-key",
    "keys",
    multiple=True,
    type=BytesText(),
    help="Drop records with this key. TEXT can have the same forms as in the option --key of `kafkafmt cat`. May be repeated.",
)
@click.option(
    "--drop-key-regex",
    "regex",
    type=Regex(),
    help="Drop records whose key contains a match of this regular expression. `kafkafmt cat --key-regex` shows these "
    "records.",
)
@click.option(
    "--before",
    type=Time(),
    help=f"Drop records with a timestamp before TIME. Records without a timestamp are kept. {TIME_FORMS}",
)
@click.option("--compact", is_flag=True, help="Keep only the latest record of each key, as Kafka's log cleaner does.")
@click.option("--drop-tombstones", is_flag=True, help="With --compact, also drop records that have a null value.")
@click.option("--codec", type=Codec(), help="Recompress batches with this codec, such as zstd:3.")
@click.option(
    "--on-error",
    type=click.Choice(ON_ERROR),
    default="fail",
    show_default=True,
    help='How to handle damaged data. "fail" writes nothing. "skip" omits damaged spans. In both cases, the exit code is 1.',
)
@choice_options
@jobs_option
@reading_options
def rewrite(
    paths: tuple[str, ...],
    output: str,
    keys: tuple[bytes, ...],
    regex: BytePattern | None,
    before: int | None,
    compact: bool,
    drop_tombstones: bool,
    codec: tuple[CodecName, int | None] | None,
    on_error: OnError,
    topics: tuple[str, ...],
    numbers: list[int],
    jobs: int,
    replicas: str | None,
    max_batch_bytes: int,
    output_format: str,
) -> int:
    """Copy logs into a new log directory, and drop records, compact the logs or recompress batches.

    Offsets, timestamps, producer ids, epochs and sequence numbers do not change. Batches that lose
    no record are copied byte for byte, unless --codec is given. Indexes, producer snapshots, leader
    epochs and checkpoints are rebuilt. The command never writes to PATH.

    Kafka's internal topics (__…) are copied unchanged, unless -t with a pattern that starts with __
    selects them.
    """
    if drop_tombstones and not compact:
        raise click.UsageError("--drop-tombstones requires --compact")
    try:
        with new_directory(output), progress_bar("rewriting") as progress:
            report = rewrite_paths(
                paths,
                output,
                topics=topics,
                partitions=numbers,
                drop_keys=keys,
                drop_key_regex=None if regex is None else regex.pattern,
                before_time=before,
                compact=compact,
                drop_tombstones=drop_tombstones,
                codec=None if codec is None else codec[0],
                level=None if codec is None else codec[1],
                on_error=on_error,
                replicas=replicas,
                max_batch_bytes=max_batch_bytes,
                threads=jobs,
                progress=progress,
                on_message=tell,
            )
    except PartitionNotFoundError as error:
        raise not_there(error) from None
    except DamagedLogError as error:
        skip = "" if error.damage.code == MARKER_LOST else ", or skip damaged spans with --on-error skip"
        tell(f"{error}; run `kafkafmt salvage` first, and rewrite its output{skip}")
        return EXIT_DAMAGE
    except ValueError as error:
        if type(error) is not ValueError:
            raise
        raise click.UsageError(str(error)) from None
    if not report.partitions and not report.unreadable:
        tell_nothing_to_read()
    return print_report(report, output_format, lambda: show_report(report))


def show_report(report: RewriteReport) -> None:
    names = ("partition", "records", "dropped", "bytes before", "bytes after")
    rows = [
        (
            f"{p.topic}-{p.partition}",
            f"{p.records_out:,}",
            f"{p.records_in - p.records_out:,}",
            f"{p.bytes_in:,}",
            f"{p.bytes_out:,}",
        )
        for p in report.partitions
    ]
    show_table(names, rows, right=names[1:])
    for p in report.partitions:
        say_lines(f"skipped  {p.topic}-{p.partition}: {damage.message}; {damage.lost}" for damage in p.damaged)
    kept, dropped = (
        sum(p.records_out for p in report.partitions),
        sum(p.records_in - p.records_out for p in report.partitions),
    )
    show(f"rewrote {counted(kept + dropped, 'record')}, {dropped:,} dropped, in {report.output}")
