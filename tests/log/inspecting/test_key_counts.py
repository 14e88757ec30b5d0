"""Test the exact counts of keys in statistics."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from random import Random

import pytest

from kafkafmt.log.inspecting.key_counts import MOST_KEYS, KeyCounter


@pytest.mark.parametrize("top", [0, 1, 7, 10_000])
def test_most_frequent_keys_are_ordered_by_count_and_then_by_key(top: int) -> None:
    chance = Random(top)
    keys = [b"key %d" % int(chance.paretovariate(0.7)) for _ in range(20_000)]
    counter = KeyCounter()
    for start in range(0, len(keys), 3000):
        added = keys[start : start + 3000]
        counter.add(added, sum(map(len, added)))
    found = counter.result(top)
    assert found is not None
    assert found.exact
    expected = sorted(Counter(keys).items(), key=lambda item: (-item[1], item[0]))
    assert [(k.key, k.records) for k in found.top] == expected[:top]
    assert found.distinct == len(expected)


def test_memory_for_the_most_frequent_keys_does_not_depend_on_the_number_of_keys() -> None:
    counter = KeyCounter()
    keys = [b"%d" % i for i in range(MOST_KEYS)]
    counter.add(keys, sum(map(len, keys)))
    del keys
    tracemalloc.start()
    try:
        found = counter.result(10)
        assert tracemalloc.get_traced_memory()[1] < 64 << 10
    finally:
        tracemalloc.stop()
    assert found is not None
    assert (found.distinct, found.exact) == (MOST_KEYS, True)
