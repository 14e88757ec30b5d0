"""Test the map of latest offsets against a dict."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from kafkafmt.log.rewriting import latest_offsets
from kafkafmt.log.rewriting.latest_offsets import LatestOffsets
from kafkafmt.records.binary_columns import binary_column


@pytest.mark.parametrize("merged", [1, 100, 1 << 18])
def test_latest_offsets_equal_those_of_a_dict(merged: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latest_offsets, "MERGED_KEYS", merged)
    chance, found, expected, offset = Random(merged), LatestOffsets(), dict[bytes, int](), 0
    for _ in range(200):
        keys = [b"\0" * chance.randrange(3) + b"%d" % chance.randrange(500) for _ in range(chance.randrange(30))]
        keys += [b""] * chance.randrange(2)
        offsets = list(range(offset, offset + 2 * len(keys), 2))
        found.add(binary_column(keys), np.array(offsets, np.int64))
        expected.update(zip(keys, offsets, strict=True))
        offset += 2 * len(keys)
    assert found.take().tolist() == sorted(expected.values())


def test_empty_map_has_no_offsets() -> None:
    assert LatestOffsets().take().tolist() == []
