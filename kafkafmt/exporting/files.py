"""Write Arrow record batches to Parquet files of a target size, in a task of an export."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import pyarrow as pa

from .dates import Directories, by_period
from .output import PATHS, AttemptFiles
from .parquet import ROW_GROUP_ROWS, FileFormat
from .timing import Stopwatch

MAX_OPEN_FILES = 32
"""Largest number of files that a task keeps open at the same time."""


@dataclass
class OutputFile:
    name: str  # the name that `AttemptFiles.create` returned
    target: PurePath  # path in the output directory, as `OutputLayout` defines it
    topic: str
    partition: int  # of the first record
    first_offset: int
    period: Directories = ()  # names of the directories for the date and hour of the records
    rows: dict[int, int] = field(default_factory=dict)  # number of records by partition number
    bytes: int = 0


class _OpenFile:
    """An incomplete Parquet file, and the buffered rows of its next row group."""

    def __init__(self, output: OutputFile, sink: Any, writer: Any) -> None:
        self.output = output
        self.sink = sink
        self.writer = writer
        self.held: list[pa.RecordBatch] = []
        self.held_bytes = self.held_rows = 0

    def hold(self, batch: pa.RecordBatch, partition: int) -> None:
        """Add rows to the buffer for the next row group."""
        self.held.append(batch)
        self.held_bytes += batch.nbytes
        self.held_rows += batch.num_rows
        self.output.rows[partition] = self.output.rows.get(partition, 0) + batch.num_rows

    def write_group(self) -> int:
        """Write the buffered rows as a row group. Return the size of the row group in bytes."""
        before = self.sink.tell()
        if self.held:
            group = pa.Table.from_batches(self.held).replace_schema_metadata(self.writer.schema.metadata)
            self.held, self.held_bytes, self.held_rows = [], 0, 0
            self.writer.write_table(group, ROW_GROUP_ROWS)
        size: int = self.sink.tell() - before
        return size

    def close(self) -> None:
        """Write the buffered rows and the Parquet footer, and close the file."""
        self.write_group()
        self.writer.close()
        self.output.bytes = self.sink.tell()
        self.sink.close()


class FileSet:
    """Writes Arrow record batches to Parquet files. A file that reaches the target size is closed."""

    # Each day or hour has a separate open file. If more than `MAX_OPEN_FILES` would be open, the
    # least recently used one is closed. `written` also describes files that are still open.

    def __init__(self, topic: str, format: FileFormat, attempts: AttemptFiles, watch: Stopwatch) -> None:
        self.written: list[OutputFile] = []
        self._topic = topic
        self._format = format
        self._attempts = attempts
        self._watch = watch
        self._open: dict[Directories, _OpenFile] = {}

    def add(self, batch: pa.RecordBatch, partition: int) -> None:
        """Write records of one partition. The caller passes them in offset order."""
        for period, records in by_period(batch, self._format.partition_by):
            for rows in _slices(records, self._format.row_group_bytes):
                self._hold(rows, partition, period)

    def close(self) -> None:
        for file in list(self._open.values()):
            self._close(file)

    def discard(self) -> None:
        """Remove all files. If the task is killed before this call, the driver removes them."""
        sinks = {file.output.name: file.sink for file in self._open.values()}
        for file in self._open.values():
            with contextlib.suppress(Exception):
                file.writer.close()
        for output in self.written:
            self._attempts.discard(output.name, sinks.get(output.name))
        self._open = {}
        self.written = []

    def _hold(self, rows: pa.RecordBatch, partition: int, period: Directories) -> None:
        """Add records of one partition and one day or hour to the row group of an open file."""
        most, file = self._format.row_group_bytes, self._open.get(period)
        if file is not None and (
            file.held_bytes + rows.nbytes > most or file.held_rows + rows.num_rows > ROW_GROUP_ROWS
        ):
            self._write_group(file)
            file = self._open.get(period)
        if file is None:
            if len(self._open) >= MAX_OPEN_FILES:
                self._close(next(iter(self._open.values())))
            file = self._start(rows, partition, period)
        # Move the file to the end of the dict, so that the first file is the least recently used one.
        self._open.pop(period, None)
        self._open[period] = file
        file.hold(self._format.stored(rows), partition)
        while sum(f.held_bytes for f in self._open.values()) > most:
            self._write_group(max(self._open.values(), key=lambda f: f.held_bytes))

    def _start(self, rows: pa.RecordBatch, partition: int, period: Directories) -> _OpenFile:
        offset: int = rows.column("offset")[0].as_py()
        target = PATHS.data_file(self._topic, partition, offset, period, self._format.joined)
        with self._watch.writing():
            name, sink = self._attempts.create(target)
            output = OutputFile(name, target, self._topic, partition, offset, period)
            self.written.append(output)
            known = {} if self._format.joined else {"partition": str(partition)}
            writer = self._format.open(sink, {"topic": self._topic, **known})
        return _OpenFile(output, sink, writer)

    def _write_group(self, file: _OpenFile) -> None:
        """Write a row group. Close the file if it has reached its target size."""
        with self._watch.writing():
            size = file.write_group()
        if file.sink.tell() + size // 2 >= self._format.file_size:
            self._close(file)

    def _close(self, file: _OpenFile) -> None:
        with self._watch.writing():
            file.close()
        del self._open[file.output.period]


def _slices(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """Divide an Arrow record batch into slices of about `most` bytes."""
    parts = -(-batch.nbytes // most)
    step = -(-batch.num_rows // max(parts, 1))
    for start in range(0, batch.num_rows, max(step, 1)):
        yield batch if step == batch.num_rows else batch.slice(start, step)
