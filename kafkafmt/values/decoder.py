"""Decode the keys or values of many records into an Arrow array."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from .._backend import core
from ..arrow.buffer_pool import shared_pool
from ..constants import VALUE_FAULTS
from ..types import Buffer, IntArray, LengthArray, byte_view
from .errors import UndecodableError
from .framing import CONFLUENT, NONE, Key
from .plan import ValuePlan
from .value_columns import DECIMAL_LIMITS, build_array, build_rest
from .writers import SchemaProblem

NO_VALUE, UNKNOWN = -1, -2
"""Indexes of programs for records without a value, and for schema ids that are not known yet."""
MOST_DIRECT_IDS = 1 << 20
"""Ids below this number are looked up in an array."""


class SideDecoder:
    """Decodes the keys or values of consecutive records. Only one thread at a time can use it."""

    def __init__(
        self,
        plan: ValuePlan,
        side: str,
        raw: bool = False,
        fails: bool = False,
        place: str = "record at offset",
        with_extents: bool = False,
    ) -> None:
        self._with_extents = with_extents
        self._place = place
        self._plan, self._side, self._keep_raw, self._fails = plan, side, raw, fails
        columns = plan.columns
        self._builder = core.ColumnBuilder(
            [c.kind for c in columns],
            [c.width for c in columns],
            [c.last for c in columns],
            [c.precision for c in columns],
            DECIMAL_LIMITS,
            shared_pool.take,
        )
        self._known = np.full(1 << 10, UNKNOWN, np.int32)
        """Index of the program for each schema id, or UNKNOWN."""
        self._fault_array = np.empty((0, 3), np.int64)
        self._errors: dict[int, str] = {}
        self._raw: dict[int, bytes] = {}
        self.size: int = 0
        """Size of the keys or values that were decoded since the last `finish`."""
        self.records: Counter[int] = Counter()
        """Number of decoded records of each program."""
        self.extents: dict[int, tuple[int, int]] = {}
        """First and last offset of the records of each program, also of those that could not be decoded, if asked for."""
        self.undecodable: Counter[str] = Counter()
        """Number of records that could not be decoded, by error code."""

    @property
    def unknown_fields(self) -> int:
        """Number of Protobuf fields that the schemas of the writers do not have."""
        return self._builder.unknown_fields

    def add(
        self,
        source: Buffer,
        positions: IntArray,
        lengths: LengthArray,
        offsets: IntArray,
        header_ids: Mapping[int, bytes] = MappingProxyType({}),
    ) -> None:
        """Decode one side of records. The arrays have the position and length of each in `source`, and its offset."""
        # `header_ids` has the schema ids that headers contain, by row. Their values have no prefix.
        rows, view = len(lengths), byte_view(source)
        which, bodies, sizes = np.empty(rows, np.int32), np.empty(rows, np.int64), np.empty(rows, np.int32)
        problems = self._choose(view, source, positions, lengths, which, bodies, sizes, header_ids)
        first, faults = self._builder.rows, self._faults(rows)
        n = self._builder.decode(self._plan.programs, which, source, bodies, sizes, faults)
        self._count(which, faults[:n, 0], offsets)
        self.size += core.total_length(lengths, rows)
        if n or problems:
            found = [(row, problem.code, 0, problem.message) for row, problem in problems.items()]
            for row, fault, at in faults[:n].tolist():
                found.append((row, VALUE_FAULTS[fault], at + int(bodies[row] - positions[row]), ""))
            for row, code, position, message in sorted(found):
                if self._fails:
                    message = message or code.replace("_", " ")
                    place = f"the {self._side} of the {self._place} {offsets[row]}"
                    error = UndecodableError(code, f"{place} cannot be decoded: {message}", position)
                    error.records_before = row
                    raise error
                self._errors[first + row] = f"{code}: {message}" if message else f"{code} at byte {position}"
                self._raw[first + row] = bytes(view[positions[row] : positions[row] + lengths[row]])
                self.undecodable[code] += 1
        if self._keep_raw:
            for row in np.flatnonzero(lengths >= 0).tolist():
                self._raw[first + row] = bytes(view[positions[row] : positions[row] + lengths[row]])

    def finish(self) -> tuple[pa.Array, ...]:
        """Return the decoded values, the errors as text, the bytes that could not be decoded, and the rest if there is one."""
        root, buffers = self._plan.root, self._builder.finish()
        array = build_array(root, buffers, self._plan.captures)
        errors, raw = _sparse(self._errors, len(array), pa.string()), _sparse(self._raw, len(array), pa.binary())
        self._errors, self._raw, self.size = {}, {}, 0
        if root.rest is None:
            return array, errors, raw
        return array, errors, raw, build_rest(root.rest, buffers, len(array))

    def _choose(
        self,
        view: memoryview,
        source: Buffer,
        positions: IntArray,
        lengths: LengthArray,
        which: LengthArray,
        bodies: IntArray,
        sizes: LengthArray,
        header_ids: Mapping[int, bytes],
    ) -> dict[int, SchemaProblem]:
        """Find the program and the body of each key or value. Return the rows that have no program."""
        framing = self._plan.framing
        if framing is not CONFLUENT:
            program = self._plan.program_of(None) if framing is NONE else UNKNOWN
            assert isinstance(program, int)
            which[:], bodies[:], sizes[:] = np.where(lengths < 0, NO_VALUE, program), positions, lengths
            return {} if framing is NONE else self._resolve(view, positions, lengths, which, bodies, sizes, {})
        problems: dict[int, SchemaProblem] = {}
        while core.choose_programs(source, positions, lengths, self._known, which, bodies, sizes):
            first = int(np.argmax(which == UNKNOWN))
            start = framing.read(view[positions[first] : positions[first] + min(lengths[first], framing.longest)])
            if first in header_ids or start is None or not self._learn(start[0]):
                problems = self._resolve(view, positions, lengths, which, bodies, sizes, header_ids)
                break
        for row, schema_id in header_ids.items():
            if lengths[row] >= 0:
                header = memoryview(schema_id)
                program = self._program(framing.read(header), header)
                if isinstance(program, SchemaProblem):
                    problems[row], which[row] = program, NO_VALUE
                else:
                    which[row], bodies[row], sizes[row] = program, positions[row], lengths[row]
        return problems

    def _resolve(
        self,
        view: memoryview,
        positions: IntArray,
        lengths: LengthArray,
        which: LengthArray,
        bodies: IntArray,
        sizes: LengthArray,
        header_ids: Mapping[int, bytes],
    ) -> dict[int, SchemaProblem]:
        """Find the programs of schemas that are not known yet. Return the rows that have none."""
        problems, framing = {}, self._plan.framing
        seen: dict[tuple[Key, int] | None, int | SchemaProblem] = {}
        for row in np.flatnonzero(which == UNKNOWN).tolist():
            if row in header_ids:
                continue
            at, size = int(positions[row]), int(lengths[row])
            start = framing.read(view[at : at + min(size, framing.longest)])
            if start not in seen:
                seen[start] = self._program(start)
            program = seen[start]
            if isinstance(program, SchemaProblem):
                problems[row], which[row] = program, NO_VALUE
                continue
            assert start is not None
            which[row], bodies[row], sizes[row] = program, at + start[1], size - start[1]
        for start in filter(None, seen if framing is CONFLUENT else ()):
            self._learn(start[0])
        return problems

    def _program(self, start: tuple[Key, int] | None, header: memoryview | None = None) -> int | SchemaProblem:
        """Return the index of the program for a prefix, which can be in a header, or the reason why there is none."""
        if start is None:
            return SchemaProblem("no_schema_id", self._plan.framing.missing)
        key, size = start
        return self._plan.program_of(key) if header is None else self._plan.program_in_header(key, header[size:])

    def _learn(self, key: Key) -> bool:
        """Remember the program of a schema id, so that the core finds it. Return False if that is not possible."""
        program = self._plan.program_of(key)
        if not isinstance(key, int) or key >= MOST_DIRECT_IDS or isinstance(program, SchemaProblem):
            return False
        if key >= len(self._known):
            grown = np.full(1 << key.bit_length(), UNKNOWN, np.int32)
            grown[: len(self._known)] = self._known
            self._known = grown
        self._known[key] = program
        return True

    def _count(self, which: LengthArray, faulty: IntArray, offsets: IntArray) -> None:
        """Count the decoded records of each program."""
        if len(self._plan.programs) == 1:
            self.records[0] += len(which) - int(np.count_nonzero(which)) - len(faulty)  # the others are NO_VALUE
        else:
            counts = np.bincount(which + 1)
            counts -= np.bincount(which[faulty] + 1, minlength=len(counts))
            for program in np.flatnonzero(counts[1:]).tolist():
                self.records[program] += int(counts[program + 1])
        if self._with_extents:
            for program in np.unique(which[which >= 0]).tolist():
                found = offsets[which == program]
                low, high = self.extents.get(program, (found[0], found[-1]))
                self.extents[program] = int(min(low, found[0])), int(max(high, found[-1]))

    def _faults(self, rows: int) -> IntArray:
        """Return an array for the faults of `rows` records. It is reused."""
        if len(self._fault_array) < rows:
            self._fault_array = np.empty((rows, 3), np.int64)
        return self._fault_array


def _sparse(values: dict[int, Any], rows: int, type_: pa.DataType) -> pa.Array:
    """Return an array with a few values, whose rows are the keys. The other rows are null."""
    if not values:
        return pa.nulls(rows, type_)
    return pa.array([values.get(row) for row in range(rows)], type_)
