"""Compare the throughput of a scan of a bucket with that of local files, side by side.

    python benchmarks/bucket_scan.py [--delay SECONDS] [--rounds N] [--codec none|lz4|zstd|…] [--size MIB]

The bucket is served from the same directory by `bucket_server.py`, in a process next to the reader.
`download` only fetches the segments with obstore, which is the upper limit of each scan.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import obstore

import kafkafmt
from kafkafmt import LogDirectory, build_batch
from kafkafmt.log.format.remote import REQUEST_BYTES, THREADS

SEGMENT_BYTES = 128 << 20
RECORDS = 50


def make_log(root: Path, codec: str, total: int) -> int:
    """Write a partition with records of 300 bytes, and return its size in bytes.

    The values are random hexadecimal digits, which codecs can compress to half of their size.
    """
    rng = random.Random(1)
    batches = [
        build_batch(
            [(b"key-%d" % i, rng.randbytes(150).hex().encode(), 1_700_000_000_000 + i) for i in range(RECORDS)],
            codec=codec,
        )
        for _ in range(64)
    ]
    with warnings.catch_warnings(), LogDirectory(root, segment_bytes=SEGMENT_BYTES) as directory:
        warnings.simplefilter("ignore")  # no broker reads the directory, so stray partitions do not matter
        writer, written = directory.writer("t", 0), 0
        for batch in itertools.cycle(batches):
            writer.append_batches(batch)
            written += len(batch)
            if written >= total:
                break
    return sum(path.stat().st_size for path in root.glob("t-0/*.log"))


def offsets(path: str) -> int:
    """Decode only the offsets, and return the number of records. All bytes are read and checked."""
    return sum(batch.num_rows for batch in kafkafmt.open(path)["t", 0].to_batches(columns=["offset"]))


def arrow(path: str) -> int:
    """Read all Arrow record batches, and return the number of records."""
    return sum(batch.num_rows for batch in kafkafmt.open(path)["t", 0].to_batches())


def download(path: str) -> int:
    """Fetch all segments with parallel requests, and discard their bytes. Return the number of bytes."""
    store = obstore.store.from_url(path)
    sizes = {found["path"]: found["size"] for page in obstore.list(store, "t-0") for found in page}

    def fetch(request: tuple[str, int]) -> int:
        name, start = request
        return len(obstore.get_range(store, name, start=start, end=min(start + REQUEST_BYTES, sizes[name])))

    requests = [(n, at) for n in sorted(sizes) if n.endswith(".log") for at in range(0, sizes[n], REQUEST_BYTES)]
    with ThreadPoolExecutor(THREADS) as pool:
        return sum(pool.map(fetch, requests))


def measure(scan: Callable[[str], int], path: str, size: int) -> tuple[float, float]:
    """Return the throughput of a scan in MB/s, and its CPU time in seconds."""
    started, cpu = time.perf_counter(), time.process_time()
    scan(path)
    return size / 1e6 / (time.perf_counter() - started), time.process_time() - cpu


def report(name: str, local: list[tuple[float, float]], bucket: list[tuple[float, float]]) -> None:
    """Print the medians of throughputs and CPU times, and the median and the range of the ratios."""
    ratios = [b[0] / a[0] for a, b in zip(local, bucket, strict=True)]
    medians = [statistics.median(column) for found in (local, bucket) for column in zip(*found, strict=True)]
    print(
        f"{name}: local {medians[0]:.0f} MB/s ({medians[1]:.2f} s of CPU), "
        f"bucket {medians[2]:.0f} MB/s ({medians[3]:.2f} s), "
        f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
        flush=True,
    )


def main() -> None:
    """Measure several rounds, and print the medians and the ratio of each round."""
    parser = argparse.ArgumentParser(description="Compare a scan of a bucket with a scan of local files.")
    parser.add_argument("--delay", type=float, default=0.05, help="latency of each request in seconds (0.05)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--codec", default="none")
    parser.add_argument("--size", type=int, default=1024, help="size of the log in MiB (1024)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        size = make_log(Path(folder) / "log", options.codec, options.size << 20)
        command = [sys.executable, str(Path(__file__).with_name("bucket_server.py")), folder, str(options.delay)]
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
            downloads = []
            for scan in (offsets, arrow):
                local, bucket = [], []
                for _ in range(options.rounds):
                    local.append(measure(scan, f"{folder}/log", size))
                    bucket.append(measure(scan, "s3://bucket/log", size))
                    downloads.append(measure(download, "s3://bucket/log", size))
                report(scan.__name__, local, bucket)
            speed, cpu = (statistics.median(column) for column in zip(*downloads, strict=True))
            print(f"download: {speed:.0f} MB/s ({cpu:.2f} s of CPU)")
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
