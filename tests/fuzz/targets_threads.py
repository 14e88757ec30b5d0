"""Share objects between threads. Calls may return any value or raise any exception, but must not crash."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from typing import Any

import kafkafmt
from kafkafmt import protocol
from kafkafmt.constants import CODEC_NAMES
from kafkafmt.records.reader import iter_tables
from kafkafmt.types import RecordColumns

from . import directories, seeds
from .case import Case
from .known import KNOWN_CRASHES
from .mutate_batches import mutate_stream
from .outcome import attempt
from .target import target
from .targets_protocol import frame_of
from .targets_records import LIMIT, current_core

THREADS = 4
CALLS = 25
OBJECTS = ("builder", "columns", "validator", "splitter", "bytearray", "partition", "partitioner", "correlation", "layout",
           "records-iterator", "partition-iterator", "batches-iterator", "arrow-iterator")  # fmt: skip


def threads_case(chance: Random) -> Case:
    name = chance.choice([o for o in OBJECTS if o not in KNOWN_CRASHES])
    blobs = directories.generated(chance) if name in ("partition", "partition-iterator", "arrow-iterator") else {}
    if not blobs:
        stream = (
            mutate_stream(chance, seeds.stream(chance, 20))
            if chance.random() < 0.3
            else b"".join(seeds.stream(chance, 20))
        )
        blobs = {"data": frame_of(chance, "request")[2] if name in ("splitter", "layout", "correlation") else stream}
    return Case({"object": name, "seed": chance.getrandbits(32)}, blobs)


@target("threads", threads_case, quick=25, compared=False)
def threads(case: Case) -> Any:
    if case.params["object"] in ("partition", "partition-iterator", "arrow-iterator"):
        with directories.written(case.blobs) as root:
            partitions = kafkafmt.open(root, max_batch_bytes=LIMIT).partitions
            if partitions:
                share(_partition_calls(case.params["object"], partitions[0], Random(case.params["seed"])))
        return None
    share(_calls(case.params["object"], case.data, Random(case.params["seed"])))
    return None


def share(calls: list[Callable[[], Any]]) -> None:
    """Make calls repeatedly in several threads at the same time, and ignore their exceptions."""
    ready = threading.Barrier(THREADS)
    escaped: list[BaseException] = []

    def work(number: int) -> None:
        ready.wait()
        for i in range(CALLS):
            try:
                calls[(number + i) % len(calls)]()
            except Exception:  # any error is allowed, but no crash
                continue
            except BaseException as error:
                escaped.append(error)
                return

    workers = [threading.Thread(target=work, args=(n,)) for n in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if escaped:
        raise escaped[0]


def _calls(name: str, data: bytes, chance: Random) -> list[Callable[[], Any]]:
    core = current_core()
    if name == "builder":
        codecs = [c for c in CODEC_NAMES if f"builder-{c}" not in KNOWN_CRASHES]
        made = kafkafmt.records.BatchBuilder(codec=chance.choice(codecs))
        columns = kafkafmt.records.columns_of(key=[b"k" * 50] * 200)
        rows: list[Any] = [(b"k", b"v" * chance.choice((1, 3000)), 5, [("h", b"x")])] * 50
        return [lambda: made.append(b"k", b"v" * 500), lambda: made.extend(rows), made.finish, lambda: made.append_columns(columns),
                lambda: made.size, lambda: made.has_room_for(b"k", b"v")]  # fmt: skip
    if name == "columns":
        tables: list[Any] = []
        attempt(lambda: tables.extend(t.copy() for t in iter_tables(data, check_crc=False)))
        rows_ = RecordColumns(20)
        return [lambda: [core.decode_records(data, t, rows_) for t in tables], rows_.clear, rows_.reset,
                lambda: core.make_records(data, rows_),
                lambda: core.decode_plain_batches(data, rows_), lambda: rows_.grow_headers(chance.choice((1, 100)))]  # fmt: skip
    if name == "validator":
        validator = kafkafmt.records.LogValidator(
            codec=chance.choice(("producer", "lz4", "zstd")), max_batch_bytes=LIMIT
        )
        buffer = bytearray(data)
        return [lambda: validator.validate(bytearray(data), 0), lambda: validator.validate(buffer, 5)]
    if name == "bytearray":
        changing = bytearray(data)
        return [lambda: kafkafmt.records.assign_offsets(changing, 3), lambda: list(kafkafmt.read_records(changing)),
                lambda: changing.extend(b"x" * 5000),
                lambda: changing.__setitem__(slice(20, 40), bytes(20)), lambda: changing.__delitem__(slice(100, None)),
                lambda: list(kafkafmt.read_records(changing, views=True))]  # fmt: skip
    if name == "splitter":
        splitter = protocol.FrameSplitter()
        pieces = [data[: chance.randrange(len(data) + 1)], data]
        return [
            lambda: list(splitter.feed(pieces[0])),
            lambda: splitter.buffered,
            lambda: list(splitter.feed(pieces[1])),
        ]
    if name == "correlation":
        waiting = protocol.Correlation()
        return [
            lambda: waiting.expect(chance.randrange(3), 3, 1),
            lambda: waiting.take(chance.randrange(3)),
            lambda: len(waiting),
        ]
    if name == "layout":
        request = protocol.read_request(data)
        return [lambda: protocol.read_request(data), lambda: protocol.write_request(request), lambda: repr(request)]
    if name == "partitioner":
        keys = kafkafmt.records.Partitioner(5)
        return [lambda: keys.partition(None), lambda: keys.column([None, b"a"] * 50)]
    if name == "batches-iterator":
        return next_of(lambda: kafkafmt.iter_batches(data))
    return next_of(lambda: kafkafmt.read_records(data, views=chance.random() < 0.5, max_batch_bytes=LIMIT))


def next_of(make: Callable[[], Any]) -> list[Callable[[], Any]]:
    """Return a function that calls `next`, and creates a new iterator at the end."""
    shared = [make()]

    def step() -> None:
        for _ in range(20):
            try:
                next(shared[0])
            except Exception:
                shared[0] = make()
                raise

    return [step]


def _partition_calls(name: str, partition: Any, chance: Random) -> list[Callable[[], Any]]:
    if name == "partition-iterator":
        return next_of(lambda: partition.records(on_error="skip"))
    if name == "arrow-iterator":
        return next_of(lambda: partition.to_batches(on_error="skip"))
    return [
        lambda: list(partition.records(on_error="skip")), lambda: partition.next_offset, lambda: partition.last_stable_offset,
        lambda: partition.offset_at(chance.randrange(10)), lambda: partition.max_timestamp, lambda: partition.to_arrow(on_error="skip"),
    ]  # fmt: skip
