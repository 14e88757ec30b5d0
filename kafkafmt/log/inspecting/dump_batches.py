"""Read the batches and records of one `.log` or `.checkpoint` file, and the damage between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..._backend import core
from ...constants import (
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    CODEC_NAMES,
    CONTROL_BIT,
    DEFAULT_MAX_BATCH_BYTES,
    DELETE_HORIZON_BIT,
    ENTRY_OVERHEAD,
    LEGACY_CRC_AT,
    LENGTH_AT,
    LOG_APPEND_TIME_BIT,
    MAGIC_END,
    MAGIC_V0,
    MAGIC_V2,
    MIN_LEGACY_LENGTH,
    TRANSACTIONAL_BIT,
)
from ...errors import KafkaFormatError
from ...records import RecordReader, decode_control_record
from ...types import BATCH_DTYPE, BatchTable, Buffer, last_offset
from ..catalog import NoLogError
from ..damage import UNREADABLE, ReadLimits, Walker
from ..formats import sequence_after
from ..reading import PartitionLog, discover
from ..scanning import Head
from ..storage import FileView, named, overlapping
from .dump_items import DumpedBatch, DumpedRecord, InvalidBytes, Item, OffsetGap, Problem


class LogDump:
    """Reads batches, damage and, if `deep`, records from the first `max_bytes` of a `.log` or `.checkpoint` file."""

    def __init__(
        self,
        path: Path,
        base_offset: int,
        deep: bool = False,
        max_bytes: int | None = None,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    ) -> None:
        self.path = path
        self.base_offset = base_offset
        self.deep = deep
        self.max_bytes = max_bytes
        self.max_batch_bytes = max_batch_bytes
        self._reader = RecordReader(max_batch_bytes=max_batch_bytes, capacity=1024)
        self._last: int | None = None
        self._row: BatchTable = np.zeros(1, BATCH_DTYPE)

    def items(self) -> Iterator[Item]:
        """Yield the batches and records in file order, followed by the problems."""
        bad: list[Problem] = []
        rising = True
        with FileView(self.path, fill_unreadable=True) as view:
            whole = view.size
            view.size = whole if self.max_bytes is None else min(whole, self.max_bytes)
            cut = view.size < whole
            walker = Walker(view, self.base_offset, self.max_batch_bytes)
            position, expected = 0, self.base_offset
            while position < view.size:
                error: KafkaFormatError | None = None
                for start, buffer, rows, error in walker.tables(position, view.size):  # noqa: B007 (used after the loop)
                    for i in range(len(rows)):
                        item = batch_item(rows[i].item(), start, True)
                        yield item
                        if self.deep:
                            yield from self._records(item, buffer, rows[i : i + 1])
                        last = last_offset(rows[i])
                        rising = rising and last >= expected
                        position, expected = item.position + item.size, last + 1
                if error is None or (cut and error.code == "truncated"):
                    break
                end, _ = walker.search.resume(position, expected)
                unreadable = overlapping(view.unreadable, position, end)
                if unreadable:
                    # Do not decode a batch that contains placeholder bytes instead of unreadable bytes.
                    bad.append(self._damage(UNREADABLE, named(unreadable), position, end - position))
                else:
                    bad.append(self._damage(error.code, error.message, position, end - position))
                    yield from self._bad(walker, position, end)
                position = end
        if bad or not rising:
            yield from self._judged(bad)

    def _judged(self, bad: list[Problem]) -> list[Problem]:
        """Return the problems found by `plan_segment`, or the problems in `bad` if the file is not a segment."""
        # `bad` contains only invalid batches. `plan_segment` also reports batches whose offsets contradict each other.
        # It reports an incomplete last batch and a repeated batch as findings, not as damage.
        if self.path.suffix != ".log":
            return bad
        try:
            log = PartitionLog(discover([self.path]).partitions[0], ReadLimits(self.max_batch_bytes))
        except NoLogError:
            # `discover` accepts only files that are named like a segment or contain a valid batch.
            return bad
        plan = log.plan(log.segments[0])
        near = [d for d in plan.damaged if self.max_bytes is None or d.position < self.max_bytes]
        damaged = [self._damage(d.code, f"{d.message}; {d.lost}", d.position, d.length) for d in near]
        return damaged + [Problem("finding", self.path.name, f.code, f.message) for f in plan.findings]

    def _damage(self, error: str, message: str, position: int, length: int) -> Problem:
        return Problem("damage", self.path.name, error, message, position, length)

    def _bad(self, walker: Walker, position: int, end: int) -> Iterator[Item]:
        """Yield what can be decoded from a range of bytes without a valid batch: at most one invalid batch."""
        # A complete batch is marked as invalid. An incomplete one at the end of the file becomes an `InvalidBytes`.
        head = Head(position, walker.read(position, BATCH_HEADER_SIZE))
        if len(head.data) < MAGIC_END or head.end > walker.size:
            if end == walker.size and self.max_bytes is None:
                yield InvalidBytes(self.path.name, end - position)
        elif MIN_LEGACY_LENGTH + ENTRY_OVERHEAD <= head.size <= self.max_batch_bytes:
            data, row = walker.read(position, head.size), self._row
            if core.scan_batches(data, row, check_crc=False).count:
                item = batch_item(row[0].item(), position, False)
                yield item
                if self.deep and head.end == end:
                    yield from self._records(item, data, row)

    def _records(self, item: DumpedBatch, buffer: Buffer, row: BatchTable) -> Iterator[Item]:
        errors: list[KafkaFormatError] = []
        number, crcs = 0, [item.crc]
        for source, columns in self._reader.read(buffer, row, lambda _, error: errors.append(error)):
            if item.magic < MAGIC_V2 and item.codec != "none" and number == 0:
                crcs = _inner_crcs(source)
            for record in core.make_records(source, columns):
                yield from self._gap(record.offset)
                yield _record_item(record, item, crcs[min(number, len(crcs) - 1)])
                number += 1
        if item.is_valid:
            for error in errors:
                yield self._damage(error.code, error.message, item.position, item.size)

    def _gap(self, offset: int) -> Iterator[Item]:
        if self._last is not None and offset != self._last + 1:
            yield OffsetGap(self.path.name, self._last, offset)
        self._last = offset


def batch_item(header: tuple[int, ...], start: int, valid: bool) -> DumpedBatch:
    """Convert a batch header, with a position in the buffer at `start` of the file, to a `DumpedBatch`."""
    position, base_offset, base_timestamp, max_timestamp, producer_id, _, _, size, leader_epoch, *others = header
    crc, last_delta, sequence, count, attributes, producer_epoch, magic = others
    codec = attributes & CODEC_MASK
    common = (
        start + position,
        size,
        magic,
        CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else f"unknown({codec})",
        crc,
        valid,
        -1 if magic == MAGIC_V0 else int(bool(attributes & LOG_APPEND_TIME_BIT)),
        max_timestamp,
        base_offset + last_delta,
    )
    if magic < MAGIC_V2:
        return DumpedBatch(*common)
    return DumpedBatch(
        *common,
        base_offset,
        count,
        sequence,
        -1 if sequence < 0 else sequence_after(sequence, last_delta),
        producer_id,
        producer_epoch,
        leader_epoch,
        bool(attributes & TRANSACTIONAL_BIT),
        bool(attributes & CONTROL_BIT),
        base_timestamp if attributes & DELETE_HORIZON_BIT else None,
    )


def _record_item(record: Any, batch: DumpedBatch, crc: int) -> DumpedRecord:
    common = (record.offset, record.timestamp_type, record.timestamp, record.key, record.value)
    base, first = batch.base_sequence, batch.base_offset
    if base is None or first is None:
        return DumpedRecord(*common, is_valid=batch.is_valid, crc=crc)
    sequence = -1 if base < 0 else sequence_after(base, record.offset - first)
    control: Any = None
    if batch.is_control:
        try:
            control = decode_control_record(record.key, record.value)
        except KafkaFormatError as error:
            control = error
    return DumpedRecord(*common, sequence=sequence, headers=record.headers, control=control)


def _inner_crcs(source: Any) -> list[int]:
    """Return the CRC of each message in the message set of a wrapper message, which decoding has verified."""
    crcs, at, data = [], 0, memoryview(source)
    while at < len(data):
        crcs.append(int.from_bytes(data[at + LEGACY_CRC_AT : at + LEGACY_CRC_AT + 4], "big"))
        at += ENTRY_OVERHEAD + int.from_bytes(data[at + LENGTH_AT : at + ENTRY_OVERHEAD], "big")
    return crcs
