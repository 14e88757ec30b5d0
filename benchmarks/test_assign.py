"""Measure offset assignment in place, and validation, compared with checking only CRCs.

The peer scans batch headers and checks CRCs, with only the core. `assign_offsets` checks each batch
of 16 KiB, and writes its base offset and leader epoch. The validator checks only headers
(`check_records=False`), or also all records. Figures are per batch.

A request contains one batch of a client, and is validated by a separate call. Its peer copies the
batch, checks its CRC, and decompresses it if necessary.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import inputs
import numpy as np
import pytest

import kafkafmt
from kafkafmt.codecs.decompressor import Arena, Decompressor
from kafkafmt.records import assign_offsets, validate_and_assign_offsets
from kafkafmt.records.signatures import ValidatorOptions
from kafkafmt.types import BATCH_DTYPE

OPTIONS: ValidatorOptions = {"origin": "coordinator", "now_ms": inputs.FIRST_TIME, "after_max_ms": 10**12}


def walk(data: bytearray) -> Callable[[], int]:
    table = np.zeros(4096, BATCH_DTYPE)

    def read() -> int:
        position = count = 0
        while position < len(data):
            scan = kafkafmt._backend.core.scan_batches(data, table, position)
            position, count = scan.position, count + scan.count
        return count

    return read


@pytest.mark.benchmark(group="in place, a batch", timer=time.process_time)
@pytest.mark.parametrize("letter", ["a", "c"])
@pytest.mark.parametrize("operation", ["assign_offsets", "validate, headers", "validate, records"])
def test_batches_changed_in_place(compare: Callable[..., object], letter: str, operation: str) -> None:
    data = bytearray(inputs.make(letter))
    count = walk(data)()

    def ours() -> int:
        if operation == "assign_offsets":
            assign_offsets(data, 7, 3)
        else:
            settings: ValidatorOptions = {**OPTIONS, "check_records": operation.endswith("records")}
            assert validate_and_assign_offsets(data, 7, **settings).in_place
        return count

    compare(
        f"{letter}, {operation}",
        ours,
        "walk with CRC",
        walk(data),
        rounds=41,
    )


@pytest.mark.benchmark(group="a request", timer=time.process_time)
@pytest.mark.parametrize("codec", ["none", "lz4", "zstd", "LogAppendTime"])
def test_single_request(compare: Callable[..., object], codec: Any) -> None:
    kind, codec = ("LogAppendTime", "none") if codec == "LogAppendTime" else ("CreateTime", codec)
    records = [
        (b"k" * 10, b"a few words of %d" % (i * 7919 % 997) + bytes(80), inputs.FIRST_TIME + i) for i in range(136)
    ]
    batch = kafkafmt.build_batch(records, codec=codec)
    (view,) = kafkafmt.iter_batches(batch)
    number, times = view.attributes & 7, 200
    validator = kafkafmt.records.LogValidator(now_ms=inputs.FIRST_TIME, timestamp_type=kind)
    decompressor, arena = Decompressor(), Arena()

    def ours() -> int:
        for _ in range(times):
            assert validator.validate(batch, 7).in_place
        return times

    def bare() -> int:
        for _ in range(times):
            bytearray(batch)
            kafkafmt._backend.core.crc32c(batch, 0, 21)
            if number:
                arena.filled = 0
                decompressor.decompress(number, view.payload, arena)
        return times

    compare(f"{codec}, {kind}", ours, "copy, CRC, decompression", bare, rounds=21)
