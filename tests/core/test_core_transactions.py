"""Compare how both cores read transaction markers, and how they follow transactions."""

from __future__ import annotations

import gc
from collections import defaultdict
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from building import TRANSACTIONAL, control_batch, mutate, simple_batch
from random_tables import PRODUCERS, producer_table, random_markers

from kafkafmt import _pure
from kafkafmt.log.formats.producers import Marker, marker_reader, read_markers
from kafkafmt.types import BATCH_DTYPE, BatchTable, IntArray


@pytest.mark.parametrize("seed", range(300))
def test_both_cores_end_and_walk_transactions_alike(native: ModuleType, seed: int) -> None:
    chance = Random(seed)
    spans = {producer: (1, 2) for producer in PRODUCERS if chance.random() < 0.3}
    opened = {producer: 1 for producer in PRODUCERS if chance.random() < 0.3}
    following = {producer: chance.choice((3, 99)) for producer in PRODUCERS if chance.random() < 0.3}
    states = []
    for core in (native, _pure):
        again, seen = Random(seed), []
        own_spans, own_opened = dict(spans), dict(opened)
        aborted: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for _ in range(3):
            table = producer_table(again)
            markers = random_markers(again, table)
            seen.append(core.end_transactions(table, markers, own_spans))
            start, hidden = again.randrange(len(table) + 1), np.empty((len(own_opened) + len(table), 3), np.int64)
            walked = (own_opened, following, aborted, hidden)
            row, count = core.walk_transactions(table, start, random_places(again, table), markers, *walked)
            seen.append((row, hidden[:count].tolist()))
        states.append((seen, own_spans, own_opened, aborted))
    assert states[0] == states[1]


def random_places(chance: Random, table: BatchTable) -> IntArray:
    rows = sorted(chance.choices(range(len(table)), k=chance.randrange(4))) if len(table) else []
    return np.array([(row, chance.randrange(99)) for row in rows], np.int64).reshape(-1, 2)


@pytest.mark.parametrize("seed", range(200))
def test_both_cores_keep_the_same_committed_batches(native: ModuleType, seed: int) -> None:
    chance = Random(seed)
    table = producer_table(chance)
    table["base_offset"] = sorted(chance.choices(range(60), k=len(table)))
    aborted: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for producer in PRODUCERS:
        borders = sorted(chance.sample(range(60), 2 * chance.randrange(5)))
        aborted[producer] = list(zip(borders[::2], borders[1::2], strict=True))
    opened = {producer: chance.randrange(60) for producer in PRODUCERS if chance.random() < 0.3}
    expected = []
    for row in table:
        producer, base = int(row["producer_id"]), int(row["base_offset"])
        lost = any(first <= base <= last for first, last in aborted.get(producer, [])) or base >= opened.get(
            producer, 99
        )
        expected.append(not (lost and row["attributes"] & 0x30 == TRANSACTIONAL))
    for core in (native, _pure):
        keep = np.empty(len(table) + 1, np.bool_)
        assert core.keep_committed(table, aborted, opened, keep) == sum(expected)
        assert keep[: len(table)].tolist() == expected


def test_aborted_transactions_are_found_by_bisection(native: ModuleType) -> None:
    """Only the spans that a bisection reads are tuples. All other items would raise an error."""
    spans: list[Any] = [None] * 1024
    low, high = 0, len(spans)
    while low < high:
        middle = (low + high) // 2
        spans[middle] = (10 * middle, 10 * middle + 5)
        low, high = (middle + 1, high) if 10 * middle <= 7003 else (low, middle)
    table = np.zeros(2, BATCH_DTYPE)
    table["base_offset"], table["producer_id"], table["attributes"] = (7003, 7006), 1, TRANSACTIONAL
    keep = np.empty(2, np.bool_)
    assert native.keep_committed(table, {1: spans}, {}, keep) == 1
    assert keep.tolist() == [False, True]
    for wrong in (None, (), (1,), (1, 2, 3), (None, None)):
        with pytest.raises(TypeError):
            native.keep_committed(table, {1: [wrong] * 1024}, {}, keep)
    with pytest.raises(TypeError):
        native.keep_committed(table, {1: tuple(spans)}, {}, keep)


