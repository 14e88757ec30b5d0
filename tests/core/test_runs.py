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
    least = (MAX_OFFSET, MIN_OFFSET, 2**31 - 1, -(2**31), 0, True, True)
    expected = BatchSummary(False, 0, 0, 0, 0, -1, -1, False, False, *least)
    assert core.summarize_batches(np.empty(0, BATCH_DTYPE)) == expected


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
        [0, 1, 1],
    ]
    assert before.tolist() == [1, 3]


def test_too_small_array_for_runs_is_refused(native: ModuleType) -> None:
    table, none = np.zeros(3, BATCH_DTYPE), np.empty(0, np.int64)
    with pytest.raises(ValueError, match="at least 27 items"):
        native.combine_batches(table, np.zeros(3, np.int64), False, none, none, np.empty((9, 2), np.int64), none)
