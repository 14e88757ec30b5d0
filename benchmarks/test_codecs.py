"""Measure decoding of compressed batches of 16 KiB into columns, compared with aiokafka.

CRCs are checked. Both use the same libraries for lz4, snappy and zstd. For gzip, kafkafmt uses isal
if it is installed, and aiokafka uses zlib.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import inputs
import pytest
import readers


@pytest.mark.benchmark(group="compressed into columns", timer=time.process_time)
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_codecs(compare: Callable[..., object], codec: str) -> None:
    data = inputs.make("a", codec)
    compare(f"a, {codec}", readers.reader(data), "aiokafka", readers.aiokafka_fields(data))
