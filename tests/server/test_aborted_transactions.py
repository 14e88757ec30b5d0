"""Look up aborted transactions by offset, and compare the result with a search of all transactions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest
from building import ABORT, TRANSACTIONAL, batch, control_batch, message, mutate, record
from serving import Client

import kafkafmt
from kafkafmt.log.formats.index_entries import transaction_index_bytes
from kafkafmt.log.formats.producers import Aborted
from kafkafmt.log.transactions.transactions import DAMAGE, Doubts, Transactions
from kafkafmt.server.aborted_transactions import AbortedTransactions


def random_transactions(chance: Random, count: int) -> Transactions:
    transactions = Transactions()
    ends: dict[int, int] = defaultdict(int)
    doubts: list[tuple[int, int, int]] = []
    for _ in range(count):
        producer = chance.randrange(5)
        first = ends[producer] + chance.randrange(1, 20)
        last = first + chance.choice((1, 3, 30, 400))
        ends[producer] = last
        transactions.aborted[producer].append((first, last))
        if chance.random() < 0.1:
            doubts.append((producer, first, last))
        if chance.random() < 0.1:
            transactions.unmarked.append(Aborted(producer, first - chance.randrange(3), last, 0))
    producers, firsts, lasts = np.array(doubts, np.int64).reshape(-1, 3).T
    transactions.doubts = Doubts(producers, firsts, lasts, np.zeros_like(firsts), [("0.log", DAMAGE)])
    return transactions


@pytest.mark.parametrize("seed", range(20))
def test_lookup_finds_the_same_transactions_as_a_complete_search(seed: int) -> None:
    chance = Random(seed)
    transactions = random_transactions(chance, chance.choice((0, 1, 200)))
    lookup = AbortedTransactions(transactions)
    doubted = {(doubt.producer_id, doubt.first_offset) for doubt in transactions.doubts}
    for _ in range(200):
        start = chance.randrange(4_000)
        end = start + chance.choice((0, 1, 50, 4_000))
        expected = {
            (
                last,
                first,
                producer,
                (producer, first) not in doubted
                and not any(e.producer_id == producer and e.first <= first <= e.last for e in transactions.unmarked),
            )
            for producer, spans in transactions.aborted.items()
            for first, last in spans
            if first < end and last >= start
        }
        found = lookup.overlapping(start, end)
        assert len(found) == len(expected)
        assert set(found) == expected


def test_lookup_examines_few_transactions() -> None:
    transactions = Transactions()
    for i in range(10_000):
        transactions.aborted[i % 7].append((10 * i, 10 * i + 25))
    lookup = AbortedTransactions(transactions)
    assert len(lookup._candidates(50_000, 50_100)) < 20


@pytest.mark.parametrize("seed", range(20))
def test_added_transactions_are_found(seed: int) -> None:
    chance = Random(seed)
    complete = random_transactions(chance, 200)
    ended = [(last, producer, first) for producer, spans in complete.aborted.items() for first, last in spans]
    growing = Transactions(doubts=complete.doubts)
    lookup = AbortedTransactions(growing)
    for last, producer, first in sorted(ended):
        growing.aborted[producer].append((first, last))
        if chance.random() < 0.1:
            growing.unmarked.append(Aborted(producer, first, last, 0))
        if chance.random() < 0.3:
            lookup.update()
            new = AbortedTransactions(growing)
            assert (lookup._sorted, lookup._lowest_firsts) == (new._sorted, new._lowest_firsts)


def test_transaction_with_an_older_end_is_added() -> None:
    transactions = Transactions()
    transactions.aborted[1].append((10, 20))
    lookup = AbortedTransactions(transactions)
    transactions.aborted[2].append((5, 15))
    lookup.update()
    assert [found.producer_id for found in lookup.overlapping(0, 30)] == [2, 1]


def test_large_response_with_old_messages_omits_aborted_records(
    started: Callable[..., kafkafmt.server.Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a transaction index shows that the transaction was aborted, because its marker is damaged."""
    monkeypatch.setattr("kafkafmt.server.fetch.CONVERTED_BYTES", 300)
    marker = control_batch(ABORT, base_offset=2, producer_id=1)
    plain = [batch([record(0, value=b"plain")], base_offset=offset) for offset in range(3, 13)]
    aborted = batch([record(0, value=b"no")], base_offset=1, flags=TRANSACTIONAL, producer_id=1, producer_epoch=0)
    parts = [message(1, None, b"old"), aborted, mutate(marker, len(marker) - 1, b"\xee"), *plain]
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(b"".join(parts))
    (folder / f"{0:020}.txnindex").write_bytes(transaction_index_bytes([Aborted(1, 1, 2, 3)]))
    with Client(started(tmp_path).port) as client:
        records = client.read_all("t", 0, isolation_level=1)
    assert [record.value for record in records] == [b"old"] + [b"plain"] * 10
