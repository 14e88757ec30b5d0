"""Check promises of the core: memory use, release of the GIL, ownership of buffers, detected changes."""

from __future__ import annotations

import gc
import mmap
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import building as build
import numpy as np
import pyarrow as pa
import pytest
from decoding import fields, records, required, scan
from golden_cases import case

from kafkafmt.errors import ChecksumError, KafkaFormatError, StructureError
from kafkafmt.types import COLUMNS, RecordColumns

pytestmark = pytest.mark.slow


def big_batch(count: int) -> bytes:
    """Return a batch with `count` records of 23 to 25 bytes."""
    tail = build.sized(b"key") + build.sized(b"some value") + b"\x00"
    bodies = (b"\x00\x00" + build.varint(i) + tail for i in range(count))
    return build.batch(
        payload=b"".join(bytes([2 * len(b)]) + b for b in bodies), count=count, last_offset_delta=count - 1
    )


@pytest.fixture(scope="module")
def million() -> bytes:
    return big_batch(1_000_000)


# --- memory


def peak(work: Callable[[], object]) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def rows_in_slices(
    core: ModuleType, data: bytes, columns: RecordColumns, each: Callable[[RecordColumns], object]
) -> int:
    table, _ = scan(core, data)
    columns.reset()
    total = 0
    while columns.cursor[0] < len(table):
        assert core.decode_records(data, table, columns) is None
        total += columns.rows
        each(columns)
        columns.clear()
    return total


def test_memory_does_not_grow_with_the_records_of_a_batch(native: ModuleType, million: bytes) -> None:
    columns = RecordColumns(4096, COLUMNS)

    def decode(data: bytes) -> None:
        assert rows_in_slices(native, data, columns, lambda _: None) in (1000, 1_000_000)

    small, large = big_batch(1000), million
    decode(small)
    peaks = [peak(partial(decode, data)) for data in (small, large)]
    assert peaks[1] <= peaks[0] + 1024


def test_memory_does_not_grow_with_the_number_of_record_objects(native: ModuleType, million: bytes) -> None:
    columns = RecordColumns(4096, COLUMNS)
    small, large = big_batch(4096), million

    def iterate(data: bytes) -> None:
        last = None

        def some(columns: RecordColumns) -> None:
            nonlocal last
            for start in range(0, columns.rows, 256):
                for record in native.make_records(data, columns, start, min(start + 256, columns.rows)):
                    last = record.offset

        total = rows_in_slices(native, data, columns, some)
        assert last == total - 1

    iterate(small)
    peaks = [peak(partial(iterate, data)) for data in (small, large)]
    assert peaks[1] <= peaks[0] * 1.1 + 4096


# --- the GIL


