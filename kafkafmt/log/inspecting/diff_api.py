"""Compare replicas or other copies of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ...constants import DEFAULT_MAX_BATCH_BYTES, NO_END
from ...support import arguments
from ...support.paths import input_path
from ..catalog import Discovery, OpenedLog, PartitionDir, PartitionNotFoundError, Source, matching, resolve
from ..damage import ReadLimits
from ..reading import PartitionLog, discover
from ..verifying import Globs, Numbers, OnMessage, Progress, Run, globs_of, numbers_of
from .diff_batches import MOST_SPANS, Spans, compare_batches
from .diff_files import compare_epochs, compare_transactions, differing_ranges
from .diff_report import (
    BYTES,
    EPOCH_CHECKPOINT,
    LEADER_EPOCH,
    LOG_START,
    MISSING,
    Difference,
    DiffReport,
    PartitionDiff,
    Span,
    merged,
)

NOT_OF_RECORDS = (BYTES, LEADER_EPOCH, EPOCH_CHECKPOINT, LOG_START)
"""Kinds of differences that `diff` omits if `records_only` is True."""
Copies = dict[tuple[str, int], list[tuple[str, PartitionDir]]]


def diff(
    *paths: Source | Sequence[Source],
    topics: Globs | None = None,
    partitions: Numbers | None = None,
    records_only: bool = False,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    threads: int | None = None,
    progress: Progress | None = None,
    on_message: OnMessage | None = None,
) -> DiffReport:
    """Compare replicas or other copies of the same partitions.

    Parameters
    ----------
    *paths : str, os.PathLike, Log, Topic, Partition, or a list or tuple of these
        The copies: two or more log directories, partition directories or `.log` files. A path with
        wildcards stands for all copies that it matches. An open log, topic or partition is one
        copy. Its name in the report consists of its log directories.
    records_only : bool, default False
        Report only differences between the records. The kinds "bytes_differ",
        "leader_epoch_differs", "leader_epoch_checkpoint_differs" and "log_start_differs" are
        omitted.
    topics, partitions, max_batch_bytes, threads, progress, on_message
        As in `verify`, but `progress` is called after each partition. `DiffReport.messages` contains
        all messages.

    Returns
    -------
    DiffReport
        The differences of each partition.

    Raises
    ------
    OSError, PartitionNotFoundError, TypeError
        As in `verify`.
    ValueError
        An argument is wrong, or fewer than two copies are given. `DuplicatePartitionError`, a
        ValueError, if one path contains the same partition twice.

    Notes
    -----
    Two segments with the same base offset, end offset and size are compared byte by byte. CRCs are
    not checked, so identical damage in both segments is not reported.

    All other segments are read in offset order, and the CRC of each batch is checked. Two batches
    are equal if they have the same offsets, size, magic, CRC and leader epoch. Equal batches are
    not decompressed. The leader epoch and the offsets are compared because the CRC does not cover
    the leader epoch and the base offset. If two batches differ, their records are compared.

    Only offsets at or above both log start offsets are compared. The transaction indexes of two
    copies are equal if they list the same aborted transactions. The files
    ``leader-epoch-checkpoint`` are compared if both copies have this file.

    If more than two copies are given, each copy is compared with the first copy that contains the
    partition.
    """
    flat: list[Any] = [p for path in paths for p in (path if isinstance(path, list | tuple) else [path])]
    limits = ReadLimits(arguments.integer("max_batch_bytes", max_batch_bytes, 1))
    run = Run(progress, on_message)
    found: list[tuple[str, Discovery]] = []
    for name, discovery in _discovered(flat):
        found.append((name, discovery))
        for message in discovery.messages:
            run.tell(message)
    if len(found) < 2:
        raise ValueError(f"at least two copies are needed for a comparison, not {len(found)}")
    copies = _copies(found, globs_of(topics), numbers_of(partitions), run)
    run.begin(s.size for same in copies.values() for _, d in same for s in d.segments)
    names = [name for name, _ in found]

    def compare(key: tuple[str, int]) -> PartitionDiff | None:
        same = copies[key]
        differences: tuple[Difference, ...] | None = None
        try:
            logs = [PartitionLog(directory, limits, tell=run.tell) for _, directory in same]
            differences = _compare(names, [name for name, _ in same], logs, records_only, run)
        except OSError as error:
            with run.reading(_unreadable([d for _, d in same], error)):
                raise
        run.advance(sum(s.size for _, d in same for s in d.segments))
        return None if differences is None else PartitionDiff(*key, tuple(name for name, _ in same), differences)

    rows = run.map(compare, sorted(copies), threads)
    return DiffReport(tuple(rows), tuple(run.unreadable), tuple(run.messages))


def _discovered(sources: Iterable[Source]) -> Iterator[tuple[str, Discovery]]:
    """Yield the name and the partitions of each copy."""
    for source in sources:
        paths, replicas = resolve(source)
        if isinstance(source, OpenedLog):
            opened = discover(paths, replicas)
            yield ", ".join(dict.fromkeys(str(d.path.parent) for d in opened.partitions)), opened
        else:
            yield from ((str(place), discover([place])) for place in matching(input_path(paths[0])))


def _unreadable(directories: Sequence[PartitionDir], error: OSError) -> PartitionDir:
    """Return the directory whose path is in `error`, or the first element of `directories` if no path matches."""
    named = (d for d in directories if d.error is error or str(error.filename).startswith(str(d.path)))
    return next(named, directories[0])


def _copies(found: Iterable[tuple[str, Discovery]], topics: list[str], partitions: list[int], run: Run) -> Copies:
    """Return all copies of each selected partition. Each copy has the path that the user has given."""
    copies: Copies = {}
    missing: PartitionNotFoundError | None = None
    for name, discovery in found:
        try:
            chosen = run.choose(discovery, topics, partitions)
        except PartitionNotFoundError as error:
            missing = missing or error
            continue
        for directory in chosen:
            copies.setdefault(directory.key, []).append((name, directory))
    if not copies and missing is not None:
        raise missing
    return copies


def _compare(
    everywhere: Sequence[str], names: Sequence[str], logs: Sequence[PartitionLog], records_only: bool, run: Run
) -> tuple[Difference, ...]:
    """Return the differences between the copies of one partition, which exists in the paths `names`."""
    found: list[Difference] = []
    if len(names) < len(everywhere):
        first, end = min(log.log_start_offset for log in logs), max(log.next_offset for log in logs)
        found.append(Difference(MISSING, first, end - 1, tuple(names)))
    pairs = [_pair(logs[0], log, run) for log in logs[1:]]
    found += merged(names, pairs)
    return tuple(d for d in found if not (records_only and d.kind in NOT_OF_RECORDS))


def _pair(a: PartitionLog, b: PartitionLog, run: Run) -> list[Span]:
    """Return the differences between two copies of a partition."""
    low = max(a.log_start_offset, b.log_start_offset)
    found = []
    lowest = min(a.log_start_offset, b.log_start_offset)
    if lowest < low:
        found.append(Span(LOG_START, lowest, low - 1, 0 if a.log_start_offset == lowest else 1))
    spans = Spans()
    for start, end in differing_ranges(a, b, low):
        compare_batches(a, b, start, end, spans)
    found += spans.result()
    if spans.limited:
        run.tell(
            f"{a.topic}-{a.partition}: more than {MOST_SPANS:,} differences of one kind; the last reported "
            "difference of this kind also covers all later ones, and the equal offsets between them"
        )
    common = min(a.next_offset, b.next_offset, NO_END)
    return [*found, *compare_transactions(a, b, low, common), *compare_epochs(a, b, low, common)]
