"""Compute statistics of topics and partitions, from batch headers or from all records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from threading import Lock
from typing import NamedTuple

import numpy as np

from ...constants import CODEC_MASK, CONTROL_BIT, DEFAULT_MAX_BATCH_BYTES, NO_END
from ...records import RecordReader
from ...records.batch_errors import BatchErrors
from ...support import arguments
from ...support.extras import install_line
from ...types import BatchTable, Buffer, ByteArray, IntArray, distinct, last_offsets
from ..catalog import PartitionDir, SegmentFile, Sources
from ..damage import ReadLimits
from ..findings import Damage
from ..reading import Part, PartBuffers, PartitionLog
from ..scanning import HeaderReader, UnclearHeadersError, header_tables, read_batch
from ..storage import FileView
from ..verifying import Globs, Numbers, OnMessage, Progress, Run
from .stats_content import ContentCounts
from .stats_report import Content, PartitionStats, StatsReport, TopicStats

TOP = 10  # default number of keys, header keys and producers that are listed
PARTITION_BUCKETS = 60
"""Largest number of time buckets of a partition. This number limits the size of a report on many partitions."""
READ_COLUMNS = ("timestamp", "key", "value", "headers")
SMALL_BYTES = 4 << 20
"""The records of a partition of at most this size are decoded in one thread, because threads would not save time."""


def stats(
    paths: Sources,
    *,
    topics: Globs | None = None,
    partitions: Numbers | None = None,
    deep: bool = False,
    top: int = TOP,
    replicas: str | None = None,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    threads: int | None = None,
    progress: Progress | None = None,
    on_message: OnMessage | None = None,
) -> StatsReport:
    """Compute statistics of topics. `kafkafmt.stats` describes the parameters."""
    limits = ReadLimits(arguments.integer("max_batch_bytes", max_batch_bytes, 1))
    top = arguments.integer("top", top, 0)
    run = Run(progress, on_message)
    chosen = run.choose(run.find(paths, replicas), topics, partitions)
    run.begin(s.size for d in chosen for s in d.segments)
    collected = _Topics(chosen, deep, top)

    def read(directory: PartitionDir) -> tuple[PartitionDir, PartitionStats, int] | None:
        counts: ContentCounts | None = None
        with run.reading(directory):
            log = PartitionLog(directory, limits, tell=run.tell)
            log.losses.tell_remote()
            reader = _PartitionReader(log, deep)
            counts = reader.read(run)
        content = collected.add(directory.topic, counts)
        if content is None:
            return None
        return directory, PartitionStats(directory.partition, str(directory.path), content), reader.bytes_read

    found = run.map(read, chosen, threads)
    by_topic: dict[str, list[PartitionStats]] = {}
    for directory, partition, _ in found:
        by_topic.setdefault(directory.topic, []).append(partition)
    missing = sorted({str(d.topic) for d in chosen} & collected.without_keys)
    if missing:
        run.tell(
            f"{', '.join(missing)}: too many distinct keys to count them exactly; to estimate their number, install the "
            f"package datasketches: {install_line('stats')}"
        )
    rows = tuple(TopicStats(topic, tuple(p), collected.results[topic]) for topic, p in sorted(by_topic.items()))
    return StatsReport(rows, deep, tuple(run.unreadable), tuple(run.messages), sum(n for _, _, n in found))


class _Topics:
    """Adds up the counts of partitions for each topic. Worker threads share this object."""

    # `without_keys` are topics with too many keys for an exact count, if datasketches is missing.

    def __init__(self, chosen: list[PartitionDir], deep: bool, top: int) -> None:
        self._deep = deep
        self._top = top
        self._lock = Lock()
        self._left = Counter(d.topic for d in chosen)
        self._counts: dict[str, ContentCounts] = {}
        self.results: dict[str, Content] = {}
        self.without_keys: set[str] = set()

    def add(self, topic: str, counts: ContentCounts | None) -> Content | None:
        """Add the counts of a partition, and return its statistics. Return None if `counts` is None."""
        content = None
        with self._lock:
            if counts is not None:
                self._counts.setdefault(topic, ContentCounts(self._deep)).merge(counts)
                content = counts.result(self._top, PARTITION_BUCKETS)
            self._left[topic] -= 1
            if not self._left[topic] and topic in self._counts:
                self.results[topic] = found = self._counts.pop(topic).result(self._top)
                if self._deep and found.keys is None:
                    self.without_keys.add(topic)
        return content


class _Batches(NamedTuple):
    """Batches to decode."""

    buffer: Buffer
    table: BatchTable
    buffers: list[ByteArray]
    """Memory to use again after the batches were decoded."""


class _PartitionReader:
    """Reads one partition, and counts its records, batches, keys and headers."""

    def __init__(self, log: PartitionLog, deep: bool) -> None:
        self._log = log
        self._low = log.log_start_offset
        self._counts = ContentCounts(deep)
        self._headers_read = 0
        self._reader = HeaderReader()

    @property
    def bytes_read(self) -> int:
        return self._log.bytes_read + self._headers_read

    def read(self, run: Run) -> ContentCounts:
        self._counts.bytes = sum(s.size for s in self._log.segments)
        if self._counts.deep:
            self._read_records(run)
        else:
            for segment in self._log.segments:
                reached = self._read_headers(segment)
                self._counts.damaged += self._log.losses.after(segment, reached) is not None
                run.advance(segment.size)
            self._counts.damaged += self._log.losses.at_end() is not None
        return self._counts

    def _damage(self, _: Damage) -> None:
        self._counts.damaged += 1

    def _read_headers(self, segment: SegmentFile) -> int:
        """Count the batches of a segment from their headers, and return the offset after the last or -1 (unknown)."""
        found, reached = ContentCounts(deep=False), -1
        try:
            with FileView(segment.path, fill_unreadable=True) as view:
                try:
                    for table in header_tables(self._reader, view, segment.base_offset or 0, segment.next_base):
                        lasts = last_offsets(table)
                        rows, reached = table[lasts >= self._low], int(lasts[-1]) + 1
                        found.add_batches(rows, self._records_of(rows, view))
                except UnclearHeadersError:
                    pass
                else:
                    self._counts.merge(found)
                    return reached
                finally:
                    self._headers_read += view.bytes_read
        except FileNotFoundError:
            self._log.skip_missing(segment)
            return -1
        self._read_plan(segment)
        return -1

    def _read_plan(self, segment: SegmentFile) -> None:
        plan = self._log.plan(segment)
        self._counts.damaged += len(plan.damaged)
        if plan.first_offset is None or plan.next_offset is None:
            return
        start, end = max(self._low, plan.first_offset), plan.next_offset
        for part in self._log.parts(start, end, lambda _: None):
            rows = part.table[last_offsets(part.table) >= self._low]
            self._counts.add_batches(rows, self._records_of(rows, part))

    def _records_of(self, table: BatchTable, source: FileView | Part) -> IntArray:
        """Return the number of data records in each batch, from the log start offset onwards, or -1 if unknown."""
        records: IntArray = table["count"].astype(np.int64)
        records[(table["attributes"] & CONTROL_BIT) != 0] = 0
        for i in np.flatnonzero((table["base_offset"] < self._low) & (records > 0)).tolist():
            row = table[i : i + 1]
            if isinstance(source, FileView):
                buffer, row = read_batch(source, int(row["position"][0]), int(row["size"][0]))
                records[i] = self._rows_of(buffer, row)
            else:
                records[i] = self._rows_of(source.buffer, row)
        return records

    def _rows_of(self, buffer: Buffer, row: BatchTable) -> int:
        reader = RecordReader(("offset",), first_offset=self._low, max_batch_bytes=self._log.max_batch_bytes)
        return sum(c.columns.rows for c in reader.read(buffer, row, lambda _, __: None))

    def _read_records(self, run: Run) -> None:
        """Update the statistics with all records of the partition."""
        buffers, readers = PartBuffers(), list[RecordReader]()

        def counted(batches: _Batches) -> tuple[ContentCounts, list[ByteArray]]:
            reader, counts = readers.pop() if readers else self._new_reader(), ContentCounts(deep=True, collects=True)
            self._count(reader, batches, counts)
            readers.append(reader)
            return counts, batches.buffers

        results = None
        if self._counts.bytes > SMALL_BYTES:
            results = run.ahead(counted, self._batches(run, buffers))
        if results is None:
            reader = self._new_reader()
            for batches in self._batches(run):
                self._count(reader, batches, self._counts)
            return
        with closing(results):
            for result in results:
                counts, used = result()
                self._counts.merge(counts)
                buffers.give_back(used)

    def _new_reader(self) -> RecordReader:
        return RecordReader(READ_COLUMNS, first_offset=self._low, max_batch_bytes=self._log.max_batch_bytes)

    def _batches(self, run: Run, buffers: PartBuffers | None = None) -> Iterator[_Batches]:
        """Yield the batches of the partition that contain data records. Count all batches."""
        done = ""
        sizes = {s.name: s.size for s in self._log.segments}
        for part in self._log.parts(self._low, NO_END, self._damage, on_loss=self._damage, memory=buffers):
            name = part.plan.segment.name
            if name != done:
                run.advance(sizes.pop(done, 0))
                done = name
            table = part.table[last_offsets(part.table) >= self._low]
            self._counts.add_batches(table, self._records_of(table, part))
            data = table[(table["attributes"] & CONTROL_BIT) == 0]
            yield _Batches(part.buffer, data, [] if buffers is None else buffers.take())
        run.advance(sum(sizes.values()))

    def _count(self, reader: RecordReader, batches: _Batches, counts: ContentCounts) -> None:
        """Decode batches, and add their records to `counts`."""
        codecs = batches.table["attributes"] & CODEC_MASK
        for codec in distinct(codecs).tolist():
            before, rows, errors = reader.decompressed_bytes, 0, BatchErrors()
            for source, columns in reader.read(batches.buffer, batches.table[codecs == codec], errors):
                counts.add_records(source, columns)
                rows += columns.rows
            counts.damaged += len(errors)
            counts.add_decoded(codec, reader.decompressed_bytes - before, rows)
