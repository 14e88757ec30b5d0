"""Decode values of all formats into Arrow's layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..types import Buffer, ByteArray, IntArray, LengthArray
from .avro_values import AvroRun
from .json_values import JsonRun
from .protobuf_values import ProtobufRun
from .value_columns import BINARY, BITS, FIXED, LIST, NULLS, Column, Fault, ValueProgram, cut, put_null
from .varint import view_of

ID_PREFIX, NO_VALUE, UNKNOWN_PROGRAM = 5, -1, -2
RUNS: dict[str, Any] = {"avro": AvroRun, "protobuf": ProtobufRun, "json": JsonRun}


class ColumnBuilder:
    def __init__(
        self,
        kinds: Sequence[int],
        widths: Sequence[int],
        lasts: Sequence[int],
        precisions: Sequence[int],
        limits: ByteArray,
        take: Callable[[int], ByteArray],
    ) -> None:
        self._columns = list(map(Column, kinds, widths, lasts, precisions))
        self.unknown_fields: int = 0

    @property
    def rows(self) -> int:
        return len(self._columns[0].items)

    def decode(
        self,
        programs: list[ValueProgram],
        which: LengthArray,
        source: Buffer,
        positions: IntArray,
        lengths: LengthArray,
        faults: IntArray,
    ) -> int:
        view, faulty = view_of(source), 0
        for row, (number, position, length) in enumerate(
            zip(which.tolist(), positions[: len(which)].tolist(), lengths[: len(which)].tolist(), strict=True)
        ):
            before = self.rows
            if number < 0:
                put_null(self._columns, 0)
                continue
            if number >= len(programs) or position < 0 or length < 0 or length > len(view) - position:
                raise ValueError(f"span {row} is outside the buffer, or its program does not exist")
            program = programs[number]
            run = RUNS[program.format](self._columns, program, view[position : position + length])
            try:
                run.decode()
            except Fault as fault:
                for root in {0, self._columns[0].last}:
                    if root < len(self._columns):  # the column after the tree can have fewer rows
                        cut(self._columns, root, before)
                put_null(self._columns, 0)
                faults[faulty] = row, fault.number, run.at
                faulty += 1
            else:
                self.unknown_fields += getattr(run, "unknown", 0)
        return faulty

    def finish(self) -> list[tuple[int, int, ByteArray | None, ByteArray | None, ByteArray | None, int]]:
        found = [_finished(column) for column in self._columns]
        for column in self._columns:
            column.items, column.filled = [], 0
        return found


def _finished(column: Column) -> tuple[int, int, ByteArray | None, ByteArray | None, ByteArray | None, int]:
    items, rows = column.items, len(column.items)
    if column.kind == NULLS:
        return rows, rows, None, None, None, 0
    present = np.array([item[1] if column.kind == LIST else item is not None for item in items], bool)
    validity, nulls = np.packbits(present, bitorder="little"), rows - int(present.sum())
    offsets = data = None
    if column.kind == LIST:
        offsets = np.array([0, *(end for end, _ in items)], np.int32).view(np.uint8)
    elif column.kind == BINARY:
        lengths = np.array([0, *(len(item or b"") for item in items)], np.int64)
        offsets = np.cumsum(lengths).astype(np.int32).view(np.uint8)
        data = np.frombuffer(b"".join(item or b"" for item in items), np.uint8)
    elif column.kind == FIXED:
        data = np.frombuffer(b"".join(bytes(column.width) if item is None else item for item in items), np.uint8)
    elif column.kind == BITS:
        data = np.packbits(np.array([bool(item) for item in items], bool), bitorder="little")
    return rows, nulls, validity, offsets, data, column.filled


def choose_programs(
    source: Buffer,
    positions: IntArray,
    lengths: LengthArray,
    known: LengthArray,
    which: LengthArray,
    bodies: IntArray,
    sizes: LengthArray,
) -> int:
    view, unknown = view_of(source), 0
    for row, (position, length) in enumerate(zip(positions.tolist(), lengths.tolist(), strict=True)):
        bodies[row], sizes[row], which[row] = position, 0, NO_VALUE
        if length < 0:
            continue
        if position < 0 or length > len(view) - position:
            raise ValueError(f"span {row} is outside the buffer")
        which[row] = UNKNOWN_PROGRAM
        if length >= ID_PREFIX and view[position] == 0:
            schema_id = int.from_bytes(view[position + 1 : position + ID_PREFIX], "big")
            bodies[row], sizes[row] = position + ID_PREFIX, length - ID_PREFIX
            if schema_id < len(known):
                which[row] = known[schema_id]
        unknown += which[row] == UNKNOWN_PROGRAM
    return int(unknown)
