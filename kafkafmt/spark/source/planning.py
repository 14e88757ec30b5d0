"""Plan a query: select partitions, find the offsets to read, and create tasks.

A batch query is planned on the driver, using only file names, file sizes and indexes. The tasks
read and check the segments, so that each byte is read only once.

A task reads some tens of MB, from one large partition or from several small partitions. Smaller
tasks would be inefficient, because Spark needs about 30 ms even for an empty task. The tasks for a
very large log are larger, because Spark's driver needs memory for each task.
"""

from __future__ import annotations

import builtins
import os
import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ...log import Damage, Discovery, DuplicatePartitionError, PartitionDir, PartitionLog, discover
from ...log.catalog import Listings, SegmentFile
from ...log.damage import ReadLimits, is_recorded
from ...log.finding import narrowed
from ...log.reading import OffsetBound, OffsetInterval
from ...log.transactions import Doubt
from ..option_text import OptionError
from .options import Bound, Key, Options
from .splits import SPLIT_BYTES, Split, cut_splits, may_hold, stable_part


class DataLossError(RuntimeError):
    """Raised if offsets that a query should read do not exist, unless the option failOnDataLoss is false."""


OPEN_COST = 1 << 20
"""Bytes that can be read in the time to open a partition. Each split costs so much in addition."""
MAX_TASKS = 20_000
"""Approximate limit without splitBytes. Spark's driver needs 0.5 GB, and much time, for 170,000 tasks."""
MOST_PARTS = 200_000
"""Largest number of parts into which a partition may be divided by the option `maxRecordsPerPartition`.

Spark's driver runs out of memory at about twice this number of tasks. Even a small compacted log
can need too many parts, because its offsets can have large gaps.
"""
FASTEST = 1
"""Compression level of zlib."""
RUNS_A_SPLIT = 8
"""Groups of batches in a split. A group is never divided, so several make splits of about the same size."""


DoubtIn = tuple[PartitionDir, Doubt]
"""A transaction with an unknown outcome, and its partition."""


class PackedSplit(NamedTuple):
    """A split (a range of a partition) as compressed bytes."""

    # A query can have a million segments. Packed, a split needs a tenth of the memory of its
    # objects.

    bytes: int
    """Size of the data that a task reads."""
    packed: builtins.bytes

    @classmethod
    def of(cls, split: Split) -> PackedSplit:
        return cls(split.bytes, zlib.compress(pickle.dumps(split), FASTEST))

    def unpack(self) -> Split:
        split: Split = pickle.loads(zlib.decompress(self.packed))
        return split


@dataclass
class Task:
    """Splits (ranges of partitions) that a Spark task reads, in order. They can belong to different partitions."""

    packed: list[PackedSplit] = field(default_factory=list)
    cost: int = 0

    @property
    def splits(self) -> list[Split]:
        return [packed.unpack() for packed in self.packed]


@dataclass
class Plan:
    """The tasks of a query, and the problems that were found during planning."""

    # A batch query is planned without reading segments, so only its tasks find damage.

    tasks: list[Task]
    """Tasks in order of topic, partition and offset."""
    damaged: list[tuple[PartitionDir, Damage]]
    """Damage in the offset ranges of the query that was found during planning."""
    doubts: list[DoubtIn] = field(default_factory=list)
    """Transactions in doubt with records in the ranges of the query, which "read_committed" omits."""
    lost: list[tuple[PartitionDir, Damage]] = field(default_factory=list)
    """Selected offsets at the ends of the logs that are lost. Tasks find other lost offsets."""


@dataclass
class _Selected:
    """A selected partition, and the range of offsets to read."""

    log: PartitionLog
    interval: OffsetInterval = field(default_factory=OffsetInterval)
    """Range of selected offsets."""

    @property
    def key(self) -> Key:
        return self.log.topic, self.log.partition

    def segments(self) -> list[SegmentFile]:
        """Return the segments that may contain selected offsets, according to the file names."""
        return [s for s in self.log.segments if may_hold(s, self.interval)]


