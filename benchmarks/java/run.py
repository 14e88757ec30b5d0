#!/usr/bin/env python3
"""Measure Kafka's own Java classes on batches in a file, and print a JSON object per file and mode.

    run.py FILE… [--modes columns,arrow]

The peer is MemoryRecords of kafka-clients, on an array in the heap, with CRCs checked. Each
measurement runs in a new JVM, after its compiler was warmed up for some seconds. Peer.java
describes the modes. java, javac and mvn are required. From Python, call `measure(file, "columns")`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "broker"))

import java_tools  # noqa: E402

MODES = ("columns", "bytes", "headers", "arrow", "shallow")
KAFKA, ARROW = "4.3.1", "18.3.0"
ARTIFACTS = (
    f"org.apache.kafka:kafka-clients:{KAFKA}",
    f"org.apache.arrow:arrow-vector:{ARROW}",
    f"org.apache.arrow:arrow-memory-unsafe:{ARROW}",
)
# Arrow's checks of bounds and nulls are disabled, so that the peer is as fast as possible.
FLAGS = (
    "-Xms3g",
    "-Xmx3g",
    "-XX:+UseParallelGC",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "-Darrow.enable_unsafe_memory_access=true",
    "-Darrow.enable_null_check_for_get=false",
)


def measure(file: Path, mode: str, *, limit: int = 256 << 20, repetitions: int = 7) -> dict[str, Any]:
    """Return the ns per record of one mode, for at most `limit` bytes of batches in a file."""
    path = java_tools.compile_java([HERE / "Peer.java"], java_tools.classpath(*ARTIFACTS))
    result = json.loads(java_tools.run("Peer", mode, file, limit, repetitions, path=path, flags=FLAGS))
    ns = result.pop("ns")
    figures = {"best": min(ns), "median": round(statistics.median(ns), 3), "worst": max(ns), "all": ns}
    return {"file": str(file), "mode": mode, **result, "ns_per_record": figures}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="a .log file, or any file of batches of format 2"
    )
    parser.add_argument(
        "--modes", default="columns,headers,arrow", help=f"of {', '.join(MODES)} (default: columns,headers,arrow)"
    )
    parser.add_argument("--limit", type=int, default=256, help="MiB read of each file (256)")
    parser.add_argument("--repetitions", type=int, default=7)
    options = parser.parse_args(argv)
    for file in options.files:
        for mode in options.modes.split(","):
            print(
                json.dumps(measure(file, mode, limit=options.limit << 20, repetitions=options.repetitions)), flush=True
            )


if __name__ == "__main__":
    main()
