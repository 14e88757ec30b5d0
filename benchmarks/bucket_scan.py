"""Compare the throughput of a scan of a bucket with that of local files, side by side.

    python benchmarks/bucket_scan.py [--delay SECONDS] [--rounds N] [--codec none|lz4|zstd|…] [--size MIB]

The bucket is served from the same directory by `bucket_server.py`, in a process next to the reader.
`download` only fetches the segments with obstore. A scan cannot be faster. `sockets` fetches the
segments into memory that is reused, through sockets without any HTTP library.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import obstore

import kafkafmt
from kafkafmt import LogDirectory, build_batch
from kafkafmt.log.storage.remote import REQUEST_BYTES, THREADS
from kafkafmt.typing import Codec

SEGMENT_BYTES = 128 << 20
RECORDS = 50


def make_log(root: Path, codec: Codec, total: int) -> int:
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


def sockets(path: str) -> int:
    """Fetch all segments like `download`, but only with sockets. Return the number of bytes."""
    address = urlsplit(os.environ["AWS_ENDPOINT_URL"])
    store = obstore.store.from_url(path)
    sizes = {found["path"]: found["size"] for page in obstore.list(store, "t-0") for found in page}
    kept = threading.local()

    def fetch(request: tuple[str, int]) -> int:
        name, start = request
        end = min(start + REQUEST_BYTES, sizes[name])
        if not hasattr(kept, "link"):
            kept.link = socket.create_connection((address.hostname or "", address.port or 80))
            kept.memory = memoryview(bytearray(REQUEST_BYTES))
        url = f"/{path.removeprefix('s3://')}/{name}"
        kept.link.sendall(f"GET {url} HTTP/1.1\r\nHost: x\r\nRange: bytes={start}-{end - 1}\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += kept.link.recv(1024)
        at = len(head.partition(b"\r\n\r\n")[2])
        while at < end - start:
            at += kept.link.recv_into(kept.memory[at : end - start])
        return at

    requests = [(n, at) for n in sorted(sizes) if n.endswith(".log") for at in range(0, sizes[n], REQUEST_BYTES)]
    with ThreadPoolExecutor(THREADS) as pool:
        return sum(pool.map(fetch, requests))


class Measured(NamedTuple):
    """Duration of a scan, and the CPU times of the reader and of the server, in seconds."""

    wall: float
    user: float
    system: float
    server: float


def measure(scan: Callable[[str], int], path: str, server: int) -> Measured:
    """Run a scan. `server` is the process id of the server."""
    served, before, started = cpu_of(server), resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    scan(path)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return Measured(wall, user, system, cpu_of(server) - served)


def cpu_of(process: int) -> float:
    """Return the CPU time of another process, in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def text_of(found: list[Measured], size: int) -> str:
    """Return the median throughput and the median CPU times as text."""
    wall, user, system, server = (statistics.median(column) for column in zip(*found, strict=True))
    return f"{size / 1e6 / wall:.0f} MB/s (CPU: user {user:.2f} s, system {system:.2f} s, server {server:.2f} s)"


def report(name: str, local: list[Measured], bucket: list[Measured], size: int) -> None:
    """Print the medians of throughputs and CPU times, and the median and the range of the ratios."""
    ratios = [a.wall / b.wall for a, b in zip(local, bucket, strict=True)]
    print(
        f"{name}: local {text_of(local, size)}, bucket {text_of(bucket, size)}, "
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
            downloads: dict[Callable[[str], int], list[Measured]] = {download: [], sockets: []}
            for scan in (offsets, arrow):
                local, bucket = [], []
                for _ in range(options.rounds):
                    local.append(measure(scan, f"{folder}/log", server.pid))
                    bucket.append(measure(scan, "s3://bucket/log", server.pid))
                    for fetch, found in downloads.items():
                        found.append(measure(fetch, "s3://bucket/log", server.pid))
                report(scan.__name__, local, bucket, size)
            for fetch, found in downloads.items():
                print(f"{fetch.__name__}: {text_of(found, size)}")
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