def make_plan(options: Options, tell: Callable[[str], None]) -> Plan:
    """Plan a batch query. `tell` gets messages about the input, for example if retention has removed a file."""
    limits = limits_of(options)
    selected = [
        _Selected(PartitionLog(p, limits, tell=tell)) for p in options.select(discovered(options, tell).partitions)
    ]
    keys = {s.key for s in selected}
    for bound in (options.start, options.end):
        if bound is not None:
            bound.check(keys)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(lambda s: _resolve(s, options), selected))
        for s in selected:
            _check_range(s, options, tell)
        matched = pool.map(lambda s: narrowed(s.interval, options.where, s.log, options.below_log_start), selected)
        selected = [_Selected(s.log, part) for s, part in zip(selected, matched, strict=True) if part is not None]
        size = split_size(options, sum(segment.size for s in selected for segment in s.segments()))
        plan = Plan([], [])
        for splits, doubts, lost in pool.map(lambda s: _cut_and_packed(s, options, size), _taken(selected)):
            plan.doubts += doubts
            plan.lost += lost
            pack(plan.tasks, splits, size if options.max_records_per_partition is None else 0)
    return plan


def _cut_and_packed(
    s: _Selected, options: Options, size: int
) -> tuple[list[PackedSplit], list[DoubtIn], list[tuple[PartitionDir, Damage]]]:
    """Return the packed splits of a partition, the transactions in its range in doubt, and lost offsets at its end."""
    end, interval = s.log.losses.at_end(), stable_part(s.log, s.interval)
    lost = [(s.log.directory, damage) for damage in interval.overlapping(end)]
    if len(s.log.segments) > 1:
        # A task may need the answer for missing offsets, but cannot read the metadata log of the driver.
        is_recorded(s.log.directory)
    splits = [PackedSplit.of(split) for split in _cut(s, options, size)]
    return splits, doubts_in(s.log, s.interval.low, s.interval.high) if s.interval.committed else [], lost


def doubts_in(log: PartitionLog, start: int, end: int) -> list[DoubtIn]:
    """Return the transactions in doubt with offsets in [start, end); none if they have not been read yet."""
    # In the latter case, the tasks find and report them.
    if not log.knows_transactions:
        return []
    return [(log.directory, doubt) for doubt in log.transactions.within(start, end - 1).doubts]


def _taken(items: list[_Selected]) -> Iterator[_Selected]:
    """Yield the items of a list in order, and remove them, so that their memory is freed as soon as they are used."""
    items.reverse()
    while items:
        yield items.pop()


def _cut(s: _Selected, options: Options, size: int) -> list[Split]:
    """Divide the selected range of a partition into splits. A split has at most `maxRecordsPerPartition` offsets."""
    most, segments = options.max_records_per_partition, s.segments()
    if most is None:
        return cut_splits(s.log, segments, s.interval, size)
    if not segments:
        return []
    known = replace(
        s.interval,
        low=max(s.interval.low, segments[0].base_offset or 0),
        high=min(s.interval.high, s.log.next_offset),
    )
    parts = parts_of(known, most, s.key) or [s.interval]
    parts[-1] = replace(parts[-1], high=s.interval.high)  # include damage at the log's end
    splits: list[Split] = []
    for interval in parts:
        splits += cut_splits(s.log, _Selected(s.log, interval).segments(), interval, size)
    return splits


def parts_of(interval: OffsetInterval, most: int, key: Key) -> list[OffsetInterval]:
    """Divide a range into ranges of `most` offsets. OptionError: more than MOST_PARTS would be necessary."""
    offsets = interval.high - interval.low
    if offsets > most * MOST_PARTS:
        raise OptionError(
            f"maxRecordsPerPartition is {most}, but {key[0]}-{key[1]} has {offsets} offsets to read, including gaps; set it to at least"
            f" {-(-offsets // MOST_PARTS)}, so that there are at most {MOST_PARTS} tasks"
        )
    lows = range(interval.low, interval.high, most)
    return [replace(interval, low=low, high=min(low + most, interval.high)) for low in lows]


