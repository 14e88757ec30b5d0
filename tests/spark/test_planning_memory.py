"""Check that the plan of a query over many segments needs little memory."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

from source_rows import plan

PARTITIONS, SEGMENTS = 40, 50
SEGMENT_BYTES = 1 << 20


def test_plan_of_many_segments_needs_little_memory(tmp_path: Path) -> None:
    for partition in range(PARTITIONS):
        folder = tmp_path / f"topic-{partition}"
        folder.mkdir()
        for segment in range(SEGMENTS):
            with open(folder / f"{segment * 1000:020}.log", "wb") as file:
                file.truncate(SEGMENT_BYTES)
    plan(tmp_path)  # load all modules
    gc.collect()
    tracemalloc.start()
    _, partitions = plan(tmp_path)
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(len(split.pieces) for p in partitions for split in p.task.splits) == PARTITIONS * SEGMENTS
    assert size < 100 * PARTITIONS * SEGMENTS  # the objects of a split needed about 800 bytes for each segment
