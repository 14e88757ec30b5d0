"""What a query of the data source has to read: partitions chosen, bounds resolved, segments planned, tasks cut.

It happens once a query, on the driver, with a thread per core: each segment that the bounds touch is walked shallowly
and its CRCs checked (without the GIL), so damage is known before a task runs and a task reads nothing twice.
A task holds some tens of MB: a piece of a large partition, or several small partitions, since a task costs Spark
about 30 ms however little it does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from ...constants import NO_END
from ...log import Damage, Discovery, DuplicatePartitionError, PartitionDir, PartitionLog, discover
from ...log.reading.lookups import find_timestamp
from ...log.reading.partition_dir import SegmentFile
from ...log.reading.transactions import Doubt
from ..option_text import OptionError
from .options import EARLIEST, LATEST, Bound, Options
from .splits import Split, make_splits


class DataLossError(RuntimeError):
    """Raised if records that a query names are gone, or were never there; failOnDataLoss=false continues without them."""


OPEN_COST = 1 << 20
"""What opening one more partition counts for in a task, in bytes read."""
RUNS_A_SPLIT = 8
"""Extents are cut finer than splits, so that splits come out even."""


@dataclass
class Task:
    """What one Spark task reads: splits of one or several partitions, in order."""

    splits: list[Split] = field(default_factory=list)
    cost: int = 0


@dataclass
class Plan:
    """What a query reads.

    tasks: in the order of topic, partition and offset. damaged: what is known to be damaged within the bounds. doubts: transactions
    with records within the bounds that read_committed leaves out because their outcome is not known.
    """

    tasks: list[Task]
    damaged: list[tuple[PartitionDir, Damage]]
    doubts: list[tuple[PartitionDir, Doubt]] = field(default_factory=list)

    def add_doubts(self, log: PartitionLog, start: int, end: int) -> None:
        """Note the transactions in doubt with offsets in [start, end)."""
        found = log.transactions.doubts
        self.doubts += [(log.directory, d) for d in found if d.first_offset < end and d.last_offset >= start]


@dataclass
class _Selected:
    """One partition under way; start and end None are the log's own."""

    log: PartitionLog
    start: int | None = None
    end: int | None = None
    low: int = 0

    def segments(self, every: bool = False) -> list[SegmentFile]:
        """The segments that may hold what lies within the bounds, by their names alone."""
        if every:
            return self.log.segments
        high = _open(self.end)
        return [
            s
            for s in self.log.segments
            if (s.next_base is None or s.next_base > self.low) and (s.base_offset or 0) < high
        ]


def make_plan(options: Options, tell: Callable[[str], None]) -> Plan:
    """Plan a batch query. tell: called with lines worth saying (retention at work, odd directory names).

    OptionError for options that do not fit what is there; OSError (NoLogError) for paths that cannot be read.
    """
    selected = [
        _Selected(PartitionLog(p, max_batch_bytes=options.max_batch_bytes, run_bytes=run_bytes_of(options), tell=tell))
        for p in options.select(discovered(options, tell).partitions)
    ]
    keys = {(s.log.topic, s.log.partition) for s in selected}
    for bound in (options.start, options.end):
        if bound is not None:
            bound.check(keys)
    timed = any(bound is not None and bound.kind == "time" for bound in (options.start, options.end))
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        if timed:  # a time is looked up in what the plans tell of each segment
            _plan_segments(pool, selected, every=True)
        list(pool.map(lambda s: _resolve(s, options), selected))
        for s in selected:
            _check_range(s, options, tell)
        options = _finer(options, selected)
        _plan_segments(pool, selected)
    plan = Plan([], [])
    for s in selected:
        plan.damaged += [
            (s.log.directory, event) for _, event in s.log.events(s.low, _open(s.end)) if isinstance(event, Damage)
        ]
        plans = [s.log.plan(segment) for segment in s.segments()]
        directory, below = s.log.directory, options.below_log_start
        transactions = s.log.transactions if options.committed else None
        if options.committed:
            plan.add_doubts(s.log, s.low, _open(s.end))
        splits = make_splits(
            directory,
            plans,
            s.start,
            s.end,
            below_log_start=below,
            transactions=transactions,
            split_bytes=options.split_bytes,
        )
        pack(plan.tasks, splits, options.split_bytes)
    return plan


def _finer(options: Options, selected: Iterable[_Selected]) -> Options:
    """Make the splits small enough for `minPartitions` tasks, as far as batches allow it."""
    if options.min_partitions is None:
        return options
    total = sum(segment.size for s in selected for segment in s.segments())
    room = (
        total * RUNS_A_SPLIT // (options.min_partitions * (RUNS_A_SPLIT + 1))
    )  # a split is longer than its room by one extent at most
    options = replace(options, split_bytes=min(options.split_bytes, max(room, 1)))
    for s in selected:
        s.log.run_bytes = run_bytes_of(options)
    return options


