"""Decode records in a task of the data source, and yield them as Arrow record batches.

This module is used by batch queries and streams.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ...arrow.builder import ArrowBuilder, schema_of
from ...log import Damage, DamagedLogError, PartitionDir
from ...log.damage import ReadLimits
from ...log.finding import Filter, columns_of, for_partition
from ...log.transactions import Doubt, TransactionInDoubtError
from ...support.text import quantity
from ..messages import say as say
from .decoding import QueryDecoding, TaskDecoding
from .options import Options
from .pieces import WholePartitions
from .planning import Plan, Task
from .splits import Split
from .where import matching

FIRST_ROWS = 8192
"""Approximate number of rows in the first Arrow record batch of a task and partition.

Each later Arrow record batch has GROWTH times as many rows as the previous one, up to the normal
size. Because the first ones are small, a query with LIMIT reads only little data.
"""
GROWTH = 4


class TaskPartition(InputPartition):
    """Describes one task. Spark passes this object to the data source."""

    def __init__(self, task: Task) -> None:
        super().__init__(None)
        self.task = task


def as_partitions(plan: Plan, options: Options) -> list[InputPartition]:
    """Convert the tasks of a query to Spark's input partitions."""
    # `mode` decides whether damage that was found during planning raises an error, is logged, or is
    # ignored. `failOnDataLoss` decides about lost offsets.
    mode = options.mode
    for directory, damage in plan.lost:
        report_loss(directory, damage, options)
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
    partition: InputPartition,
    options: Options,
    names: list[str],
    tell: Callable[[str], None],
    decoding: QueryDecoding | None = None,
) -> Iterator[pa.RecordBatch]:
    """Return the Arrow record batches of one task. If retention has removed a file, `tell` gets a message."""
    if not isinstance(partition, TaskPartition):  # if a query has no tasks, Spark runs an empty task
        return iter(())
    return ahead(_batches(partition.task, options, names, tell, decoding))


def _batches(
    task: Task, options: Options, names: list[str], tell: Callable[[str], None], decoding: QueryDecoding | None
) -> Generator[pa.RecordBatch, None, None]:
    limits, partitions = ReadLimits(options.max_batch_bytes), WholePartitions()
    decoded = None if decoding is None else TaskDecoding(decoding, options)
    for split in task.splits:
        filtered = for_partition(options.where, split.topic, split.partition)
        more = sorted(columns_of(filtered) - set(names))
        if decoded is None:
            builder = ArrowBuilder(split.topic, split.partition, schema_of([*names, *more]))
        else:
            builder = decoded.builder(split.topic, split.partition, more)
        limit_rows = FIRST_ROWS

        def selected(
            batch: pa.RecordBatch, filtered: Filter = filtered, split: Split = split
        ) -> Iterator[pa.RecordBatch]:
            rows = matching(batch, filtered)
            if decoded is not None:
                rows = decoded.convert(rows, split.topic, split.partition)
            if rows.num_rows:
                yield rows.select(names)

        for piece in split.pieces:

            def note_damage(damage: Damage, directory: PartitionDir = piece.directory) -> None:
                if options.mode == "PERMISSIVE":
                    warn(directory, damage)

            def note_doubt(doubt: Doubt, directory: PartitionDir = piece.directory) -> None:
                if options.mode == "FAILFAST":
                    raise TransactionInDoubtError(doubt, str(directory.path))
                if options.mode == "PERMISSIVE":
                    say(f"{directory.topic}-{directory.partition}: {doubt.message}")

            def note_loss(damage: Damage, directory: PartitionDir = piece.directory) -> None:
                report_loss(directory, damage, options)

            on_damage = None if options.mode == "FAILFAST" else note_damage
            for chunk in piece.chunks(
                builder.columns,
                on_damage=on_damage,
                limits=limits,
                tell=tell,
                on_doubt=note_doubt,
                partitions=partitions,
                on_loss=note_loss,
            ):
                for batch in builder.add(chunk):
                    yield from selected(batch)
                if builder.rows >= limit_rows:
                    limit_rows *= GROWTH
                    yield from selected(builder.flush())
        if builder.rows:
            yield from selected(builder.flush())
    if decoded is not None:
        decoded.report()


def ahead(batches: Generator[pa.RecordBatch, None, None]) -> Iterator[pa.RecordBatch]:
    """Yield the items of `batches`. A separate thread reads the next item in advance."""
    # It decodes (and releases the GIL) while Spark sends the current Arrow record batch to the JVM.
    with ThreadPoolExecutor(1) as thread:
        try:
            coming = thread.submit(next, batches, None)
            while (batch := coming.result()) is not None:
                coming = thread.submit(next, batches, None)
                yield batch
        finally:  # Spark can close the generator before it is exhausted
            thread.shutdown()
            batches.close()


def report_loss(directory: PartitionDir, damage: Damage, options: Options) -> None:
    """Report lost offsets. If failOnDataLoss is true, raise DamagedLogError."""
    if options.fail_on_data_loss:
        raise DamagedLogError(damage, str(directory.path))
    warn(directory, damage)


def warn(directory: PartitionDir, damage: Damage) -> None:
    """Log a warning about records that are omitted because of damage."""
    where = f"{directory.path / damage.file}, {quantity(damage.length, 'damaged byte')} at position {damage.position}"
    say(f"{directory.topic}-{directory.partition}: {damage.lost}: {where}: {damage.message}")
