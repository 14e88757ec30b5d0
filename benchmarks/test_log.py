"""What does the log floor cost: planning, reading and checking files, beside the same decoding of the same bytes in memory?

Each round opens the log anew. A ratio of 1 would mean that files, plans and findings cost nothing; the log floor walks a segment twice,
once to see what of it can be delivered, once to deliver it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import conftest
import pytest
import readers

import kafkafmt
from kafkafmt.log.files import FileView, aligned_buffer

FOUR = ("key", "value", "offset", "timestamp")


@pytest.fixture
def segments(topic: Callable[[str], Path], tmp_path: Path) -> Path:
    """A partition directory of the first segments of 64 MiB."""
    directory = tmp_path / "none-64m-0"
    directory.mkdir()
    for file in sorted(topic("none-64m").glob("*.log"))[: conftest.LIMIT >> 26]:
        (directory / file.name).symlink_to(file)
    return directory


def in_memory(directory: Path, name: str) -> list[memoryview]:
    buffers = []
    for file in sorted(directory.glob("*.log")):
        with FileView(file) as view:
            data = aligned_buffer(view.size)
            view.read_into(data, 0)
            buffers.append(data)
    return buffers


@pytest.mark.benchmark(group="the log floor")
def test_arrow(contest: Callable[..., object], segments: Path) -> None:
    kernels = [readers.to_arrow(data) for data in in_memory(segments, "arrow")]

    def ours() -> int:
        (partition,) = kafkafmt.open(segments)
        return sum(batch.num_rows for batch in partition.to_batches(FOUR))

    contest("into Arrow", ours, "buffers in memory", lambda: sum(kernel() for kernel in kernels), rounds=7)


@pytest.mark.benchmark(group="the log floor")
def test_records(contest: Callable[..., object], segments: Path) -> None:
    kernels = [readers.objects(data, kafkafmt.types.COLUMNS) for data in in_memory(segments, "records")]

    def ours() -> int:
        (partition,) = kafkafmt.open(segments)
        count = 0
        for record in partition:
            record.offset  # noqa: B018
            record.timestamp  # noqa: B018
            record.key  # noqa: B018
            record.value  # noqa: B018
            record.headers  # noqa: B018
            count += 1
        return count

    contest("Record objects", ours, "buffers in memory", lambda: sum(kernel() for kernel in kernels), rounds=5)
