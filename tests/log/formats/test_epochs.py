"""Test leader epochs of batches. Some are wrong, because no CRC covers the leader epoch."""

from __future__ import annotations

import itertools
import random

import pytest

from kafkafmt.log.formats.leader_epochs import believable_runs, contradicted, epochs_from

Run = tuple[int, int, int]


def best(runs: list[Run]) -> int:
    """Try all chains of increasing epochs, and return the highest number of offsets that a chain covers."""
    weights: list[int] = []
    for i, (epoch, first, last) in enumerate(runs):
        weights.append(last - first + 1 + max((weights[j] for j in range(i) if runs[j][0] <= epoch), default=0))
    return max(weights, default=0)


@pytest.mark.parametrize("seed", range(20))
def test_accepted_epochs_cover_the_most_offsets(seed: int) -> None:
    rnd = random.Random(seed)
    runs, at = [], 0
    for _ in range(rnd.randrange(60)):
        length = rnd.randrange(1, 9)
        runs.append((rnd.randrange(8), at, at + length - 1))
        at += length
    chain = believable_runs(runs)
    assert sum(last - first + 1 for _, first, last in chain) == best(runs)
    assert all(a[0] <= b[0] and a[1] < b[1] for a, b in itertools.pairwise(chain))
    assert not contradicted(epochs_from(chain), chain)


def test_checkpoint_decides_which_of_two_epochs_is_wrong() -> None:
    runs = [(0, 0, 0), (9, 1, 5), (0, 6, 6)]
    assert believable_runs(runs) == [(0, 0, 0), (9, 1, 5)]
    assert believable_runs(runs, [(0, 0)]) == [(0, 0, 0), (0, 6, 6)]


@pytest.mark.parametrize("wrong", [0, 1, 5, 1 << 20])
@pytest.mark.parametrize("index", range(4))
def test_one_batch_with_a_wrong_epoch_changes_nothing(wrong: int, index: int) -> None:
    runs = [(2, 0, 9), (2, 10, 10), (2, 11, 20), (4, 21, 30)]
    runs[index] = (wrong, *runs[index][1:]) if index == 1 else runs[index]
    assert epochs_from(believable_runs(runs)) == [(2, 0), (4, 21)]
