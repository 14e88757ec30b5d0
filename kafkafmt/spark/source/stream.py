"""The data source `kafkafmt` as a stream: what is appended to log directories, batch after batch.

    spark.readStream.format("kafkafmt").option("subscribe", "orders").load("/var/lib/kafka/data")

Offsets are those of Spark's Kafka source, `{"orders": {"0": 23}}`, and so are its rules: without startingOffsets a stream
begins at the logs' ends, partitions that appear later are read from their start, and what is gone before it was read
fails the query unless failOnDataLoss=false. The reader lives with the query, in a process beside the driver; a look
at a log reads what was appended since the last one. A batch of the stream is planned by its offsets alone, so one that
is repeated after a restart has the same records; with a sink that takes a batch once, each record arrives once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ...constants import NO_END
from ...log import Damage, NoLogError, PartitionLog
from ...log.reading.segment_walker import Run
from ...log.reading.transactions import TransactionWalk
from ..option_text import OptionError
from .options import EARLIEST, LATEST, Bound, Key, Options
from .planning import DataLossError, Plan, discovered, offset_of, pack, run_bytes_of
from .reading import as_partitions, read_task, say
from .splits import make_splits

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError as _missing:
    raise OptionError("streams need Spark 4.2 or newer") from _missing

Offsets = dict[Key, int]
Nested = dict[str, dict[str, int]]


class KafkaLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One stream: its own methods run beside the driver, `read` in tasks."""

    def __init__(self, options: Options, names: list[str]) -> None:
        self.options = options
        self.names = names
        self._seen: Offsets = {}
        self._initial: Offsets | None = None
        self._target: Offsets | None = None
        self._walks: dict[Key, tuple[int, TransactionWalk]] = {}
        self._said: set[str] = set()
        self._triggered: float | None = None

    def initialOffset(self) -> Nested:
        """Where a new stream begins."""
        if self._initial is None:
            logs = self._logs({}, self._once)
            bound = self.options.start or Bound("startingOffsets", "offset", LATEST)
            bound.check(logs.keys())
            self._initial = {key: self._start(log, bound) for key, log in logs.items()}
        return _nested(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self.options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ends(self._logs({}, self._once), {})

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> Nested:
        """Up to where the next batch goes: never below `start`, nor further than the limit lets it."""
        begin = _flat(start)
        logs = self._logs(begin, self._once)
        ends = self._ends(logs, begin)
        if self._target is not None:
            ends = {key: min(end, self._target[key]) for key, end in ends.items() if key in self._target}
        begins = {key: begin.get(key, logs[key].log_start_offset) for key in ends}
        if self._waits(sum(max(ends[key] - begins[key], 0) for key in ends)):
            return _nested(begin)
        if isinstance(limit, ReadMaxRows):
            ends = _share(begins, ends, limit.max_rows)
        return _nested(begin | {key: max(end, begins[key]) for key, end in ends.items()})

    def _waits(self, new: int) -> bool:
        """Return whether a batch of so many new offsets is put off: minOffsetsPerTrigger, at most for maxTriggerDelay.

        As in Spark's Kafka source (``KafkaMicroBatchStream.delayBatch``), the first batch is not put off.
        """
        least, now = self.options.min_offsets_per_trigger, monotonic()
        if least is None or self._target is not None:
            return False
        if self._triggered is not None and new < least and now - self._triggered < self.options.max_trigger_delay:
            return True
        self._triggered = now
        return False

    def reportLatestOffset(self) -> Nested | None:
        """For the query's progress: the logs' ends as they were last seen."""
        return _nested(self._seen) if self._seen else None

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """The tasks of a batch."""
        begin, stops = _flat(start), _flat(end)
        logs = self._logs(begin, self._gone)
        plan = Plan([], [])
        for key, stop in sorted(stops.items()):
            first = begin.get(key)
            if key not in logs:
                if first is None or first < stop:
                    self._lost(key, f"offsets from {first or 0} to {stop - 1} are gone: it is no longer there")
            elif first is None or first < stop:
                self._plan(plan, logs[key], first, stop)
        return as_partitions(plan, self.options.mode)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Record batches of a task's records."""
        return read_task(partition, self.options, self.names, self._gone)

    def _logs(self, begin: Offsets, tell: Callable[[str], None]) -> dict[Key, PartitionLog]:
        """The partitions that are meant and there; those that the stream has read before may be missing. tell: see PartitionLog."""
        options = self.options
        options.check_stream()  # and not before: Spark hides what a reader's making raises
        try:
            found = discovered(options, self._once).partitions
            there = [p for p in found if p.readable]
            try:
                chosen = options.select(found)
            except OptionError:  # a topic that was there is gone
                if options.fail_on_data_loss or not begin:
                    raise
                chosen = [
                    p
                    for p in there
                    if p.key in begin or p.topic in (options.topics or ()) or p.key in (options.assigned or ())
                ]
        except NoLogError:
            if options.fail_on_data_loss or not begin:
                raise
            chosen = []
        size = run_bytes_of(options)
        logs = [PartitionLog(p, max_batch_bytes=options.max_batch_bytes, run_bytes=size, tell=tell) for p in chosen]
        return {(log.topic, log.partition): log for log in logs}

    def _start(self, log: PartitionLog, bound: Bound) -> int:
        value = bound.of((log.topic, log.partition))
        if bound.kind == "offset" and value in (LATEST, EARLIEST):
            return self._end(log, 0) if value == LATEST else log.log_start_offset
        start = offset_of(log, bound, self.options)
        return self._end(log, 0) if start is None else start

    def _ends(self, logs: Mapping[Key, PartitionLog], begin: Offsets) -> Offsets:
        """Up to where each log can be read now. One that ends before it was read to, or is no longer there, is told."""
        ends = {}
        for key in sorted(begin.keys() - logs.keys()):
            self._lost(key, f"it was read up to {begin[key]} and is no longer there")
        for key, log in logs.items():
            ends[key] = self._end(log, self._seen.get(key, begin.get(key, 0)))
            if key in begin and ends[key] < begin[key] and log.next_offset < begin[key]:
                self._lost(
                    key, f"it ends at offset {log.next_offset}, but was read up to {begin[key]}: it was truncated"
                )
        self._seen = ends
        return ends

    def _end(self, log: PartitionLog, known: int) -> int:
        """The offset after the last sound batch (at read_committed: the first that is not decided yet), at little cost behind `known`."""
        end = 0
        if known > log.log_start_offset:
            for _, event in log.events(known - 1, NO_END):
                if isinstance(event, Run):
                    end = max(end, event.last_offset + 1)
        if end < known or not end:
            end = log.next_offset
        return self._decide(log, end) if self.options.committed else end

    def _decide(self, log: PartitionLog, end: int) -> int:
        """The last stable offset of a log that ends at `end`, which learns what became of its transactions."""
        key = log.topic, log.partition
        upto, walk = self._walks.get(key, (NO_END, TransactionWalk(log)))
        hurt: list[Damage] = []
        if upto <= end:
            for part in log.parts(upto, end, hurt.append):
                walk.add(part.buffer, part.table[part.table["base_offset"] >= upto], part.plan.segment.name)
        if upto > end or hurt:  # what damage may hide takes a look at the whole log
            walk = TransactionWalk(log)
            walk.found = log.transactions
        walk.found.last_stable_offset = min([*walk.found.open.values(), end])
        self._walks[key] = end, walk
        log.transactions = walk.found
        return walk.found.last_stable_offset

    def _plan(self, plan: Plan, log: PartitionLog, first: int | None, stop: int) -> None:
        """Add the tasks and the damage of a partition's share of a batch."""
        options, key = self.options, (log.topic, log.partition)
        low = log.log_start_offset
        if first is None:
            self._once(f"{key[0]}-{key[1]}: new, read from its start, offset {low}, on")
            if low > stop:
                self._lost(key, f"offsets up to {stop - 1} are gone: the log starts at {low} (retention)")
        elif first < low and not options.below_log_start:
            self._lost(key, f"offsets {first} to {min(low, stop) - 1} are gone: the log starts at {low} (retention)")
        first = low if first is None else first
        segments, reached = {}, first
        for segment, event in log.events(first, stop):
            segments[segment.segment.name] = segment
            reached = max(reached, NO_END if event.last_offset is None else event.last_offset + 1)
            if isinstance(event, Damage):
                plan.damaged.append((log.directory, event))
        if reached < stop and log.next_offset < stop:
            self._lost(key, f"offsets {log.next_offset} to {stop - 1} are gone: the log was truncated")
        if options.committed:
            upto, walk = self._walks.get(key, (-1, None))
            if walk is None or upto < stop:  # after a restart
                self._decide(log, log.next_offset)
            else:
                log.transactions = walk.found
            plan.add_doubts(log, first, stop)
        splits = make_splits(
            log.directory,
            segments.values(),
            first,
            stop,
            below_log_start=options.below_log_start,
            transactions=log.transactions if options.committed else None,
            split_bytes=options.split_bytes,
        )
        pack(plan.tasks, splits, options.split_bytes)

    def _once(self, message: str) -> None:
        """Say what would be said at every look."""
        if message not in self._said:
            self._said.add(message)
            say(message)

    def _lost(self, key: Key, what: str) -> None:
        message = f"{key[0]}-{key[1]}: {what}"
        if self.options.fail_on_data_loss:
            raise DataLossError(f"{message}; failOnDataLoss=false goes on without them")
        self._once(message)

    def _gone(self, message: str) -> None:
        """A file that was planned has gone before it was read."""
        if self.options.fail_on_data_loss:
            raise DataLossError(f"{message}; failOnDataLoss=false goes on without it")
        say(message)


def _flat(offsets: Mapping[str, Any]) -> Offsets:
    return {
        (topic, int(number)): int(offset) for topic, numbers in offsets.items() for number, offset in numbers.items()
    }


def _nested(offsets: Offsets) -> Nested:
    found: Nested = {}
    for (topic, number), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(number)] = offset
    return found


def _share(begins: Offsets, ends: Offsets, limit: int) -> Offsets:
    """Ends that together take no more than about `limit` offsets: each partition by what it has, none of them nothing."""
    sizes = {key: max(ends[key] - begins[key], 0) for key in ends}
    total = sum(sizes.values())
    if total <= limit:
        return ends
    return {key: begins[key] + min(size, max(limit * size // total, 1)) for key, size in sizes.items()}
