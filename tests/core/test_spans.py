"""Compare the byte ranges that both cores select for copying and for reading with one call."""

from __future__ import annotations

from random import Random
from types import ModuleType

import numpy as np
import pytest

from kafkafmt import _pure
from kafkafmt.types import IntArray

Pairs = list[tuple[int, int]]


def array(pairs: Pairs) -> IntArray:
    return np.array(pairs, np.int64).reshape(-1, 2)


def outside(core: ModuleType, holes: Pairs, spans: Pairs) -> list[list[int]]:
    found = np.full((len(spans) + len(holes), 2), -7)
    n = core.spans_outside(array(holes), array(spans), found)
    parts: list[list[int]] = found[:n].tolist()
    return parts


def random_spans(chance: Random, most: int) -> Pairs:
    spans, at = [], chance.randrange(5)
    for _ in range(chance.randrange(most)):
        end = at + chance.choice((0, 1, 5, 5, 20))
        spans.append((at, end))
        at = end + chance.choice((0, 0, 1, 4))
    return spans


@pytest.mark.parametrize("seed", range(200))
def test_both_cores_find_the_same_parts_outside_holes(native: ModuleType, seed: int) -> None:
    chance = Random(seed)
    spans = random_spans(chance, 6)
    holes = sorted((a, a + chance.choice((0, 1, 3, 30))) for a in chance.choices(range(40), k=chance.randrange(6)))
    chance.shuffle(spans)
    assert outside(native, holes, spans) == outside(_pure, holes, spans)


@pytest.mark.parametrize(
    ("holes", "spans", "expected"),
    [
        ([], [(3, 9), (20, 30)], [[3, 9], [20, 30]]),
        ([(5, 7)], [(3, 9)], [[3, 5], [7, 9]]),
        ([(3, 9)], [(3, 9), (9, 12)], [[9, 12]]),
        ([(3, 4), (8, 9)], [(3, 9)], [[4, 8]]),
        ([(4, 20), (6, 7)], [(3, 9)], [[3, 4]]),
        ([(1, 5)], [(3, 9)], [[3, 9]]),
        ([(5, 6)], [(20, 30), (0, 10)], [[20, 30], [0, 5], [6, 10]]),
    ],
)
def test_parts_outside_holes_keep_their_order(
    core: ModuleType, holes: Pairs, spans: Pairs, expected: list[list[int]]
) -> None:
    assert outside(core, holes, spans) == expected


def test_too_small_array_for_parts_outside_holes_is_refused(core: ModuleType) -> None:
    with pytest.raises(ValueError, match="at least 2 byte ranges"):
        core.spans_outside(array([(5, 6)]), array([(0, 9)]), array([(0, 0)]))


def groups(core: ModuleType, spans: Pairs, largest: int, most: int, window: int, room: int) -> list[object]:
    """Call `next_spans` until all byte ranges are selected, and return the results."""
    positions, lengths = np.zeros(room, np.int64), np.zeros(room, np.int32)
    at, found = 0, list[object]()
    while at < len(spans):
        taken, count, start, size = core.next_spans(array(spans), at, largest, most, window, positions, lengths)
        found.append((taken, count, start, size, positions[:count].tolist(), lengths[:count].tolist()))
        at += taken
    return found


@pytest.mark.parametrize("seed", range(300))
def test_both_cores_select_the_same_spans(native: ModuleType, seed: int) -> None:
    chance = Random(seed)
    spans = random_spans(chance, 12)
    if chance.random() < 0.3:
        chance.shuffle(spans)
    sizes = (0, 8, 30, 100)
    limits = chance.choice((0, 5, 6, 100)), chance.choice(sizes), chance.choice(sizes), chance.choice((1, 3, 20))
    assert groups(native, spans, *limits) == groups(_pure, spans, *limits)


def test_adjacent_spans_are_merged(core: ModuleType) -> None:
    spans = [(0, 5), (5, 9), (12, 14), (14, 20), (3, 4), (4, 5)]
    assert groups(core, spans, 10, 100, 100, 10) == [(6, 3, 0, 20, [0, 12, 3], [9, 8, 2])]
    assert groups(core, spans, 8, 100, 100, 10) == [(2, 0, 0, 9, [], []), (4, 2, 3, 17, [9, 0], [8, 2])]
    assert groups(core, spans, 10, 17, 100, 10) == [(4, 2, 0, 20, [0, 12], [9, 8]), (2, 1, 3, 2, [0], [2])]
    assert groups(core, spans, 10, 100, 16, 10) == [
        (2, 1, 0, 9, [0], [9]),
        (2, 1, 12, 8, [0], [8]),
        (2, 1, 3, 2, [0], [2]),
    ]
    assert groups(core, spans, 10, 100, 100, 2) == [(4, 2, 0, 20, [0, 12], [9, 8]), (2, 1, 3, 2, [0], [2])]


def test_selection_after_the_last_span_is_refused(core: ModuleType) -> None:
    positions, lengths = np.zeros(1, np.int64), np.zeros(1, np.int32)
    with pytest.raises(ValueError, match="first is 1, but there are 1"):
        core.next_spans(array([(0, 9)]), 1, 9, 9, 9, positions, lengths)
