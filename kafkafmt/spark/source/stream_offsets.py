"""Convert the offsets of a stream between Spark's form and ours, and limit the size of a micro-batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .options import Key

Offsets = dict[Key, int]
"""An offset for each topic and partition."""
Nested = dict[str, dict[str, int]]
"""Offsets in Spark's form, such as `{"orders": {"0": 23}}`."""


def flat(offsets: Mapping[str, Any]) -> Offsets:
    """Convert offsets from Spark's form."""
    return {
        (topic, int(number)): int(offset) for topic, numbers in offsets.items() for number, offset in numbers.items()
    }


def nested(offsets: Offsets) -> Nested:
    """Convert offsets to Spark's form, sorted by topic and partition."""
    found: Nested = {}
    for (topic, number), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(number)] = offset
    return found


def share(begins: Offsets, ends: Offsets, limit: int) -> Offsets:
    """Return end offsets for a micro-batch with about `limit` offsets."""
    # The limit is divided among the partitions in proportion to their new offsets. A partition with
    # new offsets gets at least one.
    sizes = {key: max(ends[key] - begins[key], 0) for key in ends}
    total = sum(sizes.values())
    if total <= limit:
        return ends
    return {
        key: begins[key] + min(size, max(limit * size // total, 1)) if size else ends[key]
        for key, size in sizes.items()
    }
