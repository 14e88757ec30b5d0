"""Store the runs and the damaged spans of a segment as columns, which saves time and memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...constants import MAGIC_V2
from ...errors import ChecksumError, StructureError, TruncatedError, UnsupportedError
from ...types import IntArray

CRC_UNKNOWN = -1
"""Value of `BadColumns.magic` if the error message cannot contain the CRCs."""
LENGTH_PROBLEM = -2
MAGIC_PROBLEM = -3
END_PROBLEM = -4
"""Values of `BadColumns.magic` for an impossible length field, an unknown magic, and a batch that
would end after the end of the file. Both cores return these numbers.
"""
PROBLEM_CODES = {
    LENGTH_PROBLEM: StructureError.code,
    MAGIC_PROBLEM: UnsupportedError.code,
    END_PROBLEM: TruncatedError.code,
}
UNKNOWN_COUNT = -1
"""Value in a column that stands for an unknown number of records."""


@dataclass(slots=True)
class Run:
    """Consecutive valid batches of a file, without bytes between them, and with increasing offsets.

    Attributes
    ----------
    position, end : int
        Start and end of the run in the file, in bytes.
    first_offset, last_offset : int
        The first and the last offset of the batches.
    batches : int
        Number of batches.
    records : int or None
        Number of data records according to the batch headers. None if the run contains a wrapper
        message, whose header does not contain a count.
    dense : bool
        Whether every offset has a record, so that compaction has removed none.
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
    """A range of bytes in a segment that does not consist of valid batches.

    Attributes
    ----------
    position, end : int
        Start and end of the range in the file, in bytes.
    code, message : str
        Code and message of the error.
    records : int or None
        Number of data records in the range. None if the number is not confirmed, for example by the
        CRC.
    """

    position: int
    end: int
    code: str
    message: str
    records: int | None = None


@dataclass
class RunColumns:
    """Runs as columns. `dense` is an array of bool; the other columns are arrays of int64.

    The value in `records` is -1 for a run whose number of records is unknown.
    """

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

    Attributes
    ----------
    position, end, records : list of int
        Position and end of each span in bytes, and its number of records, -1 if unknown.
    magic, crc, stored : list of int
        Magic, computed CRC and crc field of each batch whose CRC does not match. For other
        problems, the columns `problem`, `actual` and `stored` of `core.scan_damaged`.
    problems : dict of int to tuple of str
        Error code and message of each span with another kind of error, by the row of the span.
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
        """Return columns without rows."""
        return cls([], [], [], [], [], [], {})

    def __len__(self) -> int:
        return len(self.position)

    def add(self, position: int, end: int, code: str, message: str, records: int | None) -> None:
        """Append a damaged span with any kind of error."""
        self.problems[len(self.position)] = code, message
        self.position.append(position)
        self.end.append(end)
        self.records.append(UNKNOWN_COUNT if records is None else records)
        self.magic.append(CRC_UNKNOWN)
        self.crc.append(0)
        self.stored.append(0)

    def add_spans(self, spans: IntArray) -> None:
        """Append damaged spans.

        `spans` contains rows from `core.scan_damaged`, with file positions.
        """
        position, end, _, magic, crc, stored, _, records = spans.T.tolist()
        self.position += position
        self.end += end
        self.records += records
        self.magic += magic
        self.crc += crc
        self.stored += stored

    def extend(self, other: BadColumns) -> None:
        """Append all damaged spans of `other`."""
        n = len(self)
        self.problems.update((n + i, problem) for i, problem in other.problems.items())
        for name in ("position", "end", "records", "magic", "crc", "stored"):
            getattr(self, name).extend(getattr(other, name))

    def code(self, i: int) -> str:
        """Return the error code of the span in row `i`."""
        return self.problems[i][0] if i in self.problems else _code(self.magic[i])

    def message(self, i: int) -> str:
        """Return the error message of the span in row `i`."""
        problem = self.problems.get(i)
        return problem_message(self.magic[i], self.crc[i], self.stored[i]) if problem is None else problem[1]

    def codes(self) -> list[str]:
        """Return the error codes of all spans."""
        codes = [ChecksumError.code] * len(self)
        if min(self.magic, default=0) < CRC_UNKNOWN:
            codes = [PROBLEM_CODES.get(magic, ChecksumError.code) for magic in self.magic]
        for i, (code, _) in self.problems.items():
            codes[i] = code
        return codes

    def messages(self) -> list[str]:
        """Return the error messages of all spans."""
        messages = list(map(problem_message, self.magic, self.crc, self.stored))
        for i, (_, message) in self.problems.items():
            messages[i] = message
        return messages

    def counts(self) -> list[int | None]:
        """Return the number of records of each span, with None for an unknown number."""
        return [None if n == UNKNOWN_COUNT else n for n in self.records]


def _code(magic: int) -> str:
    return PROBLEM_CODES.get(magic, ChecksumError.code)


def problem_message(magic: int, crc: int, stored: int) -> str:
    """Return the error message for a row of `BadColumns`."""
    if magic == LENGTH_PROBLEM:
        return f"length field is {crc}, which no batch can have"
    if magic == MAGIC_PROBLEM:
        return f"magic {crc} is not supported"
    if magic == END_PROBLEM:
        return f"the file ends {crc} bytes into a batch of {stored}"
    if magic == CRC_UNKNOWN:
        return "the CRC does not match the crc field"
    return f"{'CRC-32C' if magic == MAGIC_V2 else 'CRC-32'} is {crc:#010x}, the crc field says {stored:#010x}"


def bad_of(position: int, end: int, _: int, magic: int, crc: int, stored: int, __: int, records: int) -> Bad:
    """Return the damaged span for a row from `core.scan_damaged`."""
    known = None if records == UNKNOWN_COUNT else records
    return Bad(position, end, _code(magic), problem_message(magic, crc, stored), known)


class Parts:
    """All bytes of a segment, divided into runs and damaged spans in file order.

    Attributes
    ----------
    runs : RunColumns
        The runs.
    bads : BadColumns
        The damaged spans.
    run_at, bad_at : array of int64
        The index of each run, and of each damaged span, among all parts.
    """

    def __init__(self, runs: RunColumns, bads: BadColumns, run_at: IntArray, bad_at: IntArray) -> None:
        self.runs = runs
        self.bads = bads
        self.run_at = run_at
        self.bad_at = bad_at

    def __len__(self) -> int:
        return len(self.runs) + len(self.bads)

    def after_bad(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the runs that directly follow a damaged span."""
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
        """Return damaged span number `b` of the segment."""
        bads = self.bads
        records = bads.records[b]
        return Bad(
            bads.position[b], bads.end[b], bads.code(b), bads.message(b), None if records == UNKNOWN_COUNT else records
        )