def _check_range(s: _Selected, options: Options, tell: Callable[[str], None]) -> None:
    """Raise `OptionError` if the bounds contradict each other, `DataLossError` if they name offsets that the log does not have.

    The second is a message with failOnDataLoss=false. As in Spark's Kafka source only bounds that name offsets can be out of range.
    """
    start, end, key = options.start, options.end, (s.log.topic, s.log.partition)
    name = f"{key[0]}-{key[1]}"
    if start is not None and end is not None and start.kind == end.kind:
        first, stop = (s.start, s.end) if start.kind == "offset" else (start.of(key), end.of(key))
        if first is not None and stop is not None and first > stop:
            raise OptionError(f"{start.option} of {name} is {first}, which is above {end.option}, {stop}")
    segments = s.log.segments
    low = (segments[0].base_offset or 0 if segments else 0) if options.below_log_start else s.log.log_start_offset
    for bound, offset in ((start, s.start), (end, s.end)):
        if bound is None or bound.kind != "offset" or offset is None:
            continue
        what = ""
        if offset < low:
            what = f"the log starts at offset {low}"
        elif offset > (segments[-1].base_offset or 0 if segments else 0) and offset > s.log.next_offset:
            what = f"the log ends at offset {s.log.next_offset}"
        if what and options.fail_on_data_loss:
            raise DataLossError(
                f"{name}: {bound.option} is {offset}, but {what}; failOnDataLoss=false reads what is there"
            )
        if what:
            tell(f"{name}: {bound.option} is {offset}, but {what}")


def discovered(options: Options, tell: Callable[[str], None]) -> Discovery:
    """What lies under the paths of a query."""
    try:
        found = discover(options.paths, options.replicas)
    except DuplicatePartitionError as error:
        raise OptionError(f"{error.problem}; name only one of them, or set the option replicas=longest") from None
    except ValueError as error:
        raise OptionError(str(error)) from None
    for message in found.messages:
        tell(message)
    return found


def run_bytes_of(options: Options) -> int:
    """How large the extents become of which splits are made."""
    return max(options.split_bytes // RUNS_A_SPLIT, 1)


def _open(end: int | None) -> int:
    return NO_END if end is None else end


def _plan_segments(pool: ThreadPoolExecutor, selected: Iterable[_Selected], every: bool = False) -> None:
    list(
        pool.map(
            lambda pair: pair[0].plan(pair[1]), [(s.log, segment) for s in selected for segment in s.segments(every)]
        )
    )


def _resolve(s: _Selected, options: Options) -> None:
    """Turn the bounds into offsets of this partition."""
    if options.start is not None:
        s.start = offset_of(s.log, options.start, options)
        if s.start is None and options.start.kind == "time":
            s.start = s.log.next_offset
    if options.end is not None:
        s.end = _offset(s.log, options.end, LATEST, options.below_log_start)
    lowest = 0 if options.below_log_start else s.log.log_start_offset
    s.low = lowest if s.start is None else max(s.start, lowest)


def offset_of(log: PartitionLog, start: Bound, options: Options) -> int | None:
    """The offset where reading starts; None for the log's own start, and for a time after which there is nothing, if that may be."""
    offset = _offset(log, start, EARLIEST, options.below_log_start)
    if offset is None and start.kind == "time" and options.late_start_is_error:
        name, time = f"{log.topic}-{log.partition}", start.of((log.topic, log.partition))
        remedy = "startingOffsetsByTimestampStrategy=latest begins at its end instead"
        raise OptionError(f"{start.option}: {name} has no record at or after {time}; {remedy}")
    return offset


def _offset(log: PartitionLog, bound: Bound, own: int, below_log_start: bool) -> int | None:
    """The offset that a bound means; None for the log's own end on that side, and for a time that no record reaches."""
    value = bound.of((log.topic, log.partition))
    if bound.kind == "offset":
        return None if value == own else value
    hit = find_timestamp(log, value, below_log_start)
    return None if hit is None else hit.offset


def pack(tasks: list[Task], splits: Iterable[Split], room: int) -> None:
    """Put splits into tasks, in order: with the last task where both are small."""
    for split in splits:
        cost = split.bytes + OPEN_COST
        if not tasks or tasks[-1].cost + cost > room:
            tasks.append(Task())
        tasks[-1].splits.append(split)
        tasks[-1].cost += cost
