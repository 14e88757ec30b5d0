"""Check that both cores return the same rows, cursors and errors."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

import building as build
import numpy as np
import pytest
from decoding import MAX, MIN, ErrorFields, Row, decode_steps, rows_of, scan, what
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import QUICK, streams

from kafkafmt import _pure
from kafkafmt.types import BATCH_DTYPE, COLUMNS, BatchTable, RecordColumns

try:
    from kafkafmt import _core
except ImportError as error:
    if os.environ.get("CI"):
        raise
    pytest.skip(f"the native core cannot be imported: {error}", allow_module_level=True)


@st.composite
def ranges(draw: st.DrawFn, size: int) -> tuple[int, int | None]:
    start = draw(st.one_of(st.just(0), st.just(0), st.integers(0, size)))
    return start, draw(st.one_of(st.none(), st.integers(start, size)))


Outcome = tuple[list[Row], ErrorFields | None, tuple[int, ...]]
"""Rows, error and cursor that a call of `decode_records` returned."""


def outcome_of_scan(
    core: ModuleType, data: bytes, **options: Any
) -> tuple[list[tuple[int, ...]], int, int, ErrorFields | None]:
    table, result = scan(core, data, **options)
    return table.tolist(), result.count, result.position, what(result.error)


def check_shallow(data: bytes, check_crc: bool, rows: int, start: int, end: int | None) -> None:
    options = {"rows": rows, "start": start, "end": end, "check_crc": check_crc}
    assert outcome_of_scan(_core, data, **options) == outcome_of_scan(_pure, data, **options)
    assert _core.find_batch(data, start, end, check_crc) == _pure.find_batch(data, start, end, check_crc)


def check_deep(data: bytes, **options: Any) -> tuple[BatchTable, list[Outcome]]:
    table, _ = scan(_core, data, check_crc=False)
    steps = [
        [(rows, what(error), cursor) for rows, error, cursor in decode_steps(core, data, table, **options)]
        for core in (_core, _pure)
    ]
    assert steps[0] == steps[1]
    if options.get("room") is not None:
        check_copies(data, table, steps[0], **options)
    check_valid_records(data, table, options["names"])
    return table, steps[0]


def check_valid_records(data: bytes, table: BatchTable, names: list[str]) -> None:
    """Compare the results of `decode_valid_records`, with and without a row for each fault."""
    for capacity in (1, len(table) + 1):
        outcomes = []
        for core in (_core, _pure):
            columns, faults = RecordColumns(4096, names), np.zeros((capacity, 3), np.int64)
            count, error = core.decode_valid_records(data, table, columns, faults)
            outcomes.append((rows_of(columns), what(error), columns.cursor[:2].tolist(), faults[:count].tolist()))
        assert outcomes[0] == outcomes[1]


def check_copies(data: bytes, table: BatchTable, steps: list[Outcome], **options: Any) -> None:
    """Check that copied keys and values equal the bytes of their spans."""

    def inside(span: bytes | tuple[int, int] | None) -> bytes | None:
        return (
            span
            if span is None or isinstance(span, bytes)
            else None
            if span[1] < 0
            else data[span[0] : span[0] + span[1]]
        )

    with_spans = list(decode_steps(_pure, data, table, **options | {"room": None}))
    rows = [
        [(*row[:3], inside(row[3]), inside(row[4]), row[5]) for part in parts for row in part]
        for parts in ([step[0] for step in steps], [step.rows for step in with_spans])
    ]
    assert rows[0] == rows[1]
    assert steps[-1][1] == what(with_spans[-1].error)


def check_objects(data: bytes, table: BatchTable, names: list[str], rows: int) -> None:
    made = []
    for core in (_core, _pure):
        columns = RecordColumns(max(rows, 1), names)
        core.decode_records(data, table, columns)
        made.append((rows_of(columns), [r.__reduce__()[1] for r in core.make_records(data, columns)]))
    assert made[0] == made[1]


@st.composite
def shallow_cases(draw: st.DrawFn) -> tuple[bytes, bool, int, int, int | None]:
    changed = bytearray(draw(streams))
    for _ in range(draw(st.sampled_from([0, 1, 1, 3]))):
        if changed:
            changed[draw(st.integers(0, len(changed) - 1))] = draw(st.integers(0, 255))
    data = bytes(changed[: draw(st.integers(0, len(changed)))]) if draw(st.booleans()) else bytes(changed)
    return data, draw(st.booleans()), draw(st.integers(0, 5)), *draw(ranges(len(data)))


@st.composite
def deep_cases(draw: st.DrawFn) -> tuple[bytes, dict[str, Any]]:
    bounds = st.one_of(st.just(MIN), st.just(MAX), st.integers(0, 1100), st.integers(MIN, MAX))
    return draw(streams), {
        "names": draw(st.lists(st.sampled_from(COLUMNS), unique=True)),
        "capacity": draw(st.one_of(st.integers(1, 6), st.integers(1, 60))),
        "header_capacity": draw(st.one_of(st.integers(1, 4), st.integers(0, 60))),
        "first": draw(st.one_of(st.just(MIN), bounds)),
        "end": draw(st.one_of(st.just(MAX), bounds)),
        "room": draw(st.one_of(st.none(), st.integers(1, 200), st.integers(200, 5000))),
    }


def shallow(case: tuple[bytes, bool, int, int, int | None]) -> None:
    check_shallow(*case)


def deep(case: tuple[bytes, dict[str, Any]]) -> None:
    data, options = case
    table, steps = check_deep(data, **options)
    check_objects(data, table, options["names"], sum(len(rows) for rows, _, _ in steps))


test_shallow = settings(max_examples=100, **QUICK)(given(shallow_cases())(shallow))
test_deep = settings(max_examples=150, **QUICK)(given(deep_cases())(deep))
test_shallow_with_more = pytest.mark.slow(settings(max_examples=400, **QUICK)(given(shallow_cases())(shallow)))
test_deep_with_more = pytest.mark.slow(settings(max_examples=600, **QUICK)(given(deep_cases())(deep)))
test_shallow_for_long = pytest.mark.full(settings(max_examples=15_000, **QUICK)(given(shallow_cases())(shallow)))
test_deep_for_long = pytest.mark.full(settings(max_examples=30_000, **QUICK)(given(deep_cases())(deep)))


@pytest.mark.parametrize("capacity", [2, 100])
@pytest.mark.parametrize("spare", [0, 7, 31, 32, 33, 100])
def test_cores_agree_on_every_changed_byte(spare: int, capacity: int) -> None:
    """With bytes after the batch, the core uses unchecked reads; without them, checked reads."""
    fields: list[build.Fields] = [
        (i, i * 50, b"key", b"v" * i, [(b"h", b"x" * i), (b"i", None)][: i % 3]) for i in range(5)
    ]
    if spare:
        fields.append((5, 0, None, b"w" * spare, ()))
    data = build.batch(fields)
    table = np.zeros(1, BATCH_DTYPE)
    for at in range(23, len(data) - spare):
        for value in (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, data[at] ^ 1, data[at] ^ 2):
            changed = build.mutate(data, at, bytes([value]))
            for names in (COLUMNS, ("key",)):
                outcomes = []
                for core in (_core, _pure):
                    columns = RecordColumns(capacity, names, 2)
                    core.scan_batches(changed, table, 0, None, False)
                    error = core.decode_records(changed, table, columns)
                    outcomes.append((rows_of(columns), what(error), columns.cursor[:2].tolist()))
                assert outcomes[0] == outcomes[1], (at, value)