def test_damage_suspends_open_transactions(core: ModuleType) -> None:
    table = np.zeros(6, BATCH_DTYPE)
    table["base_offset"], table["producer_id"] = (0, 1, 2, 5, 6, 7), (8, 9, 9, 8, 9, 9)
    table["attributes"] = (0x10, 0x10, 0x30, 0x10, 0x30, 0x30)
    markers = {2: Marker(1, 50, 6), 6: Marker(0, 51, 6), 7: Marker(1, 52, 6)}
    opened: dict[int, int] = {}
    hidden = np.empty((6, 3), np.int64)
    places = np.array([(1, 1), (3, 3), (4, 6)], np.int64)
    walked: tuple[Any, ...] = (opened, {}, defaultdict(list), hidden)
    assert core.walk_transactions(table, 0, places, markers, *walked) == (6, 2)
    assert hidden[:2].tolist() == [[8, 0, 0], [8, 5, 5]]
    assert opened == {}
    with pytest.raises(ValueError, match="too few"):
        core.walk_transactions(table, 0, places, markers, {8: 0}, {}, defaultdict(list), hidden[:0])


def control_batches(chance: Random) -> tuple[bytes, BatchTable]:
    """Return a buffer of data batches and control batches, and a table of their headers. Some batches are changed."""
    data, starts = b"", []
    for offset in range(chance.randrange(1, 6)):
        batch = control_batch(chance.randrange(3), base_offset=offset, coordinator_epoch=chance.randrange(9))
        if chance.random() < 0.2:
            batch = simple_batch([b"v"], offset)
        if chance.random() < 0.5:
            at = chance.randrange(57, len(batch))
            batch = mutate(batch, at, bytes([batch[at] ^ 1 << chance.randrange(8)]))
        starts.append(len(data))
        data += batch
    table = np.zeros(len(starts), BATCH_DTYPE)
    found = _pure.scan_batches(data, table, 0, None, False)
    return data, table[: found.count]


@pytest.mark.parametrize("seed", range(400))
def test_markers_are_those_that_the_record_reader_decodes(native: ModuleType, seed: int) -> None:
    chance = Random(seed)
    data, table = control_batches(chance)
    for _ in range(chance.randrange(3)):
        row, name = (
            chance.randrange(len(table)),
            chance.choice(("count", "last_offset_delta", "payload_size", "attributes")),
        )
        table[name][row] = chance.choice((0, 1, 2, 17, 0x20, 0x28, 0x21))
    found = native.read_markers(data, table, Marker)
    assert found == _pure.read_markers(data, table, Marker)
    if found is not None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("kafkafmt.log.formats.producers.core.read_markers", lambda *_: None)
            assert found == read_markers(marker_reader(10**6), data, table)


def test_plain_markers_are_read(core: ModuleType) -> None:
    data = control_batch(1, base_offset=3, coordinator_epoch=7)
    table = np.zeros(1, BATCH_DTYPE)
    assert core.scan_batches(data, table).count == 1
    assert core.read_markers(data, table, Marker) == {3: Marker(1, 1_700_000_000_000, 7)}
    table["payload_size"] -= 1
    assert core.read_markers(data, table, Marker) is None
    table["payload_position"] = 2**62
    assert core.read_markers(data, table, Marker) is None


@pytest.mark.parametrize("name", ["end_transactions", "walk_transactions", "keep_committed"])
def test_wrong_arguments_are_refused(native: ModuleType, name: str) -> None:
    table = np.zeros(1, BATCH_DTYPE)
    hidden = np.empty((1, 3), np.int64)
    rest: dict[str, tuple[Any, ...]] = {
        "end_transactions": ({},),
        "walk_transactions": ({}, {}, hidden),
        "keep_committed": (np.empty(1, np.bool_),),
    }
    starts: dict[str, tuple[Any, ...]] = {
        "walk_transactions": (0, np.empty((0, 2), np.int64)),
        "keep_committed": ({},),
    }
    start = starts.get(name, ())
    with pytest.raises(TypeError):
        getattr(native, name)(table, *start, None, *rest[name])
    with pytest.raises((TypeError, ValueError)):
        getattr(native, name)(np.zeros(1, np.int64), *start, {}, *rest[name])


def test_open_transactions_are_not_searched_for_cycles(native: ModuleType) -> None:
    table = np.zeros(2, BATCH_DTYPE)
    table["producer_id"], table["base_offset"], table["attributes"] = [3, 4], [0, 1], TRANSACTIONAL
    spans: dict[int, tuple[int, int]] = {}
    native.end_transactions(table, {}, spans)
    assert [gc.is_tracked(span) for span in spans.values()] == [False] * 2
