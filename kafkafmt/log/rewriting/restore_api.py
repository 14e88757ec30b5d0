"""Define `kafkafmt.restore`, which puts partitions into the log directory of a stopped broker."""

from __future__ import annotations

import csv
import errno
import io
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...constants import DEFAULT_MAX_BATCH_BYTES
from ...errors import StructureError
from ...support import arguments
from ...support.notebook import html_table
from ...support.paths import full_disk_named, is_device_or_pipe, local_path, output_path
from ...support.report import Report
from ...support.text import counted
from ..catalog import AnyPath, Discovery, PartitionDir, PartitionNotFoundError, Sources, resolve
from ..damage import ReadLimits
from ..findings import Damage, DamagedLogError
from ..formats import META_PROPERTIES, read_meta_properties
from ..groups import CommittedOffset, read_groups
from ..reading import PartitionLog, Time
from ..repairing import Bounds
from ..storage import read_text, replace_file
from ..verifying import Globs, Numbers, OnMessage, Progress, Run, globs_of, verify_partition
from ..writing import CLUSTER_METADATA
from .broker_directory import BrokerDirectory, RestoreError, refuse_missing
from .restore_partition import Restored, Target, restore_partition
from .rewrite_api import lost_marker

__all__ = ["RestoreError", "RestoreReport", "RestoredPartition", "restore"]


@dataclass(frozen=True)
class RestoredPartition:
    """A partition that `kafkafmt.restore` has put into the directory of a broker.

    Attributes
    ----------
    topic : str
        Name of the topic.
    partition : int
        Number of the partition.
    path : str
        Directory of the restored partition.
    topic_id : str or None
        Topic id in the cluster. None if the cluster has no topic ids.
    first_offset, next_offset : int
        Log start offset and log end offset.
    open_transactions : int
        Number of transactions that are open at the end of the partition. Consumers with
        ``read_committed`` stop at the first of these transactions.
    aborted_transactions : int
        Number of transactions that were ended with an abort marker.
    """

    topic: str
    partition: int
    path: str
    topic_id: str | None
    first_offset: int
    next_offset: int
    open_transactions: int = 0
    aborted_transactions: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the partition as it appears in the JSON output."""
        names = (
            "topic",
            "partition",
            "topic_id",
            "first_offset",
            "next_offset",
            "open_transactions",
            "aborted_transactions",
        )
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class RestoreReport(Report):
    """Restored partitions and messages, as returned by `kafkafmt.restore`.

    Attributes
    ----------
    into : Path
        The broker's log directory.
    partitions : tuple of RestoredPartition
        The restored partitions.
    groups : tuple of CommittedOffset
        The committed offsets in the CSV file. They are not part of the JSON output.
    messages : tuple of str
        Other messages. They are not part of the JSON output.
    """

    command = "restore"

    into: Path
    partitions: tuple[RestoredPartition, ...]
    groups: tuple[CommittedOffset, ...] = ()
    messages: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that ``kafkafmt restore --format json`` prints."""
        return {"partitions": [p.to_dict() for p in self.partitions]}

    def _repr_html_(self) -> str:
        header = ("partition", "topic id", "first", "next")
        rows = [
            (f"{p.topic}-{p.partition}", p.topic_id or "", f"{p.first_offset:,}", f"{p.next_offset:,}")
            for p in self.partitions
        ]
        return html_table(f"Restored into {self.into}", header, rows)


