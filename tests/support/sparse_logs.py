"""Write large partitions that need little disk space, with complete indexes and sparse segments.

A segment has 1 GiB: 16384 batches of 64 KiB, with 16 records each. Only the batches that a lookup
reads are written: the requested batch, the batch before it, to which the indexes point, and the
last batch. The rest of the file consists of holes.

    log = SparseLog(directory, segments=1024, asked=[0.5])       1 TiB, in which the offset at the middle can be looked up
    log.questions                                               [(offset, timestamp)]
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from building import batch

SEGMENT_BYTES = 1 << 30
BATCH_BYTES = 1 << 16
BATCHES = SEGMENT_BYTES // BATCH_BYTES
RECORDS = 16
PER_SEGMENT = BATCHES * RECORDS
FIRST_TIME = 1_700_000_000_000
BATCH_MS = 1000


class SparseLog:
    """A partition directory with `segments` segments.

    `asked` contains the positions to look up, as fractions of the log. The fraction also determines
    the batch in the segment.
    """

    def __init__(self, directory: Path, segments: int, asked: Sequence[float]) -> None:
        self.directory = directory
        directory.mkdir(parents=True)
        wanted: dict[int, set[int]] = {n: {BATCHES - 1} for n in range(segments)}
        self.questions = []
        for fraction in asked:
            number, at = int(fraction * segments), int(fraction * BATCHES)
            wanted[number] |= {at - 1, at}
            self.questions.append((number * PER_SEGMENT + at * RECORDS + 5, _time(number, at) + 5))
        positions = np.arange(1, BATCHES) * BATCH_BYTES
        last = np.arange(1, BATCHES) * RECORDS + RECORDS - 1
        shared = directory / "index"
        shared.write_bytes(np.stack([last, positions], axis=1).astype(">i4").tobytes())
        for number, batches in wanted.items():
            name = directory / f"{number * PER_SEGMENT:020}"
            os.link(shared, f"{name}.index")  # the entries are relative, so they are the same in each segment
            times = np.empty(BATCHES - 1, [("timestamp", ">i8"), ("relative", ">i4")])
            times["timestamp"], times["relative"] = _time(number, np.arange(1, BATCHES)) + RECORDS - 1, last
            Path(f"{name}.timeindex").write_bytes(times.tobytes())
            with open(f"{name}.log", "wb") as file:
                file.truncate(SEGMENT_BYTES)
                for at in batches:
                    file.seek(at * BATCH_BYTES)
                    file.write(_batch(number, at))
        shared.unlink()


def _time(number: int, at: Any) -> Any:
    return FIRST_TIME + (number * BATCHES + at) * BATCH_MS


def _batch(number: int, at: int) -> bytes:
    value = b"x" * 4000
    base, time = number * PER_SEGMENT + at * RECORDS, _time(number, at)
    records = [(i, i, None, value, ()) for i in range(RECORDS)]
    short = len(batch(records, base_offset=base, base_timestamp=time))
    records[-1] = (RECORDS - 1, RECORDS - 1, None, value + b"y" * (BATCH_BYTES - short), ())
    made = batch(records, base_offset=base, base_timestamp=time)
    assert len(made) == BATCH_BYTES
    return made
