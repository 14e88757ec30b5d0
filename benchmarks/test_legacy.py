"""Measure decoding of messages of formats 0 and 1 into columns, compared with aiokafka's C reader.

The records of input a are single messages, or are in gzip wrapper messages of 16 KiB before
compression. kafkafmt also checks the CRC of each inner message, and aiokafka that of the wrapper
message.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import inputs
import pytest
import readers

import kafkafmt
from kafkafmt import build_batches
from kafkafmt.typing import Codec

SIZE = 8 << 20


@functools.cache
def messages(magic: int, codec: Codec) -> bytes:
    records = (
        (r.key, r.value, r.timestamp if magic else -1) for r in kafkafmt.read_records(inputs.make("a", size=SIZE))
    )
    return b"".join(build_batches(records, 16384, magic=magic, codec=codec))


@pytest.mark.benchmark(group="formats 0 and 1 into columns", timer=time.process_time)
@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("magic", [0, 1])
def test_legacy(compare: Callable[..., object], magic: int, codec: Codec) -> None:
    data = messages(magic, codec)
    ours = readers.columns(data) if codec == "none" else readers.reader(data)
    compare(f"format {magic}, {codec}", ours, "aiokafka", readers.aiokafka_fields(data))
