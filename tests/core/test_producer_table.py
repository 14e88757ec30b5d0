"""Check the states of producers, and compare how both cores track them."""

from __future__ import annotations

from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from building import TRANSACTIONAL
from random_tables import PRODUCERS, producer_table, random_markers

from kafkafmt import _pure
from kafkafmt.constants import MAX_OFFSET
from kafkafmt.log.formats.producers import Marker
from kafkafmt.log.formats.snapshots import ProducerEntry, entries_of, states_of
from kafkafmt.types import BATCH_DTYPE, BatchTable


def random_states(chance: Random) -> bytes:
    return states_of(
        ProducerEntry(
            producer,
            chance.randrange(3),
            4,
            chance.choice((9, 1000)),
            1,
            chance.randrange(9),
            chance.randrange(3),
            chance.choice((-1, -1, 0, 5, 900)),
        )
        for producer in chance.choices(PRODUCERS[1:], k=chance.randrange(5))
    )


def results(core: ModuleType, seed: int) -> list[Any]:
    """Call random methods of a `ProducerTable`, and return all results."""
    chance = Random(seed)
    table, found = core.ProducerTable(random_states(chance)), []
    for _ in range(chance.randrange(1, 9)):
        method = chance.choice(("update", "update", "update", "forget"))
        if method == "update":
            rows = producer_table(chance)
            found.append(table.update(rows, random_markers(chance, rows)))
        else:
            table.forget(chance.randrange(9))
        found.append((len(table), table.first_open(), table.all_states(), table.open_states()))
        found.append([table.state_of(producer) for producer in PRODUCERS])
        states = random_states(chance) if chance.random() < 0.5 else chance.choice(found[-2][2:])
        found.append(
            (table.contains(states), table.open_besides(states), table.differing(states, chance.choice((7, 2**62))))
        )
    return found


@pytest.mark.parametrize("seed", range(500))
def test_both_cores_track_producers_alike(native: ModuleType, seed: int) -> None:
    assert results(native, seed) == results(_pure, seed)


def transactional_rows(producers: list[int]) -> BatchTable:
    rows = np.zeros(len(producers), BATCH_DTYPE)
    rows["base_offset"], rows["producer_id"], rows["attributes"] = range(len(rows)), producers, TRANSACTIONAL
    return rows


def test_an_ended_transaction_no_longer_limits_the_last_stable_offset(core: ModuleType) -> None:
    rows = transactional_rows([8, 9, 8, 9])
    rows["attributes"][2:] = 0x30
    table = core.ProducerTable()
    assert table.update(rows, {2: Marker(0, 50, 6), 3: Marker(0, 51, 6)}) == [(8, 0, 2, 1), (9, 1, 3, 4)]
    assert entries_of(table.state_of(8)) == [ProducerEntry(8, 0, 0, 0, 0, 50, 6, -1)]
    assert table.open_states() == b""


def test_last_offset_of_a_state_is_limited_to_64_bits(core: ModuleType) -> None:
    rows = transactional_rows([1, 2])
    rows["base_offset"], rows["last_offset_delta"] = [MAX_OFFSET - 1, -MAX_OFFSET], [9, -9]
    table = core.ProducerTable()
    table.update(rows, {})
    assert [e.last_offset for e in entries_of(table.all_states())] == [MAX_OFFSET, -MAX_OFFSET - 1]


def test_states_of_a_snapshot_are_compared(core: ModuleType) -> None:
    table = core.ProducerTable()
    table.update(transactional_rows([5, 6, 7]), {})
    (first, second, third), states = (table.state_of(producer) for producer in (5, 6, 7)), table.all_states()
    assert table.differing(states, 3) == b""
    assert table.differing(third + first + second, 2) == third
    others = states_of([ProducerEntry(9), entries_of(first)[0]._replace(epoch=4), *entries_of(second + third)])
    assert table.differing(others, 3) == others[:-92]
    assert table.open_besides(third + third + first) == (1, second)
    assert table.open_besides(b"") == (3, first)
    assert table.open_besides(states) == (0, None)
    other_times = states_of(entry._replace(timestamp=77, coordinator_epoch=8) for entry in entries_of(states))
    assert table.differing(other_times, 3) == b""
    assert not table.contains(other_times)


def test_oldest_transaction_is_found_among_many(core: ModuleType) -> None:
    chance = Random(1)
    rows = transactional_rows(list(range(300)))
    markers = {300 + i: Marker(0, 1, 1) for i in range(300)}
    table = core.ProducerTable()
    table.update(rows, {})
    order = list(range(300))
    chance.shuffle(order)
    ends = transactional_rows(order)
    ends["base_offset"], ends["attributes"] = range(300, 600), 0x30
    opened = set(range(300))
    for (producer, first, _, stable), expected in zip(table.update(ends, markers), order, strict=True):
        opened.remove(expected)
        assert (producer, first) == (expected, expected)
        assert stable == min(opened, default=600)


def test_ended_transactions_are_forgotten_while_an_older_one_is_open(core: ModuleType) -> None:
    table = core.ProducerTable()
    table.update(transactional_rows([1]), {})
    rows = transactional_rows([2, 2] * 4000)
    rows["attributes"][1::2] = 0x30
    markers = {1 + 2 * i: Marker(1, 50, 6) for i in range(4000)}
    for _ in range(3):
        table.update(rows, markers)
        assert table.first_open() == 0
        if core is _pure:
            assert len(table._oldest) < 2000
    table.update(rows[:1], {})
    assert [e.producer_id for e in entries_of(table.open_states())] == [1, 2]


@pytest.mark.parametrize("states", [b"\0", bytes(47), bytes(45)])
def test_states_of_a_wrong_size_are_refused(core: ModuleType, states: bytes) -> None:
    table = core.ProducerTable()
    calls = (core.ProducerTable, table.contains, table.open_besides, lambda s: table.differing(s, 1))
    for call in calls:
        with pytest.raises(ValueError, match="not a multiple of 46"):
            call(states)


def test_wrong_arguments_of_update_are_refused(native: ModuleType) -> None:
    table = native.ProducerTable()
    with pytest.raises(TypeError):
        table.update(np.zeros(1, BATCH_DTYPE), None)
    with pytest.raises((TypeError, ValueError)):
        table.update(np.zeros(1, np.int64), {})
    assert len(table) == 0
