"""Compare how both cores summarize batch headers, and how they combine batches into runs."""

from __future__ import annotations

from random import Random
from types import ModuleType

import numpy as np
import pytest

from kafkafmt import _pure
from kafkafmt.constants import MAX_OFFSET, MIN_OFFSET
from kafkafmt.types import BATCH_DTYPE, BatchSummary, BatchTable

BASES = (0, 1, 2, 3, 5, 8, 100, 2**40, MAX_OFFSET - 3, MAX_OFFSET, -1, MIN_OFFSET)


def random_table(chance: Random, rows: int) -> BatchTable:
    table, position, offset = np.zeros(rows, BATCH_DTYPE), chance.randrange(100), chance.choice(BASES)
    for row in table:
        row["position"], row["size"] = position, chance.randint(22, 200)
        position += int(row["size"]) + chance.choice((0, 0, 0, 60))
        row["base_offset"] = offset if chance.random() < 0.8 else chance.choice(BASES)
        row["last_offset_delta"] = chance.choice((0, 0, 1, 4, -1, 2**31 - 1))
        row["count"] = chance.choice((1, 1, 2, 5, 0, -1))
        row["magic"] = chance.choice((2, 2, 2, 1, 0))
        row["attributes"] = chance.choice((0, 0, 0, 1, 4, 7, 0x10, 0x20, 0x30, 0x40, -1))
        row["base_timestamp"] = chance.choice((-1, 0, 5, 1_700_000_000_000))
        row["max_timestamp"] = chance.choice((-1, 0, 5, 1_700_000_000_000, -7))
        row["producer_id"] = chance.choice((-1, -1, -1, 0, 9))
        offset = min(int(row["base_offset"]) + max(int(row["last_offset_delta"]), 0) + 1, MAX_OFFSET)
    return table


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
    expected = BatchSummary(False, 0, 0, 0, 0, -1, -1, False, False, MAX_OFFSET, MIN_OFFSET)
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
