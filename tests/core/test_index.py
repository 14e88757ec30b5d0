"""Compare how both cores build index entries, and how they find the batches to which index entries refer."""

from __future__ import annotations

import struct
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


def packed(entry_size: int, *values: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">ii" if entry_size == 8 else ">qi", *v) for v in values)


def index_data(chance: Random, entry_size: int) -> bytes:
    first, second, values = chance.choice((0, 0, 3)), 0, []
    for _ in range(chance.randrange(7)):
        values.append((first, second))
        first, second = first + chance.choice((0, 1, 1, 1, 1, 5, -2)), second + chance.choice((0, 4, 4, 4, -1))
    return packed(entry_size, *values) + bytes(chance.choice((0, 0, 3, 12, 24)))


@pytest.mark.parametrize("entry_size", [8, 12])
@pytest.mark.parametrize("seed", range(100))
def test_both_cores_read_the_same_index_entries(native: ModuleType, entry_size: int, seed: int) -> None:
    chance = Random(seed)
    data, base = index_data(chance, entry_size), chance.choice((0, 10, MAX_OFFSET - 2**32, MAX_OFFSET - 3, MAX_OFFSET))
    found = [np.full((2, len(data) // entry_size), -7) for _ in range(2)]
    used = [each.read_index_entries(data, entry_size, base, f) for each, f in zip((native, _pure), found, strict=True)]
    assert used[0] == used[1]
    assert found[0].tolist() == found[1].tolist()


@pytest.mark.parametrize(
    ("values", "used"),
    [
        ([], 0),
        ([(0, 0)], 0),
        ([(0, 0), (0, 0)], 0),
        ([(0, 0), (3, 0)], 2),
        ([(5, 1)], 1),
        ([(-1, 3)], 0),
        ([(3, -1)], 0),
        ([(3, 5), (4, 5), (5, 9), (0, 0), (7, 10)], 3),
        ([(3, 5), (4, 4)], 1),
    ],
)
@pytest.mark.parametrize("entry_size", [8, 12])
def test_valid_entries_at_the_start_of_an_index_are_counted(
    core: ModuleType, entry_size: int, values: list[tuple[int, int]], used: int
) -> None:
    found = np.empty((2, len(values)), np.int64)
    assert core.read_index_entries(packed(entry_size, *values) + b"\0\0\0", entry_size, 100, found) == used
    added = (100, 0) if entry_size == 8 else (0, 100)
    assert found.T.tolist() == [[a + added[0], b + added[1]] for a, b in values]


def test_unknown_size_of_index_entries_is_refused(core: ModuleType) -> None:
    with pytest.raises(ValueError, match="entry_size is 34"):
        core.read_index_entries(b"", 34, 0, np.empty((2, 0), np.int64))


@pytest.mark.parametrize("seed", range(300))
def test_both_cores_check_index_entries_with_the_same_result(native: ModuleType, seed: int) -> None:
    chance = Random(seed)
    n, m, damaged = chance.randrange(5), chance.randrange(5), chance.choice((0, 0, 1, 3, 33))
    offsets, positions, times, time_offsets = (
        np.array(sorted(chance.choices(range(40), k=k)), np.int64) for k in (n, n, m, m)
    )
    matches, time_matches = np.stack((offsets, offsets, positions)), np.stack((times, times, times * 0))
    for wrong in (matches, time_matches):
        if wrong.size and chance.random() < 0.6:
            wrong[chance.randrange(3), chance.randrange(wrong.shape[1])] += chance.choice((-1, 1, 20))
    damage = np.array([chance.choices(range(30), k=damaged) for _ in range(4)], np.int64)
    damage[1] += damage[0]
    arguments = offsets, positions, matches, times, time_offsets, time_matches, chance.choice((41, 41, 30)), *damage
    assert native.index_entries_agree(*arguments) is _pure.index_entries_agree(*arguments)


def test_index_entries_agree_if_they_are_correct_or_refer_to_damage(core: ModuleType) -> None:
    none: list[list[int]] = [[], [], [], []]

    def agree(damage: list[list[int]], end: int = 20, largest: int = 9) -> bool:
        matches = np.array([[8, 2**63 - 1], [10, -1], [100, -1]])
        time_matches, places = np.array([[9], [largest], [0]]), [np.array(d, np.int64) for d in damage]
        entry = entries(10, 15), entries(100, 200)
        return bool(core.index_entries_agree(*entry, matches, entries(9), entries(10), time_matches, end, *places))

    assert not agree(none)
    assert agree([[12], [16], [0], [5]])  # the damage contains the offset
    assert agree([[30], [31], [190], [11]])  # the damage contains the position
    assert not agree([[30], [31], [190], [10]])
    assert not agree([[12], [16], [0], [5]], end=10)
    assert not agree([[12], [16], [0], [5]], largest=10)
