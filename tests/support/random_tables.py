"""Create random tables of batch headers, with extreme offsets and contradicting fields."""

from __future__ import annotations

from random import Random

import numpy as np

from kafkafmt.constants import MAX_OFFSET, MIN_OFFSET
from kafkafmt.log.formats.producers import Marker
from kafkafmt.types import BATCH_DTYPE, BatchTable

BASES = (0, 1, 2, 3, 5, 8, 100, 2**40, MAX_OFFSET - 3, MAX_OFFSET, -1, MIN_OFFSET)

PRODUCERS = (-1, 3, 4, 2**40)


def random_table(chance: Random, rows: int) -> BatchTable:
    table, position, offset = np.zeros(rows, BATCH_DTYPE), chance.randrange(100), chance.choice(BASES)
    for row in table:
        row["position"], row["size"] = position, chance.randint(22, 200)
        position += int(row["size"]) + chance.choice((0, 0, 0, 60))
        row["base_offset"] = offset if chance.random() < 0.8 else chance.choice(BASES)
        row["last_offset_delta"] = chance.choice((0, 0, 1, 4, -1, 2**31 - 1))
        row["count"] = chance.choice((1, 1, 2, 5, 0, -1))
        row["magic"] = chance.choice((2, 2, 2, 1, 0))
        row["attributes"] = chance.choice((0, 0, 0, 1, 4, 7, 0x10, 0x20, 0x30, 0x40, -1))
        row["base_timestamp"] = chance.choice((-1, 0, 5, 1_700_000_000_000))
        row["max_timestamp"] = chance.choice((-1, 0, 5, 1_700_000_000_000, -7))
        row["leader_epoch"] = chance.choice((0, 0, 0, -1, 7, 2**31 - 1, -(2**31)))
        row["producer_id"] = chance.choice((-1, -1, -1, 0, 9))
        offset = min(int(row["base_offset"]) + max(int(row["last_offset_delta"]), 0) + 1, MAX_OFFSET)
    return table


def producer_table(chance: Random) -> BatchTable:
    """Return a random table with data batches and control batches of a few producers."""
    table = random_table(chance, chance.randrange(12))
    table["producer_id"] = chance.choices(PRODUCERS, k=len(table))
    table["producer_epoch"], table["base_sequence"] = chance.choices(range(3), k=len(table)), chance.randrange(-1, 9)
    bits = (0,) if chance.random() < 0.2 else (0, 0x10, 0x10, 0x20, 0x30, 0x17)
    table["attributes"] = chance.choices(bits, k=len(table))
    return table


def random_markers(chance: Random, table: BatchTable) -> dict[int, Marker]:
    """Return random markers for most batches of a table, by offset."""
    offsets = table["base_offset"].tolist()
    return {
        o: Marker(chance.randrange(3), chance.randrange(99), chance.randrange(9))
        for o in offsets
        if chance.random() < 0.8
    }
