"""Compare how both cores build index entries, and how they find the batches to which index entries refer."""

from __future__ import annotations

import struct
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from random_tables import random_table

from kafkafmt import _pure
from kafkafmt.constants import MAX_OFFSET
from kafkafmt.types import BATCH_DTYPE, BatchTable

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


def rows_of(matches: Any) -> tuple[list[list[int]], list[list[int]]]:
    """Return the arrays that `copy_to` fills, as lists."""
    offsets = np.empty((5, matches.offset_entries), np.int64)
    times = np.empty((5, matches.time_entries), np.int64)
    matches.copy_to(offsets, times)
    return offsets.tolist(), times.tolist()


def matched(each: ModuleType, chance: Random) -> list[object]:
    given = tables(chance)
    base = chance.choice((0, min((int(t["base_offset"].min()) for t in given if len(t)), default=0)))
    ends = np.concatenate([t["base_offset"] for t in given]).tolist()
    starts = np.concatenate([t["position"] for t in given]).tolist()
    near = [o - base for o in (*ends, *(o + 1 for o in ends)) if 0 <= o - base < 2**31]
    relative = sorted(set(chance.sample(near, len(near) // 2)))
    places = sorted(chance.choices([*starts, *range(500)], k=len(relative)))
    timestamps = sorted(set(chance.choices(range(1000), k=len(relative))))
    offset_data = packed(8, *zip(relative, places, strict=True))
    matches = each.IndexMatches(offset_data, packed(12, *zip(timestamps, relative, strict=False)), base)
    for table in given:
        matches.add(table, chance.choice((0, 0, 50)))
    found = [matches.next_offset, *rows_of(matches)]
    matches.begin()
    return [*found, matches.next_offset, *rows_of(matches)]


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


def test_index_entries_refer_to_batches_by_position_offset_and_time(core: ModuleType) -> None:
    table = batches((0, 10, 1, 7), (200, 12, 0, 9), (100, 13, 4, 8))
    matches = core.IndexMatches(packed(8, (1, 0), (2, 100), (7, 150)), packed(12, (5, 2), (6, 5)), 10)
    matches.add(table, 0)
    assert matches.next_offset == 18
    offsets, times = rows_of(matches)
    assert offsets == [[11, 12, 17], [0, 100, 150], [10, 13, MAX_OFFSET], [11, 17, -1], [0, 200, 100]]
    assert times == [[5, 6], [12, 15], [9, 8], [9, 9], [0, 0]]


def test_too_small_array_for_index_matches_is_refused(native: ModuleType) -> None:
    matches = native.IndexMatches(packed(8, (1, 1), (2, 2)), b"", 0)
    with pytest.raises(ValueError, match="at least 10 items"):
        matches.copy_to(np.empty((5, 1), np.int64), NO_ENTRIES)


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


@pytest.mark.parametrize("entry_size", [8, 12])
@pytest.mark.parametrize("seed", range(100))
def test_index_matches_contain_the_valid_entries(core: ModuleType, entry_size: int, seed: int) -> None:
    chance = Random(seed)
    data, base = index_data(chance, entry_size), chance.choice((0, 10, MAX_OFFSET - 2**32, MAX_OFFSET - 3, MAX_OFFSET))
    found = np.empty((2, len(data) // entry_size), np.int64)
    used = core.read_index_entries(data, entry_size, base, found)
    at = 0 if entry_size == 8 else 1
    matches = core.IndexMatches(*((data, b"") if entry_size == 8 else (b"", data)), base)
    assert rows_of(matches)[at][:2] == found[:, :used].tolist()
    assert not rows_of(matches)[1 - at][0]


@pytest.mark.parametrize("seed", range(300))
def test_both_cores_check_index_entries_with_the_same_result(native: ModuleType, seed: int) -> None:
    found = []
    for each in (native, _pure):
        chance = Random(seed)
        n, damaged = chance.randrange(1, 5), chance.choice((0, 0, 1, 3, 33))
        table = batches(*((10 * i, 5 * i, chance.choice((4, 4, 4, 3)), 7 * i) for i in range(n)))
        lasts = (table["base_offset"] + table["last_offset_delta"]).tolist()
        entry, time = (
            list(zip(lasts, table["position"].tolist(), strict=True)),
            list(zip(range(0, 7 * n, 7), lasts, strict=True)),
        )
        for wrong in (entry, time):
            if chance.random() < 0.6:
                first, second = wrong.pop()
                wrong.append((first + chance.choice((0, 1)), second + chance.choice((0, 1, 20))))
        matches = each.IndexMatches(packed(8, *entry), packed(12, *time), 0)
        matches.add(table, 0)
        damage = np.array([chance.choices(range(30), k=damaged) for _ in range(4)], np.int64)
        damage[1] += damage[0]
        found.append((matches.agree(chance.choice((41, 41, 10)), *damage), *rows_of(matches)))
    assert found[0] == found[1]


def test_index_entries_agree_if_they_are_correct_or_refer_to_damage(core: ModuleType) -> None:
    none: list[list[int]] = [[], [], [], []]
    table = batches((100, 8, 2, 9))

    def agree(damage: list[list[int]], end: int = 20, earlier: int = 9) -> bool:
        matches = core.IndexMatches(packed(8, (10, 100), (15, 200)), packed(12, (9, 10)), 0)
        matches.add(batches((0, 0, 7, earlier)), 0)
        matches.add(table, 0)
        return bool(matches.agree(end, *(np.array(d, np.int64) for d in damage)))

    assert not agree(none)
    assert agree([[12], [16], [0], [5]])  # the damage contains the offset
    assert agree([[30], [31], [190], [11]])  # the damage contains the position
    assert not agree([[30], [31], [190], [10]])
    assert not agree([[12], [16], [0], [5]], end=10)
    assert not agree([[12], [16], [0], [5]], earlier=10)