def restore(
    paths: Sources,
    into: AnyPath,
    *,
    topics: Globs | None = None,
    partitions: Numbers | None = None,
    until_time: Time | None = None,
    abort_open_transactions: bool = False,
    groups_csv: AnyPath | None = None,
    metadata_directory: AnyPath | None = None,
    replicas: str | None = None,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    threads: int | None = None,
    progress: Progress | None = None,
    on_message: OnMessage | None = None,
) -> RestoreReport:
    """Put partitions into the log directory of a stopped broker. Records keep their offsets.

    Parameters
    ----------
    into : str or os.PathLike
        The log directory (``log.dirs``) of a stopped broker. The topics must exist in the cluster,
        and their partitions must be empty.
    topics : str or iterable of str, optional
        Globs that select the topics to restore. By default all topics, except Kafka's internal
        topics (``__…``).
    partitions : int or iterable of int, optional
        Numbers of the partitions to restore. By default all.
    until_time : int, timezone-aware datetime or str, optional
        End each partition after its last record with a timestamp before this time. An int is in
        milliseconds since 1970-01-01 UTC. A str has one of the forms of `parse_time`, such as
        "2026-01-05" or "-7d". Records without a timestamp are treated as earlier than this time.
    abort_open_transactions : bool, default False
        End the transactions that are open at the end of a partition with abort markers.
    groups_csv : str or os.PathLike, optional
        Write the committed offsets of consumer groups for the restored partitions to this file, for
        ``kafka-consumer-groups.sh --reset-offsets --from-file``. The rows are topic, partition,
        offset. If there are several groups, the group is the first field.
    metadata_directory : str or os.PathLike, optional
        The log directory with the metadata log, if it is not `into`.
    paths, replicas, max_batch_bytes, threads, progress, on_message
        As in `salvage`, whose output can be restored, but `replicas` must not be "merge".
        `RestoreReport.messages` contains all messages.

    Returns
    -------
    RestoreReport
        `RestoreReport.to_dict` returns the object that ``kafkafmt restore --format json`` prints.

    Raises
    ------
    RestoreError
        A topic does not exist in the cluster, a partition is not empty, or `into` is not the log
        directory of a broker. This is a ValueError. Nothing was changed.
    BlockingIOError
        A broker has locked `into`.
    DamagedLogError
        A partition is damaged. Salvage it first.
    OSError
        A path cannot be read or written.
    PartitionNotFoundError
        No partition matches. This is a LookupError.
    TypeError, ValueError
        An argument is wrong.

    Notes
    -----
    - `partition.metadata` gets the topic id of the cluster.
    - In batches and in the checkpoint, the current leader epoch of the cluster replaces every
      higher leader epoch. All other bytes of a batch are unchanged.
    - The state of producers is kept only if `meta.properties` in `paths` has the cluster id of the
      broker. In another cluster, a new producer can get the same producer id. If the state were
      kept, the broker would reject the new producer's records or treat them as duplicates.
    - Each partition is renamed when it is complete. If the process dies, a broker finds either the
      empty or the restored partition, and deletes incomplete copies.
    - Kafka's counterparts are ``LogManager`` and ``LeaderEpochFileCache``.
    """
    limits = ReadLimits(arguments.integer("max_batch_bytes", max_batch_bytes, 1))
    time = None if until_time is None else arguments.millis("until_time", until_time)
    (given, replicas), place = resolve(paths, replicas), output_path(into)
    run, bounds = Run(progress, on_message), Bounds(given)
    run.threads(threads)
    refuse_missing(place)
    metadata = None if metadata_directory is None else Path(local_path(metadata_directory))
    found = run.find(given, replicas)
    chosen = _chosen(run, found, topics, partitions)
    if any(d.path.parent == place for d in chosen):
        raise RestoreError(
            f"the partitions to restore are in the target directory {place}; specify a copy in another directory, "
            "such as the output of salvage"
        )
    logs = [PartitionLog(directory, limits, tell=run.tell) for directory in chosen]
    # Errors that concern the CSV file must leave the broker's directory unchanged. Therefore, find them before `publish`.
    table = None if groups_csv is None else _writable(Path(local_path(groups_csv)))
    committed = [] if table is None else _committed_offsets(found, run)
    with BrokerDirectory(place, metadata) as broker:
        targets = _targets(broker, logs)
        staged = [broker.staging(log.topic, log.partition) for log in logs]

        def copy(item: tuple[PartitionLog, Target, Path]) -> Restored:
            log, target, staging = item
            _refuse_damage(log, run)
            restored = restore_partition(log, target, staging, time, abort_open_transactions, bounds)
            run.advance(sum(s.size for s in log.segments))
            return restored

        try:
            run.begin(2 * s.size for log in logs for s in log.segments)
            with full_disk_named(place):
                done = run.map(copy, list(zip(logs, targets, staged, strict=True)), threads, wait=True)
            made = [_report(target, restored) for target, restored in zip(targets, done, strict=True)]
            groups = [] if table is None else _write_groups(table, committed, made)
            with full_disk_named(place):
                broker.publish(zip(targets, done, strict=True))
        except BaseException:
            for path in staged:
                shutil.rmtree(path, ignore_errors=True)
            raise
    for p in made:
        if p.open_transactions:
            run.tell(
                f"{p.topic}-{p.partition}: the log ends with {counted(p.open_transactions, 'open transaction')}; "
                "consumers with read_committed stop at the first open transaction until it is aborted"
            )
    return RestoreReport(place, tuple(made), tuple(groups), tuple(run.messages))


