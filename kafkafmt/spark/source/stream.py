"""Define the streaming data source `kafkafmt`, which reads records as they are appended to logs.

    spark.readStream.format("kafkafmt").option("subscribe", "orders").load("/var/lib/kafka/data")

Offsets have the form of those in Spark's Kafka source, such as `{"orders": {"0": 23}}`, and follow
the same rules. Without the option startingOffsets, a stream starts at the end of the logs.
Partitions that are created later are read from their start. If records are removed before the
stream has read them, the query fails, unless failOnDataLoss is false.

The reader of a stream runs in a separate Python process on the driver's host. For each micro-batch,
it does the following:

1. It lists the log directories. A local partition directory is listed again only if it has changed.
2. It finds the end offset of each partition. If the last segment has changed, it reads the batches
   after the last entry of the segment's offset index.
3. With "read_committed", it reads the headers of the batches that were appended since the previous
   micro-batch.
4. It divides the micro-batch into tasks, using the offset indexes. Only the tasks read the records.

The content of a micro-batch depends only on its offsets. Therefore, a micro-batch has the same
content if it is repeated after a restart. If the sink ignores repeated micro-batches, each record
is written only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from time import monotonic
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ...constants import NO_END, READ_COMMITTED
from ...log import Damage, NoLogError, PartitionLog, SegmentFile, UnavailableSegmentError
from ...log.catalog import Listings
from ...log.damage import SegmentPlan
from ...log.reading import OffsetBound
from ...log.scanning import last_border
from ...records.reader import ALL_OFFSETS
from ...support.text import offset_range
from ..option_text import OptionError
from ..shipped import Shipped
from .decoding import QueryDecoding
from .options import LATEST, Bound, Key, Options
from .planning import DataLossError, PackedSplit, Plan, discovered, doubts_in, limits_of, pack, parts_of, start_of
from .reading import as_partitions, read_task, say
from .splits import Split, cut_splits, make_splits, may_hold
from .stream_ends import LogEnds
from .stream_offsets import Nested, Offsets, flat, nested, share
from .topic_ids import TopicIds

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError as _missing:
    raise OptionError("streams need Spark 4.2 or newer") from _missing

RUN_BYTES = 256 << 10
"""Largest group of batches if offsets limit a split. Small, because two tasks read a group at their border."""

SMALL_SEGMENT = 1 << 20
"""Largest size of a segment without an index that tasks read from its start, in bytes."""


class KafkaLogStreamReader(Shipped, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads records for one stream."""

    # Spark calls `read` in tasks, and all other methods in a separate Python process on the
    # driver's host.

    def __init__(self, options: Options, names: list[str], decoding: QueryDecoding | None = None) -> None:
        self.options = options
        self.names = names
        self.decoding = decoding
        self._initial: Offsets | None = None
        self._target: Offsets | None = None  # offsets at which a query with the trigger availableNow ends

        self._log_ends = LogEnds(options.isolation == READ_COMMITTED)
        self._listings = Listings()
        self._topic_ids = TopicIds()
        # Partitions whose topic was created again. latestOffset() empties this set when it returns the start offsets
        # of the new logs.
        self._recreated: set[Key] = set()
        # Partitions that latestOffset() has found for the next micro-batch.
        self._listed: dict[Key, PartitionLog] = {}
        self._said: set[str] = set()
        self._triggered: float | None = None

    def initialOffset(self) -> Nested:
        """Return the offsets at which a new stream starts, by topic and partition."""
        if self._initial is None:
            logs = self._logs({}, self._once)
            bound = self.options.start or Bound("startingOffsets", "offset", LATEST)
            bound.check(logs.keys())
            self._initial = {key: self._start(log, bound) for key, log in logs.items()}
        return nested(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the largest size of a micro-batch, which the option maxOffsetsPerTrigger sets."""
        limit = self.options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        """Store the current end offsets of all partitions. A query with the trigger availableNow ends at these offsets."""
        self._target = self._ends(self._logs({}, self._once), {})

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> Nested:
        """Return the offsets at which the next micro-batch ends, by topic and partition."""
        # `limit` restricts its size. If a log was truncated or created again, and failOnDataLoss is
        # false, its end can be lower than in `start`. As in Spark's Kafka source, the stream then
        # continues at the lower offset, so that no new record is missed. If the topic id has
        # changed, it continues at the start of the new log.
        begin = flat(start)
        logs = self._logs(begin, self._once)
        self._listed = logs
        ends = self._ends(logs, begin)
        if self._target is not None:
            ends = {key: min(end, self._target[key]) for key, end in ends.items() if key in self._target}
        begins = {key: begin.get(key, self._lowest(logs[key])) for key in ends}
        if self._waits(sum(max(ends[key] - begins[key], 0) for key in ends)):
            return nested(begin)
        if isinstance(limit, ReadMaxRows):
            ends = share(begins, ends, limit.max_rows)
        shorter = {key for key in begin.keys() & ends.keys() if ends[key] < begin[key] > logs[key].next_offset}
        found = {key: end if key in shorter else max(end, begins[key]) for key, end in ends.items()}
        # The next micro-batch contains no records of these partitions. The micro-batch after it starts at these offsets.
        found |= {key: self._lowest(logs[key]) for key in self._recreated & begin.keys() & logs.keys()}
        self._recreated.clear()
        return nested(begin | found)

    def _waits(self, new: int) -> bool:
        """Return whether the next micro-batch, with `new` offsets, must wait for minOffsetsPerTrigger."""
        # As in Spark's Kafka source (``KafkaMicroBatchStream.delayBatch``), the first micro-batch
        # is never delayed, and others at most for maxTriggerDelay.
        least, now = self.options.min_offsets_per_trigger, monotonic()
        if least is None or self._target is not None:
            return False
        if self._triggered is not None and new < least and now - self._triggered < self.options.max_trigger_delay:
            return True
        self._triggered = now
        return False

    def reportLatestOffset(self) -> Nested | None:
        """Return the most recently found end offsets, which Spark includes in the progress of the query."""
        return nested(self._log_ends.seen) if self._log_ends.seen else None

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Return the tasks of a micro-batch that reads each partition from `start` to `end`."""
        begin, stops = flat(start), flat(end)
        try:
            plan = self._tasks(begin, stops, self._logs_until(begin, stops))
        except UnavailableSegmentError as error:
            if self.options.fail_on_data_loss:
                raise
            self._gone(f"{error}; the stream lists the logs again, and reads the records that still exist")
            for key in stops:
                self._log_ends.forget(key)
            plan = self._tasks(begin, stops, self._logs(begin, self._gone))
        return as_partitions(plan, self.options)

    def _tasks(self, begin: Offsets, stops: Offsets, logs: Mapping[Key, PartitionLog]) -> Plan:
        """Divide a micro-batch into tasks."""
        plan, splits = Plan([], []), list[PackedSplit]()
        most = self._offsets_per_task(begin, stops)
        for key, stop in sorted(stops.items()):
            first = begin.get(key)
            if key not in logs:
                if first is None or first < stop:
                    self._lost(
                        key,
                        f"{offset_range(first or 0, stop - 1)} cannot be read, because the partition no longer exists, or is "
                        "no longer selected",
                    )
            elif key in self._recreated:
                continue  # the new log is read from its start, after the next call of latestOffset()
            elif first is None or first < stop:
                splits += map(PackedSplit.of, self._plan(plan, logs[key], first, stop, most))
        pack(plan.tasks, splits, self.options.split_bytes if self.options.max_records_per_partition is None else 0)
        if len(plan.tasks) < (self.options.min_partitions or 0):
            plan.tasks.clear()
            pack(plan.tasks, splits, 0)  # one task for each split
        return plan

    def _offsets_per_task(self, begin: Offsets, stops: Offsets) -> int:
        """Return the largest number of offsets that the options allow a task to read."""
        limits, least = [self.options.max_records_per_partition or NO_END], self.options.min_partitions
        if least is not None:
            new = sum(max(stop - begin.get(key, 0), 0) for key, stop in stops.items())
            limits.append(max(-(-new // least), 1))
        return min(limits)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return an iterator of the Arrow record batches of one task."""
        return read_task(partition, self.options, self.names, self._gone, self.decoding)

    def _logs_until(self, begin: Offsets, stops: Offsets) -> dict[Key, PartitionLog]:
        """Return the partitions of a micro-batch. Reuse the partitions from `latestOffset` if their end offsets are high enough."""
        logs, self._listed = self._listed, {}
        missing = any(key not in logs or self._log_ends.seen.get(key, -1) < stop for key, stop in stops.items())
        shorter = [
            key for key in logs if begin.get(key, -1) < stops.get(key, 0) and self._log_ends.is_shorter(logs[key])
        ]
        for key in shorter:
            self._log_ends.forget(key)
        if missing or shorter or self._topic_ids.recreated(logs, self._once):
            return self._logs(begin, self._gone)
        for log in logs.values():
            log.tell = self._gone
        return logs

    def _logs(self, begin: Offsets, tell: Callable[[str], None]) -> dict[Key, PartitionLog]:
        """Return the logs of all selected partitions. A lost partition is an error, unless failOnDataLoss is false."""
        options = self.options
        options.check_stream()  # Spark would hide an error that __init__ raises
        try:
            found = discovered(options, self._once, self._listings).partitions
            there = [p for p in found if p.readable]
            try:
                chosen = options.select(found)
            except OptionError:  # raised if a selected topic or partition no longer exists
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
        limits = limits_of(options)
        if options.min_partitions is not None or options.max_records_per_partition is not None:
            limits = replace(limits, run_bytes=min(limits.run_bytes, RUN_BYTES))
        logs = {p.key: PartitionLog(p, limits, tell=tell) for p in chosen}
        for key in self._topic_ids.recreated(logs, self._once):
            self._start_again(key, begin.get(key, 0))
        return logs

    def _start_again(self, key: Key, read: int) -> None:
        """Report that a topic was created again, if its old log was read (to offset `read`), and forget the old log."""
        if read:
            self._lost(
                key,
                "the topic was deleted and created again, so its topic id has changed; the stream has read the old "
                f"log up to offset {read}",
            )
        self._topic_ids.accept(key)
        self._recreated.add(key)
        self._log_ends.forget(key)

    def _start(self, log: PartitionLog, bound: Bound) -> int:
        """Return the offset at which a new stream starts to read a partition."""
        key = log.topic, log.partition
        if bound.of(key) is None:
            return self._log_ends.find(log, 0) if bound.value_of(key) == LATEST else self._lowest(log)
        start = start_of(log, bound, self.options)
        return self._log_ends.find(log, 0) if start is None else start

    def _lowest(self, log: PartitionLog) -> int:
        """Return the lowest offset that a stream can read in a partition."""
        if self.options.below_log_start and log.segments:
            return log.segments[0].base_offset or 0
        return log.log_start_offset

    def _ends(self, logs: Mapping[Key, PartitionLog], begin: Offsets) -> Offsets:
        # Report a partition that is gone or ends before its offset in `begin`.
        ends = {}
        for key in sorted(begin.keys() - logs.keys()):
            self._lost(
                key,
                "the partition no longer exists, or is no longer selected; the stream has read it up to offset "
                f"{begin[key]}",
            )
        for key, log in logs.items():
            ends[key] = self._log_ends.find(log, self._log_ends.seen.get(key, begin.get(key, 0)))
            if key in begin and ends[key] < begin[key] and log.next_offset < begin[key]:
                self._lost(
                    key,
                    f"the log was truncated: it ends at offset {log.next_offset}, but the stream has read it up to offset {begin[key]}",
                )
        self._log_ends.seen = ends
        return ends

    def _plan(self, plan: Plan, log: PartitionLog, first: int | None, stop: int, most: int) -> list[Split]:
        """Divide the offsets [first, stop) into splits of at most `most` offsets. Damage is added to `plan.damaged`."""
        options, key = self.options, (log.topic, log.partition)
        low = self._lowest(log)
        if first is None:
            self._once(f"{key[0]}-{key[1]}: this is a new partition; it is read from its start, offset {low}")
            if low > stop:
                self._lost(key, f"retention removed the offsets up to {stop - 1}: the log starts at offset {low}")
        elif first < low:
            self._lost(
                key,
                f"retention removed {offset_range(first, min(low, stop) - 1)}: the log starts at offset {low}",
            )
        first = low if first is None else first
        bounds = OffsetBound("offset", first), OffsetBound("offset", stop)
        interval = replace(options.selection(key), start=bounds[0], end=bounds[1]).resolve(log)
        interval = replace(interval, selected=ALL_OFFSETS)  # adjacent batches of the stream divide the records
        segments = list(log.segments_in(first, stop))
        plans = None if all(map(_has_borders, segments)) else self._plans(plan, log, first, stop)
        if self._log_ends.seen.get(key, -1) < stop and log.next_offset < stop:
            self._lost(key, f"{offset_range(log.next_offset, stop - 1)} cannot be read, because the log was truncated")
        if interval.committed:
            log.open_transactions = self._log_ends.transactions(log, stop)
            plan.doubts += doubts_in(log, first, stop)
        splits: list[Split] = []
        for part in parts_of(interval, most, key):
            if plans is None:
                splits += cut_splits(log, [s for s in segments if may_hold(s, part)], part, options.split_bytes)
            else:
                splits += make_splits(log, plans, part, options.split_bytes)
        return splits

    def _plans(self, plan: Plan, log: PartitionLog, first: int, stop: int) -> list[SegmentPlan]:
        """Read the segments that may contain the offsets [first, stop). Return their valid batches, and add damage to `plan.damaged`."""
        found: dict[str, SegmentPlan] = {}
        for segment, event in log.events(first, stop):
            found[segment.segment.name] = segment
            if isinstance(event, Damage):
                plan.damaged.append((log.directory, event))
        return list(found.values())

    def _once(self, message: str) -> None:
        """Log a message, unless this reader has already logged the same message."""
        if message not in self._said:
            self._said.add(message)
            say(message)

    def _lost(self, key: Key, what: str) -> None:
        """Raise DataLossError because offsets are lost. If failOnDataLoss is false, log a message instead."""
        message = f"{key[0]}-{key[1]}: {what}"
        if self.options.fail_on_data_loss:
            raise DataLossError(f"{message}; set failOnDataLoss=false to continue without the lost offsets")
        self._once(message)

    def _gone(self, message: str) -> None:
        """Report that a file is missing: raise DataLossError, or log a message if failOnDataLoss is false."""
        if self.options.fail_on_data_loss:
            raise DataLossError(f"{message}; set failOnDataLoss=false to continue without the lost records")
        say(message)


def _has_borders(segment: SegmentFile) -> bool:
    """Return whether the driver can divide a segment among tasks without reading it."""
    # It has an offset index, or is so small that each task can read it from its start.
    return segment.size <= SMALL_SEGMENT or last_border(segment) is not None
