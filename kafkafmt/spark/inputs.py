"""Decode the inputs of functions for `mapInArrow` and `mapPartitions`. An input is record data, or paths of logs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import numpy as np

from .._backend import core
from ..constants import BATCH_HEADER_SIZE, CONTROL_BIT
from ..errors import KafkaFormatError
from ..log import Damage, DamagedLogError, PartitionDir, PartitionLog, discover
from ..log.damage import ReadLimits
from ..log.reading import Selection
from ..records import Chunk, RecordReader
from ..records.damage import DamageScanner, incomplete_batch
from ..support.text import shown
from ..types import BATCH_DTYPE, BatchTable, Buffer, RecordColumns
from .source.reading import say

OnFault = Callable[[Exception], None]
Found = Iterator[tuple[str, int, Iterator[Chunk]]]
"""Topic, partition and records, which must be used before the next item is requested."""


class RecordDataDecoder:
    """Decodes buffers of record data, which are the values of a binary column."""

    def __init__(self, columns: RecordColumns, control: bool, max_batch_bytes: int, incomplete: str) -> None:
        self.reader: RecordReader = RecordReader(columns, max_batch_bytes=max_batch_bytes)
        self.control = control
        self.incomplete = incomplete
        self.table: BatchTable = np.zeros(256, BATCH_DTYPE)

    def read(self, blob: Buffer, fault: OnFault) -> Iterator[Chunk]:
        # If a batch is damaged, or if the last one is incomplete and this is an error, `fault` gets
        # the error. Decoding continues after the damage, unless `fault` raises.
        scanner, position = DamageScanner(blob), 0
        while position < scanner.size:
            scan = scanner.scan(self.table, position)
            table = self.table[: scan.count]
            if not self.control:
                table = table[(table["attributes"] & CONTROL_BIT) == 0]
            yield from self.reader.read(blob, table, lambda _, error: fault(error))
            position, error = scan.position, scan.error
            if error is None and scan.count < len(self.table) and position < scanner.size:
                if self.incomplete == "ignore":
                    return
                error = incomplete_batch(blob, position)
            if error is not None:
                fault(error)
                position = _after(scanner, error, position)


def _after(scanner: DamageScanner, error: KafkaFormatError, position: int) -> int:
    """Return the position at which decoding resumes after a corrupted batch, or the size of the data."""
    # The length field of the corrupted batch gives a possible end. If another batch header or the
    # end of the data is there, decoding resumes there. Otherwise, the rest is searched for the next
    # batch.
    after = error.resume
    if after is not None and after > position:
        header_end = after + BATCH_HEADER_SIZE
        if header_end > scanner.size or core.find_batch(scanner.buffer, after, header_end, False) == after:
            return after
    found = scanner.find(position + 1)
    return scanner.size if found is None else found


def decode_path(
    path: str | os.PathLike[str], columns: RecordColumns, control: bool, max_batch_bytes: int, fault: OnFault
) -> Found:
    """Yield each partition in a log directory or file, with an iterator of its records."""
    # Reading continues after an error, unless `fault` raises it.
    try:
        found = discover([path])
    except (OSError, ValueError) as error:  # ValueError: unknown URL scheme, or two copies of a partition
        fault(error)
        return
    for message in found.messages:
        say(message)
    for directory in found.partitions:
        if not directory.readable:
            continue
        chunks = _chunks_of(directory, columns, control, max_batch_bytes, fault)
        yield directory.topic, directory.partition, chunks


def _chunks_of(
    directory: PartitionDir, columns: RecordColumns, control: bool, max_batch_bytes: int, fault: OnFault
) -> Iterator[Chunk]:
    """Yield the records of a partition. If a file cannot be read, call `fault` with the error, and stop."""

    def note_damage(damage: Damage) -> None:
        fault(DamagedLogError(damage, str(directory.path)))

    try:
        log = PartitionLog(directory, ReadLimits(max_batch_bytes), tell=say)
        interval = Selection(control=control).resolve(log)
        yield from log.chunks(columns, interval, on_damage=note_damage)
    except OSError as error:
        fault(error)


def in_row(error: Exception, row: int, column: str | int | None) -> Exception:
    """Return a copy of `error` whose message names the input row."""
    where = f"row {row} of this task" + ("" if column is None else f", column {shown(column)}")
    if isinstance(error, KafkaFormatError):
        return KafkaFormatError(f"{where}: {error.message}", error.position, error.base_offset, error.resume)
    return OSError(f"{where}: {error}")