def split_size(options: Options, total: int) -> int:
    """Return the bytes for one task: enough tasks for `minPartitions` if the segments have offset indexes."""
    size = options.split_bytes
    if options.split_bytes == SPLIT_BYTES:
        size = max(size, total // MAX_TASKS)
    if options.min_partitions is not None:
        size = min(size, max(total // (options.min_partitions + 1), 1))
    return size


def _check_range(s: _Selected, options: Options, tell: Callable[[str], None]) -> None:
    """Check the start and end offsets that options set for a partition."""
    # If the end is before the start, raise OptionError. If an offset is outside the log, raise
    # DataLossError, or log a message if failOnDataLoss is false. As in Spark's Kafka source, times
    # can be outside the log.
    name = f"{s.log.topic}-{s.log.partition}"
    bounds = [
        (b.option, one) for b in (options.start, options.end) if b is not None and (one := b.of(s.key)) is not None
    ]
    if len(bounds) == 2:
        (start, first), (end, stop) = bounds
        if first.kind == stop.kind and first.n > stop.n:
            raise OptionError(f"{start} of {name} is {first.n}; it must not be greater than {end}, which is {stop.n}")
    segments = s.log.segments
    low = (segments[0].base_offset or 0 if segments else 0) if options.below_log_start else s.log.log_start_offset
    for option, bound in bounds:
        if bound.kind != "offset":
            continue
        offset, what = bound.n, ""
        if offset < low:
            what = f"the log starts at offset {low}"
        elif offset > (segments[-1].base_offset or 0 if segments else 0) and offset > s.log.next_offset:
            what = f"the log ends at offset {s.log.next_offset}"
        if what and options.fail_on_data_loss:
            raise DataLossError(
                f"{name}: {option} is {offset}, but {what}; set failOnDataLoss=false to read the offsets that exist"
            )
        if what:
            tell(f"{name}: {option} is {offset}, but {what}")


def discovered(options: Options, tell: Callable[[str], None], listings: Listings | None = None) -> Discovery:
    """Find all partitions in the paths of a query. A local directory in `listings` is read again only if it changed."""
    try:
        found = discover(options.paths, options.replicas, listings)
    except DuplicatePartitionError as error:
        raise OptionError(
            f"{error.problem}; pass only one of the two directories, set the option replicas=longest, or merge both "
            "with kafkafmt salvage --replicas merge"
        ) from None
    except ValueError as error:
        raise OptionError(str(error)) from None
    for message in found.messages:
        tell(message)
    return found


def limits_of(options: Options) -> ReadLimits:
    """Return the limits for batches and for groups of batches. A group is a fraction of `split_bytes`."""
    return ReadLimits(options.max_batch_bytes, run_bytes=max(options.split_bytes // RUNS_A_SPLIT, 1))


def _resolve(s: _Selected, options: Options) -> None:
    """Determine the range of offsets to read in the partition `s`."""
    selection = options.selection(s.key)
    if options.start is not None and selection.start is not None:
        start = start_of(s.log, options.start, options)
        selection = replace(selection, start=OffsetBound("offset", s.log.next_offset if start is None else start))
    s.interval = selection.resolve(s.log)


def start_of(log: PartitionLog, bound: Bound, options: Options) -> int | None:
    """Return the offset at which a query starts, or None if `bound` is a time after the last record."""
    # startingOffsetsByTimestampStrategy decides: "latest" returns None, "error" raises OptionError.
    start = bound.of((log.topic, log.partition))
    assert start is not None
    offset = start.find(log, options.below_log_start)
    if offset is None and options.late_start_is_error:
        remedy = "set startingOffsetsByTimestampStrategy=latest to start at the end of such a partition"
        raise OptionError(
            f"{bound.option}: {log.topic}-{log.partition} has no record with timestamp {start.n} or later; {remedy}"
        )
    return offset


def pack(tasks: list[Task], splits: Iterable[PackedSplit], size: int) -> None:
    """Distribute splits among tasks, in order. A task with several splits costs at most `size`."""
    for split in splits:
        cost = split.bytes + OPEN_COST
        if not tasks or tasks[-1].cost + cost > size:
            tasks.append(Task())
        tasks[-1].packed.append(split)
        tasks[-1].cost += cost
