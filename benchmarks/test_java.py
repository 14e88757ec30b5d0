"""Measure kafkafmt on a broker's topics, compared with Kafka's own Java classes, the fastest peer.

Java uses MemoryRecords in the heap, with a warm compiler and checked CRCs. Both sides read the
first 256 MiB of each topic from memory. Peer.java describes the modes. Java and Python cannot take
turns in one process. Therefore, a separate JVM measures its own time after half of our rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import conftest
import java_tools
import pytest
import readers
import run

from kafkafmt.log.storage.file_view import FileView, aligned_buffer

pytestmark = pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "Java is here")

WITH_HEADERS = (*readers.FIELDS, "headers")
CASES = [  # our reader, which is also the mode of the Java program, and the topic
    ("columns", "none"),
    ("arrow", "none"),
    ("columns", "lz4"),
    ("columns", "zstd"),
    ("columns", "json1k"),
    ("headers", "headers"),
    ("arrow", "lz4"),
    ("arrow", "zstd"),
]


def load(file: Path) -> Any:
    """Return the first bytes of a log file, up to the end of a complete batch."""
    with FileView(file) as view:
        data = aligned_buffer(min(conftest.LIMIT, view.size))
        view.read_into(data, 0)
    return data


def ours(way: str, data: Any) -> Callable[[], int]:
    if way == "arrow":
        return readers.to_arrow(data)
    names = WITH_HEADERS if way == "headers" else readers.FIELDS
    return readers.reader(data, names)


@pytest.mark.benchmark(group="Kafka's Java")
@pytest.mark.parametrize(("way", "name"), CASES)
def test_java(
    compare_self_timed: Callable[..., object],
    topic: Callable[[str], Path],
    way: str,
    name: str,
) -> None:
    file = sorted(topic(name).glob("*.log"))[0]
    data = load(file)
    compare_self_timed(
        f"{way}, topic {name}",
        ours(way, data),
        f"Java, {way}",
        lambda: run.measure(file, way, limit=conftest.LIMIT)["ns_per_record"]["all"],
    )
