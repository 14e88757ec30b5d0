"""Batches in buffers: scanning, decoding, wrappers, damage, validation, conversion. On the pure core, whose loops can be counted."""

from __future__ import annotations

import pytest
from building import batch, message, mutate, record, simple_batch
from fuzz import cores
from fuzz.seeds import wrapper
from fuzz.work import counted

import kafkafmt

from .growth import grows_linearly, lines_of


@pytest.fixture(autouse=True)
def _pure():
    with cores.using("pure"):
        yield


def batches(n, **fields):
    return [simple_batch([b"v"], i, **fields) for i in range(n)]


def read(data, **options):
    return lambda: list(kafkafmt.read_records(data, **options))


def test_reading_many_batches():
    grows_linearly(30, lambda n: lines_of(read(b"".join(batches(n))), read(b"".join(batches(n)), start=n - 1)))


def test_reading_many_compressed_batches():
    grows_linearly(30, lambda n: lines_of(read(b"".join(batches(n, codec=1)))))


def test_reading_many_records_and_headers():
    def work(n):
        headers = [(b"h", b"v")] * n
        return lines_of(read(batch([(i, 0, b"k", b"v", ()) for i in range(n)] + [(n, 0, None, None, headers)])))

    grows_linearly(30, work)


def test_reading_without_many_aborted_transactions():
    def work(n):
        data = b"".join(
            simple_batch([b"v"], i, flags=0x10, producer_id=i, producer_epoch=0, base_sequence=0) for i in range(n)
        )
        return lines_of(read(data, aborted=[(i, i) for i in range(n)]))

    grows_linearly(30, work)


@pytest.mark.parametrize("magic", [0, 1])
def test_reading_messages_and_wrappers(magic):
    def work(n):
        messages = [message(magic, b"k", b"v", offset=i) for i in range(n)]
        wrappers = b"".join(wrapper(magic, 1, messages[:2], 2 * i + 1, 2 * i) for i in range(n))
        return lines_of(read(b"".join(messages)), read(wrappers), read(wrapper(magic, 1, messages, n - 1)))

    grows_linearly(30, work)


@pytest.mark.parametrize("magic", [1, 2])
def test_iterating_over_batches(magic):
    def work(n):
        data = b"".join(batches(n)) if magic == 2 else b"".join(message(1, b"k", b"v", offset=i) for i in range(n))
        return lines_of(lambda: [(b.base_offset, b.is_valid, b.data) for b in kafkafmt.iter_batches(data)])

    grows_linearly(30, work)


DAMAGED = {
    "every batch": lambda parts: [mutate(p, 30, b"\xff") for p in parts],
    "every other batch": lambda parts: [mutate(p, 30, b"\xff") if i % 2 else p for i, p in enumerate(parts)],
    "length of every batch": lambda parts: [mutate(p, 8, b"\xff") for p in parts],
    "length of every other batch": lambda parts: [mutate(p, 8, b"\xff") if i % 2 else p for i, p in enumerate(parts)],
    "no byte": lambda parts: parts,
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_checking_damaged_batches(damage):
    def work(n):
        data = b"".join(DAMAGED[damage](batches(n)))
        with counted() as done:
            kafkafmt.check_batches(data)
        return done.total

    grows_linearly(30, work)


def _check(data):
    assert not kafkafmt.check_batches(data).ok


def _decode_in_spark(data):
    functions = pytest.importorskip("kafkafmt.spark.functions")
    for _ in functions.decode_partition(on_error="skip")([data]):
        pass


CLAIMS = {
    "each": lambda parts: parts,
    "every other": lambda parts: [p if i % 2 else simple_batch([b"v" * 40], i) for i, p in enumerate(parts)],
    "each, with one end": lambda parts: [*parts, simple_batch([b"w" * 40 * len(parts)], len(parts))],
}


@pytest.mark.parametrize("read", [_check, _decode_in_spark])
@pytest.mark.parametrize("claims", CLAIMS)
def test_headers_that_claim_to_reach_the_end(monkeypatch, claims, read):
    """Many plausible headers have a length close to the end of the buffer, where no batch is, or a large one, and a wrong CRC."""
    from kafkafmt._pure import batch as pure_batch
    from kafkafmt._pure import search as pure_search

    under_crc = [0]
    crc32c = pure_batch.crc32c

    def counting(view, value=0, start=0, end=None):
        under_crc[0] += (len(view) if end is None else end) - start
        return crc32c(view, value, start, end)

    for module in (pure_batch, pure_search):
        monkeypatch.setattr(module, "crc32c", counting)
    for name, length in (
        ("DIRECT_LENGTH", 256),
        ("PREFIX_STEP", 128),
    ):  # what is summed for each header, whatever it claims
        monkeypatch.setattr(pure_search, name, length)

    def work(n):
        size = len(simple_batch([b"v" * 40]))
        parts = [mutate(simple_batch([b"v" * 40], i), 8, (size * (n - i) - 12).to_bytes(4, "big")) for i in range(n)]
        under_crc[0] = 0
        read(b"".join(CLAIMS[claims](parts)) + b"\xff" * 100)
        return under_crc[0]

    grows_linearly(40, work)


def test_checking_sequences_of_many_producers():
    def work(n):
        data = b"".join(
            simple_batch([b"v"], i, producer_id=i % 50, producer_epoch=0, base_sequence=i) for i in range(n)
        )
        return lines_of(lambda: kafkafmt.check_batches(data))

    grows_linearly(250, work)


@pytest.mark.parametrize(
    "settings", [{}, {"codec": "gzip"}, {"magic": 1}, {"timestamp_type": "LogAppendTime"}], ids=str
)
def test_validating_many_batches(settings):
    def work(n):
        data = b"".join(batches(n))
        return lines_of(
            lambda: kafkafmt.validate_and_assign_offsets(bytearray(data), 0, origin="coordinator", **settings)
        )

    grows_linearly(30, work)


def test_validating_many_records_that_break_a_rule():
    def work(n):
        data = bytearray(batch([record(i, value=b"v") for i in range(n)]))

        def refused():
            with pytest.raises(kafkafmt.InvalidError):
                kafkafmt.validate_and_assign_offsets(data, 0, compacted=True)

        return lines_of(refused)

    grows_linearly(60, work)


@pytest.mark.parametrize("magic", [0, 1])
def test_converting_and_recompressing(magic):
    def work(n):
        data = b"".join(batches(n))
        old = b"".join(message(magic, b"k", b"v", offset=i) for i in range(n))
        return lines_of(
            lambda: kafkafmt.convert(data, magic), lambda: kafkafmt.convert(old, 2), lambda: kafkafmt.recompress(data, "gzip"),
            lambda: kafkafmt.recompress(old, "gzip"),
        )  # fmt: skip

    grows_linearly(30, work)


def test_assigning_offsets():
    grows_linearly(30, lambda n: lines_of(lambda: kafkafmt.assign_offsets(bytearray(b"".join(batches(n))), 5)))


def test_building_batches_and_columns():
    def work(n):
        rows = [(b"k", b"v" * 50)] * n
        columns = kafkafmt.columns_of(key=[b"k"] * n, headers=[[("h", b"x")]] * n)
        return lines_of(
            lambda: list(kafkafmt.build_batches(rows, 500)), lambda: list(kafkafmt.build_columns(columns, 500))
        )

    grows_linearly(100, work)
