"""What a task of the data source does, in a batch query or a stream: its part of the logs as record batches."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ...arrow import ArrowBuilder, schema_of
from ...log import Damage, DamagedLogError, PartitionDir
from ...log.reading.transactions import TransactionInDoubtError
from ...text import plain
from .options import Options
from .planning import Plan, Task

log: logging.Logger = logging.getLogger("kafkafmt.spark")


class TaskPartition(InputPartition):
    """What one task reads, as it travels there."""

    def __init__(self, task: Task) -> None:
        super().__init__(None)
        self.task = task


def as_partitions(plan: Plan, mode: str) -> list[InputPartition]:
    """The tasks of a plan, once its damage was told as the mode asks for."""
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
    """Record batches of a task's records. DamagedLogError in mode FAILFAST. tell: called with a line where a file has gone."""
    if not isinstance(partition, TaskPartition):  # there was nothing to plan
        return iter(())
    return ahead(_batches(partition.task, options, names, tell))


def _batches(
    task: Task, options: Options, names: list[str], tell: Callable[[str], None]
) -> Generator[pa.RecordBatch, None, None]:
    schema, limit = schema_of(names), options.max_batch_bytes
    for split in task.splits:
        builder = ArrowBuilder(split.topic, split.partition, schema)
        for piece in split.pieces:

            def hurt(damage: Damage, directory: PartitionDir = piece.directory) -> None:
                if options.mode == "PERMISSIVE":
                    warn(directory, damage)

            on_damage = None if options.mode == "FAILFAST" else hurt
            for chunk in piece.chunks(builder.columns, on_damage=on_damage, max_batch_bytes=limit, tell=tell):
                yield from builder.add(chunk)
        if builder.rows:
            yield builder.flush()


def ahead(batches: Generator[pa.RecordBatch, None, None]) -> Iterator[pa.RecordBatch]:
    """The same batches, each made in a thread while the one before it travels to the JVM: decoding needs no GIL."""
    with ThreadPoolExecutor(1) as thread:
        try:
            coming = thread.submit(next, batches, None)
            while (batch := coming.result()) is not None:
                coming = thread.submit(next, batches, None)
                yield batch
        finally:  # Spark closes a generator that it needs no more of
            thread.shutdown()
            batches.close()


def say(message: str) -> None:
    """A line for whoever runs the query: to stderr, or to Spark's log of its Python workers where that is on."""
    _listen()
    log.warning("kafkafmt: %s", message)


def warn(directory: PartitionDir, damage: Damage) -> None:
    """Tell of a damaged span that is left out."""
    lost = (
        "nothing is lost"
        if damage.empty
        else f"offsets {_or_open(damage.first_offset)} to {_or_open(damage.last_offset)} are left out"
    )
    where = f"{Path(directory.path, damage.file)}, {damage.length} bytes at position {damage.position}"
    say(f"{directory.topic}-{directory.partition}: {lost}: {where}: {damage.message}")


def _or_open(offset: int | None) -> str:
    return "unknown" if offset is None else str(offset)


class _PlainFormatter(logging.Formatter):
    """Escapes a line as the command does, since topics and paths come from files."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return plain(super().formatMessage(record))


def _listen() -> None:
    """Give the lines a way to stderr where nobody has configured logging."""
    if not log.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_PlainFormatter())
        log.addHandler(handler)
