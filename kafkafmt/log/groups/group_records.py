"""Read the records of `__consumer_offsets` that Kafka's group coordinator would load.

Committed offset commits take effect at the offsets of their records, not of the marker. Records of
aborted and open transactions are omitted; other records after the start of an open one are read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from ...constants import CONTROL_BIT, NO_END, READ_COMMITTED
from ...errors import KafkaFormatError
from ...internal_topics.decode import read_coordinator_record
from ...support.text import counted
from ..reading import OnDamage, PartitionLog, Selection
from ..transactions import Transactions

GROUPS_TOPIC = "__consumer_offsets"
COMMIT = 1
COMMIT_KEY, OLD_COMMIT_KEY = b"\0\1", b"\0\0"
"""First two bytes of an offset commit's key, for the key versions 1 and 0. Both versions have the same fields."""


def latest(log: PartitionLog, on_damage: OnDamage | None) -> Iterator[tuple[bytes, bytes]]:
    """Yield pairs (key, latest value) by record offset, without deleted keys."""
    found: dict[bytes, bytes | None] = {}
    for key, value, _ in _changes(log, on_damage):
        found.pop(key, None)
        found[key] = value
    return ((key, value) for key, value in found.items() if value is not None)


def latest_at(log: PartitionLog, at: int, on_damage: OnDamage | None) -> Iterator[tuple[bytes, bytes]]:
    """Yield pairs (key, value) with the value that each key had at the time `at` (ms), without deleted keys."""
    # An offset commit counts by its commit timestamp, any other record by its record timestamp, and a transaction by
    # that of its marker. If compaction may have removed a value, `tell` of the log gets a message.
    past = PartitionLog(log.directory, log.limits, tell=log.tell)
    past.transactions = _transactions_at(past, at)
    found: dict[bytes, bytes | None] = {}
    later: set[bytes] = set()
    for key, value, timestamp in _changes(past, on_damage):
        if _time(key, value, timestamp) > at:
            later.add(key)
            continue
        found.pop(key, None)
        found[key] = value
    unknown = len(later - found.keys())
    if unknown and past.compacted:
        log.tell(
            f"{log.topic}-{log.partition} was compacted: {counted(unknown, 'key')} may have had a value at the requested "
            "time, but only later records remain"
        )
    return ((key, value) for key, value in found.items() if value is not None)


def _changes(log: PartitionLog, on_damage: OnDamage | None) -> Iterator[tuple[bytes, bytes | None, int]]:
    """Yield (key, value, timestamp) for each committed record in `__consumer_offsets`."""
    # The key of an offset commit of version 0 is converted to version 1.
    interval = Selection(isolation=READ_COMMITTED).resolve(log)
    for record in log.records(interval, past_open=True, on_damage=on_damage):
        key = record.key or b""
        if key[:2] == OLD_COMMIT_KEY:
            key = COMMIT_KEY + key[2:]
        yield key, record.value, record.timestamp


def _time(key: bytes, value: bytes | None, timestamp: int) -> int:
    """Return the commit timestamp of an offset commit. For any other record, return the record's timestamp."""
    if key[:2] != COMMIT_KEY or value is None:
        return timestamp
    try:
        commit = read_coordinator_record(GROUPS_TOPIC, key, value).value
    except KafkaFormatError:
        return timestamp
    assert commit is not None
    return int(commit.commit_timestamp)


def _transactions_at(log: PartitionLog, at: int) -> Transactions:
    """Return the outcomes of all transactions. A transaction that ended after the time `at` is treated as aborted."""
    found = log.transactions
    spans = defaultdict(list, {producer: list(spans) for producer, spans in found.aborted.items()})
    ended: dict[int, int] = {}
    for part in log.parts(0, NO_END, lambda _: None):
        markers = part.table[(part.table["attributes"] & CONTROL_BIT) != 0]
        columns = (markers[name].tolist() for name in ("producer_id", "base_offset", "max_timestamp"))
        for producer, offset, timestamp in zip(*columns, strict=True):
            if timestamp > at:
                spans[producer].append((ended.get(producer, -1) + 1, offset))
            ended[producer] = offset
    for of_producer in spans.values():
        of_producer.sort()
    return replace(found, aborted=spans)
