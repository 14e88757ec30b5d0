"""Measure reading and checking of files, compared with decoding the same bytes in memory.

The log is opened again in each round. A ratio of 1 means that files cause no overhead. The log
layer reads a valid segment once, in ranges that it checks and then decodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import conftest
import pytest
import readers

import kafkafmt
from kafkafmt.log.storage.file_view import FileView, aligned_buffer

FOUR = ("key", "value", "offset", "timestamp")


@pytest.fixture
def segments(topic: Callable[[str], Path], tmp_path: Path) -> Path:
    """Return a partition directory with the first segments of 64 MiB."""
    directory = tmp_path / "none-64m-0"
    directory.mkdir()
    for file in sorted(topic("none-64m").glob("*.log"))[: conftest.LIMIT >> 26]:
        (directory / file.name).symlink_to(file)
    return directory


def in_memory(directory: Path) -> list[Any]:
    buffers = []
    for file in sorted(directory.glob("*.log")):
        with FileView(file) as view:
            data = aligned_buffer(view.size)
            view.read_into(data, 0)
            buffers.append(data)
    return buffers


@pytest.mark.benchmark(group="the log layer", timer=time.process_time)
def test_arrow(compare: Callable[..., object], segments: Path) -> None:
    kernels = [readers.to_arrow(data) for data in in_memory(segments)]

    def ours() -> int:
        (partition,) = kafkafmt.open(segments)
        return sum(batch.num_rows for batch in partition.to_batches(FOUR, threads=1))

    compare("into Arrow", ours, "buffers in memory", lambda: sum(kernel() for kernel in kernels), rounds=7)


@pytest.mark.benchmark(group="the log layer", timer=time.process_time)
def test_records(compare: Callable[..., object], segments: Path) -> None:
    kernels = [readers.objects(data, kafkafmt.types.COLUMNS) for data in in_memory(segments)]

    def ours() -> int:
        (partition,) = kafkafmt.open(segments)
        return readers.read_fields([partition], True)

    compare("Record objects", ours, "buffers in memory", lambda: [kernel() for kernel in kernels][-1], rounds=5)
