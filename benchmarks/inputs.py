"""Generate reproducible batches of format 2 for measurements, one after another in a buffer.

    python benchmarks/inputs.py [LETTER…] [--codec zstd]     create inputs, print the content and the path of each
    inputs.make("a"); inputs.make("a", "lz4")                return the bytes (kept in $KAFKAFMT_BENCH_DATA/inputs)

A batch is closed before its uncompressed records would exceed the batch size, and is then
compressed. A Kafka producer with this batch size puts about as many compressed bytes into a batch.
Therefore, the batches of `topics.py` have more records. A text value is JSON with words and
numbers, so that codecs can compress it.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import building as build  # noqa: E402

VERSION = 1  # increase this version if an input gets other bytes, so that stored files are replaced
SEED = 20_240_229
FIRST_TIME = 1_760_000_000_000
SIZE = 24 << 20
KEY = 10

Headers = Sequence[tuple[bytes, bytes | None]]
Body = tuple[bytes | None, bytes | None, Headers]  # key, value, headers

WORDS = (
    b"amber birch cedar delta ember fjord grove haven inlet jetty knoll lagoon meadow nectar orchard prairie quarry ridge summit thicket "
    b"upland valley willow yonder zephyr accepted declined waiting archived restored monthly weekly daily urgent normal parcel pallet crate"
).split()


@dataclass(frozen=True)
class Input:
    """The title of an input, the size of its batches, and its records."""

    title: str
    batch: int
    bodies: Callable[[random.Random], Iterator[Body]]


def text(rng: random.Random, size: int, number: int) -> bytes:
    """Return a JSON object of exactly `size` bytes."""
    head = b'{"seq":%d,"account":"A%06d","total":%d,"memo":"' % (
        100_000_000 + number,
        rng.randrange(10**6),
        10_000 + rng.randrange(90_000),
    )
    words = b" ".join(rng.choices(WORDS, k=max(1, (size - len(head)) // 5)))
    return head + words[: size - len(head) - 2].ljust(size - len(head) - 2, b".") + b'"}'


def fixed(size: int, headers: int = 0) -> Callable[[random.Random], Iterator[Body]]:
    """Return a function that yields records with keys of 10 bytes and text values of a given size."""

    def bodies(rng: random.Random) -> Iterator[Body]:
        number = 0
        names = (b"trace-id", b"source", b"content-type", b"tenant")[:headers]
        while True:
            values = (b"%016x" % rng.getrandbits(64), rng.choice(WORDS), b"application/json", rng.choice(WORDS))
            yield (
                b"%0*d" % (KEY, rng.randrange(10**KEY)),
                text(rng, size, number),
                list(zip(names, values, strict=False)),
            )
            number += 1

    return bodies


def tiny(rng: random.Random) -> Iterator[Body]:
    """Yield records with null keys and values of 10 bytes."""
    while True:
        yield None, b"%010d" % rng.randrange(10**10), ()


def varied(rng: random.Random) -> Iterator[Body]:
    """Yield records with realistic sizes.

    The sizes of values have a lognormal distribution with a median of 150 bytes. Some values have
    many KB, and a few are null. Keys are null or have 1 to 40 bytes.
    """
    pool = text(rng, 1 << 16, 0)
    sizes = np.random.default_rng(rng.getrandbits(32))
    while True:
        lengths = np.minimum(sizes.lognormal(np.log(150), 1.1, 4096), 1 << 15).astype(int).tolist()
        for length in lengths:
            start = rng.randrange(len(pool) - length)
            value = None if rng.random() < 0.02 else pool[start : start + length]
            key = None if rng.random() < 0.4 else b"k%039d" % rng.getrandbits(60)
            yield key and key[: rng.randint(1, 40)], value, ()


INPUTS = {
    "a": Input("100 B values, 10 B keys, 16 KiB batches", 16 << 10, fixed(100)),
    "b": Input("100 B values, 10 B keys, 1 MiB batches", 1 << 20, fixed(100)),
    "c": Input("1 KiB values, 10 B keys, 16 KiB batches", 16 << 10, fixed(1024)),
    "d": Input("100 B values, 10 B keys, 3 headers, 16 KiB batches", 16 << 10, fixed(100, headers=3)),
    "f": Input("10 B values, null keys, 16 KiB batches", 16 << 10, tiny),
    "g": Input("lognormal value sizes, null or variable keys, 16 KiB batches", 16 << 10, varied),
}


def folder() -> Path:
    """Return the directory in which inputs are stored."""
    return Path(os.environ.get("KAFKAFMT_BENCH_DATA") or ROOT / ".bench").resolve() / "inputs"


def path(letter: str, codec: str = "none", size: int = SIZE) -> Path:
    """Return the file of an input, and create it if it is missing. `size` is in bytes before compression."""
    file = folder() / f"{letter}-{codec}-{size >> 10}k-v{VERSION}.batches"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}")
        with part.open("wb") as out:
            out.writelines(batches(letter, codec, size))
        part.replace(file)
    return file


def make(letter: str, codec: str = "none", size: int = SIZE) -> bytes:
    """Return the bytes of an input: consecutive, complete batches whose offsets start at 0."""
    return path(letter, codec, size).read_bytes()


def batches(letter: str, codec: str, size: int) -> Iterator[bytes]:
    """Yield batches until their uncompressed records have `size` bytes."""
    selected = INPUTS[letter]
    rng = random.Random(SEED * 1000 + ord(letter))
    bodies = selected.bodies(rng)
    offset = total = 0
    time = FIRST_TIME
    pending = next(bodies)
    while total < size:
        records: list[bytes] = []
        filled, delta = build.HEADER_SIZE, 0
        while True:
            key, value, headers = pending
            encoded = build.record(len(records), delta, key, value, headers)
            if records and filled + len(encoded) > selected.batch:
                break
            records.append(encoded)
            filled += len(encoded)
            delta += rng.random() < 0.1
            pending = next(bodies)
        yield build.batch(records, base_offset=offset, base_timestamp=time, codec=build.CODECS[codec])
        offset += len(records)
        total += filled
        time += delta


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("letters", nargs="*", metavar="LETTER", help=f"of {', '.join(INPUTS)} (default: all)")
    parser.add_argument("--codec", choices=list(build.CODECS), default="none")
    parser.add_argument("--size", type=int, default=SIZE >> 20, help=f"MiB before compression ({SIZE >> 20})")
    options = parser.parse_args(argv)
    for letter in options.letters or INPUTS:
        file = path(letter, options.codec, options.size << 20)
        print(f"{letter}  {INPUTS[letter].title:60} {file.stat().st_size / 2**20:6.1f} MiB  {file}")


if __name__ == "__main__":
    main()
