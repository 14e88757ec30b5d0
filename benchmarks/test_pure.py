"""Compare the native core with the pure-Python core, and the pure-Python core with kafka-python."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import inputs
import numpy as np
import pytest
import readers

from kafkafmt import _pure
from kafkafmt._backend import core
from kafkafmt.types import BATCH_DTYPE, RecordColumns

pytestmark = pytest.mark.skipif(core is _pure, reason="there is no native core to compare with")

SIZE = 1 << 20
NAMES = (*readers.FIELDS, "headers")


def varint(core: Any, data: bytes) -> int:
    for _ in range(2000):
        core.read_varint(b"\xd2\x01")
    return 2000


def crc(core: Any, data: bytes) -> int:
    core.crc32c(data)
    return len(data) // 1024


def scan(core: Any, data: bytes) -> int:
    table = np.zeros(4096, BATCH_DTYPE)
    return int(core.scan_batches(data, table).count)


def decoded(core: Any, data: bytes, names: tuple[str, ...] = NAMES) -> RecordColumns:
    table, columns = np.zeros(4096, BATCH_DTYPE), RecordColumns(1 << 17, names)
    count = core.scan_batches(data, table, 0, None, False).count
    assert core.decode_records(data, table[:count], columns) is None
    return columns


def decode(core: Any, data: bytes) -> int:
    return decoded(core, data).rows


DECODED: dict[bytes, RecordColumns] = {}


def decoded_once(data: bytes) -> RecordColumns:
    if data not in DECODED:
        DECODED[data] = decoded(core, data)
    return DECODED[data]


def gather(core: Any, data: bytes) -> int:
    columns = decoded_once(data)
    offsets, buffer, valid = (
        np.empty(columns.rows + 1, np.int32),
        np.empty(len(data), np.uint8),
        np.zeros(columns.rows // 8 + 1, np.uint8),
    )
    core.gather(data, columns.value_position, columns.value_length, columns.rows, offsets, buffer, valid)
    return columns.rows


def make_records(core: Any, data: bytes) -> int:
    return len(core.make_records(data, decoded_once(data)))


def make_values(core: Any, data: bytes) -> int:
    columns = decoded_once(data)
    return len(core.make_values(data, columns.value_position, columns.value_length, columns.rows))


CASES: dict[str, tuple[Callable[[Any, bytes], int], str]] = {
    "varint, a call": (varint, "a"),
    "crc32c, a KiB": (crc, "a"),
    "scan with CRC, a batch": (scan, "a"),
    "decode": (decode, "a"),
    "decode, 3 headers": (decode, "d"),
    "gather values": (gather, "a"),
    "make_records": (make_records, "a"),
    "make_records, 3 headers": (make_records, "d"),
    "make_values": (make_values, "a"),
}


@pytest.mark.benchmark(group="native and pure core", timer=time.process_time)
@pytest.mark.parametrize("case", CASES)
def test_native_core_and_pure_core(compare: Callable[..., object], case: str) -> None:
    work, letter = CASES[case]
    data = inputs.make(letter, size=SIZE)
    compare(case, lambda: work(core, data), "pure core", lambda: work(_pure, data), rounds=7)


@pytest.mark.benchmark(group="pure core", timer=time.process_time)
@pytest.mark.parametrize("letter", ["a", "f"])
def test_pure_columns(compare: Callable[..., object], letter: str) -> None:
    data = inputs.make(letter, size=SIZE)
    compare(
        f"{letter}, columns",
        readers.columns(data, core=_pure),
        "kafka-python",
        readers.kafka_python_fields(data),
        rounds=7,
    )


@pytest.mark.benchmark(group="pure core", timer=time.process_time)
@pytest.mark.parametrize("letter", ["a", "d", "f"])
def test_pure_records(compare: Callable[..., object], letter: str) -> None:
    data = inputs.make(letter, size=SIZE)
    table, columns = np.zeros(16, BATCH_DTYPE), RecordColumns(1024, readers.FIELDS)  # the same sizes as in read_records

    def lists() -> Iterator[list[Any]]:
        position = 0
        while position < len(data):
            scan = _pure.scan_batches(data, table, position)
            columns.reset()
            while columns.cursor[0] < scan.count:
                assert _pure.decode_records(data, table[: scan.count], columns) is None
                yield _pure.make_records(data, columns)
                columns.clear()
            position = scan.position

    def ours() -> int:
        return readers.read_fields(lists(), False)

    compare(f"{letter}, records", ours, "kafka-python", readers.kafka_python_fields(data), rounds=7)