class BusyThread(threading.Thread):
    """A Python thread that measures its CPU time while it has the GIL."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seconds, self.stop = 0.0, False

    def run(self) -> None:
        while not self.stop:
            self.seconds = time.thread_time()


def long_calls(native: ModuleType, million: bytes) -> dict[str, Callable[[], object]]:
    """Return long calls of each function that releases the GIL, and of `sum`, which does not release it."""
    batches = scan(native, million)[0].repeat(10)  # all rows have the same payload
    columns = RecordColumns(1_000_000)
    count = 15_000_000
    nothing, empty, offsets = np.zeros(count, np.int64), np.zeros(count, np.int32), np.zeros(count + 1, np.int32)
    zeros = mmap.mmap(-1, 1 << 27, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # uses address space, but no memory
    zeros[:61] = build.batch(length=len(zeros) - 12)
    zeros[17:21] = native.crc32c(zeros, 0, 21).to_bytes(4, "big")

    def decode() -> None:
        columns.reset()
        assert native.decode_records(million, batches, columns, 2**62) is None
        assert columns.cursor[0] == len(batches)

    return {
        "decode_records": decode,
        "gather": lambda: native.gather(million, nothing, empty, count, offsets, bytearray(), None),
        "crc32c": lambda: native.crc32c(zeros),
        "find_batch": lambda: native.find_batch(zeros, 1),
        "scan_batches": lambda: scan(native, zeros, rows=1),
        "sum": lambda: sum(range(10_000_000)),
    }


def test_other_thread_runs_during_long_calls(native: ModuleType, million: bytes) -> None:
    """Another thread gets CPU time during a call of the core. During `sum`, it waits for the GIL.

    CPU times are compared, because other processes slow down both threads alike.
    """
    calls = long_calls(native, million)
    busy = BusyThread()

    def share(call: Callable[[], object]) -> float:
        before, started = busy.seconds, time.thread_time()
        call()
        return (busy.seconds - before) / (time.thread_time() - started)

    busy.start()
    native.crc32c_way(0)  # the slowest implementation
    try:
        shares = {name: max(share(call) for _ in range(5)) for name, call in calls.items()}
    finally:
        native.crc32c_way(1)
        native.crc32c_way(2)
        busy.stop = True
        busy.join()
    assert shares.pop("sum") < 0.25
    assert min(shares.values()) > 0.25, shares


# --- ownership of buffers

FIELDS = [(i, i, b"k%d" % i, b"value" * i, [(b"h", b"x")] * (i % 2)) for i in range(10)]
DATA = build.batch(FIELDS, base_offset=3)


def map_of(data: bytes, tmp_path: Path) -> mmap.mmap:
    path = tmp_path / "mapped"
    path.write_bytes(data)
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


KINDS: dict[str, Callable[[bytes, Path], Any]] = {
    "bytes": lambda data, _: bytes(bytearray(data)),
    "bytearray": lambda data, _: bytearray(data),
    "memoryview": lambda data, _: memoryview(b"####" + data + b"##")[4:-2],
    "mmap": map_of,
    "NumPy": lambda data, _: np.frombuffer(bytearray(data), np.uint8),
    "NumPy, of other items": lambda data, _: np.frombuffer(data.ljust(-len(data) % 8 + len(data), b"\0"), ">i8"),
    "NumPy, structured": lambda data, _: np.frombuffer(data, np.dtype([("a", "u1")])),
    "Arrow": lambda data, _: pa.py_buffer(bytes(data)),
}


@pytest.fixture(params=KINDS)
def buffer(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return KINDS[request.param](DATA, tmp_path)


def everything(core: ModuleType, buffer: Any) -> RecordColumns:
    """Call every function that accepts a buffer, and return the columns of the records."""
    table, result = scan(core, buffer)
    assert result.error is None
    assert (result.count, core.find_batch(buffer)) == (1, 0)
    columns = RecordColumns(16)
    assert core.decode_records(buffer, table, columns) is None
    offsets, data = np.zeros(11, np.int32), np.zeros(400, np.uint8)
    core.gather(buffer, columns.value_position, columns.value_length, 10, offsets, data, None)
    assert data[: offsets[10]].tobytes() == b"".join(f[3] for f in FIELDS)
    core.crc32c(buffer)
    core.read_varint(buffer, 61)
    return columns


def test_spans_index_the_callers_buffer(core: ModuleType, buffer: Any) -> None:
    columns = everything(core, buffer)
    raw = bytes(memoryview(buffer))
    for i, (_, _, key, value, headers) in enumerate(FIELDS):
        for name, expected in (("key", key), ("value", value)):
            p, n = getattr(columns, f"{name}_position")[i], getattr(columns, f"{name}_length")[i]
            assert raw[p : p + n] == expected
        assert required(columns.header_count)[i] == len(headers)
    content = [(key, value, tuple((a.decode(), b) for a, b in headers)) for *_, key, value, headers in FIELDS]
    assert [fields(r)[3:] for r in core.make_records(buffer, columns)] == content


def test_input_is_never_changed(core: ModuleType, buffer: Any) -> None:
    before = bytes(memoryview(buffer))
    everything(core, buffer)
    assert bytes(memoryview(buffer)) == before


def test_references_to_the_buffer_are_released(core: ModuleType, buffer: Any) -> None:
    everything(core, buffer)
    gc.collect()
    before = sys.getrefcount(buffer)
    for _ in range(50):
        everything(core, buffer)
    gc.collect()
    assert sys.getrefcount(buffer) == before


def test_bytearray_can_be_resized_after_use(core: ModuleType) -> None:
    data = bytearray(DATA)
    columns = everything(core, data)
    data.append(0)
    damaged = bytearray(build.mutate(DATA, 61, b"\xff", repair=True))
    table, _ = scan(core, damaged)
    error = core.decode_records(damaged, table, RecordColumns(16))
    assert isinstance(error, StructureError)
    damaged.clear()  # the error is still referenced
    required(columns.value_length)[0] = 10**6
    with pytest.raises(ValueError) as caught:
        core.make_records(data, columns)
    with pytest.raises(ValueError):
        core.read_varint(data, 10**6)
    with pytest.raises(StructureError):
        core.read_varint(data := bytearray(b"\x80" * 9))
    del caught  # its traceback refers to local variables of the pure-Python core
    gc.collect()
    data.clear()


def test_memory_map_can_be_closed_after_use(core: ModuleType, tmp_path: Path) -> None:
    mapped = map_of(DATA, tmp_path)
    everything(core, mapped)
    gc.collect()
    mapped.close()


# --- detection of changed bytes


def small_golden_batch() -> bytes:
    """Return the smallest batch with at least three records in a broker's log."""
    log = case("epochs").partition_dir("epochs", 1) / f"{0:020}.log"
    return min((b for b in build.split(log.read_bytes()) if int.from_bytes(b[57:61], "big") >= 3), key=len)


