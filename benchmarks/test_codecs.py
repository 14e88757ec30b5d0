"""How fast do compressed batches of 16 KiB become columns, CRC checked, beside aiokafka?

Both decompress with the same libraries underneath for lz4, snappy and zstd; gzip is isal's here where it is installed, zlib's there.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import inputs
import pytest
import readers

TARGETS = {"gzip": 3.5, "snappy": 2.5, "lz4": 3, "zstd": 3}


@pytest.mark.benchmark(group="compressed into columns", timer=time.process_time)
@pytest.mark.parametrize("codec", TARGETS)
def test_codecs(contest: Callable[..., object], codec: str) -> None:
    data = inputs.make("a", codec)
    contest(f"a, {codec}", readers.reader(data), "aiokafka", readers.aiokafka_fields(data), TARGETS[codec])
