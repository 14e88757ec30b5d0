"""Define `kafkafmt.rewrite`, which copies logs and drops records, compacts logs or recompresses batches."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...constants import DEFAULT_MAX_BATCH_BYTES, ON_ERROR, Codec, OnError
from ...records import BatchBuilder
from ...records.builder import codec_id
from ...support import arguments
from ...support.hints import batches_have_codecs
from ...support.notebook import html_table
from ...support.report import Report
from ..catalog import AnyPath, Sources, resolve
from ..damage import ReadLimits
from ..findings import Damage, DamagedLogError
from ..reading import PartitionLog, Time
from ..repairing import (
    Bounds,
    Output,
    Salvaged,
    finish_directory,
    is_output_error,
    is_usable,
    needs_rebuilding,
    note_links,
    opened_logs,
    output_directory,
    salvage_partition,
)
from ..storage import narrowed_mode
from ..verifying import (
    EXIT_DAMAGE,
    EXIT_UNREADABLE,
    Globs,
    Numbers,
    OnMessage,
    Progress,
    Run,
    UnreadablePartition,
    globs_of,
    unreadable_dict,
    verify_partition,
)
from ..writing import CLUSTER_METADATA, metadata_logs, strays
from .record_rules import record_rules
from .rewrite_partition import Changes, Counts, rewrite_partition

MARKER_LOST = "read_committed_differs"  # error code if only a transaction index shows that a transaction was aborted


@dataclass(frozen=True)
class RewrittenPartition:
    """A partition that `kafkafmt.rewrite` has copied.

    Attributes
    ----------
    topic : str
        Name of the topic.
    partition : int
        Number of the partition.
    path : str
        Directory of the copy.
    records_in, records_out : int
        Number of data records in the source and in the copy.
    bytes_in, bytes_out : int
        Size of the valid batches in the source, and of the batches in the copy, in bytes.
    next_offset : int
        Log end offset of the copy.
    damaged : tuple of Damage
        Damaged byte ranges of the source that were skipped.
    """

    topic: str
    partition: int
    path: str
    records_in: int
    records_out: int
    bytes_in: int
    bytes_out: int
    next_offset: int
    damaged: tuple[Damage, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the partition as it appears in the JSON output."""
        names = ("topic", "partition", "records_in", "records_out", "bytes_in", "bytes_out", "next_offset")
        return {name: getattr(self, name) for name in names} | {"damaged": len(self.damaged)}


