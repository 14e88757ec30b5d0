"""Write random logs, and predict what `kafkafmt.rewrite` keeps of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from random_producers import CODECS, RandomProducers
from writing import FIRST

import kafkafmt as k
from kafkafmt.log import LogDirectory

Row = tuple[int, bytes | None, bytes | None, Any]
"""Timestamp, key, value and headers of a record."""
Rows = dict[int, Row]


def write_random_log(root: Path, chance: Random, rounds: int = 60) -> Path:
    """Write a partition with random keys, tombstones, codecs, transactions and several segments."""
    now = FIRST
    with LogDirectory(root, segment_bytes=chance.choice((1_500, 8_000))) as directory:
        producers = RandomProducers(directory.writer("t", 0))
        for _ in range(rounds):
            producer, action = chance.randrange(1, 5), chance.random()
            now += chance.randrange(-5, 50)
            if action < 0.15:
                producers.end(producer, chance)
                continue
            records = [_record(chance, now) for _ in range(chance.randrange(1, 6))]
            producers.append(producer, action, records, chance.choice(CODECS))
        if chance.random() < 0.6:
            producers.end_all(chance)
    return root


def _record(chance: Random, now: int) -> Any:
    key = None if chance.random() < 0.1 else b"key-%d" % chance.randrange(12)
    value = None if chance.random() < 0.2 else b"v" * chance.randrange(60)
    return key, value, now + chance.randrange(10), [("h", b"x")] if chance.random() < 0.2 else []


def rows(partition: k.Partition, **selection: Any) -> Rows:
    """Return the records of a partition by offset."""
    return {r.offset: (r.timestamp, r.key, r.value, r.headers) for r in partition.records(**selection)}


def compacted(partition: k.Partition, drop: Callable[[Row], bool], drop_tombstones: bool) -> tuple[Rows, Rows]:
    """Return the records that compaction keeps, at read_uncommitted and at read_committed, as a simple model does."""
    everything, committed = rows(partition), rows(partition, isolation="read_committed")
    end = partition.last_stable_offset
    latest: dict[bytes | None, int] = {
        row[1]: offset for offset, row in committed.items() if row[1] is not None and not drop(row)
    }
    stays = {
        offset: row
        for offset, row in committed.items()
        if latest.get(row[1]) == offset and not (drop_tombstones and row[2] is None)
    }
    return stays | {o: row for o, row in everything.items() if o >= end and not drop(row)}, stays


def batches(folder: Path) -> dict[int, bytes]:
    """Return the bytes of all batches in a partition directory, by last offset."""
    found = {}
    for file in sorted(folder.glob("*.log")):
        data, at = file.read_bytes(), 0
        while at < len(data):
            end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
            delta = int.from_bytes(data[at + 23 : at + 27], "big") if data[at + 16] == 2 else 0
            found[int.from_bytes(data[at : at + 8], "big") + delta] = data[at:end]
            at = end
    return found
