"""Check the batches in a buffer, and report all problems instead of only the first one."""

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
from ..types import BATCH_DTYPE, BatchTable, Buffer
from .damage import DamageScanner, incomplete_batch
from .java_reads import refused_by_java
from .reader import RecordReader

_TABLE_ROWS = 256
_SEQUENCES = 2**31
"""Number of distinct sequence numbers. The number after 2**31 - 1 is 0."""


class Problem(NamedTuple):
    """A problem that `check_batches` found."""

    position: int
    """Position of the problem in the buffer, in bytes."""
    base_offset: int | None
    """Base offset of the batch, as stored in its header; None if it is unknown."""
    code: str
    """Stable identifier of the problem.

    The identifier is the `code` of a KafkaFormatError, or one of the names offset_order,
    offset_range, refused_by_kafka, producer_epoch, base_sequence, sequence_gap and sequence_duplicate.
    """
    message: str
    """Description of the problem."""


class Check(NamedTuple):
    """Result of `check_batches`."""

    problems: list[Problem]
    """All problems, ordered by position."""
    batches: int
    """Number of valid batches."""
    records: int
    """Number of valid records."""
    end: int
    """Position after the last complete batch. If the buffer ends with an incomplete batch, the batch
    starts at this position, and is a problem with the code "truncated".
    """

    @property
    def ok(self) -> bool:
        """True if no problem was found."""
        return not self.problems


def check_batches(buffer: Buffer, *, sequences: bool = True, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES) -> Check:
    """Check all batches in a buffer, and report all problems.

    After damage, the check continues with the next valid batch. The check reports a problem unless
    the following conditions are met:

    - Each batch has a valid length, magic and CRC, and its records are well-formed.
    - Kafka's Java code reads the compressed data of each batch to its end.
    - Offsets increase from batch to batch, and fit into 64 bits.
    - If `sequences` is True, the epochs of each producer id do not decrease, and the sequence
      numbers of each producer id continue without a gap.

    Parameters
    ----------
    buffer : bytes-like
        Batches or messages (magic 0 to 2), back to back, for example the record data of a fetch
        response or the content of a ``.log`` file.
    sequences : bool, default True
        Check epochs and sequence numbers of producers. Use False for a compacted topic, because
        compaction leaves gaps in the sequence numbers.
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch in bytes after decompression. A larger batch is reported as a
        problem with the code "too_large".

    Returns
    -------
    Check
        The problems, and the number of valid batches and records.

    Raises
    ------
    ValueError
        `max_batch_bytes` is below 1.

    Notes
    -----
    An incomplete batch at the end of the buffer is a problem with the code "truncated". Fetch responses
    usually end with an incomplete batch; compare its position with the attribute `end`. Epochs and sequence
    numbers are checked with the rules of Kafka's ``ProducerAppendInfo``.

    Examples
    --------
    >>> data = bytearray(kafkafmt.build_batch([(b"key", b"value")]))
    >>> data[-1] ^= 1
    >>> [problem.code for problem in kafkafmt.check_batches(data).problems]
    ['corrupt_checksum']
    """
    problems: list[Problem] = []
    producers = _Producers()
    reader = RecordReader(max_batch_bytes=max_batch_bytes)
    batches = records = 0
    reached, end = MIN_OFFSET, 0
    invalid: set[int] = set()

    def damaged(row: Any, failure: KafkaFormatError) -> None:
        failure.position = int(row["position"])
        invalid.add(failure.position)
        # Do not report an invalid offset range here, because another check reports it with the code `offset_range`.
        if 0 <= int(row["last_offset_delta"]) <= MAX_OFFSET - int(row["base_offset"]):
            problems.append(_problem(failure))

    for table, error in _walk(buffer):
        if error is not None:
            problems.append(_problem(error))
            continue
        first = table["base_offset"].copy()
        # The first offset of a wrapper message is the offset of its first inner message.
        for i in np.flatnonzero(table["count"] < 0).tolist():
            for chunk in reader.read(buffer, table[i : i + 1], lambda *_: None):
                assert chunk.columns.offset is not None
                first[i] = chunk.columns.offset[0]
                break
        for chunk in reader.read(buffer, table, damaged):
            records += chunk.columns.rows
        for odd in (*reader.take_odd_ends(), *refused_by_java(buffer, table)):
            if not odd.java_reads:
                base_offset = int(table["base_offset"][np.searchsorted(table["position"], odd.position)])
                problems.append(
                    Problem(odd.position, base_offset, "refused_by_kafka", f"Kafka's Java code fails: {odd.oddity}")
                )
        batches += len(table)
        for i, low in enumerate(first.tolist()):
            row = table[i]
            at = int(row["position"]), int(row["base_offset"])
            high = at[1] + int(row["last_offset_delta"])
            if not 0 <= low <= high < MAX_OFFSET:
                problems.append(
                    Problem(
                        *at,
                        "offset_range",
                        f"the batch has offsets from {low} to {high}; they must be between 0 and 2**63 - 2",
                    )
                )
            else:
                if low <= reached:
                    problems.append(
                        Problem(
                            *at,
                            "offset_order",
                            f"the first offset is {low}, but an earlier batch ends at offset {reached}",
                        )
                    )
                reached = max(reached, high)
            if sequences and row["producer_id"] != NO_PRODUCER_ID:
                problems += (Problem(*at, code, message) for code, message in producers.check(row))
        end = int(table["position"][-1] + table["size"][-1])
    problems.sort(key=lambda p: p.position)
    return Check(problems, batches - len(invalid), records, end)


