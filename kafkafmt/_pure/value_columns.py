"""The programs that decode values, the columns to which they append, and their faults."""

from __future__ import annotations

from typing import Any

from ..constants import VALUE_COLUMNS, VALUE_FAULTS, VALUE_FORMATS

NULLS, BITS, FIXED, BINARY, LIST, STRUCT = range(len(VALUE_COLUMNS))
FAULTS = {name: number for number, name in enumerate(VALUE_FAULTS)}
DEPTH = 64


class ValueProgram:
    def __init__(self, format: int, code: Any, tables: Any, constants: Any) -> None:
        self.format = VALUE_FORMATS[format]
        self.code: list[Any] = code.tolist()
        self.tables: list[int] = tables.tolist()
        self.constants = memoryview(constants)
        self.parsed: Any = None
        """What the decoder of the format keeps for further values."""


class Fault(Exception):
    def __init__(self, name: str) -> None:
        self.number = FAULTS[name]


class Column:
    """The items of a column: numbers, bytes, the ends of lists, or nothing for structs. None: null."""

    def __init__(self, kind: int, width: int, last: int, precision: int) -> None:
        self.kind, self.width, self.last, self.precision = kind, width, last, precision
        self.items: list[Any] = []
        self.filled = 0


def children(columns: list[Column], index: int) -> list[int]:
    found, child = [], index + 1
    while child < columns[index].last:
        found.append(child)
        child = columns[child].last
    return found


def put_null(columns: list[Column], index: int) -> None:
    column = columns[index]
    if column.kind == LIST:
        column.items.append((column.items[-1][0] if column.items else 0, False))
        return
    column.items.append(None)
    if column.kind == STRUCT:
        for child in children(columns, index):
            put_null(columns, child)


def cut(columns: list[Column], index: int, rows: int) -> None:
    """Remove all rows of a column, and of the columns below it, from `rows` on."""
    column = columns[index]
    if column.kind == BINARY:
        column.filled -= sum(len(item) for item in column.items[rows:] if item is not None)
    del column.items[rows:]
    if column.kind == LIST:
        cut(columns, index + 1, next((end for end, _ in reversed(column.items)), 0))
    elif column.kind == STRUCT:
        for child in children(columns, index):
            cut(columns, child, rows)


def put_bytes(column: Column, raw: bytes) -> None:
    if column.filled + len(raw) > 2**31 - 17:
        raise Fault("too_large")
    column.items.append(raw)
    column.filled += len(raw)