@dataclass(frozen=True)
class RewriteReport(Report):
    """Copied partitions and unreadable files, as returned by `kafkafmt.rewrite`.

    Attributes
    ----------
    output : Path
        The log directory that was written.
    partitions : tuple of RewrittenPartition
        The partitions that were copied.
    unreadable : tuple of UnreadablePartition
        Partitions and files that were not copied, each with the reason.
    messages : tuple of str
        Other messages. They are not part of the JSON output.
    """

    command = "rewrite"

    output: Path
    partitions: tuple[RewrittenPartition, ...]
    unreadable: tuple[UnreadablePartition, ...] = ()
    messages: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """Exit code of ``kafkafmt rewrite``: 3 if something was unreadable, 1 if damage was skipped, else 0."""
        if self.unreadable:
            return EXIT_UNREADABLE
        return EXIT_DAMAGE if any(p.damaged for p in self.partitions) else 0

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that ``kafkafmt rewrite --format json`` prints."""
        return {"partitions": [p.to_dict() for p in self.partitions]} | unreadable_dict(self.unreadable)

    def _repr_html_(self) -> str:
        header = ("partition", "records in", "records out", "bytes in", "bytes out", "damaged")
        rows = [
            (
                f"{p.topic}-{p.partition}",
                *(f"{n:,}" for n in (p.records_in, p.records_out, p.bytes_in, p.bytes_out, len(p.damaged))),
            )
            for p in self.partitions
        ]
        return html_table(f"Log directory {self.output}", header, rows)


@batches_have_codecs
def rewrite(
    paths: Sources,
    output: AnyPath,
    *,
    topics: Globs | None = None,
    partitions: Numbers | None = None,
    drop_keys: str | bytes | Iterable[str | bytes] | None = None,
    drop_key_regex: str | bytes | re.Pattern[bytes] | None = None,
    before_time: Time | None = None,
    compact: bool = False,
    drop_tombstones: bool = False,
    codec: Codec | int | None = None,
    level: int | None = None,
    on_error: OnError = "fail",
    replicas: str | None = None,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    threads: int | None = None,
    progress: Progress | None = None,
    on_message: OnMessage | None = None,
) -> RewriteReport:
    """Copy logs into a new log directory, and drop records, compact the logs or recompress batches.

    Offsets, timestamps, producer ids, epochs and sequence numbers do not change. Batches that lose
    no record are copied byte for byte, unless `codec` is given.

    Parameters
    ----------
    topics : str or iterable of str, optional
        Globs that select the topics to copy. By default all topics. Kafka's internal topics
        (``__…``) are copied unchanged, unless a glob that starts with ``__`` selects them.
    partitions : int or iterable of int, optional
        Numbers of the partitions to copy. By default all.
    drop_keys : str, bytes, or an iterable of these, optional
        Drop records with one of these keys. Text is encoded as UTF-8.
    drop_key_regex : str, bytes or compiled pattern of bytes, optional
        Drop records whose key contains a match of this regular expression, as the argument
        `key_regex` of `Topic.find` selects them. A str is encoded as UTF-8.
    before_time : int, timezone-aware datetime or str, optional
        Drop records with a timestamp before this time. An int is in milliseconds since 1970-01-01
        UTC. A str has one of the forms of `parse_time`, such as "2026-01-05" or "-7d". Records
        without a timestamp stay.
    compact : bool, default False
        Keep only the latest record of each key, as Kafka's log cleaner does. Records without a key are
        dropped.
    drop_tombstones : bool, default False
        With `compact`, also drop records that have a null value. By default, the latest tombstone of
        a key is kept.
    codec : str or int, optional
        Codec of the copy: none, gzip, snappy, lz4 or zstd. By default, each batch keeps its codec.
        Messages of formats 0 and 1 keep their codec if `codec` is zstd.
    level : int, optional
        Compression level. By default, the default level of the codec.
    on_error : {"fail", "skip"}, default "fail"
        "fail" raises `DamagedLogError` at the first damage. "skip" omits damaged data, as
        `salvage` does.
    paths, output, replicas, max_batch_bytes, threads, progress, on_message
        As in `salvage`, but `replicas` must not be "merge". `RewriteReport.messages` contains all
        messages.

    Returns
    -------
    RewriteReport
        `RewriteReport.to_dict` returns the object that ``kafkafmt rewrite --format json`` prints.

    Raises
    ------
    DamagedLogError
        A log is damaged, and `on_error` is "fail". The error is also raised with "skip" if only a
        transaction index shows that a transaction was aborted. In this case, call `salvage` first,
        which restores the marker, and rewrite its output.
    FileExistsError
        `output` is not empty.
    OSError
        A path cannot be read, or `output` cannot be written.
    KafkaFormatError
        A batch cannot be rebuilt.
    PartitionNotFoundError
        `topics` or `partitions` are given, and no partition matches.
    TypeError, ValueError
        An argument is wrong. `OutputPlaceError`, a ValueError, is raised if `output` is inside a
        path.

    Notes
    -----
    Kafka's counterparts are ``LogCleaner`` and ``MemoryRecords.filterTo``.

    - The last batch of each producer and of each partition is kept, even if it becomes empty.
      Therefore, the sequence numbers of producers and the log end offset do not change. The first
      batch of an open transaction is also kept, so that the last stable offset does not change.
    - Compaction ends at the last stable offset. Records of aborted transactions are removed. A
      transaction marker is removed only after its delete horizon, and only if the log contains no
      batch of the transaction.
    - A broker also removes tombstones whose delete horizon has passed. `rewrite` removes tombstones
      only if `drop_tombstones` is True.
    - Compaction takes about 24 bytes of memory per key, and about 60 bytes while keys are merged.
    - Indexes, producer snapshots, leader epochs and checkpoints are rebuilt. If an error is raised,
      nothing is left in `output`.
    """
    limits = ReadLimits(arguments.integer("max_batch_bytes", max_batch_bytes, 1))
    changes = _changes(drop_keys, drop_key_regex, before_time, compact, drop_tombstones, codec, level)
    arguments.one_of("on_error", on_error, ON_ERROR)
    given, replicas = resolve(paths, replicas)
    run, bounds = Run(progress, on_message), Bounds(given)
    run.threads(threads)
    found = run.find(given, replicas)
    globs = globs_of(topics)
    chosen = run.choose(found, globs, partitions)
    chosen += metadata_logs(found, chosen)
    roots = list(dict.fromkeys(d.path.parent for d in chosen))
    chosen = [d for d in chosen if is_usable(d, bounds, run)]
    target = output_directory(output, chosen)
    logs = list(opened_logs(chosen, limits, run))
    note_links((entry for root in roots for entry in bounds.foreign_root_files(root)), run, None)
    internal = any(glob.startswith("__") for glob in globs)
    filled = Output(target, narrowed_mode(0o777, *roots), "rewriting")

    def copy(log: PartitionLog) -> tuple[Salvaged, Counts, tuple[Damage, ...]] | None:
        with run.reading(log.directory, is_output_error):
            report = verify_partition(log, run=run)
            path = str(log.directory.path)
            if report.damaged and on_error == "fail":
                raise DamagedLogError(report.damaged[0], path)
            if unmarked := log.transactions.unmarked:
                raise DamagedLogError(lost_marker(log, unmarked[0].last), path)
            if log.topic.startswith("__") and (log.topic == CLUSTER_METADATA or not internal):
                rebuild = needs_rebuilding(report)
                made = salvage_partition(log, report.damaged, filled.work, bounds=bounds, rebuild=rebuild)
                counts = Counts(report.records_recovered, report.records_recovered, report.bytes, made.bytes)
            else:
                made, counts = rewrite_partition(log, report.damaged, filled.work, changes, bounds)
            run.advance(report.bytes)
            return made, counts, tuple(report.damaged)
        return None

    with filled.opened():
        run.begin(2 * s.size for log in logs for s in log.segments)
        copied = run.map(copy, logs, threads, wait=True)
        messages = finish_directory(filled.work, [made for made, _, _ in copied], roots, bounds)
        filled.publish([made for made, _, _ in copied])
    for message in messages:
        run.tell(message.replace(str(filled.work), str(target)))
    for message in strays(target, [(made.topic, made.partition) for made, _, _ in copied]):
        run.tell(message)
    done = [_rewritten(made, counts, damaged, target) for made, counts, damaged in copied]
    return RewriteReport(target, tuple(done), tuple(run.unreadable), tuple(run.messages))


def _changes(
    drop_keys: str | bytes | Iterable[str | bytes] | None,
    drop_key_regex: str | bytes | re.Pattern[bytes] | None,
    before_time: Time | None,
    compact: bool,
    drop_tombstones: bool,
    codec: Codec | int | None,
    level: int | None,
) -> Changes:
    time = None if before_time is None else arguments.millis("before_time", before_time)
    changes = Changes(record_rules(drop_keys, drop_key_regex, time), compact, drop_tombstones)
    if drop_tombstones and not compact:
        raise ValueError("drop_tombstones is True, but compact is False; pass compact=True too")
    if codec is None:
        if level is not None:
            raise ValueError(f"level is {level}, but codec is None; pass a codec that compresses, or omit level")
        return changes
    # Raise an error for a wrong codec or level before anything is written.
    BatchBuilder(codec=codec, level=level)
    return replace(changes, codec=codec_id(codec), level=level)


def lost_marker(log: PartitionLog, offset: int) -> Damage:
    """Return the damage to report if a transaction index lists an aborted transaction whose marker is missing."""
    message = (
        f"a transaction index lists a transaction with an abort marker at offset {offset}, but the log does not contain "
        "the marker"
    )
    return Damage(log.segments[-1].name, 0, 0, offset, offset, MARKER_LOST, message)


def _rewritten(made: Salvaged, counts: Counts, damaged: tuple[Damage, ...], target: Path) -> RewrittenPartition:
    return RewrittenPartition(
        topic=made.topic,
        partition=made.partition,
        path=str(target / made.path.name),
        records_in=counts.records_in,
        records_out=counts.records_out,
        bytes_in=counts.bytes_in,
        bytes_out=counts.bytes_out,
        next_offset=made.next_offset,
        damaged=damaged,
    )
