"""Encode rows as record batches in tasks, and append the batches of all tasks to a log directory.

    .<log directory>.kafkafmt-write-<owner>-<job>/<attempt>/<topic>-<partition>

Each task builds batches with offsets that start at 0, and writes them to staging files. The staging
files are next to the log directory, because a broker must not find unknown files in the log
directory. The driver then appends the batches of the successful tasks atomically and in order. To
assign the final offsets, the driver changes a few fields of each batch.

As in Delta Lake, an application can set the options txnAppId and txnVersion. Rows that were already
appended with the same two values are not appended again.
"""

from __future__ import annotations

import errno
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...log import LogDirectory, LogWriter
from ...log.damage import Walker
from ...log.formats import MAX_PARTITION, is_topic_name, parse_partition_name
from ...log.storage import FileView, OwnerLock, list_directory, write_all
from ...log.writing import all_or_nothing
from ...records import BatchBuilder, Partitioner, columns_of
from ...support.paths import full_disk_named
from ...support.text import shown
from ...support.times import now_millis
from ...types import distinct
from .write_options import Key, WriteOptions

LOCK_SECONDS = 20.0
"""Longest time, in seconds, that a commit waits for another query or a broker to unlock the log directory."""
LOCK_POLL_SECONDS = 0.05


@dataclass
class Staged:
    """The files to which one task has written batches, and their sizes in bytes, by topic and partition."""

    folder: str
    files: dict[Key, str] = field(default_factory=dict)
    sizes: dict[Key, int] = field(default_factory=dict)


def partition_counts(directory: Path) -> dict[str, int]:
    """Return the number of partitions of each topic that a log directory contains."""
    counts: dict[str, int] = {}
    for name in list_directory(directory)[0] if directory.is_dir() else []:
        topic, partition, state, _ = parse_partition_name(name)
        if state == "live" and topic is not None and partition is not None:
            counts[topic] = max(counts.get(topic, 0), partition + 1)
    return counts


