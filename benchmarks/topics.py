"""Create large topics for measurements with a real broker. They are created once and kept.

    python benchmarks/topics.py [--size 1G] [--only NAME…]      create what is missing, print NAME and its partition directory
    topics.ensure("none", "lz4")                                do this from Python: {name: directory}

The topics are in one log directory, `size-<MiB>/data` in $KAFKAFMT_BENCH_DATA (by default, `.bench`
in the checkout). Each topic has one partition. `--size` is the size of the records before
compression. Therefore, topics with the same records can be compared row by row.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "broker"))

from kafka_broker import FAST_JVM, Broker  # noqa: E402

KEY = 10
FIRST_TIME = 1_760_000_000_000
RECORD_OVERHEAD = 10  # lengths, attributes and deltas of a record; a header has about 20 bytes
HEADER = 20


@dataclass(frozen=True)
class Topic:
    """The properties of a topic. Its records are JSON texts with keys of 10 bytes, ten records per millisecond."""

    name: str
    codec: str
    value: int = 100
    headers: int = 0
    batch: int = 16 * 1024
    segment: int = 1024  # MiB

    def count(self, size: int) -> int:
        return size // (self.value + KEY + RECORD_OVERHEAD + self.headers * HEADER)

    def plan(self, size: int) -> str:
        return (
            f"topic={self.name} count={self.count(size)} codec={self.codec} key={KEY} value={self.value} headers={self.headers} "
            f"batch={self.batch} linger=100 per-ms=10 time={FIRST_TIME} topic.segment.bytes={self.segment << 20}"
        )


TOPICS = {
    topic.name: topic
    for topic in (
        Topic("none", "none"),
        Topic("lz4", "lz4"),
        Topic("zstd", "zstd"),
        Topic("headers", "none", headers=3),
        Topic("json1k", "zstd", value=1024, batch=64 * 1024),
        Topic("none1k", "none", value=1024),
        Topic("none-64m", "none", segment=64),
    )
}


def folder(size: int = 1 << 30) -> Path:
    """Return the directory that contains the topics of a given size."""
    return Path(os.environ.get("KAFKAFMT_BENCH_DATA") or ROOT / ".bench").resolve() / f"size-{size >> 20}"


def ensure(*names: str, size: int = 1 << 30) -> dict[str, Path]:
    """Create the given topics if they are missing, and return their partition directories.

    By default, create all.
    """
    selected = names or tuple(TOPICS)
    home = folder(size)
    made_file = home / "made.json"
    made: dict[str, dict[str, float]] = json.loads(made_file.read_text()) if made_file.exists() else {}
    absent = [TOPICS[name] for name in selected if name not in made]
    if left := [topic.name for topic in absent if (home / "data" / f"{topic.name}-0").exists()]:
        raise SystemExit(f"{', '.join(left)} was not completed: remove {home} and try again")
    if absent:
        home.mkdir(parents=True, exist_ok=True)
        with Broker(home, {"log.flush.interval.messages": str(1 << 62)}, jvm=FAST_JVM) as broker:
            for topic in absent:
                started = time.perf_counter()
                broker.produce(topic.plan(size))
                made[topic.name] = {"records": topic.count(size), "seconds": round(time.perf_counter() - started, 1)}
                print(f"{topic.name}: {topic.count(size)} records in {made[topic.name]['seconds']} s", file=sys.stderr)
                made_file.write_text(json.dumps(made, indent=1) + "\n")
    return {name: home / "data" / f"{name}-0" for name in selected}


def logs(name: str, size: int = 1 << 30) -> list[Path]:
    """Return the segments of a topic, and create the topic if needed."""
    return sorted(ensure(name, size=size)[name].glob("*.log"))


def size_of(text: str) -> int:
    """Convert a size such as `64M`, `1G` or a plain number to bytes."""
    scale = {"K": 10, "M": 20, "G": 30}.get(text[-1].upper(), 0)
    return int(text[:-1] if scale else text) << scale


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument(
        "--size", type=size_of, default=1 << 30, help="bytes of records a topic before compression: 64M, 1G (default)"
    )
    parser.add_argument("--only", nargs="*", choices=list(TOPICS), default=[])
    options = parser.parse_args(argv)
    for name, directory in ensure(*options.only, size=options.size).items():
        total = sum(file.stat().st_size for file in directory.glob("*.log"))
        print(f"{name:10} {total / 2**20:8.1f} MiB  {directory}")


if __name__ == "__main__":
    main()
