"""Measure how long the driver plans a query over a very large log, and how much memory it needs.

    python benchmarks/planning.py [PARTITIONS] [SEGMENTS] [SEGMENT_BYTES]

The segments of the log are sparse files without data. Their indexes are complete, with an entry for
every 64 KiB. Two runs with different sizes show that the cost grows linearly:

    python benchmarks/planning.py 100 100        about 10 TB
    python benchmarks/planning.py 1000 100       about 100 TB
    python benchmarks/planning.py 20000 50 1048576

Each step runs in a new process. Its memory is the growth of the largest resident set.
"""

from __future__ import annotations

import os
import pickle
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kafkafmt.log import discover
from kafkafmt.log.storage.file_view import FileView
from kafkafmt.spark.schema import struct_of
from kafkafmt.spark.source.data_source import KafkaLogSource
from kafkafmt.spark.source.stream import KafkaLogStreamReader

BATCH_BYTES, RECORDS = 1 << 16, 16
LINKS = 30_000
"""Most hard links to one file. ext4 allows 65,000."""


def make_log(root: Path, partitions: int, segments: int, size: int) -> None:
    """Write the log. All segments and all indexes are hard links to a few files. Last segments are empty."""
    entries = np.arange(1, size // BATCH_BYTES)
    index = np.stack([entries * RECORDS + RECORDS - 1, entries * BATCH_BYTES], axis=1).astype(">i4").tobytes()
    links = 0
    for partition in range(partitions):
        folder = root / "log" / f"t-{partition}"
        folder.mkdir(parents=True)
        for number in range(segments):
            if links % LINKS == 0:
                log_file, index_file = root / f"{links}.log", root / f"{links}.index"
                log_file.touch()
                os.truncate(log_file, size)
                index_file.write_bytes(index)
            links += 1
            name = f"{folder}/{number * (size // BATCH_BYTES) * RECORDS:020}"
            os.link(log_file, f"{name}.log")
            os.link(index_file, f"{name}.index")
        Path(f"{folder}/{segments * (size // BATCH_BYTES) * RECORDS:020}.log").touch()


def listed(root: Path) -> dict[str, int]:
    """List the log."""
    found = discover([root]).partitions
    return {"partitions": len(found), "segments": sum(len(p.segments) for p in found)}


def planned(root: Path) -> dict[str, int]:
    """Plan a batch query over the whole log."""
    reader = KafkaLogSource(CaseInsensitiveDict({"path": str(root)})).reader(struct_of(["offset"]))
    sizes = [len(pickle.dumps(p)) for p in reader.partitions()]
    return {"tasks": len(sizes), "pickled bytes": sum(sizes), "largest task": max(sizes)}


def triggered(root: Path) -> dict[str, int]:
    """Start a stream at the end of the log, and check the log three times for new records."""
    stream = KafkaLogSource(CaseInsensitiveDict({"path": str(root)})).streamReader(struct_of(["offset"]))
    assert isinstance(stream, KafkaLogStreamReader)
    offsets = stream.initialOffset()
    milliseconds = {}
    for number in (1, 2, 3):
        start = time.perf_counter()
        assert stream.latestOffset(offsets, ReadAllAvailable()) == offsets
        milliseconds[f"ms of check {number}"] = round((time.perf_counter() - start) * 1000)
    return milliseconds


def measured(step: Callable[[Path], dict[str, int]], root: Path) -> dict[str, Any]:
    """Return the result of a step, its time, its memory, and the number of bytes that it read."""
    read, original = [0], FileView.read_into

    def counted(view: FileView, buffer: Any, position: int) -> int:
        got = original(view, buffer, position)
        read[0] += got
        return got

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, cpu = time.perf_counter(), time.process_time()
    with patch.object(FileView, "read_into", counted):
        found = step(root)
    return {
        "seconds": round(time.perf_counter() - start, 2),
        "seconds of CPU": round(time.process_time() - cpu, 2),
        "MB": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1000,
        "bytes read": read[0],
        **found,
    }


def main() -> None:
    """Measure each step, and print its figures."""
    partitions, segments, size = (int(n) for n in [*sys.argv[1:], *("100", "100", str(1 << 30))[len(sys.argv) - 1 :]])
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_log(root, partitions, segments, size)
        print(f"{partitions} partitions with {segments} segments: {partitions * segments * size / 1e12:.1f} TB")
        for step in (listed, planned, triggered):
            with get_context("spawn").Pool(1) as pool:
                found = pool.apply(measured, (step, root / "log"))
            print(f"{step.__name__}: " + ", ".join(f"{name}: {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
