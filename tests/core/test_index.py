"""Compare how both cores build index entries, and how they find the batches to which index entries refer."""

from __future__ import annotations

from random import Random
from types import ModuleType

import numpy as np
import pytest
from random_tables import random_table

from kafkafmt import _pure
from kafkafmt.constants import MAX_OFFSET
from kafkafmt.types import BATCH_DTYPE, BatchTable, IntArray

NO_ENTRIES = np.empty(0, np.int64)


def tables(chance: Random) -> list[BatchTable]:
    return [random_table(chance, chance.randrange(6)) for _ in range(3)]


@pytest.mark.parametrize("seed", range(200))
def test_both_cores_build_the_same_index_entries(native: ModuleType, seed: int) -> None:
    chance, position, state = Random(seed), 0, (0, -1, 0, -1)
    interval = chance.choice((0, 100, 4096))
    for table in tables(chance):
        found = native.index_batches(table, position, interval, state)
        assert found == _pure.index_batches(table, position, interval, state)
        state, position = found[2], position + chance.randrange(300)


def matched(each: ModuleType, chance: Random) -> list[object]:
    given = tables(chance)
    ends = np.concatenate([t["base_offset"] for t in given])
    some = sorted({0, *chance.sample(ends.tolist(), len(ends) // 2), *(o + 1 for o in ends.tolist() if o < MAX_OFFSET)})
    offsets = np.array(some, np.int64)
    positions = np.sort(np.array([chance.randrange(500) for _ in some] or [], np.int64))
    starts = np.concatenate([t["position"] for t in given])
    positions[: len(starts)] = np.sort(starts)[: len(positions)]
    positions.sort()
    matches, time_matches = np.full((3, len(offsets)), -1), np.full((3, len(offsets)), -2)
    state: tuple[int, int] = 0, -1
    for table in given:
        place = chance.choice((0, 0, 50))
        state = each.match_index_entries(table, place, *state, offsets, positions, matches, offsets, time_matches)
    return [state, matches.tolist(), time_matches.tolist()]


@pytest.mark.parametrize("seed", range(200))
def test_both_cores_match_the_same_index_entries(native: ModuleType, seed: int) -> None:
    assert matched(native, Random(seed)) == matched(_pure, Random(seed))


def batches(*fields: tuple[int, int, int, int]) -> BatchTable:
    """Return a table of batches with the given position, base offset, last offset delta and maximum timestamp."""
    table = np.zeros(len(fields), BATCH_DTYPE)
    table["magic"] = 2
    names = ("position", "base_offset", "last_offset_delta", "max_timestamp")
    for name, column in zip(names, zip(*fields, strict=True), strict=True):
        table[name] = column
    return table


def test_batch_gets_an_index_entry_after_the_interval(core: ModuleType) -> None:
    table = batches((0, 10, 1, 7), (100, 12, 0, 9), (201, 13, 4, 8), (300, 18, 0, 8))
    found = core.index_batches(table, 0, 100, (0, -1, 10, -1))
    assert found == ([(17, 201)], [(9, 12)], (201, 9, 12, 9))


def entries(*values: int) -> IntArray:
    return np.array(values, np.int64)


def test_index_entries_refer_to_batches_by_position_offset_and_time(core: ModuleType) -> None:
    table = batches((0, 10, 1, 7), (200, 12, 0, 9), (100, 13, 4, 8))
    matches, time_matches = np.full((3, 3), -1), np.full((3, 2), -2)
    offsets, positions = entries(11, 12, 17), entries(0, 100, 150)
    found = core.match_index_entries(table, 0, 10, -1, offsets, positions, matches, entries(12, 15), time_matches)
    assert found == (18, 9)
    assert matches.tolist() == [[10, 13, -1], [11, 17, -1], [0, 200, 100]]
    assert time_matches[:2].tolist() == [[9, 8], [9, 9]]


def test_too_small_array_for_index_matches_is_refused(native: ModuleType) -> None:
    table, few = batches((0, 0, 0, 0)), np.empty((3, 1), np.int64)
    with pytest.raises(ValueError, match="at least 6 items"):
        native.match_index_entries(table, 0, 0, 0, entries(1, 2), entries(1, 2), few, NO_ENTRIES, few)
