"""Find the lowest offset that the batch after valid batches can have."""

from __future__ import annotations

import random
from types import ModuleType

import numpy as np
import pytest

from kafkafmt import _pure
from kafkafmt.types import BATCH_DTYPE, BatchTable, IntArray

MAX = 2**63 - 1
SIZE = 100


def table(*batches: tuple[int, int], position: int = 0) -> tuple[BatchTable, IntArray]:
    """Return adjacent batches of SIZE bytes with these first and last offsets."""
    rows = np.zeros(len(batches), BATCH_DTYPE)
    for i, (first, last) in enumerate(batches):
        rows[i]["position"], rows[i]["size"] = position + i * SIZE, SIZE
        rows[i]["base_offset"], rows[i]["last_offset_delta"] = first, last - first
    return rows, np.array([first for first, _ in batches], np.int64)


def after(
    core: ModuleType, batches: list[tuple[int, int]], position: int, expected: int, last: int | None, anchor: IntArray
) -> tuple[int, int | None]:
    result: tuple[int, int | None] = core.expected_after(*table(*batches), position, expected, last, anchor)
    return result


def test_consecutive_batches(core: ModuleType) -> None:
    anchor = np.array([500, 0], np.int64)
    assert after(core, [(5, 5), (6, 8), (9, 9)], 500, 5, 4, anchor) == (10, 9)
    assert anchor.tolist() == [800, 0]
    assert after(core, [], 800, 10, 9, anchor) == (10, 9)


def test_last_batch_after_a_gap_may_have_a_wrong_offset(core: ModuleType) -> None:
    anchor = np.array([500, 0], np.int64)
    assert after(core, [(5, 5), (8, 8)], 500, 5, 4, anchor) == (6, 8)
    assert after(core, [(9, 9)], 700, 6, 8, anchor) == (10, 9)
    assert after(core, [(3, 3)], 800, 10, 9, anchor) == (4, 3)


def test_offsets_far_above_the_previous_batch_are_doubtful(core: ModuleType) -> None:
    anchor = np.array([500, 0], np.int64)
    assert after(core, [(5, 5), (90, 90), (91, 91)], 500, 5, 4, anchor) == (6, 91)
    assert after(core, [(6, 6), (7, 7)], 800, 6, 91, anchor) == (8, 7)


def test_offsets_below_the_damage_are_doubtful(core: ModuleType) -> None:
    anchor = np.array([500, 0], np.int64)
    assert after(core, [(2, 2), (3, 3)], 700, 5, None, anchor) == (5, 3)
    assert anchor[0] == 500


@pytest.mark.parametrize(("first", "doubtful"), [(5, False), (14, False), (15, True), (10**12, True)])
def test_offsets_far_above_the_damage_are_doubtful(core: ModuleType, first: int, doubtful: bool) -> None:
    """After 5 batches, 200 bytes are damaged. With the next batch, 300 bytes could contain 3 offsets."""
    anchor = np.array([500, 0], np.int64)
    assert after(core, [(first + i, first + i) for i in range(4)], 700, 5, None, anchor) == (
        5 if doubtful else first + 4,
        first + 3,
    )
    assert anchor[0] == (500 if doubtful else 1100)


def test_doubt_ends_with_plausible_offsets(core: ModuleType) -> None:
    anchor = np.array([500, 0], np.int64)
    assert after(core, [(1000, 1000), (1001, 1001), (9, 9), (10, 10)], 700, 5, None, anchor) == (11, 10)
    assert anchor[0] == 1100
    anchor[0] = 500
    assert after(core, [(1000, 1000), (1001, 1001)], 700, 5, None, anchor) == (5, 1001)
    assert after(core, [(9, 9), (10, 10)], 1000, 5, None, anchor) == (11, 10)


def test_doubt_ends_after_a_mebibyte(core: ModuleType) -> None:
    anchor, expected, far = np.array([500, 0], np.int64), 5, 10**9
    last: int | None = None
    for position in range(700, 500 + (1 << 20) - SIZE, SIZE):
        expected, last = after(core, [(far + position, far + position + SIZE - 1)], position, expected, last, anchor)
        assert (expected, anchor[0]) == (5, 500)
    position += SIZE
    expected, _ = after(core, [(far + position, far + position + SIZE - 1)], position, expected, last, anchor)
    assert (expected, anchor[0]) == (far + position + SIZE, position + SIZE)


def test_largest_offset(core: ModuleType) -> None:
    anchor = np.array([500, 0], np.int64)
    assert after(core, [(MAX, MAX)], 500, MAX, MAX - 1, anchor) == (MAX, MAX)
    assert after(core, [(MAX, MAX), (0, 0)], 600, MAX, MAX, anchor) == (1, 0)
    assert after(core, [(-(2**63), -(2**63))], 800, 5, None, np.array([800, MAX], np.int64)) == (1 - 2**63, -(2**63))


def test_both_cores_agree(core: ModuleType) -> None:
    rng = random.Random(11)
    odd = [0, 1, 5, 100, MAX - 1, MAX, -1, -(2**63), 2**53, 2**53 + 1]
    for _ in range(3000):
        start = rng.choice([0, 1, 100, 10**6])
        offset, batches = rng.randrange(1000), []
        for _ in range(rng.randrange(6)):
            offset = rng.choice([offset + 1, offset + rng.randrange(50), rng.choice(odd), rng.getrandbits(62)])
            end = min(offset + rng.choice([0, 0, 3, 2**31 - 1]), MAX)
            batches.append((offset, end))
            offset = min(end, MAX - 1000)
        expected, last = rng.choice([*odd[:6], rng.randrange(1000)]), rng.choice([None, rng.randrange(1000), *odd])
        anchor = np.array([rng.choice([0, start, max(start - 200, 0)]), rng.choice([0, 3, MAX])], np.int64)
        other = anchor.copy()
        assert after(core, batches, start, expected, last, anchor) == after(
            _pure, batches, start, expected, last, other
        )
        assert anchor.tolist() == other.tolist()


def test_arguments_are_checked(core: ModuleType) -> None:
    rows, firsts = table((0, 0), (1, 1))
    with pytest.raises((TypeError, ValueError)):
        core.expected_after(rows, firsts[:1], 0, 0, None, np.zeros(2, np.int64))
