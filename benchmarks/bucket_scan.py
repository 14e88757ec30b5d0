"""Compare the throughput of a scan of a bucket with that of local files, side by side.

    python benchmarks/bucket_scan.py [DELAY_SECONDS] [ROUNDS]

The bucket is served from the same directory by `bucket_server.py`, in a process next to the reader.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import kafkafmt
from kafkafmt import LogDirectory, build_batch

SEGMENT_BYTES = 128 << 20
TOTAL_BYTES = 1 << 30


def make_log(root: Path) -> int:
    """Write a partition with records of 300 bytes, and return its size in bytes."""
    batch = build_batch([(b"key-%d" % i, os.urandom(300), 1_700_000_000_000 + i) for i in range(50)])
    with LogDirectory(root, segment_bytes=SEGMENT_BYTES) as directory:
        writer = directory.writer("t", 0)
        for _ in range(TOTAL_BYTES // len(batch)):
            writer.append_batches(batch)
    return sum(path.stat().st_size for path in root.glob("t-0/*.log"))


def offsets(log: kafkafmt.Log) -> int:
    """Decode only the offsets, and return the number of records. All bytes are read and checked."""
    return sum(batch.num_rows for batch in log["t", 0].to_batches(columns=["offset"]))


def arrow(log: kafkafmt.Log) -> int:
    """Read all Arrow record batches, and return the number of records."""
    return sum(batch.num_rows for batch in log["t", 0].to_batches())


def measure(scan: Callable[[kafkafmt.Log], int], path: str, size: int) -> tuple[float, float]:
    """Return the throughput of a scan in MB/s, and its CPU time in seconds."""
    started, cpu = time.perf_counter(), time.process_time()
    scan(kafkafmt.open(path))
    return size / 1e6 / (time.perf_counter() - started), time.process_time() - cpu


def main() -> None:
    """Measure several rounds, and print the medians and the ratio of each round."""
    delay, rounds = float(sys.argv[1] if sys.argv[1:] else 0.05), int(sys.argv[2] if sys.argv[2:] else 5)
    with tempfile.TemporaryDirectory() as folder:
        size = make_log(Path(folder) / "log")
        command = [sys.executable, str(Path(__file__).with_name("bucket_server.py")), folder, str(delay)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            os.environ |= {
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.stdout.readline().strip()}",
                "AWS_ALLOW_HTTP": "true",
                "AWS_ACCESS_KEY_ID": "x",
                "AWS_SECRET_ACCESS_KEY": "x",
                "AWS_REGION": "us-east-1",
            }
            for scan in (offsets, arrow):
                local, bucket = [], []
                for _ in range(rounds):
                    local.append(measure(scan, f"{folder}/log", size))
                    bucket.append(measure(scan, "s3://bucket/log", size))
                ratios = [b[0] / a[0] for a, b in zip(local, bucket, strict=True)]
                medians = [
                    statistics.median(column) for found in (local, bucket) for column in zip(*found, strict=True)
                ]
                print(
                    f"{scan.__name__}: local {medians[0]:.0f} MB/s ({medians[1]:.2f} s of CPU), "
                    f"bucket {medians[2]:.0f} MB/s ({medians[3]:.2f} s), "
                    f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
                )
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
