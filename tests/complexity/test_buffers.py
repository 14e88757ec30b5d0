"""Check functions for batches in buffers, on the pure-Python core, whose lines can be counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from building import batch, message, mutate, record, simple_batch
from fuzz import cores
from fuzz.seeds import wrapper
from fuzz.work import counted

import kafkafmt
import kafkafmt.records
from kafkafmt._pure import format_records
from kafkafmt.log.finding.byte_pattern import BytePattern

from .growth import grows_linearly, lines_of


@pytest.fixture(autouse=True)
def _pure() -> Iterator[None]:
    with cores.using("pure"):
        yield


def batches(n: int, **fields: Any) -> list[bytes]:
    return [simple_batch([b"v"], i, **fields) for i in range(n)]


def read(data: bytes, **options: Any) -> Callable[..., Any]:
    return lambda: list(kafkafmt.read_records(data, **options))


def test_reading_grows_linearly_with_batches() -> None:
    grows_linearly(30, lambda n: lines_of(read(b"".join(batches(n))), read(b"".join(batches(n)), start=n - 1)))


def test_reading_grows_linearly_with_compressed_batches() -> None:
    grows_linearly(30, lambda n: lines_of(read(b"".join(batches(n, codec=1)))))


def test_reading_grows_linearly_with_records_and_headers() -> None:
    def work(n: int) -> Counter[str]:
        headers = [(b"h", b"v")] * n
        return lines_of(read(batch([(i, 0, b"k", b"v", ()) for i in range(n)] + [(n, 0, None, None, headers)])))

    grows_linearly(30, work)


def test_reading_grows_linearly_with_aborted_transactions() -> None:
    def work(n: int) -> Counter[str]:
        data = b"".join(
            simple_batch([b"v"], i, flags=0x10, producer_id=i, producer_epoch=0, base_sequence=0) for i in range(n)
        )
        return lines_of(read(data, aborted=[(i, i) for i in range(n)]))

    grows_linearly(30, work)


@pytest.mark.parametrize("magic", [0, 1])
def test_reading_grows_linearly_with_messages_and_wrappers(magic: int) -> None:
    def work(n: int) -> Counter[str]:
        messages = [message(magic, b"k", b"v", offset=i) for i in range(n)]
        wrappers = b"".join(wrapper(magic, 1, messages[:2], 2 * i + 1, 2 * i) for i in range(n))
        return lines_of(read(b"".join(messages)), read(wrappers), read(wrapper(magic, 1, messages, n - 1)))

    grows_linearly(30, work)


@pytest.mark.parametrize("magic", [1, 2])
def test_iterating_grows_linearly_with_batches(magic: int) -> None:
    def work(n: int) -> Counter[str]:
        data = b"".join(batches(n)) if magic == 2 else b"".join(message(1, b"k", b"v", offset=i) for i in range(n))
        return lines_of(lambda: [(b.base_offset, b.is_valid, b.data) for b in kafkafmt.iter_batches(data)])

    grows_linearly(30, work)


DAMAGED: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "every batch": lambda parts: [mutate(p, 30, b"\xff") for p in parts],
    "every other batch": lambda parts: [mutate(p, 30, b"\xff") if i % 2 else p for i, p in enumerate(parts)],
    "length of every batch": lambda parts: [mutate(p, 8, b"\xff") for p in parts],
    "length of every other batch": lambda parts: [mutate(p, 8, b"\xff") if i % 2 else p for i, p in enumerate(parts)],
    "no byte": lambda parts: parts,
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_checking_grows_linearly_with_damaged_batches(damage: str) -> None:
    def work(n: int) -> int:
        data = b"".join(DAMAGED[damage](batches(n)))
        with counted() as done:
            kafkafmt.check_batches(data)
        return done.total

    grows_linearly(30, work)


def _check(data: bytes) -> None:
    assert not kafkafmt.check_batches(data).ok


def _decode_in_spark(data: bytes) -> None:
    functions = pytest.importorskip("kafkafmt.spark.functions")
    for _ in functions.decode_partition(on_error="skip")([data]):
        pass


CLAIMS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "each": lambda parts: parts,
    "every other": lambda parts: [p if i % 2 else simple_batch([b"v" * 40], i) for i, p in enumerate(parts)],
    "each, with one end": lambda parts: [*parts, simple_batch([b"w" * 40 * len(parts)], len(parts))],
}


@pytest.mark.parametrize("read", [_check, _decode_in_spark])
@pytest.mark.parametrize("claims", CLAIMS)
def test_scanning_grows_linearly_with_headers_that_claim_the_rest(
    monkeypatch: pytest.MonkeyPatch, claims: str, read: Callable[..., Any]
) -> None:
    """Many plausible headers have wrong CRCs. Their lengths end near the end of the buffer, or are large."""
    from kafkafmt._pure import batch as pure_batch
    from kafkafmt._pure import prefix_crcs
    from kafkafmt._pure.crc import crc32c

    under_crc = [0]

    def counting(view: memoryview, value: int = 0, start: int = 0, end: int | None = None) -> int:
        under_crc[0] += (len(view) if end is None else end) - start
        return crc32c(view, value, start, end)

    for module in (pure_batch, prefix_crcs):
        monkeypatch.setattr(module, "crc32c", counting)
    for name, length in (("DIRECT_LENGTH", 256), ("PREFIX_STEP", 128)):
        monkeypatch.setattr(prefix_crcs, name, length)

    def work(n: int) -> int:
        size = len(simple_batch([b"v" * 40]))
        parts = [mutate(simple_batch([b"v" * 40], i), 8, (size * (n - i) - 12).to_bytes(4, "big")) for i in range(n)]
        under_crc[0] = 0
        read(b"".join(CLAIMS[claims](parts)) + b"\xff" * 100)
        return under_crc[0]

    grows_linearly(40, work)


def test_checking_grows_linearly_with_producers() -> None:
    def work(n: int) -> Counter[str]:
        data = b"".join(
            simple_batch([b"v"], i, producer_id=i % 50, producer_epoch=0, base_sequence=i) for i in range(n)
        )
        return lines_of(lambda: kafkafmt.check_batches(data))

    grows_linearly(250, work)


@pytest.mark.parametrize(
    "settings", [{}, {"codec": "gzip"}, {"magic": 1}, {"timestamp_type": "LogAppendTime"}], ids=str
)
def test_validation_grows_linearly_with_batches(settings: dict[str, Any]) -> None:
    def work(n: int) -> Counter[str]:
        data = b"".join(batches(n))
        return lines_of(
            lambda: kafkafmt.records.validate_and_assign_offsets(bytearray(data), 0, origin="coordinator", **settings)
        )

    grows_linearly(30, work)


def test_validation_grows_linearly_with_invalid_records() -> None:
    def work(n: int) -> Counter[str]:
        data = bytearray(batch([record(i, value=b"v") for i in range(n)]))

        def reject() -> None:
            with pytest.raises(kafkafmt.InvalidError):
                kafkafmt.records.validate_and_assign_offsets(data, 0, compacted=True)

        return lines_of(reject)

    grows_linearly(60, work)


@pytest.mark.parametrize("magic", [0, 1])
def test_conversion_grows_linearly_with_batches(magic: int) -> None:
    def work(n: int) -> Counter[str]:
        data = b"".join(batches(n))
        old = b"".join(message(magic, b"k", b"v", offset=i) for i in range(n))
        return lines_of(
            lambda: kafkafmt.records.convert(data, magic), lambda: kafkafmt.records.convert(old, 2), lambda: kafkafmt.records.recompress(data, "gzip"),
            lambda: kafkafmt.records.recompress(old, "gzip"),
        )  # fmt: skip

    grows_linearly(30, work)


def test_assigning_offsets_grows_linearly_with_batches() -> None:
    grows_linearly(30, lambda n: lines_of(lambda: kafkafmt.records.assign_offsets(bytearray(b"".join(batches(n))), 5)))


def test_building_grows_linearly_with_records() -> None:
    def work(n: int) -> Counter[str]:
        rows = [(b"k", b"v" * 50)] * n
        columns = kafkafmt.records.columns_of(key=[b"k"] * n, headers=[[("h", b"x")]] * n)
        return lines_of(
            lambda: list(kafkafmt.build_batches(rows, 500)), lambda: list(kafkafmt.records.build_columns(columns, 500))
        )

    grows_linearly(100, work)


@pytest.mark.parametrize("pattern", ["ab", "[ab]{2}", "(a|b)+$", "^x|y"])
def test_searching_values_grows_linearly_with_values(pattern: str) -> None:
    def work(n: int) -> Counter[str]:
        values = [b"ab", b"x", b"", b"ba--ab"] * n
        source = b"ab" + b"ab".join(values)
        lengths = np.array([len(v) for v in values], np.int32)
        positions = np.cumsum(lengths + 2, dtype=np.int64) - lengths
        return lines_of(lambda: BytePattern(pattern).find(source, positions, lengths))

    grows_linearly(30, work)


def test_formatting_grows_linearly_with_records_and_headers() -> None:
    def work(n: int) -> Counter[str]:
        data = batch([(i, 0, b'"' * n, b"v", [(b"h", b"i")] * 3) for i in range(n)])
        template: list[bytes | str] = ["key", b" ", "headers", b"\n"]
        chunks = list(kafkafmt.records.read_chunks(data, capacity=4 * n))
        return lines_of(lambda: [format_records(*chunk, template, "csv", "utf8") for chunk in chunks])

    grows_linearly(30, work)
