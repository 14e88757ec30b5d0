"""What a reader can hold against a stream of batches it received: a report of all that is wrong, not only the first error.

Checked are length, magic, CRC and the records' structure; that offsets rise from batch to batch; and of every producer id that
epochs do not fall and sequence numbers go on without a gap (Kafka: ProducerAppendInfo). What compaction took leaves
gaps in sequence numbers too, so these are judged only where asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..constants import (
    BATCH_HEADER_SIZE,
    CONTROL_BIT,
    DEFAULT_MAX_BATCH_BYTES,
    MAGIC_V2,
    MAX_OFFSET,
    MIN_OFFSET,
    NO_PRODUCER_ID,
)
from ..errors import KafkaFormatError, StructureError
from ..types import BATCH_DTYPE, Buffer
from .damage import DamageScanner
from .reader import RecordReader

_ROWS = 256
_SEQUENCES = 2**31


class Problem(NamedTuple):
    """rule: a word that stays the same: an error's `code`, or offset_order, offset_range, producer_epoch, base_sequence, sequence_gap,
    sequence_duplicate."""

    position: int
    base_offset: int | None
    rule: str
    message: str


class Check(NamedTuple):
    """batches, records: sound ones. end: the position behind the last whole batch; what follows is cut off, which is no problem."""

    problems: list[Problem]
    batches: int
    records: int
    end: int

    @property
    def ok(self) -> bool:
        return not self.problems


def check_batches(buffer: Buffer, *, sequences: bool = True, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES) -> Check:
    """Check every batch of a buffer: a fetch response's record data, a segment's bytes. Behind damage it goes on with the next sound batch.

    sequences: sequence numbers and epochs of producers too, which a compacted topic does not keep whole.
    """
    problems: list[Problem] = []
    producers = _Producers()
    reader = RecordReader(max_batch_bytes=max_batch_bytes)
    batches = records = 0
    reached, end = MIN_OFFSET, 0
    unsound: set[int] = set()

    def damaged(row: Any, failure: KafkaFormatError) -> None:
        failure.position = int(row["position"])
        unsound.add(failure.position)
        if (
            0 <= int(row["last_offset_delta"]) <= MAX_OFFSET - int(row["base_offset"])
        ):  # otherwise the rule is offset_range, below
            problems.append(_problem(failure))

    for table, error in _walk(buffer):
        if error is not None:
            problems.append(_problem(error))
            continue
        first = table["base_offset"].copy()
        for i in np.flatnonzero(table["count"] < 0).tolist():  # a wrapper's first offset stands inside
            for chunk in reader.read(buffer, table[i : i + 1], lambda *_: None):
                assert chunk.columns.offset is not None
                first[i] = chunk.columns.offset[0]
                break
        for chunk in reader.read(buffer, table, damaged):
            records += chunk.columns.rows
        batches += len(table)
        for i, low in enumerate(first.tolist()):
            row = table[i]
            at = int(row["position"]), int(row["base_offset"])
            high = at[1] + int(row["last_offset_delta"])
            if not 0 <= low <= high < MAX_OFFSET:
                problems.append(Problem(*at, "offset_range", f"offsets go from {low} to {high}"))
            else:
                if low <= reached:
                    problems.append(
                        Problem(*at, "offset_order", f"first offset is {low}, but offsets have reached {reached}")
                    )
                reached = max(reached, high)
            if sequences and row["producer_id"] != NO_PRODUCER_ID:
                problems += (Problem(*at, rule, message) for rule, message in producers.check(row))
        end = int(table["position"][-1] + table["size"][-1])
    problems.sort(key=lambda p: p.position)
    return Check(problems, batches - len(unsound), records, end)


def _walk(buffer: Buffer) -> Iterator[tuple[np.ndarray, KafkaFormatError | None]]:
    """Yield tables of valid batches, and the errors between them."""
    scanner, position = DamageScanner(buffer), 0
    size = scanner.size
    table = np.empty(_ROWS, BATCH_DTYPE)
    while position < size:
        scan = scanner.scan(table, position)
        if scan.count:
            yield table[: scan.count], None
        error, position = scan.error, scan.position
        if error is None and scan.count < len(table) and position < size:  # cut off, unless a valid batch follows
            found = scanner.find(position + 1)
            if found is None:
                return
            error = StructureError("length field leads past the next sound batch", position, None, found)
        if error is not None:
            yield table[:0], error
            resume = error.resume
            if resume is None or not (size - resume < BATCH_HEADER_SIZE or scanner.is_valid(resume)):
                resume = scanner.find(position + 1)
            if resume is None:
                return
            position = resume


def _problem(error: KafkaFormatError) -> Problem:
    return Problem(error.position, error.base_offset, error.code, error.message)


class _Producers:
    """By producer id its epoch and last sequence number, None where any may follow."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[int, int | None]] = {}

    def check(self, row: Any) -> Iterator[tuple[str, str]]:
        producer_id, epoch, sequence = int(row["producer_id"]), int(row["producer_epoch"]), int(row["base_sequence"])
        known = self.known.get(producer_id)
        if known is not None and epoch < known[0]:
            yield "producer_epoch", f"producer {producer_id} has epoch {epoch} after {known[0]}"
        if row["attributes"] & CONTROL_BIT and row["magic"] == MAGIC_V2:
            if known is None or epoch > known[0]:
                self.known[producer_id] = epoch, None if known is None else -1
            return
        if sequence < 0:
            yield "base_sequence", f"producer {producer_id} has base sequence {sequence}"
            return
        if known is not None and epoch >= known[0]:
            last = known[1] if epoch == known[0] else -1
            expected = None if last is None else (last + 1) % _SEQUENCES
            if expected is not None and sequence != expected:
                again = (expected - sequence) % _SEQUENCES == int(row["last_offset_delta"]) + 1
                rule = "sequence_duplicate" if again else "sequence_gap"
                yield (
                    rule,
                    f"producer {producer_id}, epoch {epoch}: base sequence is {sequence} where {expected} is next",
                )
        self.known[producer_id] = epoch, (sequence + int(row["last_offset_delta"])) % _SEQUENCES
