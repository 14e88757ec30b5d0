"""Implement `kafkafmt restore`, which puts partitions into the log directory of a stopped broker."""

from __future__ import annotations

import os

import click

from ..log import DamagedLogError
from ..log.catalog import PartitionNotFoundError
from ..log.rewriting import RestoreError, RestoreReport
from ..log.rewriting import restore as restore_paths
from ..support.text import counted, encode_json
from .choosing import not_there
from .options import TIME_FORMS, LocalPath, Time, choice_options, jobs_option, paths_argument, reading_options
from .output import EXIT_DAMAGE, EXIT_INTERRUPTED, EXIT_USAGE, progress_bar, show, show_table, tell, with_option_names


@click.command(
    epilog="\b\nExample: kafkafmt restore /srv/salvaged --into /var/lib/kafka/data --until 2026-03-01T12:00Z "
    "--groups-csv groups.csv"
)
@paths_argument
@click.option(
    "--into",
    required=True,
    metavar="DIR",
    type=LocalPath(),
    help="Log directory (log.dirs) of a stopped broker. The topics must exist, and their partitions must be empty.",
)
@click.option(
    "--until",
    type=Time(),
    help=f"End each partition after its last record with a timestamp before TIME. {TIME_FORMS}",
)
@click.option(
    "--abort-open-transactions",
    "abort_open",
    is_flag=True,
    help="Write an abort marker for every transaction that is still open at the end of a partition.",
)
@click.option(
    "--groups-csv",
    metavar="FILE",
    type=LocalPath(),
    help="Write the committed offsets of consumer groups to FILE, for kafka-consumer-groups.sh --reset-offsets "
    "--from-file.",
)
@click.option(
    "--metadata-dir",
    metavar="DIR",
    type=LocalPath(),
    help="Log directory that contains __cluster_metadata-0. By default, the --into directory.",
)
@choice_options
@jobs_option
@reading_options
def restore(
    paths: tuple[str, ...],
    into: str,
    until: int | None,
    abort_open: bool,
    groups_csv: str | None,
    metadata_dir: str | None,
    topics: tuple[str, ...],
    numbers: list[int],
    jobs: int,
    replicas: str | None,
    max_batch_bytes: int,
    output_format: str,
) -> int:
    """Put partitions into the log directory of a stopped broker. Records keep their offsets.

    First create the topics on the broker, and then stop the broker. The restored partitions get the
    topic ids from the broker's metadata log. If a leader epoch is higher than the partition's
    current leader epoch in the cluster, the current leader epoch replaces it.

    Kafka's internal topics (__…) are omitted, unless -t with a pattern that starts with __ selects
    them.

    If the command fails before it has copied everything, nothing is changed. Each complete
    copy is renamed to the partition's directory, so a broker never serves an incomplete copy.
    """
    try:
        with progress_bar("restoring") as progress:
            report = restore_paths(
                paths,
                into,
                topics=topics,
                partitions=numbers,
                until_time=until,
                abort_open_transactions=abort_open,
                groups_csv=groups_csv,
                metadata_directory=metadata_dir,
                replicas=replicas,
                max_batch_bytes=max_batch_bytes,
                threads=jobs,
                progress=progress,
                on_message=tell,
            )
    except PartitionNotFoundError as error:
        raise not_there(error) from None
    except RestoreError as error:
        tell(with_option_names(str(error), metadata_directory="--metadata-dir"))
        return EXIT_USAGE
    except DamagedLogError as error:
        tell(f"{error}; run `kafkafmt salvage` first, and restore its output")
        return EXIT_DAMAGE
    except KeyboardInterrupt:
        tell(f"interrupted: {os.path.abspath(into)} contains no incomplete partition")
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
    if output_format == "json":
        click.echo(encode_json(report.to_dict()))
    else:
        show_report(report, groups_csv)
    return 0


def show_report(report: RestoreReport, groups_csv: str | None = None) -> None:
    names = ("partition", "topic id", "first offset", "next offset", "aborted transactions")
    rows = [
        (
            f"{p.topic}-{p.partition}",
            p.topic_id or "",
            f"{p.first_offset}",
            f"{p.next_offset}",
            f"{p.aborted_transactions or ''}",
        )
        for p in report.partitions
    ]
    show_table(names, rows, right=names[2:])
    if groups_csv is not None:
        groups = {o.group for o in report.groups}
        show(
            f"wrote {counted(len(report.groups), 'committed offset')} of {counted(len(groups), 'group')} to {groups_csv}"
        )
    show(f"restored {counted(len(report.partitions), 'partition')} in {report.into}")
