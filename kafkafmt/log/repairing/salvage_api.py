"""Copy the intact batches of damaged logs into a log directory that a broker can mount."""

from __future__ import annotations

import errno
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...constants import DEFAULT_MAX_BATCH_BYTES
from ...support import arguments
from ...support.report import Report
from ...support.text import shown
from ..catalog import AnyPath, PartitionDir, Sources, resolve
from ..damage import ReadLimits
from ..reading import PartitionLog
from ..storage import narrowed_mode
from ..verifying import (
    EXIT_DAMAGE,
    EXIT_UNREADABLE,
    Globs,
    Numbers,
    OnMessage,
    PartitionReport,
    Progress,
    Run,
    UnreadablePartition,
    report_html,
    unreadable_dict,
    verify_partition,
)
from ..writing import metadata_logs, strays
from .merge import MERGED, Merged, merge_partition, merged_reports, replicas_of
from .merge_copy import SourceRange
from .open_transactions import OpenTransaction, find_open_transactions
from .salvage_copy import salvage_partition
from .salvage_output import Output, OutputPlaceError, finish_directory, output_directory
from .salvage_rebuilt import needs_rebuilding
from .salvage_source import Bounds, LeftOut
from .salvaged import Salvaged

__all__ = [
    "OutputPlaceError",
    "SalvageReport",
    "Salvaged",
    "SalvagedPartition",
    "finish_directory",
    "salvage",
    "salvage_partition",
]

OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)


@dataclass(frozen=True)
class SalvagedPartition:
    """A partition that `kafkafmt.salvage` has copied.

    Attributes
    ----------
    source : PartitionReport
        The report on the source partition.
    path : str
        Directory of the copy.
    segments, batches, bytes : int
        Number of segments, number of batches, and total size of the `.log` files in the copy.
    next_offset : int
        Log end offset of the copy.
    open_transactions : sequence of OpenTransaction
        Transactions that have no marker among the copied batches, from the oldest to the newest.
    restored_markers : tuple of int
        Offsets of the lost transaction markers that salvage has written again. The transaction
        indexes of the source prove that the transactions were aborted or committed.
    sources : tuple of SourceRange, or None
        With ``replicas="merge"``, the ranges of offsets in offset order, each with the replica from
        which the range was copied. Otherwise None. After a merge, `source` is the report on the
        copy. In this report, `damaged` contains the ranges that are valid in no replica, with the length 0.
    diverged : tuple of SourceRange
        With ``replicas="merge"``, the ranges of offsets at the end of a replica that were not used,
        because they contradict the replica with the latest leader epoch.
    """

    source: PartitionReport
    path: str
    segments: int
    batches: int
    bytes: int
    next_offset: int
    open_transactions: Sequence[OpenTransaction] = ()
    restored_markers: tuple[int, ...] = ()
    sources: tuple[SourceRange, ...] | None = None
    diverged: tuple[SourceRange, ...] = ()

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self.source.topic

    @property
    def partition(self) -> int:
        """Number of the partition."""
        return self.source.partition

    def to_dict(self) -> dict[str, Any]:
        """Return the partition as it appears in the JSON output.

        The dict contains the keys of `PartitionReport.to_dict` and these keys:

        - `open_transactions`: the transactions in the copy that have no marker
        - `restored_markers`: the offsets of restored markers, if there are any
        - `sources` and `diverged`: offset ranges of the replicas, if replicas were merged
        """
        row = self.source.to_dict() | {"open_transactions": [t.to_dict() for t in self.open_transactions]}
        if self.sources is not None:
            row["sources"] = [s.to_dict() for s in self.sources]
            row["diverged"] = [s.to_dict() for s in self.diverged]
        return row | ({"restored_markers": list(self.restored_markers)} if self.restored_markers else {})


