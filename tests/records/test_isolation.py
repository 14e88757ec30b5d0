"""Check read_committed for a buffer with the aborted transactions of a Fetch response."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from building import ABORT, COMMIT, CONTROL, TRANSACTIONAL, ZSTD, control_batch, record, simple_batch
from building import batch as build
from golden_cases import CASES, Case

import kafkafmt
from kafkafmt.errors import StructureError
from kafkafmt.records import AbortedTransactions, iter_tables


def tx(values: list[bytes], base_offset: int, producer_id: int, **fields: int) -> bytes:
    return simple_batch(values, base_offset, producer_id=producer_id, producer_epoch=0, flags=TRANSACTIONAL, **fields)


def offsets(data: bytes, aborted: list[tuple[int, int]] | None, **options: Any) -> list[int]:
    return [r.offset for r in kafkafmt.read_records(data, aborted=aborted, **options)]


STREAM = [
    tx([b"a", b"b"], 0, 1),
    simple_batch([b"plain"], 2),
    tx([b"c"], 3, 2, codec=ZSTD),
    simple_batch([b"idempotent"], 4, producer_id=1, producer_epoch=0),
    control_batch(ABORT, base_offset=5, producer_id=1),
    tx([b"d"], 6, 1),
    control_batch(COMMIT, base_offset=7, producer_id=2),
    control_batch(COMMIT, base_offset=8, producer_id=1),
    tx([b"e"], 9, 2),
    tx([b"f"], 10, 1),
    control_batch(ABORT, base_offset=11, producer_id=2),
    control_batch(ABORT, base_offset=12, producer_id=1),
]


def test_records_of_aborted_transactions_are_omitted(package: ModuleType) -> None:
    data = b"".join(STREAM)
    assert offsets(data, None) == [0, 1, 2, 3, 4, 6, 9, 10]
    assert offsets(data, []) == offsets(data, None)
    assert offsets(data, [(1, 0), (2, 9), (1, 10)]) == [2, 3, 4, 6]
    assert offsets(data, [(1, 10), (2, 9), (1, 0)], control=True) == [2, 3, 4, 5, 6, 7, 8, 11, 12]
    # the transaction ends at its first abort marker, although a second marker follows
    assert offsets(data, [(1, 0)]) == [2, 3, 4, 6, 9, 10]
    assert offsets(data, [(3, 0), (1, 10), (1, 10**6)]) == [0, 1, 2, 3, 4, 6, 9]
    assert offsets(data, [(2, 3)]) == [0, 1, 2, 4, 6, 10]  # only an abort marker ends an aborted transaction


def test_aborted_transaction_begins_at_its_first_offset(package: ModuleType) -> None:
    """Kafka's consumer compares the first offset of a transaction with the last offset of each batch."""
    assert offsets(tx([b"a", b"b", b"c"], 10, 1), [(1, 12)]) == []
    assert offsets(tx([b"a", b"b", b"c"], 10, 1), [(1, 13)]) == [10, 11, 12]


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_state_is_kept_between_tables(package: ModuleType, rows: int) -> None:
    data = b"".join(STREAM)
    (table,) = iter_tables(data)
    transactions, kept = AbortedTransactions([(1, 0), (2, 9), (1, 10)]), []
    for start in range(0, len(table), rows):
        kept += transactions.committed(data, table[start : start + rows])["base_offset"].tolist()
    assert kept == [2, 3, 4, 5, 6, 7, 8, 11, 12]


def test_empty_control_batch_is_not_a_marker(package: ModuleType) -> None:
    """The log cleaner can remove the record of a marker.

    Kafka's consumer reads only the first record of a control batch.
    """
    empty = build([], base_offset=1, producer_id=1, producer_epoch=0, flags=CONTROL | TRANSACTIONAL)
    assert offsets(tx([b"a"], 0, 1) + empty + tx([b"b"], 2, 1), [(1, 0)]) == []


def test_corrupted_marker_is_an_error(package: ModuleType) -> None:
    broken = build(
        [record(0, 0, b"\0", b"")], base_offset=1, producer_id=1, producer_epoch=0, flags=CONTROL | TRANSACTIONAL
    )
    with pytest.raises(StructureError):
        offsets(tx([b"a"], 0, 1) + broken, [(1, 0)])
    # there is no transaction of this producer before the marker
    assert offsets(tx([b"a"], 0, 2) + broken, [(2, 9)]) == [0]


def test_to_arrow_omits_aborted_records(package: ModuleType) -> None:
    table = kafkafmt.to_arrow(
        b"".join(STREAM), ["offset", "value", "topic"], topic="t", aborted=[(1, 0), (2, 9), (1, 10)]
    )
    assert table.to_pydict() == {
        "offset": [2, 3, 4, 6],
        "value": [b"plain", b"c", b"idempotent", b"d"],
        "topic": ["t"] * 4,
    }
    assert kafkafmt.to_arrow(b"").num_rows == 0
    assert kafkafmt.to_arrow(None).num_rows == 0
    with pytest.raises(ValueError, match="cannot be negative"):
        kafkafmt.to_arrow(b"", start=-5)
    assert list(kafkafmt.read_records(None)) == []


def aborted_by_index(partition: Path) -> Iterator[tuple[int, int]]:
    """Return the aborted transactions in a broker's transaction index."""
    for index in sorted(partition.glob("*.txnindex")):
        for entry in struct.iter_unpack(">hqqqq", index.read_bytes()):
            yield entry[1:3]


@pytest.mark.parametrize("case", [c for c in CASES if c.name == "transactions"], ids=str)
def test_committed_records_are_those_of_kafkas_consumer(package: ModuleType, case: Case) -> None:
    """A transaction index contains the same aborted transactions as a Fetch response."""
    expected = case.expected(committed=True)
    for topic, partition in sorted({key[:2] for key in expected}):
        directory = case.partition_dir(topic, partition)
        data = b"".join(p.read_bytes() for p in sorted(directory.glob("*.log")))
        want = [offset for t, p, offset in sorted(expected) if (t, p) == (topic, partition)]
        stable = case.offsets()[topic, partition]["lastStableOffset"]
        aborted = list(aborted_by_index(directory))
        assert aborted
        assert offsets(data, aborted, end=stable) == want
        assert len(offsets(data, None, end=stable)) > len(want)
