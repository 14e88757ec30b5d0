"""Define classes for the outcomes of transactions. The outcomes determine which records read_committed omits."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..._backend import core
from ...errors import KafkaFormatError
from ...support.text import offset_range
from ...types import BatchTable, IntArray, spans_between
from ..findings import Rows
from ..formats import Aborted

DAMAGE = "damage"
MISSING_OFFSETS = "missing offsets"
Cause = tuple[str, str]  # the attributes `file` and `hidden_by` of a `Doubt`


@dataclass(frozen=True)
class Doubt:
    """A transaction whose outcome is unknown. With read_committed, its records are omitted."""

    # The marker may be in damaged bytes, in a missing segment, or in a copy of a damaged log, at a missing offset.

    producer_id: int
    first_offset: int
    last_offset: int
    file: str  # the damaged segment, or the one that follows the missing segment
    hidden_by: str = DAMAGE  # "damage", "a missing segment" or "missing offsets"

    @property
    def message(self) -> str:
        """A message for the user that describes the transaction and its omitted records."""
        span = f"its records at {offset_range(self.first_offset, self.last_offset)} are omitted"
        return f"{self.hidden_by} may hide how producer {self.producer_id}'s transaction ended: {span}"


class Doubts(Rows[Doubt]):
    """A sequence of `Doubt` objects, stored as arrays. Each object is created when it is accessed."""

    def __init__(
        self, producer_id: IntArray, first: IntArray, last: IntArray, cause: IntArray, causes: list[Cause]
    ) -> None:
        self.producer_id: IntArray = producer_id
        self.first: IntArray = first
        self.last: IntArray = last
        self.cause: IntArray = cause
        self.causes: list[Cause] = causes

    @classmethod
    def none(cls) -> Doubts:
        empty = np.empty(0, np.int64)
        return cls(empty, empty, empty, empty, [])

    def __len__(self) -> int:
        return len(self.first)

    def at(self, rows: IntArray | slice | npt.NDArray[np.bool_]) -> Doubts:
        return Doubts(self.producer_id[rows], self.first[rows], self.last[rows], self.cause[rows], self.causes)

    def compact(self) -> Doubts:
        """Return an equal sequence whose `causes` contain only the causes of its items."""
        used, cause = np.unique(self.cause, return_inverse=True)
        return Doubts(self.producer_id, self.first, self.last, cause, [self.causes[i] for i in used.tolist()])

    def joined(self, others: Doubts) -> Doubts:
        """Return a sequence of all items of this sequence and of `others`."""
        return Doubts(
            np.concatenate((self.producer_id, others.producer_id)),
            np.concatenate((self.first, others.first)),
            np.concatenate((self.last, others.last)),
            np.concatenate((self.cause, others.cause + len(self.causes))),
            [*self.causes, *others.causes],
        )

    def without(self, others: Doubts) -> Doubts:
        known = set(others)
        return self.at(np.array([doubt not in known for doubt in self], bool))

    def _build(self, start: int, stop: int) -> list[Doubt]:
        rows = slice(start, stop)
        causes = [self.causes[i] for i in self.cause[rows].tolist()]
        columns = (self.producer_id[rows].tolist(), self.first[rows].tolist(), self.last[rows].tolist())
        return [Doubt(*fields, *cause) for *fields, cause in zip(*columns, causes, strict=True)]

    def _sliced(self, start: int, stop: int) -> Doubts:
        return self.at(slice(start, stop))


class Suspended:
    """Transactions whose markers may be hidden, as rows of an array. Damage can hide a hundred thousand markers."""

    def __init__(self) -> None:
        self._rows = array("q")
        self._causes: list[Cause] = []
        self._starts: list[int] = []  # for each item of `_causes`, the number of the first row with this cause

    def __len__(self) -> int:
        return len(self._rows) // 3

    def add(self, producer_id: int, first: int, last: int, cause: Cause) -> None:
        """Add a transaction with records at the offsets from `first` to `last`."""
        self._begin(cause)
        self._rows.extend((producer_id, first, last))

    def extend(self, hidden: IntArray, cause: Cause) -> None:
        """Add rows that `core.walk_transactions` has written."""
        self._begin(cause)
        self._rows.frombytes(hidden.tobytes())

    def _begin(self, cause: Cause) -> None:
        if not self._causes or self._causes[-1] != cause:
            self._causes.append(cause)
            self._starts.append(len(self))

    def doubts(self) -> Doubts:
        rows = np.frombuffer(self._rows, np.int64).reshape(-1, 3)
        cause = np.repeat(np.arange(len(self._starts)), np.diff(self._starts, append=len(rows)))
        producer_id, first, last = rows.T
        return Doubts(producer_id, first, last, cause, self._causes)


class TransactionInDoubtError(KafkaFormatError):
    """Raised if the outcome of a transaction is unknown, and the caller has asked for an error in this case."""

    code: str = "transaction_in_doubt"

    doubt: Doubt
    path: str

    def __init__(self, doubt: Doubt, path: str) -> None:
        super().__init__(f"{path}: {doubt.message}")
        self.doubt, self.path = doubt, path

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> Any:
        return type(self), (self.doubt, self.path)


@dataclass
class Transactions:
    """Outcomes of the transactions in a log."""

    # sorted pairs (first offset, last offset) by producer id
    aborted: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    open: dict[int, int] = field(default_factory=dict)  # first offset by producer id
    doubts: Doubts = field(default_factory=Doubts.none)
    last_stable_offset: int = 0  # exclusive: with read_committed, only records below are read
    # transaction index entries whose abort markers are missing in the log
    unmarked: list[Aborted] = field(default_factory=list)
    # base offsets of segments whose damage may hide markers; only batches in the plan were read there
    damaged_segments: list[int] = field(default_factory=list, compare=False)

    @property
    def undecided(self) -> str:
        """A message for the user about the first open transaction, up to which a consumer reads, or an empty string."""
        if not self.open:
            return ""
        holder = min(self.open, key=lambda producer: self.open[producer])
        return (
            f"records from offset {self.last_stable_offset} on are not delivered at read_committed: "
            f"producer {holder} has an open transaction there"
        )

    def within(self, first: int, last: int) -> Transactions:
        """Return the transactions that can have records with offsets from `first` to `last`, for a Spark task."""
        aborted = {
            producer: kept
            for producer, spans in self.aborted.items()
            if (kept := [span for span in spans_between(spans, first, last) if span[1] >= first])
        }
        doubts = self.doubts.at((self.doubts.first <= last) & (self.doubts.last >= first)).compact()
        bases = self.damaged_segments
        damaged = bases[bisect_left(bases, first) : bisect_right(bases, last)]
        return Transactions(aborted, self.open, doubts, self.last_stable_offset, damaged_segments=damaged)

    def committed(self, table: BatchTable) -> np.ndarray:
        """Remove batches of aborted and open transactions from an array of batch headers."""
        if not self.aborted and not self.open:
            return table
        keep = np.empty(len(table), np.bool_)
        kept = core.keep_committed(table, self.aborted, self.open, keep)
        return table if kept == len(table) else table.compress(keep)