@dataclass(frozen=True)
class SalvageReport(Report):
    """Copied partitions and unreadable files, as returned by `kafkafmt.salvage`.

    Attributes
    ----------
    output : Path
        The log directory that was written.
    partitions : tuple of SalvagedPartition
        The partitions that were copied.
    unreadable : tuple of UnreadablePartition
        Partitions and files that were not copied, each with the reason.
    messages : tuple of str
        Other messages. They are not part of the JSON output.
    stop_at_first : bool
        Whether only the batches before the first damage of each partition were copied.
    """

    command = "salvage"

    output: Path
    partitions: tuple[SalvagedPartition, ...]
    unreadable: tuple[UnreadablePartition, ...] = ()
    messages: tuple[str, ...] = ()
    stop_at_first: bool = False

    @property
    def ok(self) -> bool:
        """Whether everything could be read and nothing was damaged."""
        return not self.unreadable and all(p.source.ok for p in self.partitions)

    @property
    def exit_code(self) -> int:
        """Exit code of ``kafkafmt salvage``: 0 if `ok`, 3 if something was unreadable, else 1."""
        if self.unreadable:
            return EXIT_UNREADABLE
        return 0 if self.ok else EXIT_DAMAGE

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that ``kafkafmt salvage --format json`` prints."""
        report: dict[str, Any] = {"ok": self.ok, "partitions": [p.to_dict() for p in self.partitions]}
        return report | unreadable_dict(self.unreadable)

    def _repr_html_(self) -> str:
        return report_html([p.source for p in self.partitions], self.unreadable)


def salvage(
    paths: Sources,
    output: AnyPath,
    *,
    topics: Globs | None = None,
    partitions: Numbers | None = None,
    stop_at_first: bool = False,
    abort_open_transactions: bool = False,
    replicas: str | None = None,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    threads: int | None = None,
    progress: Progress | None = None,
    on_message: OnMessage | None = None,
) -> SalvageReport:
    """Copy all intact batches unchanged into a new log directory that a broker can mount.

    Parameters
    ----------
    output : str or os.PathLike
        The log directory to write. It must be new or empty, and outside `paths`.
    stop_at_first : bool, default False
        Copy only the batches before the first damage in each partition, as a broker's recovery
        does.
    abort_open_transactions : bool, default False
        Append an abort marker to the copy for every transaction that is open in the copy. By
        default, open transactions are only reported.
    replicas : {"longest", "merge"}, optional
        What to do if several paths contain the same partition. By default, such a partition is an
        error.

        - "longest": copy the replica with the higher end offset.
        - "merge": copy each range of offsets from a replica in which it is valid. If replicas
          contradict each other, the replica with the latest leader epoch is used.
    paths, topics, partitions, max_batch_bytes, threads, progress, on_message
        As in `verify`. Nothing is written to `paths`. Each `.log` file counts twice in `progress`,
        because it is verified and then copied. `SalvageReport.messages` contains all messages.

    Returns
    -------
    SalvageReport
        `SalvageReport.to_dict` returns the object that ``kafkafmt salvage --format json`` prints.
        If a partition cannot be read, the run continues, and the partition is listed in
        `SalvageReport.unreadable`.

    Raises
    ------
    FileExistsError
        `output` is not empty.
    BlockingIOError
        Another process is salvaging into `output`.
    OSError
        A path cannot be read, or `output` cannot be written. The subclass `NoLogError` is raised if
        a path contains no Kafka log.
    PartitionNotFoundError
        `topics` or `partitions` are given, and no partition matches. This is a LookupError.
    TypeError, ValueError
        An argument is wrong. `OutputPlaceError`, a ValueError, is raised if `output` is inside a
        path or is not a directory. `DuplicatePartitionError`, a ValueError, is raised if two paths
        contain the same partition and `replicas` is not given.

    Notes
    -----
    Indexes, producer snapshots, leader epochs and checkpoints are rebuilt. If an error is raised,
    nothing is left in `output`. Symbolic links are followed only if they lead to places below
    `paths`. No copied or rebuilt file gets a permission that its source lacks. If a path contains
    Kafka's metadata log, that log is always copied, even if it is not selected.

    A merge follows the rules by which a follower truncates its log (KIP-101, KIP-279; Kafka's
    ``AbstractFetcherThread`` and ``LeaderEpochFileCache``). A merge needs memory for the batch
    headers of all replicas of a partition, about 60 bytes for each batch.
    """
    if replicas not in (None, "longest", "merge"):
        raise ValueError(f"replicas is {shown(replicas)}; it must be 'longest', 'merge' or None")
    limits = ReadLimits(arguments.integer("max_batch_bytes", max_batch_bytes, 1))
    given, replicas = resolve(paths, replicas)
    merging = replicas == "merge"
    run, bounds = Run(progress, on_message), Bounds(given)
    run.threads(threads)
    found = run.find(given, None if merging else replicas, every_replica=merging)
    chosen = run.choose(found, topics, partitions)
    chosen += metadata_logs(found, chosen)
    roots = list(dict.fromkeys(d.path.parent for d in chosen))
    chosen = [d for d in chosen if is_usable(d, bounds, run)]
    target = output_directory(output, chosen)
    logs = list(opened_logs(chosen, limits, run))
    note_links((entry for root in roots for entry in bounds.foreign_root_files(root)), run, None)
    filled = Output(target, narrowed_mode(0o777, *roots))

    def copy(log: PartitionLog) -> tuple[PartitionReport, Salvaged, Sequence[OpenTransaction]] | None:
        with run.reading(log.directory, is_output_error):
            report = verify_partition(log, run=run)
            made = salvage_partition(
                log,
                report.damaged,
                filled.work,
                stop_at_first,
                bounds,
                abort_open_transactions,
                needs_rebuilding(report),
            )
            run.advance(report.bytes)
            return report.with_findings(made.findings), made, find_open_transactions(log, report.damaged, made)
        return None

    def merge(group: list[PartitionLog]) -> Merged | None:
        with run.reading(group[0].directory, is_output_error):
            return merge_partition(group, filled.work, stop_at_first, bounds, run, abort_open_transactions)
        return None

    merged: list[Merged] = []
    with filled.opened():
        run.begin(2 * s.size for log in logs for s in log.segments)  # each file is verified and then copied
        if merging:
            bounds.add(filled.work)
            (filled.work / MERGED).mkdir(0o700)
            merged = run.map(merge, replicas_of(logs), threads, wait=True)
            (filled.work / MERGED).rmdir()
            copies = [m.made for m in merged]
            transactions: list[Sequence[OpenTransaction]] = [m.transactions for m in merged]
        else:
            copied = run.map(copy, logs, threads, wait=True)
            copies = [made for _, made, _ in copied]
            transactions = [found for _, _, found in copied]
        messages = finish_directory(filled.work, copies, roots, bounds)
        reports = (
            merged_reports(filled.work, target, merged, limits) if merging else [report for report, _, _ in copied]
        )
        filled.publish(copies)
    for message in messages:
        run.tell(message.replace(str(filled.work), str(target)))
    if any(not mode & 0o200 for made in copies for mode in [made.mode, *made.modes.values()]):
        remedy = f"chmod -R u+w {shlex.quote(str(target))}"
        run.tell(
            f"{target}: some files are read-only, as in the source; a broker must be able to write to them: {remedy}"
        )
    for message in strays(target, [(made.topic, made.partition) for made in copies]):
        run.tell(message)
    done = [_salvaged(*parts, target) for parts in zip(reports, copies, transactions, strict=True)]
    if merging:
        done = [replace(p, sources=m.sources, diverged=m.diverged) for p, m in zip(done, merged, strict=True)]
    return SalvageReport(target, tuple(done), tuple(run.unreadable), tuple(run.messages), stop_at_first)


def _salvaged(
    report: PartitionReport, made: Salvaged, transactions: Sequence[OpenTransaction], target: Path
) -> SalvagedPartition:
    return SalvagedPartition(
        source=report,
        path=str(target / made.path.name),
        segments=made.segments,
        batches=made.batches,
        bytes=made.bytes,
        next_offset=made.next_offset,
        open_transactions=transactions,
        restored_markers=tuple(made.restored),
    )


def is_output_error(error: OSError) -> bool:
    """Return whether an error concerns the output. No partition can be copied after such an error."""
    return error.errno in OUTPUT_ERRORS


def is_usable(directory: PartitionDir, bounds: Bounds, run: Run) -> bool:
    """Return whether a partition can be salvaged. Report if it cannot, and each file that is not copied."""
    with run.reading(directory):
        note_links(bounds.apply_to(directory), run, directory)
        return True
    return False


def opened_logs(chosen: Iterable[PartitionDir], limits: ReadLimits, run: Run) -> Iterator[PartitionLog]:
    """Open the partitions one by one, and yield their logs. Report partitions whose directory cannot be listed."""
    for directory in chosen:
        with run.reading(directory):
            yield PartitionLog(directory, limits, tell=run.tell)


def note_links(left_out: Iterable[LeftOut], run: Run, directory: PartitionDir | None) -> None:
    for entry in left_out:
        run.note(directory, entry.path, f"not copied, {entry.reason}")
