"""Hold the runs and the damaged spans of a segment as columns, so that many of them cost little time and memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...constants import MAGIC_V2
from ...errors import ChecksumError
from ...types import IntArray

UNTOLD = -1
"""A magic that stands for a CRC error whose message does not contain the CRCs."""
UNKNOWN_COUNT = -1
"""A number of records that is not known."""


@dataclass(slots=True)
class Run:
    """Sound batches that lie back to back with rising offsets.

    records: data records, as the headers count them; None where a wrapper message does not say. dense: there is a
    record for every offset, so nothing was compacted.
    """

    position: int
    end: int
    first_offset: int
    last_offset: int
    batches: int
    records: int | None
    dense: bool = True


@dataclass(slots=True)
class Bad:
    """A span that is not valid batches.

    code, message: those of the error. records: number of data records in it, None unless its own CRC confirms the count.
    """

    position: int
    end: int
    code: str
    message: str
    records: int | None = None


@dataclass
class RunColumns:
    """Runs as columns: arrays of int64, except `dense`, which is bool. A number of records that is not known is -1."""

    position: IntArray
    end: IntArray
    first: IntArray
    last: IntArray
    batches: IntArray
    records: IntArray
    dense: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.position)

    def objects(self) -> list[Run]:
        """Return a `Run` for each row."""
        records: list[int | None] = self.records.tolist()
        if len(self) and int(self.records.min()) < 0:
            records = [None if n == UNKNOWN_COUNT else n for n in records]
        columns = (self.position, self.end, self.first, self.last, self.batches)
        return list(map(Run, *(c.tolist() for c in columns), records, self.dense.tolist()))


@dataclass
class BadColumns:
    """Damaged spans as columns.

    position, end, records : lists of int
        The span, and the number of its records; -1 if this is not known.
    magic, crc, stored : lists of int
        Magic of a batch whose CRC does not match, CRC of its bytes, and its crc field.
    problems : dict of int to tuple of str
        Code and message of the error, by row, if the span is not a single batch whose CRC does not match.
    """

    position: list[int]
    end: list[int]
    records: list[int]
    magic: list[int]
    crc: list[int]
    stored: list[int]
    problems: dict[int, tuple[str, str]]

    @classmethod
    def empty(cls) -> BadColumns:
        return cls([], [], [], [], [], [], {})

    def __len__(self) -> int:
        return len(self.position)

    def add(self, position: int, end: int, code: str, message: str, records: int | None) -> None:
        """Append a span with an error of any kind."""
        self.problems[len(self.position)] = code, message
        self.position.append(position)
        self.end.append(end)
        self.records.append(UNKNOWN_COUNT if records is None else records)
        self.magic.append(UNTOLD)
        self.crc.append(0)
        self.stored.append(0)

    def add_corrupted(self, spans: IntArray) -> None:
        """Append batches whose CRC does not match: rows of `core.scan_damaged`, with positions in the file."""
        position, end, _, magic, crc, stored, _ = spans.T.tolist()
        self.position += position
        self.end += end
        self.records += [UNKNOWN_COUNT] * len(position)
        self.magic += magic
        self.crc += crc
        self.stored += stored

    def extend(self, other: BadColumns) -> None:
        """Append the spans of another object."""
        n = len(self)
        self.problems.update((n + i, problem) for i, problem in other.problems.items())
        for name in ("position", "end", "records", "magic", "crc", "stored"):
            getattr(self, name).extend(getattr(other, name))

    def code(self, i: int) -> str:
        """Return the code of the error of a span."""
        return self.problems[i][0] if i in self.problems else ChecksumError.code

    def message(self, i: int) -> str:
        """Return the message of the error of a span."""
        problem = self.problems.get(i)
        return corrupted_message(self.magic[i], self.crc[i], self.stored[i]) if problem is None else problem[1]

    def codes(self) -> list[str]:
        """Return the code of each error."""
        codes = [ChecksumError.code] * len(self)
        for i, (code, _) in self.problems.items():
            codes[i] = code
        return codes

    def messages(self) -> list[str]:
        """Return the message of each error."""
        messages = list(map(corrupted_message, self.magic, self.crc, self.stored))
        for i, (_, message) in self.problems.items():
            messages[i] = message
        return messages

    def counts(self) -> list[int | None]:
        """Return the number of records of each span."""
        return [None if n == UNKNOWN_COUNT else n for n in self.records]


def corrupted_message(magic: int, crc: int, stored: int) -> str:
    """Return the message for a batch whose CRC does not match."""
    if magic == UNTOLD:
        return "the CRC does not match the crc field"
    return f"{'CRC-32C' if magic == MAGIC_V2 else 'CRC-32'} is {crc:#010x}, the crc field says {stored:#010x}"


class Parts:
    """Every byte of a segment as runs and damaged spans, in the order of the file.

    runs, bads : RunColumns, BadColumns
    run_at, bad_at : arrays of int64
        The index among all parts of each run, and of each damaged span.
    """

    def __init__(self, runs: RunColumns, bads: BadColumns, run_at: IntArray, bad_at: IntArray) -> None:
        self.runs = runs
        self.bads = bads
        self.run_at = run_at
        self.bad_at = bad_at

    def __len__(self) -> int:
        return len(self.runs) + len(self.bads)

    def after_bad(self) -> npt.NDArray[np.bool_]:
        """Return whether each run directly follows a damaged span."""
        return np.diff(self.run_at, prepend=-1) > 1

    def __iter__(self) -> Iterator[Run | Bad]:
        objects = iter(self.runs.objects())
        bads, b = self.bads, 0
        bad_at = self.bad_at.tolist()
        for i in range(len(self)):
            if b < len(bads) and bad_at[b] == i:
                yield self.bad(b)
                b += 1
            else:
                yield next(objects)

    def bad(self, b: int) -> Bad:
        """Return a damaged span, by its index among the damaged spans."""
        bads = self.bads
        records = bads.records[b]
        return Bad(
            bads.position[b], bads.end[b], bads.code(b), bads.message(b), None if records == UNKNOWN_COUNT else records
        )