def test_every_changed_byte_is_detected_or_harmless(core: ModuleType) -> None:
    """Each byte of a batch is replaced with each of the 255 other values. Another batch follows this batch.

    0-7    base offset: no CRC covers it. The batch is delivered with other offsets, and is otherwise unchanged.
    8-11   length: the batch is never delivered. An impossible length is a StructureError. Otherwise,
           the CRC covers other bytes and does not match, or the batch seems to be truncated.
    12-15  leader epoch: no CRC covers it. The batch is delivered, and is otherwise unchanged.
    16     magic: an error for every value.
    17-    CRC and all later bytes: a ChecksumError.
    """
    golden = small_golden_batch()
    follower = build.simple_batch([b"next"], 10_000)
    original, _ = scan(core, golden)
    original_records = records(core, golden)
    assert len(golden) < 400
    for at in range(len(golden)):
        for value in range(256):
            if value == golden[at]:
                continue
            changed = build.mutate(golden, at, bytes([value]))
            data = changed + follower
            table, result = scan(core, data)
            if at < 8 or 12 <= at < 16:
                field = "base_offset" if at < 8 else "leader_epoch"
                assert result.error is None
                assert len(table) == 2
                row = table[:1].copy()
                assert row[field][0] == int.from_bytes(changed[:8] if at < 8 else changed[12:16], "big", signed=True)
                row[field] = original[field]
                assert row.tobytes() == original.tobytes()
                if value in (0, 0xFF):
                    moved = [(*r[1:],) for r in records(core, data, table[:1])]
                    assert moved == [(*r[1:],) for r in original_records]
                continue
            assert result.count == 0
            if at < 12:
                length = int.from_bytes(changed[8:12], "big", signed=True)
                if not 49 <= length < 2**31 - 12:
                    assert isinstance(result.error, StructureError)
                elif length <= len(data) - 12:
                    assert isinstance(result.error, ChecksumError)
                else:
                    assert result.error is None
                    assert result.position == 0
            else:
                assert isinstance(result.error, KafkaFormatError if at == 16 else ChecksumError)
                assert result.error.position == 0
