"""Check that threads can share the objects of the public API without a crash.

Each item is delivered to exactly one thread, or an error is raised.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import kafkafmt
from kafkafmt import build_batch, build_batches, iter_batches, read_records
from kafkafmt.protocol import Correlation, FrameSplitter, MetadataRequest, make_request, read_request, write_request
from kafkafmt.records import BatchBuilder, build_columns, columns_of
from kafkafmt.support.sharing import SharedIterator
from kafkafmt.typing import Codec

THREADS = 6
RECORDS = 12_000
SECONDS = 0.3


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(work: Callable[[int], Any]) -> list[Any]:
    """Call a function in all threads at the same time, and return the results or raise an error."""
    barrier, results, errors = threading.Barrier(THREADS), [None] * THREADS, []

    def run(i: int) -> None:
        barrier.wait()
        try:
            results[i] = work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]
    return results


def drained(iterator: Iterator[Any]) -> list[Any]:
    """Return all items that the threads get from one iterator."""
    return list(itertools.chain.from_iterable(together(lambda _: list(iterator))))


@pytest.fixture(scope="module")
def buffer() -> bytes:
    records = ((b"k%d" % i, b"v" * (i % 50), 5, [("h", b"x")] if i % 7 == 0 else ()) for i in range(RECORDS))
    return b"".join(build_batches(records, 3000, codec="zstd", base_offset=0))


@pytest.fixture(scope="module")
def log(buffer: bytes, tmp_path_factory: pytest.TempPathFactory) -> kafkafmt.Log:
    folder = tmp_path_factory.mktemp("log")
    (folder / "t-0").mkdir()
    (folder / "t-0" / f"{0:020}.log").write_bytes(buffer)
    return kafkafmt.open(folder)


@pytest.mark.parametrize("views", [False, True])
def test_read_records_delivers_each_record_to_one_thread(package: ModuleType, buffer: bytes, views: bool) -> None:
    assert sorted(r.offset for r in drained(read_records(buffer, views=views))) == list(range(RECORDS))


def test_partition_delivers_each_record_to_one_thread(package: ModuleType, log: kafkafmt.Log) -> None:
    assert sorted(r.offset for r in drained(iter(log["t", 0]))) == list(range(RECORDS))
    assert sorted(r.offset for r in drained(log["t", 0].records(start=77, on_error="skip"))) == list(range(77, RECORDS))


def test_each_batch_is_delivered_to_one_thread(package: ModuleType, buffer: bytes) -> None:
    expected = [b.base_offset for b in iter_batches(buffer)]
    assert sorted(b.base_offset for b in drained(iter_batches(buffer))) == expected
    batch = next(iter(iter_batches(buffer)))
    assert len(drained(batch.records())) == batch.count


def test_each_arrow_batch_is_delivered_to_one_thread(package: ModuleType, log: kafkafmt.Log) -> None:
    pytest.importorskip("pyarrow")
    offsets = [o for b in drained(log["t", 0].to_batches(["offset"])) for o in b["offset"].to_pylist()]
    assert sorted(offsets) == list(range(RECORDS))
    reader = log["t", 0].to_reader(["offset", "headers"])
    offsets = [o for b in drained(reader) for o in b["offset"].to_pylist()]
    assert sorted(offsets) == list(range(RECORDS))


def test_each_built_batch_is_delivered_to_one_thread(package: ModuleType) -> None:
    records = [(b"k", b"v")] * 2000
    for made in (build_batches(iter(records), 300), build_columns(columns_of(key=[b"k"] * 2000), 300)):
        offsets = [r.offset for batch in drained(made) for r in read_records(batch)]
        assert sorted(offsets) == list(range(2000))


def test_error_reaches_one_thread_and_ends_the_iteration(package: ModuleType, buffer: bytes) -> None:
    damaged = bytearray(buffer)
    damaged[len(damaged) // 2] ^= 1
    for make in (read_records, iter_batches):
        shared: Iterator[Any] = make(bytes(damaged))
        errors: list[BaseException] = []

        def take(_: int, shared: Iterator[Any] = shared, errors: list[BaseException] = errors) -> int:
            try:
                return sum(1 for _ in shared)
            except kafkafmt.KafkaFormatError as error:
                errors.append(error)
                return 0

        together(take)
        assert len(errors) == 1
        assert next(shared, None) is None


def test_iterator_can_be_dropped_while_threads_use_it(package: ModuleType, buffer: bytes, log: kafkafmt.Log) -> None:
    """The last reference to an iterator is dropped while another thread waits for the next item."""
    end = time.monotonic() + SECONDS
    holder: list[Any] = [None]
    makes: list[Callable[[], Iterator[Any]]] = [
        lambda: read_records(buffer),
        lambda: iter(log["t", 0]),
        lambda: iter_batches(buffer),
    ]

    def work(i: int) -> None:
        n = 0
        while time.monotonic() < end:
            n += 1
            if n % 50 == i or holder[0] is None:
                holder[0] = makes[n % 3]()
            shared = holder[0]
            for _ in range(n % 30):
                next(shared, None)
            del shared

    together(work)


def test_iterator_that_is_called_while_it_reads_raises(package: ModuleType) -> None:
    def items() -> Iterator[int]:
        yield 1
        yield next(shared)

    shared: SharedIterator[int] = SharedIterator(items())
    with pytest.raises(RuntimeError, match="called recursively"):
        list(shared)

    def lists() -> Iterator[list[Any]]:
        yield [1]
        yield [next(records)]

    records = package.RecordIterator(lists())
    with pytest.raises(RuntimeError, match="called recursively"):
        list(records)
    assert next(records, None) is None


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_builder_loses_no_record_of_any_thread(package: ModuleType, codec: Codec) -> None:
    builder, batches, rejected = BatchBuilder(codec=codec, max_bytes=4000), [], [0]

    def work(i: int) -> None:
        for n in range(150):
            record = (b"%d" % i, b"%d" % n)
            taken = False
            while not taken:
                try:
                    taken = builder.append(*record) if n % 2 else builder.extend([record]) == 1
                    if not taken or n % 40 == 0:
                        batches.append(builder.finish())
                except RuntimeError:  # another thread uses the builder
                    rejected[0] += 1

    together(work)
    batches.append(builder.finish())
    found = Counter((r.key, r.value) for batch in batches for r in read_records(batch))
    assert set(found) == {(b"%d" % i, b"%d" % n) for i in range(THREADS) for n in range(150)}
    assert all(kafkafmt.check_batches(batch).ok for batch in batches)
    offsets = sorted(r.offset for batch in batches for r in read_records(batch))
    assert offsets == list(range(len(offsets)))


def test_one_thread_at_a_time_appends_columns(package: ModuleType) -> None:
    builder, columns, batches = BatchBuilder(max_bytes=2000), columns_of(key=[b"k"] * 300), []

    def work(_: int) -> None:
        row = 0
        while row < columns.rows:
            try:
                row, made = builder.append_many(columns, row)
                batches.extend(made)
            except RuntimeError:
                continue

    together(work)
    batches.append(builder.finish())
    assert sum(1 for batch in batches for _ in read_records(batch)) == THREADS * 300


@pytest.mark.parametrize("codec", ["producer", "zstd"])
def test_validator_can_be_used_by_all_threads(package: ModuleType, codec: Codec) -> None:
    validator = kafkafmt.records.LogValidator(codec=codec, after_max_ms=2**62)
    batch = build_batch([(b"k", b"v" * 100, 5)] * 50, codec="lz4")
    results = together(lambda i: [validator.validate(batch, 100 * i).first_offset for _ in range(30)])
    assert results == [[100 * i] * 30 for i in range(THREADS)]


def test_partition_can_be_read_by_all_threads(package: ModuleType, log: kafkafmt.Log) -> None:
    fresh = kafkafmt.open(log["t", 0].log.directory.path)["t", 0]

    def work(i: int) -> tuple[int, int, int]:
        return sum(1 for _ in fresh.records(start=i)), fresh.next_offset, fresh.last_stable_offset

    assert together(work) == [(RECORDS - i, RECORDS, RECORDS) for i in range(THREADS)]


def test_writer_appends_for_all_threads(package: ModuleType, tmp_path: Path) -> None:
    with kafkafmt.LogDirectory(tmp_path) as directory:
        writer = directory.writer("t")
        together(lambda i: [writer.append([(b"%d" % i, b"v")] * 3) for _ in range(10)])
        assert writer.next_offset == THREADS * 30
    records = list(kafkafmt.open(tmp_path)["t", 0])
    assert [r.offset for r in records] == list(range(THREADS * 30))
    assert all(a.key == b.key == c.key for a, b, c in zip(*[iter(records)] * 3, strict=True))


def test_log_directory_opens_each_partition_for_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    opened: list[Any] = []
    rejected: list[BaseException] = []

    def work(_: int) -> None:
        try:
            opened.append(kafkafmt.LogDirectory(tmp_path))
        except BlockingIOError as error:
            rejected.append(error)

    together(work)
    assert (len(opened), len(rejected)) == (1, THREADS - 1)
    (directory,) = opened
    writers: list[Any] = []

    def write(_: int) -> None:
        for partition in range(4):
            try:
                writers.append(directory.writer("t", partition))
            except ValueError:
                continue

    together(write)
    assert sorted(w.partition for w in writers) == [0, 1, 2, 3]

    def append_until_closed(i: int) -> int:
        for n in range(100):
            if n == 30 + i:
                directory.close()
            try:
                writers[n % 4].append([(b"k", b"v")])
            except ValueError:
                return n
        return 100

    assert sum(together(append_until_closed)) < 100 * THREADS
    for partition in kafkafmt.open(tmp_path):
        assert len(list(partition)) == partition.next_offset
    with kafkafmt.LogDirectory(tmp_path) as again:
        assert again.clean


def test_splitter_accepts_frames_from_all_threads() -> None:
    splitter, frame = FrameSplitter(), (20).to_bytes(4, "big") + bytes(20)
    counts = together(lambda _: sum(len(list(splitter.feed(frame * 3))) for _ in range(200)))
    assert sum(counts) == THREADS * 600
    assert splitter.buffered == 0
    shared = splitter.feed(frame * 1000)
    assert len(drained(shared)) == 1000


def test_correlation_loses_no_request_between_threads() -> None:
    correlation, taken = Correlation(), []

    def work(i: int) -> None:
        for n in range(500):
            if i % 2:
                correlation.expect(n % 3, 18, i)
            else:
                taken.append(correlation.take(n % 3))
            len(correlation)

    together(work)
    found = [t for t in taken if t is not None]
    assert len(found) + len(correlation) == THREADS // 2 * 500


def test_decoded_columns_can_be_read_by_all_threads(core: ModuleType, buffer: bytes) -> None:
    """Threads must not decode into the same columns. The result is an error or wrong rows, but never a crash."""
    from kafkafmt.errors import KafkaFormatError
    from kafkafmt.records import iter_tables
    from kafkafmt.types import RecordColumns

    data = b"".join(build_batches(((b"k", b"v") for _ in range(3000)), 2000))
    table, columns = next(iter(iter_tables(data))).copy(), RecordColumns(500)

    def work(_: int) -> None:
        for _ in range(20):
            try:
                core.decode_records(data, table, columns)
                core.make_records(data, columns)
                columns.clear()
                columns.reset()
            except (ValueError, TypeError, IndexError, KafkaFormatError):
                columns.clear()

    together(work)


def test_codecs_reject_a_second_thread(buffer: bytes) -> None:
    """Without a lock, zstandard crashes if two threads use one context."""
    from kafkafmt.codecs.compressor import Compressor
    from kafkafmt.codecs.decompressor import Arena, Decompressor

    data = os.urandom(1000) * 300
    compressor, decompressor = Compressor(4), Decompressor()
    packed = compressor.compress(data)

    def work(_: int) -> None:
        arena = Arena()
        for _ in range(30):
            try:
                assert compressor.compress(data) == packed
                arena.filled = 0
                size = decompressor.decompress(4, packed, arena)
                assert arena.data[:size].tobytes() == data
            except RuntimeError:
                continue

    together(work)
    with compressor._busy, decompressor._busy:
        with pytest.raises(RuntimeError, match="another thread is using this Compressor"):
            compressor.compress(data)
        with pytest.raises(RuntimeError, match="another thread is using this Decompressor"):
            decompressor.decompress(4, packed, Arena())
    assert compressor.compress(data) == packed


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_shared_reader_never_crashes(package: ModuleType, codec: Codec) -> None:
    from kafkafmt.records import RecordReader, iter_tables

    data = b"".join(build_batches(((b"k", b"v" * 100) for _ in range(2000)), 2000, codec=codec))
    table, reader = next(iter_tables(data)).copy(), RecordReader(capacity=500)

    def work(_: int) -> None:
        for _ in range(10):
            try:
                for _chunk in reader.read(data, table):
                    pass
            except (RuntimeError, ValueError, TypeError, IndexError, kafkafmt.KafkaFormatError):
                continue

    together(work)


def test_error_names_the_batch_at_which_decoding_began(core: ModuleType) -> None:
    """Another thread moves the cursor between decoding and the error."""
    from kafkafmt.records import iter_tables
    from kafkafmt.types import RecordColumns

    class Moved(RecordColumns):
        armed = False

        def __setattr__(self, name: str, value: Any) -> None:
            object.__setattr__(self, name, value)
            if name == "rows" and self.armed:
                self.cursor[0] = 1

    data = build_batch([(b"k", b"v")], base_offset=10) + build_batch([(b"k", b"v")], base_offset=20)
    table, columns = next(iter_tables(data)).copy(), Moved(10)
    table["count"][0] = 5
    columns.armed = True
    error = core.decode_records(data, table, columns)
    assert error.base_offset == 10


# --- without the GIL, a list or message of the caller can change during a call of the core


def repeated(works: list[Callable[[], Any]]) -> None:
    """Call each function in a thread of its own, again and again."""
    end = time.monotonic() + SECONDS

    def work(i: int) -> None:
        while time.monotonic() < end:
            try:
                works[i % len(works)]()
            except (RuntimeError, IndexError, KeyError):  # KeyError: from the pure-Python ProducerTable
                continue

    together(work)


def test_lists_can_change_while_they_are_appended(package: ModuleType) -> None:
    builder, batches = BatchBuilder(), []
    headers, records = [("h", b"x")] * 5, [(b"k", b"v", 1)] * 500

    def change(items: list[Any], make: Callable[[], Any]) -> None:
        items.append(make())
        items[len(items) // 2] = make()
        del items[0]

    repeated(
        [
            lambda: change(records, lambda: (os.urandom(4), os.urandom(40), 2)),
            lambda: change(headers, lambda: ("é" + os.urandom(2).hex(), os.urandom(9))),
            lambda: builder.extend(records),
            lambda: builder.append(b"k", b"v", 1, headers),
            lambda: batches.append(builder.finish()),
        ]
    )
    batches.append(builder.finish())
    assert all(kafkafmt.check_batches(batch).ok for batch in batches if batch)


def test_message_can_change_while_it_is_written(package: ModuleType) -> None:
    body = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=f"topic-{i}") for i in range(50)])

    def change() -> None:
        body.topics = [MetadataRequest.MetadataRequestTopic(name=os.urandom(4).hex()) for _ in range(50)]
        body.topics[7].name = os.urandom(30).hex()
        body.topics.append(body.topics[3])
        del body.topics[0]

    def write() -> None:
        frame = b"".join(write_request(make_request(body, 9)))
        written: Any = read_request(frame).body
        assert len(written.topics) in range(49, 52)

    repeated([change, write, write])


def test_producer_table_can_be_used_by_all_threads(core: ModuleType) -> None:
    from kafkafmt.records import iter_tables

    table = core.ProducerTable()
    batches = b"".join(build_batch([(b"k", b"v")], base_offset=i) for i in range(100))
    rows = next(iter(iter_tables(batches))).copy()
    rows["attributes"] = 16  # transactional

    def update() -> None:
        mine = rows.copy()
        mine["producer_id"] = [int.from_bytes(os.urandom(1)) for _ in mine]
        table.update(mine, {})

    repeated(
        [
            update,
            update,
            lambda: (table.first_open(), table.state_of(5)),
            lambda: table.contains(table.all_states()),
            lambda: table.open_besides(table.open_states()),
            lambda: table.forget(2**62),
        ]
    )
    assert len(table.all_states()) == 46 * len(table)
