"""What do offsets set in place cost beside the CRC, over 16 KiB batches, and what does validation cost beside it?

The peer is the shallow walk with its CRCs, by the core alone. `assign_offsets` checks every batch and then writes base offset
and leader epoch; the validator looks at headers (`check_records=False`) or at every record too. Figures are per batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import inputs
import numpy as np
import pytest

import kafkafmt
from kafkafmt import assign_offsets, validate_and_assign_offsets
from kafkafmt.types import BATCH_DTYPE

OPTIONS = {"origin": "coordinator", "now_ms": inputs.FIRST_TIME, "after_max_ms": 10**12}


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
@pytest.mark.parametrize("what", ["assign_offsets", "validate, headers", "validate, records"])
def test_in_place(contest: Callable[..., object], letter: str, what: str) -> None:
    data = bytearray(inputs.make(letter))
    count = walk(data)()

    def ours() -> int:
        if what == "assign_offsets":
            assign_offsets(data, 7, 3)
        else:
            assert validate_and_assign_offsets(data, 7, **OPTIONS, check_records=what.endswith("records")).in_place
        return count

    contest(f"{letter}, {what}", ours, "walk with CRC", walk(data), None if what == "validate, records" else 1 / 1.1, rounds=41)
