"""Check that the memory of Arrow buffers is reused, and never while anything refers to it."""

from __future__ import annotations

import gc
import os
import pickle
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from building import simple_batch

import kafkafmt
from kafkafmt.arrow import buffer_pool
from kafkafmt.arrow.buffer_pool import BufferPool

SIZE = 1 << 16


def address(array: Any) -> int:
    return int(array.ctypes.data)


def stream_of(buffer: pa.Buffer) -> Any:
    """Return an array that was exported and imported through the Arrow C stream interface."""
    array = pa.Array.from_buffers(pa.uint8(), 100, [None, buffer])
    reader = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.uint8())]), [pa.record_batch([array], names=["a"])])
    return list(pa.RecordBatchReader.from_stream(reader))


REFERENCES: dict[str, Callable[[Any], Any]] = {
    "the array": lambda array: array,
    "a view": lambda array: array[10:20].view(np.int8),
    "a view of a view": lambda array: array[10:50][5:].reshape(5, 7).T,
    "a memoryview": lambda array: memoryview(array)[3:],
    "an Arrow buffer": lambda array: pa.py_buffer(array).slice(5, 10),
    "a slice of an Arrow array": lambda array: pa.Array.from_buffers(pa.uint8(), 99, [None, pa.py_buffer(array)])[7:9],
    "an array in NumPy again": lambda array: np.frombuffer(pa.py_buffer(array).slice(8), np.uint8),
    "a C stream": lambda array: stream_of(pa.py_buffer(array)),
}


@pytest.mark.parametrize("kind", REFERENCES)
@pytest.mark.slow
def test_memory_is_reused_only_after_the_last_reference(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer_pool, "IDLE_SECONDS", 3600)  # gc.collect() can take seconds in a large process
    pool = BufferPool()
    array = pool.take(SIZE)
    array[:] = 7
    start, kept = address(array), REFERENCES[kind](array)
    del array
    gc.collect()
    others = [pool.take(SIZE) for _ in range(3)]
    assert start not in map(address, others)
    for other in others:
        other[:] = 9
    del kept
    gc.collect()
    assert pool.unused == SIZE
    assert address(pool.take(SIZE)) == start


def test_pickled_array_is_independent_of_the_pool() -> None:
    pool = BufferPool()
    array = pool.take(SIZE)
    array[:] = 7
    copied = pickle.loads(pickle.dumps(pa.Array.from_buffers(pa.uint8(), SIZE, [None, pa.py_buffer(array)])))
    del array
    pool.take(SIZE)[:] = 9
    assert set(copied.to_pylist()) == {7}


def test_arrays_are_aligned_and_as_large_as_requested() -> None:
    pool = BufferPool()
    for size in (0, 1, 63, 4097, 100_000, 1 << 20):
        array = pool.take(size)
        assert len(array) >= size
        assert address(array) % 64 == 0
        assert array.flags.writeable


def test_much_larger_memory_is_not_used_for_a_small_array() -> None:
    pool = BufferPool()
    pool.take(1 << 20)
    assert pool.unused == 1 << 20
    assert len(pool.take(1 << 18)) == 1 << 18


def test_pool_keeps_at_most_its_limit() -> None:
    pool = BufferPool(limit=4 * SIZE)
    arrays = [pool.take(SIZE) for _ in range(10)]
    arrays.clear()
    assert pool.unused == 4 * SIZE


def test_idle_pool_releases_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer_pool, "IDLE_SECONDS", 0.05)
    pool = BufferPool()
    late = pool.take(SIZE)
    pool.take(SIZE)
    assert pool.unused == SIZE
    deadline = time.monotonic() + 20
    while pool.unused and time.monotonic() < deadline:
        time.sleep(0.01)
    assert pool.unused == 0
    del late
    assert pool.unused == 0


def test_memory_outlives_its_pool() -> None:
    pool = BufferPool()
    kept = pool.take(SIZE)[:100]
    kept[:] = 7
    del pool
    gc.collect()
    assert set(kept.tolist()) == {7}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_child_process_has_a_working_pool() -> None:
    kept = buffer_pool.shared_pool.take(SIZE)
    kept[:] = 7
    child = os.fork()
    if child == 0:
        other = buffer_pool.shared_pool.take(SIZE)
        other[:] = 9
        os._exit(0 if set(kept.tolist()) == {7} and buffer_pool.shared_pool._watched else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_threads_never_share_memory() -> None:
    pool, wrong = BufferPool(limit=1 << 20), []

    def work(number: int) -> None:
        chance, kept = Random(number), []
        for i in range(1500):
            array = pool.take(chance.choice((100, 5000, 5000, 70_000)))
            mark = (number * 31 + i) % 251
            array[:] = mark
            kept.append((mark, pa.py_buffer(array).slice(3, 90)))
            if len(kept) > 12:
                at = chance.randrange(len(kept))
                mark, buffer = kept.pop(at)
                if buffer.to_pybytes() != bytes([mark]) * 90:
                    wrong.append(mark)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert pool.unused <= 1 << 20


@pytest.fixture
def partition(tmp_path: Path) -> kafkafmt.Partition:
    folder = tmp_path / "t-0"
    folder.mkdir()
    with open(folder / f"{0:020}.log", "wb") as log:
        for i in range(3000):
            log.write(simple_batch([b"%06d " % i + b"v" * 1500] * 2, 2 * i))
    return kafkafmt.open(folder)["t", 0]


def test_batches_that_are_kept_do_not_change(partition: kafkafmt.Partition) -> None:
    expected = [i // 2 for i in range(6000)]
    chance, kept, all_kept = Random(1), [], list(partition.to_batches())
    for _ in range(4):
        for batch in partition.to_batches():
            if chance.random() < 0.4:
                kept.append(batch.slice(10, 50))
    for batch in [*all_kept, *kept]:
        offsets, values = batch.column("offset").to_pylist(), batch.column("value").to_pylist()
        assert [int(value[:6]) for value in values] == [expected[offset] for offset in offsets]
    assert sum(batch.num_rows for batch in all_kept) == 6000


def test_threads_that_read_at_the_same_time_get_their_own_batches(partition: kafkafmt.Partition) -> None:
    wrong: list[int] = []

    def read(number: int) -> None:
        chance, kept = Random(number), []
        for _ in range(3):
            for batch in partition.to_batches(["offset", "value"]):
                kept.append(batch)
                if len(kept) > 2:
                    old = kept.pop(chance.randrange(3))
                    numbers = [2 * int(value[:6]) for value in old.column("value").to_pylist()]
                    wrong.extend(
                        n for n, o in zip(numbers, old.column("offset").to_pylist(), strict=True) if not 0 <= o - n <= 1
                    )

    threads = [threading.Thread(target=read, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_consumer_that_frees_its_batches_gets_the_same_memory(partition: kafkafmt.Partition) -> None:
    addresses, batches = set(), 0
    for _ in range(10):
        for batch in partition.to_batches(["value"]):
            addresses.add(batch.column("value").buffers()[2].address)
            batches += 1
            del batch
    assert batches >= 10
    assert len(addresses) < batches