def _chosen(run: Run, found: Discovery, topics: Globs | None, partitions: Numbers | None) -> list[PartitionDir]:
    """Return the selected partitions. Internal topics must be selected by a glob that starts with ``__``."""
    globs = globs_of(topics)
    internal = any(glob.startswith("__") for glob in globs)
    chosen = [
        d
        for d in run.choose(found, globs, partitions)
        if d.topic != CLUSTER_METADATA and (internal or not d.topic.startswith("__"))
    ]
    if not chosen:
        raise PartitionNotFoundError(["the paths contain no partition to restore"])
    return chosen


def _targets(broker: BrokerDirectory, logs: list[PartitionLog]) -> list[Target]:
    """Return the target of each partition. Raise one RestoreError that names all problems."""
    counts: dict[str, int] = {}
    for log in logs:
        counts[log.topic] = max(counts.get(log.topic, 0), log.partition + 1)
    targets, problems = [], []
    for log in logs:
        try:
            keep = _cluster_of(log.directory) == broker.properties.get("cluster.id", "")
            targets.append(broker.target(log.topic, log.partition, counts[log.topic], keep))
        except RestoreError as error:
            problems.append(str(error))
    if problems:
        raise RestoreError("; ".join(dict.fromkeys(problems)))
    return targets


def _cluster_of(directory: PartitionDir) -> str | None:
    """Return the id of the cluster that wrote a partition, or None if it is unknown."""
    try:
        return read_meta_properties(read_text(directory.path.parent / META_PROPERTIES) or "").get("cluster.id")
    except StructureError:
        return None


def _refuse_damage(log: PartitionLog, run: Run) -> None:
    report = verify_partition(log, run=run)
    damaged: list[Damage] = list(report.damaged)
    damaged += [lost_marker(log, entry.last) for entry in log.transactions.unmarked]
    if damaged:
        raise DamagedLogError(damaged[0], str(log.directory.path))


def _report(target: Target, restored: Restored) -> RestoredPartition:
    made = restored.made
    return RestoredPartition(
        topic=made.topic,
        partition=made.partition,
        path=str(target.path),
        topic_id=target.topic_id,
        first_offset=restored.first_offset,
        next_offset=made.next_offset,
        open_transactions=len(restored.open),
        aborted_transactions=restored.aborted,
    )


def _committed_offsets(found: Discovery, run: Run) -> list[CommittedOffset]:
    """Read the committed offsets of consumer groups from the `__consumer_offsets` partitions in `found`."""

    def warn(log: PartitionLog, damage: Damage) -> None:
        run.tell(f"{log.directory.path}: {damage.message}; newer committed offsets may be missing")

    return read_groups(found.partitions, warn, run.tell).offsets


def _writable(path: Path) -> Path:
    """Return the path of the file to write, without links. Raise an OSError if the file cannot be written."""
    if is_device_or_pipe(path):
        return path
    path = Path(os.path.realpath(path))  # `replace_file` would replace a link with a file
    refuse_missing(path.parent)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(path.parent, os.W_OK):  # the file is replaced, so its own permissions do not matter
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return path


def _write_groups(
    table: Path, committed: list[CommittedOffset], made: list[RestoredPartition]
) -> list[CommittedOffset]:
    """Write the committed offsets for the restored partitions as CSV, and return them."""
    # An offset outside the restored partition is replaced with the nearest valid offset.
    ends = {(p.topic, p.partition): p for p in made}
    offsets = [
        o._replace(offset=min(max(o.offset, p.first_offset), p.next_offset))
        for o in committed
        if (p := ends.get((o.topic, o.partition))) is not None
    ]
    several = len({o.group for o in offsets}) > 1
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        [*([o.group] if several else []), o.topic, o.partition, o.offset] for o in offsets
    )
    data = text.getvalue().encode()
    if is_device_or_pipe(table):
        table.write_bytes(data)
    else:
        replace_file(table, data)
    return offsets