class Stage:
    """Writes the rows of one task as batches to files. There is one file for each partition."""

    def __init__(self, options: WriteOptions, counts: Mapping[str, int], folder: Path) -> None:
        self._options, self._counts, self._folder = options, counts, folder
        self._builders: dict[Key, BatchBuilder] = {}
        self._files: dict[Key, BinaryIO] = {}
        self._partitioners: dict[str, Partitioner] = {}
        self._staged = Staged(str(folder))
        self._owner = OwnerLock(repr(str(folder)))

    def add(self, rows: pa.RecordBatch) -> None:
        """Encode rows, and write the completed batches to files."""
        self._owner.check()
        for topic, of_topic in self._by_topic(rows):
            for partition, chosen in self._by_partition(topic, of_topic):
                self._append((topic, partition), chosen)

    def _by_topic(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self._options.topic is not None:
            yield self._options.topic, rows
            return
        topics = rows.column("topic")
        for topic in pc.unique(topics).to_pylist():
            if topic is None:
                raise ValueError("a row has no topic: its column topic is null, and the option topic is not set")
            if not is_topic_name(topic):
                raise ValueError(f"the topic of a row is {shown(topic)}, which is not a valid topic name")
            yield topic, rows.filter(pc.equal(topics, topic))

    def _by_partition(self, topic: str, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield each partition number with the rows of the partition."""
        # As in Kafka's producer, the key determines the partition of a row without a partition
        # number. Rows with a null key are assigned to the partitions in turn.
        numbers = self._numbers(topic, rows)
        found = distinct(numbers)
        for number in found.tolist():
            yield number, rows if len(found) == 1 else rows.filter(pa.array(numbers == number))

    def _numbers(self, topic: str, rows: pa.RecordBatch) -> np.ndarray:
        given = rows.column("partition") if "partition" in rows.schema.names else pa.nulls(len(rows), pa.int32())
        numbers: np.ndarray = given.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        if len(wrong := numbers[(numbers < -1) | (numbers > MAX_PARTITION)]):
            raise ValueError(f"the partition of a row is {wrong[0]}; it must be between 0 and {MAX_PARTITION}")
        free = given.is_null().to_numpy(zero_copy_only=False)
        if free.any():
            keys = rows.column("key") if "key" in rows.schema.names else pa.nulls(len(rows), pa.binary())
            if topic not in self._partitioners:
                self._partitioners[topic] = Partitioner(self._counts.get(topic) or self._options.partitions)
            numbers[free] = self._partitioners[topic].column(keys.filter(pa.array(free)))
        return numbers

    def _append(self, key: Key, rows: pa.RecordBatch) -> None:
        columns = columns_of(**{name: rows.column(name) for name in ("key", "value", "headers") if name in rows.schema.names},
                             timestamp=_milliseconds(rows))  # fmt: skip
        builder = self._builders.get(key)
        if builder is None:
            o = self._options
            builder = self._builders[key] = BatchBuilder(
                codec=o.codec, level=o.level, max_bytes=o.batch_bytes, base_offset=0
            )
        taken = 0
        while taken < columns.rows:
            taken, batches = builder.append_many(columns, taken)
            self._write(key, batches)

    def _write(self, key: Key, batches: Iterable[bytes]) -> None:
        for batch in batches:
            if key not in self._files:
                # Create the directory only once. A task that runs longer than its job must not create it again.
                if not self._files:
                    self._folder.mkdir(parents=True, exist_ok=True)
                name = self._staged.files[key] = f"{key[0]}-{key[1]}"
                self._staged.sizes[key] = 0
                # Open the file without a buffer, because a forked process would write the buffered data again.
                self._files[key] = open(self._folder / name, "wb", buffering=0)
            with full_disk_named(self._folder / self._staged.files[key]):
                write_all(self._files[key].fileno(), batch)
            self._staged.sizes[key] += len(batch)

    def finish(self) -> Staged:
        """Write the last batch of each partition, and close the files. Return their names and sizes."""
        self._owner.check()
        try:
            for key, builder in self._builders.items():
                self._write(key, [builder.finish()] if builder.count else [])
        finally:
            self.close()
        return self._staged

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files = {}


def _milliseconds(rows: pa.RecordBatch) -> Any:
    """Return the timestamps in milliseconds."""
    # As in Kafka's producer, a row without a timestamp gets the current time.
    now = now_millis()
    if "timestampMillis" in rows.schema.names:
        return rows.column("timestampMillis").fill_null(now)
    if "timestamp" not in rows.schema.names:
        return now
    micros = rows.column("timestamp").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).fill_null(now * 1000)
    millis = micros.to_numpy() // 1000
    if len(millis) and int(millis.min()) < 0:
        raise ValueError(f"the timestamp of a row is {int(millis.min())} ms; it must not be negative (before 1970)")
    return pa.array(millis)


def append_file(writer: LogWriter, path: Path, size: int) -> None:
    """Append the batches in a task's file to a log, with only a few MB in memory. `size` is the expected size."""
    with FileView(path) as view:
        if view.size != size:
            raise OSError(
                errno.ESTALE,
                f"the file has {view.size} bytes on the driver, but a task staged {size} bytes: the path refers to another file on the driver",
                str(path),
            )
        for _, buffer, table, error in Walker(view, 0, max_batch_bytes=view.size).tables(0, view.size):
            if len(table):
                writer.append_batches(
                    buffer[int(table["position"][0]) : int(table["position"][-1] + table["size"][-1])]
                )
            if error is not None:
                raise error


def new_attempt(staging: Path) -> Path:
    """Return a unique path for the batches of one attempt of a task. The directory is not created."""
    return staging / uuid.uuid4().hex


def commit(options: WriteOptions, staged: Iterable[Staged], version: int | None) -> bool:
    """Append the batches of all tasks in one atomic operation. Return False if `version` was already appended."""
    every = list(staged)
    keys = {key for s in every for key in s.files}
    with _opened(options) as directory, \
            all_or_nothing(directory, keys, options.app_id, version) as writers:  # fmt: skip
        if writers is None:
            return False
        for s in every:
            for key, name in s.files.items():
                append_file(writers[key], Path(s.folder) / name, s.sizes[key])
    return True


def _opened(options: WriteOptions) -> LogDirectory:
    """Open the log directory for writing. If another query is appending to the directory, wait up to LOCK_SECONDS."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return LogDirectory(options.path, segment_bytes=options.segment_bytes)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(LOCK_POLL_SECONDS)
