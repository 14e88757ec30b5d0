"""Store the valid and the damaged byte ranges of a segment in arrays, which saves time and memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...constants import FAULTS, MAGIC_V2, MIN_OFFSET
from ...errors import ChecksumError, StructureError
from ...records.batch_errors import NOT_COMPRESSED, OTHER, ErrorColumns, fault_message
from ...records.reader import offset_range_message
from ...support.text import offset_range
from ...types import IntArray
from ..findings import Rows

CRC_UNKNOWN = -1
"""Value of `BadColumns.magic` if the CRCs are not known, so that the error message does not contain them."""
OFFSET_PROBLEM = -5  # Of valid batches whose offsets contradict others. `crc`, `stored`: first and last offset.
WRAPPER_PROBLEM = -6
"""Of a wrapper message. `crc`: its offset; `stored`: highest inner one, or MIN_OFFSET if not increasing."""
RECORDS_PROBLEM = -7  # Of undecodable records. `crc`: index of the message in FAULTS; `stored`: `ErrorColumns.detail`.
DELTA_PROBLEM = -8  # Of a batch with a negative last offset delta. `crc`: base offset; `stored`: the delta.
TEXT_PROBLEM = -9
"""Value of `BadColumns.magic` if `BadColumns.texts` contains the error code and message. `crc` is then the index."""
COPY_PROBLEM = -10  # Of copies that may have overwritten other batches. `crc`, `stored`: first and last offset.
PROBLEM_CODES = {
    OFFSET_PROBLEM: "contradicting_offsets",
    WRAPPER_PROBLEM: "contradicting_offsets",
    COPY_PROBLEM: "contradicting_offsets",
    RECORDS_PROBLEM: StructureError.code,
    DELTA_PROBLEM: StructureError.code,
}
SPAN_COLUMNS = 8  # number of columns of the array `spans` of `core.scan_damaged`
NO_SPANS = np.empty((0, SPAN_COLUMNS), np.int64)
UNKNOWN_COUNT = -1  # value in an array of record counts if a count is not known


@dataclass(slots=True)
class Run:
    """A range of adjacent valid batches in a segment. The offsets increase from batch to batch."""

    position: int
    end: int
    first_offset: int
    last_offset: int
    batches: int
    records: int | None  # None if one batch is a wrapper message, whose header does not contain a number
    dense: bool = True  # there is a record for every offset: compaction has not removed any


@dataclass(slots=True)
class Bad:
    """A damaged byte range of a segment."""

    position: int
    end: int
    code: str
    message: str
    records: int | None = None  # None if no matching CRC confirms the number


@dataclass
class RunColumns:
    """Ranges of adjacent valid batches, with an array for each attribute of `Run`."""

    position: IntArray
    end: IntArray
    first: IntArray
    last: IntArray
    batches: IntArray
    records: IntArray  # -1 if unknown
    dense: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, runs: Sequence[Run]) -> RunColumns:
        """Convert a sequence of `Run` objects to arrays. If `runs` is an `Runs` object, no data is copied."""
        if isinstance(runs, Runs):
            return runs.columns
        names = ("position", "end", "first_offset", "last_offset", "batches")
        position, end, first, last, batches = (
            np.array([getattr(run, name) for run in runs], np.int64) for name in names
        )
        records = np.array([UNKNOWN_COUNT if run.records is None else run.records for run in runs], np.int64)
        return cls(position, end, first, last, batches, records, np.array([run.dense for run in runs], bool))

    def __len__(self) -> int:
        return len(self.position)

    def at(self, rows: IntArray | npt.NDArray[np.bool_] | slice) -> RunColumns:
        return RunColumns(*(column[rows] for column in vars(self).values()))

    @classmethod
    def joined(cls, parts: Sequence[RunColumns]) -> RunColumns:
        """Concatenate the ranges of several objects."""
        return cls(*map(np.concatenate, zip(*(vars(part).values() for part in parts), strict=True)))

    def objects(self) -> list[Run]:
        records: list[int | None] = self.records.tolist()
        if len(self) and int(self.records.min()) < 0:
            records = [None if n == UNKNOWN_COUNT else n for n in records]
        columns = (self.position, self.end, self.first, self.last, self.batches)
        return list(map(Run, *(c.tolist() for c in columns), records, self.dense.tolist()))


class Runs(Rows[Run]):
    """Ranges of adjacent valid batches, as a sequence. Each `Run` object is created when it is accessed."""

    def __init__(self, columns: RunColumns) -> None:
        self.columns = columns
        # Every plan needs these offsets. A cached property takes longer.
        self.offsets: tuple[int, int] | None = (
            (columns.first.item(0), columns.last.item(-1) + 1) if len(columns.first) else None
        )

    def __len__(self) -> int:
        return len(self.columns)

    def _build(self, start: int, stop: int) -> list[Run]:
        if stop - start == 1:
            # To create a single object, calling `Run` takes half as long as calling `RunColumns.objects`.
            c, i = self.columns, start
            records = int(c.records[i])
            known = None if records == UNKNOWN_COUNT else records
            numbers = int(c.position[i]), int(c.end[i]), int(c.first[i]), int(c.last[i]), int(c.batches[i])
            return [Run(*numbers, known, bool(c.dense[i]))]
        return self.columns.at(slice(start, stop)).objects()

    def _sliced(self, start: int, stop: int) -> Runs:
        return Runs(self.columns.at(slice(start, stop)))


_NO_TEXTS: list[tuple[str, str]] = []
"""Shared empty list, because a separate list for each segment would slow down garbage collection."""


class BadColumns:
    """Damaged byte ranges of a segment, as arrays with one item for each byte range."""

    # `records` is -1 if not known. `magic`, `crc` and `stored` describe a batch whose CRC does not match, or are the
    # values `problem`, `actual` and `stored` from `core.scan_damaged`. `texts` are codes and messages that the arrays
    # cannot describe. `rows` is the format of `core.describe_damage`, with unused columns.

    def __init__(self, spans: IntArray = NO_SPANS) -> None:
        self._count = len(spans)
        self.rows: IntArray = spans.T.copy()
        self.texts: list[tuple[str, str]] = _NO_TEXTS

    def __len__(self) -> int:
        return self._count

    @property
    def position(self) -> IntArray:
        return self.rows[0, : self._count]

    @property
    def end(self) -> IntArray:
        return self.rows[1, : self._count]

    @property
    def magic(self) -> IntArray:
        """The magic of each batch of which only the CRC is wrong, or a negative code for another kind of damage."""
        return self.rows[2, : self._count]

    @property
    def crc(self) -> IntArray:
        """Computed CRC of each damaged batch."""
        return self.rows[3, : self._count]

    @property
    def stored(self) -> IntArray:
        """Value of the crc field of each damaged batch."""
        return self.rows[4, : self._count]

    @property
    def records(self) -> IntArray:
        """Number of records in each damaged byte range. -1 if it is not known."""
        return self.rows[5, : self._count]

    @property
    def whole(self) -> npt.NDArray[np.bool_]:
        """Mask that is True for each byte range that is exactly one batch. False if this is not known."""
        magic = self.magic
        batches = (magic >= 0) | (magic == OFFSET_PROBLEM) | (magic == COPY_PROBLEM)
        whole: npt.NDArray[np.bool_] = (self.rows[7, : self._count] == 0) & batches
        return whole

    def _append(self, rows: IntArray) -> None:
        n = self._count + len(rows)
        if n > self.rows.shape[1]:
            larger = np.empty((SPAN_COLUMNS, max(2 * n, 16)), np.int64)
            larger[:, : self._count] = self.rows[:, : self._count]
            self.rows = larger
        self.rows[:, self._count : n] = rows.T
        self._count = n

    def add(self, position: int, end: int, code: str, message: str, records: int | None) -> None:
        """Append a damaged byte range, with any error code and message."""
        known = UNKNOWN_COUNT if records is None else records
        text = self._add_texts([(code, message)])
        self._append(np.array([(position, end, TEXT_PROBLEM, text, 0, known, 0, True)], np.int64))

    def _add_texts(self, texts: list[tuple[str, str]]) -> int:
        """Append items to `texts`, and return the index of the first one."""
        n = len(self.texts)
        if not n:
            self.texts = []  # `_NO_TEXTS` must stay empty
        self.texts += texts
        return n

    def describe(self, i: int, message: str) -> None:
        """Replace the error message of the damaged byte range in row `i`. The error code remains."""
        text = self.code(i), message
        if self.magic[i] == TEXT_PROBLEM:
            self.texts[self.crc[i]] = text
        else:
            self.magic[i], self.crc[i] = TEXT_PROBLEM, self._add_texts([text])

    def add_spans(self, spans: IntArray) -> None:
        """Append damaged byte ranges, as returned by `core.scan_damaged`, with file positions."""
        self._append(spans)

    def extend(self, other: BadColumns) -> None:
        n = self._count
        self._append(other.rows[:, : len(other)].T)
        if other.texts:
            self.crc[n:][self.magic[n:] == TEXT_PROBLEM] += self._add_texts(other.texts)

    def at(self, rows: IntArray) -> BadColumns:
        """Return a `BadColumns` object with only the given rows, in the given order."""
        chosen = BadColumns()
        chosen._append(self.rows[:, rows].T)
        chosen.texts = self.texts
        return chosen

    def code(self, i: int) -> str:
        return self.codes(i, i + 1)[0]

    def message(self, i: int) -> str:
        """Return the error message of the damaged byte range in row `i`."""
        magic, crc, stored = self.rows[2:5, i].tolist()
        return self.texts[crc][1] if magic == TEXT_PROBLEM else problem_message(magic, crc, stored)

    def codes(self, start: int = 0, stop: int | None = None) -> list[str]:
        """Return the error code of each damaged byte range in the rows [start, stop)."""
        magic, crc = self.rows[2:4, : self._count][:, start:stop]
        codes = np.full(len(magic), ChecksumError.code, object)
        for problem, code in PROBLEM_CODES.items():
            codes[magic == problem] = code
        text = magic == TEXT_PROBLEM
        codes[text] = [self.texts[i][0] for i in crc[text].tolist()]
        found: list[str] = codes.tolist()
        return found

    def messages(self, start: int = 0, stop: int | None = None) -> list[str]:
        """Return the error messages of the damaged byte ranges in the rows [start, stop)."""
        magic, crc, stored = self.rows[2:5, : self._count][:, start:stop]
        # The messages for batches of format 2 have the same form. Formatting them together takes half the time.
        alike, text = magic == MAGIC_V2, magic == TEXT_PROBLEM
        fault = (magic == RECORDS_PROBLEM) & (stored == NOT_COMPRESSED)
        others = ~(alike | text | fault)
        found = np.empty(len(magic), object)
        found[alike] = list(map(_CRC32C_MESSAGE, crc[alike].tolist(), stored[alike].tolist()))
        found[fault] = np.array(FAULTS, object)[crc[fault]]
        found[text] = [self.texts[i][1] for i in crc[text].tolist()]
        found[others] = list(map(problem_message, *(column[others].tolist() for column in (magic, crc, stored))))
        messages: list[str] = found.tolist()
        return messages

    def counts(self, start: int = 0, stop: int | None = None) -> list[int | None]:
        """Return the numbers of records in the rows [start, stop). None stands for an unknown number."""
        return [None if n == UNKNOWN_COUNT else n for n in self.records[start:stop].tolist()]


def undecodable(position: IntArray, end: IntArray, records: IntArray, errors: ErrorColumns) -> BadColumns:
    """Return a `BadColumns` object for batches whose records cannot be decoded."""
    other = errors.fault == OTHER
    problem = np.where(other, TEXT_PROBLEM, RECORDS_PROBLEM)
    actual, unused = np.where(other, errors.detail, errors.fault), np.ones(len(position), np.int64)
    columns = (position, end, problem, actual, errors.detail, records, unused, unused)
    bads = BadColumns(np.stack(columns, axis=1))
    bads.texts = errors.texts
    return bads


_CRC32C_MESSAGE = "CRC-32C is {:#010x}, the crc field says {:#010x}".format


def _code(magic: int) -> str:
    return PROBLEM_CODES.get(magic, ChecksumError.code)


def problem_message(magic: int, crc: int, stored: int) -> str:
    """Return the error message for the values `magic`, `crc` and `stored` of a damaged byte range."""
    if magic == OFFSET_PROBLEM:
        return f"the batches before and after this batch contradict its {offset_range(crc, stored)}"
    if magic == COPY_PROBLEM:
        copied = offset_range(crc, stored)
        return f"it is a copy of another batch with {copied}, and one of the two may have overwritten other batches"
    if magic == WRAPPER_PROBLEM:
        what = (
            f"its last inner message has offset {stored}"
            if stored != MIN_OFFSET
            else "the offsets of its inner messages do not increase"
        )
        return f"the wrapper message has offset {crc}, but {what}"
    if magic == RECORDS_PROBLEM:
        return fault_message(crc, stored)
    if magic == DELTA_PROBLEM:
        return offset_range_message(crc, stored)
    if magic == CRC_UNKNOWN:
        return "the CRC does not match the crc field"
    return f"{'CRC-32C' if magic == MAGIC_V2 else 'CRC-32'} is {crc:#010x}, the crc field says {stored:#010x}"


class Parts:
    """All bytes of a segment, divided into ranges of valid batches and damaged byte ranges."""

    def __init__(self, runs: RunColumns, bads: BadColumns, run_at: IntArray, bad_at: IntArray) -> None:
        self.runs = runs
        self.bads = bads
        self.run_at = run_at
        self.bad_at = bad_at

    def __len__(self) -> int:
        return len(self.runs) + len(self.bads)

    def after_bad(self) -> npt.NDArray[np.bool_]:
        """Return a mask that is True for each range of valid batches that directly follows damaged bytes."""
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
        """Return the damaged byte range with the index `b` among all damaged ranges."""
        bads = self.bads
        records = int(bads.records[b])
        known = None if records == UNKNOWN_COUNT else records
        return Bad(int(bads.position[b]), int(bads.end[b]), bads.code(b), bads.message(b), known)
