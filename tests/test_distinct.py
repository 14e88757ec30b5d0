"""Test the function that returns the distinct numbers of an array."""

from __future__ import annotations

import numpy as np
import pytest

from kafkafmt.types import distinct


@pytest.mark.parametrize("values", [[], [3], [5, 5], [2, 1, 2, -7, 1, 2**62]])
def test_distinct_returns_each_number_once_in_ascending_order(values: list[int]) -> None:
    found = distinct(np.array(values, np.int64))
    assert found.dtype == np.int64
    assert found.tolist() == sorted(set(values))
