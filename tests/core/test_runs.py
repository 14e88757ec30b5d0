"""Compare how both cores summarize batch headers, and how they combine batches into runs."""

from __future__ import annotations

from random import Random
from types import ModuleType

import numpy as np
import pytest
from random_tables import BASES, random_table

from kafkafmt import _pure
from kafkafmt.constants import MAX_OFFSET, MIN_OFFSET
from kafkafmt.types import BATCH_DTYPE, BatchSummary, BatchTable


def combined(each: ModuleType, chance: Random, table: BatchTable) -> tuple[int, list[list[int]], list[int]]:
    n = len(table)
    firsts = np.array([o - chance.choice((0, 0, 0, 1)) if o > MIN_OFFSET else o for o in table["base_offset"].tolist()])
    cut_at = np.array(sorted(chance.choices(BASES, k=chance.randrange(4))), np.int64)
    before = np.array(sorted(chance.choices(range(n + 1), k=chance.randrange(4))), np.int64)
    runs, runs_before = np.full((9, n), -7), np.full(len(before), -7)
    found = each.combine_batches(
        table, firsts.astype(np.int64), chance.random() < 0.5, cut_at, before, runs, runs_before
    )
    return found, runs[:, :found].tolist(), runs_before.tolist()


@pytest.mark.parametrize("seed", range(200))
def test_both_cores_summarize_and_combine_batches_alike(native: ModuleType, seed: int) -> None:
    table = random_table(Random(seed), seed % 9)
    assert native.summarize_batches(table) == _pure.summarize_batches(table)
    assert combined(native, Random(seed), table) == combined(_pure, Random(seed), table)


def test_summary_of_an_empty_table(core: ModuleType) -> None:
    least = (MAX_OFFSET, MIN_OFFSET, 2**31 - 1, -(2**31), 0, True, True, 0, -1, 0, 0, True)
    expected = BatchSummary(False, 0, 0, 0, 0, -1, -1, False, False, *least)
    assert core.summarize_batches(np.empty(0, BATCH_DTYPE)) == expected


@pytest.mark.parametrize(("moved", "adjacent"), [(0, True), (1, False), (-1, False)])
def test_summary_shows_whether_batches_are_adjacent(core: ModuleType, moved: int, adjacent: bool) -> None:
    table = np.zeros(3, BATCH_DTYPE)
    table["position"], table["size"] = [7, 77, 147 + moved], 70
    table["base_offset"], table["last_offset_delta"], table["magic"] = [4, 6, 9], [1, 2, 3], 2
    found = core.summarize_batches(table)
    assert (found.first, found.last, found.start, found.end, found.adjacent) == (4, 12, 7, 217 + moved, adjacent)


def test_runs_end_at_falling_offsets_and_at_given_rows(core: ModuleType) -> None:
    table = np.zeros(6, BATCH_DTYPE)
    table["position"], table["size"] = np.arange(6) * 70, 70
    table["base_offset"], table["count"], table["magic"] = [0, 1, 5, 3, 4, 6], 1, 2
    runs, before = np.empty((9, 6), np.int64), np.empty(2, np.int64)
    none, rows = np.empty(0, np.int64), np.array([1, 6])
    n = core.combine_batches(table, table["base_offset"].copy(), False, none, rows, runs, before)
    assert runs[:, :n].tolist() == [
        [0, 1, 3],
        [0, 70, 210],
        [70, 210, 420],
        [0, 1, 3],
        [0, 5, 6],
        [1, 2, 3],
        [1, 2, 3],
        [1, 0, 0],
        [0, 2, 3],
    ]
    assert before.tolist() == [1, 4]


def test_too_small_array_for_runs_is_refused(native: ModuleType) -> None:
    table, none = np.zeros(3, BATCH_DTYPE), np.empty(0, np.int64)
    with pytest.raises(ValueError, match="at least 27 items"):
        native.combine_batches(table, np.zeros(3, np.int64), False, none, none, np.empty((9, 2), np.int64), none)