def _walk(buffer: Buffer) -> Iterator[tuple[BatchTable, KafkaFormatError | None]]:
    """Yield tables of valid batch headers, and an error for each damaged byte range, in buffer order."""
    scanner, position = DamageScanner(buffer), 0
    size = scanner.size
    table = np.empty(_TABLE_ROWS, BATCH_DTYPE)
    while position < size:
        scan = scanner.scan(table, position)
        if scan.count:
            yield table[: scan.count], None
        error, position = scan.error, scan.position
        # The scan stopped at a batch that is incomplete, or whose length is corrupted.
        if error is None and scan.count < len(table) and position < size:
            found = scanner.find(position + 1)
            if found is None:
                yield table[:0], incomplete_batch(buffer, position)
                return
            error = StructureError(
                f"the length field extends past position {found}, at which the next valid batch begins",
                position,
                None,
                found,
            )
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
    """Checks the epoch and the sequence number of each batch against the previous batch of the same producer."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[int, int | None]] = {}
        """Maps each producer id to a pair: the epoch and the last sequence number of the producer.

        The sequence number is None if the next batch may have any sequence number.
        """

    def check(self, row: Any) -> Iterator[tuple[str, str]]:
        """Check the producer fields of a batch header. Yield a code and a message for each violated rule."""
        producer_id, epoch, sequence = int(row["producer_id"]), int(row["producer_epoch"]), int(row["base_sequence"])
        known = self.known.get(producer_id)
        if known is not None and epoch < known[0]:
            yield "producer_epoch", f"the epoch of producer {producer_id} decreases from {known[0]} to {epoch}"
        if row["attributes"] & CONTROL_BIT and row["magic"] == MAGIC_V2:
            if known is None or epoch > known[0]:
                self.known[producer_id] = epoch, None if known is None else -1
            return
        if sequence < 0:
            yield "base_sequence", f"producer {producer_id} has base sequence {sequence}, which is negative"
            return
        if known is not None and epoch >= known[0]:
            last = known[1] if epoch == known[0] else -1
            expected = None if last is None else (last + 1) % _SEQUENCES
            if expected is not None and sequence != expected:
                again = (expected - sequence) % _SEQUENCES == int(row["last_offset_delta"]) + 1
                code = "sequence_duplicate" if again else "sequence_gap"
                yield code, f"producer {producer_id}, epoch {epoch}: base sequence is {sequence}, expected {expected}"
        self.known[producer_id] = epoch, (sequence + int(row["last_offset_delta"])) % _SEQUENCES
