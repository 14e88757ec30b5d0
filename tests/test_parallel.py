"""Check `Log.to_reader` and the module `parallel`, which read many partitions at the same time."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from building import batch, record

import kafkafmt
from kafkafmt.support import parallel
from kafkafmt.support.parallel import WAITING_PER_THREAD, Piece

WAIT = 20
"""Time that a test waits for a thread before it fails, in seconds."""


def sources(counts: list[int]) -> list[Callable[[], Iterator[tuple[int, int]]]]:
    """Return a source for each count. Its items are (number of the source, number of the item)."""

    def source(number: int, count: int) -> Callable[[], Iterator[tuple[int, int]]]:
        return lambda: ((number, i) for i in range(count))

    return [source(number, count) for number, count in enumerate(counts)]


def read_parallel(pieces: Sequence[Piece[Any]], threads: int, ordered: bool = True) -> Iterator[Any]:
    """Read sources that have one piece each."""
    return parallel.read_parallel([partial(iter, [piece]) for piece in pieces], threads, ordered)


def close(items: Iterator[object]) -> None:
    assert isinstance(items, Generator)
    items.close()


def scan_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("kafkafmt-reader")]


@pytest.fixture(autouse=True)
def no_thread_remains() -> Iterator[None]:
    yield
    assert not scan_threads()


COUNTS = [3, 0, 50, 1, 0, 7, 200, 2]
EXPECTED = [(number, i) for number, count in enumerate(COUNTS) for i in range(count)]


@pytest.mark.parametrize("threads", [1, 2, 3, 20])
def test_ordered_scan_yields_source_after_source(threads: int) -> None:
    assert list(read_parallel(sources(COUNTS), threads)) == EXPECTED


@pytest.mark.parametrize("threads", [1, 2, 3, 20])
def test_unordered_scan_yields_each_source_in_its_order(threads: int) -> None:
    items = list(read_parallel(sources(COUNTS), threads, ordered=False))
    assert sorted(items, key=lambda item: item[0]) == EXPECTED


@pytest.mark.parametrize("ordered", [True, False])
def test_scan_of_no_sources_is_empty(ordered: bool) -> None:
    assert list(read_parallel([], 4, ordered)) == []


@pytest.mark.parametrize("ordered", [True, False])
def test_scan_reads_ahead_by_a_bounded_number_of_items(ordered: bool) -> None:
    read: list[None] = []

    def endless() -> Iterator[int]:
        while True:
            read.append(None)
            yield len(read)

    threads = 3
    items = read_parallel([endless] * 10, threads, ordered)
    most = 0
    for delivered in range(1, 40):
        next(items)
        time.sleep(0.005)
        most = max(most, len(read) - delivered)
    close(items)
    # waiting items, one item per thread, and the delivered item
    assert most <= WAITING_PER_THREAD * threads + threads + 2


def test_finished_sources_do_not_accumulate_after_a_slow_one() -> None:
    started = []
    go_on = threading.Event()

    def slow() -> Iterator[int]:
        yield 0
        assert go_on.wait(WAIT)
        yield 1

    def small(number: int) -> Iterator[int]:
        started.append(number)
        yield number

    items = read_parallel([slow, *(lambda n=n: small(n) for n in range(2, 100))], 2)
    assert next(items) == 0
    time.sleep(0.1)
    assert len(started) <= 2 * WAITING_PER_THREAD + 2
    go_on.set()
    assert list(items) == list(range(1, 100))


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_error_of_a_source_follows_the_items_before_it(threads: int) -> None:
    def bad() -> Iterator[tuple[int, int]]:
        yield 8, 0
        raise ValueError("a bad source")

    got: list[tuple[int, int]] = []
    with pytest.raises(ValueError, match="a bad source"):
        got.extend(item for item in read_parallel([*sources([3, 2]), bad, *sources([5])], threads))
    items = read_parallel([*sources([3, 2]), bad, *sources([5])], threads)
    for item in EXPECTED_BEFORE_ERROR:
        assert next(items) == item
    with pytest.raises(ValueError, match="a bad source"):
        next(items)
    with pytest.raises(StopIteration):
        next(items)


EXPECTED_BEFORE_ERROR = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (8, 0)]


def test_unordered_scan_raises_the_error_of_a_source() -> None:
    def bad() -> Iterator[tuple[int, int]]:
        raise ValueError("a bad source")
        yield

    with pytest.raises(ValueError, match="a bad source"):
        list(read_parallel([*sources([1000]), bad], 2, ordered=False))


@pytest.mark.parametrize("ordered", [True, False])
def test_closed_scan_closes_its_sources_and_ends_its_threads(ordered: bool) -> None:
    opened: list[int] = []
    closed: list[int] = []

    def source() -> Iterator[int]:
        number = len(opened)
        opened.append(number)
        try:
            yield from itertools.repeat(number)
        finally:
            closed.append(number)

    items = read_parallel([source] * 5, 3, ordered)
    next(items)
    close(items)
    assert not scan_threads()
    assert sorted(closed) == sorted(opened)
    assert len(opened) <= 3


def test_dropped_scan_ends_its_threads() -> None:
    items = read_parallel([lambda: itertools.repeat(1)] * 3, 3)
    next(items)
    assert scan_threads()
    del items
    assert not scan_threads()


def divided(count: int, size: int, number: int = 0) -> Callable[[], Iterator[Piece[tuple[int, int]]]]:
    """Return a source with `count` pieces of `size` items. Its items are (number of the source, number of the item)."""

    def piece(first: int) -> Piece[tuple[int, int]]:
        return lambda: ((number, i) for i in range(first, first + size))

    return lambda: (piece(i * size) for i in range(count))


@pytest.mark.parametrize("threads", [1, 2, 5, 16])
@pytest.mark.parametrize("ordered", [True, False])
def test_pieces_of_a_source_stay_in_order(threads: int, ordered: bool) -> None:
    shapes = [(7, 3), (0, 0), (40, 1), (3, 0), (2, 50), (1, 1)]
    made = [divided(*shape, number) for number, shape in enumerate(shapes)]
    items = list(parallel.read_parallel(made, threads, ordered))
    expected = [(number, i) for number, (count, size) in enumerate(shapes) for i in range(count * size)]
    assert (items if ordered else sorted(items, key=lambda item: item[0])) == expected


def test_threads_work_on_pieces_of_one_source_at_the_same_time() -> None:
    together = threading.Barrier(4)

    def piece() -> Iterator[int]:
        together.wait(WAIT)
        yield 1

    assert list(parallel.read_parallel([lambda: [piece] * 8], 4)) == [1] * 8


def test_only_one_thread_asks_a_source_for_pieces() -> None:
    def source() -> Iterator[Piece[int]]:
        for i in range(50):
            time.sleep(0.0005)  # a second thread would get "ValueError: generator already executing"
            yield partial(iter, [i])

    assert list(parallel.read_parallel([source] * 2, 5)) == [*range(50)] * 2


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("size", [1, 100])
def test_sixteen_threads_read_ahead_by_a_bounded_number_of_items(ordered: bool, size: int) -> None:
    read: list[None] = []

    def piece() -> Iterator[int]:
        for _ in range(size):
            read.append(None)
            yield 0

    threads = 16
    items = parallel.read_parallel([lambda: itertools.repeat(piece)] * 3, threads, ordered)
    for delivered in range(1, 40):
        next(items)
        time.sleep(0.002)
        assert len(read) - delivered <= WAITING_PER_THREAD * threads + 2 * threads
    assert len(scan_threads()) == threads
    close(items)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_error_of_a_piece_or_of_its_source_follows_the_items_before_it(threads: int) -> None:
    def bad() -> Iterator[int]:
        yield 100
        raise ValueError("bad")

    def good() -> Iterator[int]:
        yield 1

    def broken() -> Iterator[Piece[int]]:
        yield good
        yield good
        raise ValueError("bad")

    for source, expected in ((lambda: [good, good, bad, good], [1, 1, 100]), (broken, [1, 1])):
        found: list[int] = []
        with pytest.raises(ValueError, match="bad"):
            found.extend(item for item in parallel.read_parallel([source, source], threads))
        items = parallel.read_parallel([source, source], threads)
        assert list(itertools.islice(items, len(expected))) == expected
        with pytest.raises(ValueError, match="bad"):
            next(items)


def test_closing_ends_threads_that_wait_and_closes_sources() -> None:
    closed: list[int] = []

    def source() -> Iterator[Piece[int]]:
        try:
            while True:
                yield lambda: iter(range(10))
        finally:
            closed.append(1)

    items = parallel.read_parallel([source] * 3, 5)
    next(items)
    time.sleep(0.02)
    close(items)
    assert not scan_threads()
    assert 1 <= len(closed) <= 3


@pytest.fixture
def log(tmp_path: Path) -> kafkafmt.Log:
    """Return a log with five partitions. One is empty, and the others have 30 records each."""
    for number in range(5):
        folder = tmp_path / f"t-{number}"
        folder.mkdir()
        batches = [batch([record(i) for i in range(10)], base_offset=at) for at in (0, 10, 20)] if number != 2 else []
        (folder / f"{0:020}.log").write_bytes(b"".join(batches))
    return kafkafmt.open(tmp_path)


def rows(batches: Iterator[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    return [
        (row["topic"], row["partition"], row["offset"])
        for found in batches
        for row in found.select(["topic", "partition", "offset"]).to_pylist()
    ]


@pytest.mark.parametrize("threads", [None, 1, 2, 16])
@pytest.mark.parametrize("ordered", [True, False])
def test_to_reader_equals_reading_each_partition(log: kafkafmt.Log, threads: int | None, ordered: bool) -> None:
    expected = [row for p in log for row in rows(p.to_batches())]
    assert len(expected) == 120
    found = rows(log.to_reader(threads=threads, ordered=ordered))
    assert (found if ordered else sorted(found)) == expected


def test_to_reader_accepts_columns_and_a_selection(log: kafkafmt.Log) -> None:
    table = log.to_reader(["offset"], start=5, end=-2).read_all()
    assert table.column_names == ["offset"]
    assert table["offset"].to_pylist() == list(range(5, 28)) * 4


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"threads": 0}, ValueError, "threads is 0; it must be at least 1"),
        ({"threads": "2"}, TypeError, "threads must be a whole number, not '2'"),
        ({"columns": ["ofset"]}, ValueError, "there is no column 'ofset'"),
        ({"first": 1}, TypeError, "unknown argument 'first'"),
        ({"on_error": "ignore"}, ValueError, "on_error is 'ignore'"),
        ({"start": "5"}, TypeError, "start must be an offset"),
        ({"end": 5, "end_time": 5}, ValueError, "end and end_time cannot both be given"),
    ],
)
def test_wrong_argument_of_to_reader_raises_at_once(
    log: kafkafmt.Log, arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        log.to_reader(**arguments)


def test_to_reader_raises_or_skips_damage(log: kafkafmt.Log) -> None:
    path = log["t", 3].log.segments[0].path
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    before = [("t", number, i) for number in (0, 1) for i in range(30)] + [("t", 3, i) for i in range(10)]
    again = kafkafmt.open(path.parent.parent)
    batches = again.to_reader(threads=2)
    assert rows(itertools.islice(batches, 3)) == before
    with pytest.raises(kafkafmt.DamagedLogError):
        next(batches)
    assert len(rows(again.to_reader(on_error="skip"))) == 110
    assert [len(p.damaged) for p in again] == [0, 0, 0, 1, 0]


def test_threads_can_share_a_reader(log: kafkafmt.Log) -> None:
    items = log.to_reader(threads=2)
    found: list[tuple[Any, ...]] = []
    readers = [threading.Thread(target=lambda: found.extend(rows(items))) for _ in range(3)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(WAIT)
    assert sorted(found) == sorted(rows(log.to_reader()))