@pytest.mark.parametrize("seed", range(100))
def test_both_cores_find_the_same_offsets_around_damage(native: ModuleType, seed: int) -> None:
    chance = Random(seed)
    n, m = chance.randrange(6), chance.randrange(5)
    places = chance.sample(range(n + m), n + m)
    run_at, at = (np.array(sorted(p), np.int64) for p in (places[:n], places[n:]))
    edges = (*BASES, 0, 7, MAX_OFFSET, MIN_OFFSET)
    firsts, lasts = (np.array(chance.choices(edges, k=n), np.int64) for _ in range(2))
    lower, upper = chance.choice((0, 5)), chance.choice((None, 99))
    found = [np.full((3, m), -7) for _ in range(2)]
    for each, result in zip((native, _pure), found, strict=True):
        each.offsets_around(run_at, firsts, lasts, lower, upper, at, result)
    assert found[0].tolist() == found[1].tolist()


def test_offsets_around_damage_are_between_the_valid_ranges(core: ModuleType) -> None:
    found = np.empty((3, 3), np.int64)
    run_at, firsts, lasts, at = (np.array(v, np.int64) for v in ([1, 3], [10, 20], [14, 29], [0, 2, 4]))
    core.offsets_around(run_at, firsts, lasts, 5, None, at, found)
    assert found.tolist() == [[5, 15, 30], [9, 19, MAX_OFFSET], [1, 1, 0]]
    core.offsets_around(run_at, firsts, lasts, 5, 39, at, found)
    assert found.tolist() == [[5, 15, 30], [9, 19, 39], [1, 1, 1]]


def test_base_offsets_are_the_first_offsets_by_default(core: ModuleType) -> None:
    table = random_table(Random(1), 8)
    none, found = np.empty(0, np.int64), []
    for firsts in (None, table["base_offset"].copy()):
        runs = np.empty((9, 8), np.int64)
        n = core.combine_batches(table, firsts, False, none, none, runs, none)
        found.append(runs[:, :n].tolist())
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", range(100))
def test_both_cores_describe_the_same_damage(native: ModuleType, seed: int) -> None:
    chance = Random(seed)
    n = chance.randrange(6)
    spans = np.array([chance.choices((0, 1, 2, -1, -5, -10, 7, MAX_OFFSET, MIN_OFFSET), k=n + 2) for _ in range(8)])
    firsts, lasts = (np.array(chance.choices((0, 1, 8, MAX_OFFSET), k=n), np.int64) for _ in range(2))
    found = []
    for each in (native, _pure):
        lengths, flags = np.full(n, -7), np.zeros((2, n), np.bool_)
        with np.errstate(over="ignore"):
            each.describe_damage(spans, n, firsts, lasts, lengths, *flags)
        found.append((lengths.tolist(), flags.tolist()))
    assert found[0] == found[1]


def test_damage_is_described_by_its_problem(core: ModuleType) -> None:
    # The columns are a batch with a wrong CRC, two batches with contradicting offsets, a copy, an impossible length
    # field, and a byte range that contains several batches.
    problem, actual, stored, rest = (
        [2, -5, -5, -10, -2, 2],
        [0, 10, 10, 5, 0, 0],
        [0, 19, 19, 6, 0, 0],
        [0, 0, 0, 0, 0, 1],
    )
    start, none = list(range(0, 600, 100)), [0] * 6
    spans = np.array([start, [p + 70 for p in start], problem, actual, stored, none, none, rest])
    firsts, lasts = np.array([0, 30, 30, 0, 0, 0]), np.array([9, 39, 40, 1, 0, 0])
    lengths, flags = np.empty(6, np.int64), np.empty((2, 6), np.bool_)
    core.describe_damage(spans, 6, firsts, lasts, lengths, *flags)
    assert lengths.tolist() == [70] * 6
    assert flags.tolist() == [[True, True, True, True, False, False], [False, False, True, True, False, False]]


def test_too_small_array_for_damage_is_refused(native: ModuleType) -> None:
    spans, one = np.zeros((8, 2), np.int64), np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="at least 2 items"):
        native.describe_damage(spans, 2, one, one, one, np.empty(2, np.bool_), np.empty(2, np.bool_))
