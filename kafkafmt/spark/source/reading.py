"""Read the logs in a task of the data source, and yield Arrow record batches.

Batch queries and streams both use this module.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ...arrow import ArrowBuilder, schema_of
from ...log import Damage, DamagedLogError, PartitionDir
from ...log.reading.read_limits import ReadLimits
from ...log.reading.transactions import TransactionInDoubtError
from ...text import plain
from .options import Options
from .planning import Plan, Task

log: logging.Logger = logging.getLogger("kafkafmt.spark")


FIRST_ROWS = 8192
"""Approximate number of rows in the first record batch of a partition. Each further batch has GROWTH
times as many, up to the normal size, so that a query with a limit reads few bytes.
"""
GROWTH = 4


class TaskPartition(InputPartition):
    """A task as Spark sends it to an executor."""

    def __init__(self, task: Task) -> None:
        super().__init__(None)
        self.task = task


def as_partitions(plan: Plan, mode: str) -> list[InputPartition]:
    """Return the tasks of a plan as Spark input partitions.

    `mode` decides whether damage in the plan raises an error, is reported or is ignored.
    """
    if plan.damaged and mode == "FAILFAST":
        directory, damage = plan.damaged[0]
        raise DamagedLogError(damage, str(directory.path))
    if plan.doubts and mode == "FAILFAST":
        raise TransactionInDoubtError(plan.doubts[0][1], str(plan.doubts[0][0].path))
    if mode == "PERMISSIVE":
        for directory, damage in plan.damaged:
            warn(directory, damage)
        for directory, doubt in plan.doubts:
            say(f"{directory.topic}-{directory.partition}: {doubt.message}")
    return [TaskPartition(task) for task in plan.tasks]


def read_task(
    partition: InputPartition, options: Options, names: list[str], tell: Callable[[str], None]
) -> Iterator[pa.RecordBatch]:
    """Return the record batches of one task. In mode FAILFAST, damage raises DamagedLogError.

    If a segment file was removed, `tell` is called with a message.
    """
    if not isinstance(partition, TaskPartition):  # Spark runs an empty task if the plan has no tasks
        return iter(())
    return ahead(_batches(partition.task, options, names, tell))


def _batches(
    task: Task, options: Options, names: list[str], tell: Callable[[str], None]
) -> Generator[pa.RecordBatch, None, None]:
    schema, limits = schema_of(names), ReadLimits(options.max_batch_bytes)
    for split in task.splits:
        builder, limit_rows = ArrowBuilder(split.topic, split.partition, schema), FIRST_ROWS
        for piece in split.pieces:

            def note_damage(damage: Damage, directory: PartitionDir = piece.directory) -> None:
                if options.mode == "PERMISSIVE":
                    warn(directory, damage)

            on_damage = None if options.mode == "FAILFAST" else note_damage
            for chunk in piece.chunks(builder.columns, on_damage=on_damage, limits=limits, tell=tell):
                yield from builder.add(chunk)
                if builder.rows >= limit_rows:
                    limit_rows *= GROWTH
                    yield builder.flush()
        if builder.rows:
            yield builder.flush()


def ahead(batches: Generator[pa.RecordBatch, None, None]) -> Iterator[pa.RecordBatch]:
    """Yield `batches` unchanged, but decode them in a separate thread.

    While one batch is sent to the JVM, the thread already decodes the next batch. Decoding does not
    need the GIL.
    """
    with ThreadPoolExecutor(1) as thread:
        try:
            coming = thread.submit(next, batches, None)
            while (batch := coming.result()) is not None:
                coming = thread.submit(next, batches, None)
                yield batch
        finally:  # also runs if Spark closes the generator early
            thread.shutdown()
            batches.close()


def say(message: str) -> None:
    """Log a warning for the user who runs the query.

    The warning goes to stderr, or to Spark's log of its Python workers if that log is enabled.
    """
    _listen()
    log.warning("kafkafmt: %s", message)


def warn(directory: PartitionDir, damage: Damage) -> None:
    """Log a warning about a damaged range of bytes whose records are omitted."""
    lost = (
        "no offset is missing"
        if damage.empty
        else f"offsets {_or_open(damage.first_offset)} to {_or_open(damage.last_offset)} are omitted"
    )
    where = f"{directory.path / damage.file}, {damage.length} bytes at position {damage.position}"
    say(f"{directory.topic}-{directory.partition}: {lost}: {where}: {damage.message}")


def _or_open(offset: int | None) -> str:
    return "unknown" if offset is None else str(offset)


class _PlainFormatter(logging.Formatter):
    """Escapes control characters, because messages contain topic names and paths from files."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return plain(super().formatMessage(record))


def _listen() -> None:
    """Send log messages to stderr if the process has not configured logging."""
    if not log.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_PlainFormatter())
        log.addHandler(handler)
