"""Return valid batches, frames, index files and partitions, which come from golden logs or are generated."""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path
from random import Random

import building
from building import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from golden_cases import GOLDEN
from wire_golden import VERSIONS, frames

from . import batches
from .batches import compressed, repaired, with_length

MOST_BATCH_BYTES = 6000
PER_FILE = 6
SIDE_SUFFIXES = ("index", "timeindex", "txnindex", "snapshot")
MOST_SIDE_BYTES = 6000
MOST_DIRECTORY_BYTES = 120_000
MOST_DIRECTORY_FILES = 40


@cache
def golden_logs() -> list[Path]:
    """Return the segment files of the golden logs."""
    return sorted(f for f in GOLDEN.rglob("*.log") if f.is_file() and f.stat().st_size)


@cache
def golden_batches() -> list[bytes]:
    """Return some batches of each golden segment."""
    found: dict[bytes, None] = {}
    for path in golden_logs():
        with path.open("rb") as file:
            parts = [p for p in batches.split(file.read(1 << 16)) if 30 < len(p) <= MOST_BATCH_BYTES]
        kinds = {(p[16], p[21:23] if p[16] == 2 else p[17:18]): p for p in reversed(parts)}
        for part in [*kinds.values(), *parts[:PER_FILE]][:PER_FILE]:
            found[part] = None
    return list(found)


@cache
def built_batches() -> list[bytes]:
    """Return batches and messages of every format, codec and kind. Some kinds are in no golden log."""
    headers = [(b"h", b"x"), (b"n", None)]
    rows = [
        (i, i * 3, b"key-%d" % (i % 3) if i % 4 else None, b"value" * i or None, headers[: i % 3]) for i in range(7)
    ]
    made = []
    for codec in range(5):
        for flags in (0, LOG_APPEND_TIME, TRANSACTIONAL):
            producer = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 3} if flags == TRANSACTIONAL else {}
            made.append(building.batch(rows, codec=codec, flags=flags, leader_epoch=2, **producer))  # type: ignore[arg-type]
        made.append(building.batch([(0, 0, None, b"v", ())], codec=codec, base_offset=2**63 - 1))
        made.append(building.batch([(0, 0, b"a" * 5000, b"b" * 9000, ())], codec=codec))
    made += [
        building.control_batch(kind, producer_id=7, producer_epoch=1) for kind in (building.ABORT, building.COMMIT)
    ]
    made += [building.empty_batch(last_offset_delta=3), building.batch([], base_timestamp=-1, max_timestamp=-1)]
    made.append(building.batch(rows, flags=CONTROL | TRANSACTIONAL, producer_id=1, producer_epoch=0))
    for magic in (0, 1):
        plain = [
            building.message(magic, b"k", b"value %d" % i, offset=i, timestamp=1_700_000_000_000 + i) for i in range(4)
        ]
        made += [*plain, building.message(magic, None, None, offset=9)]
        for codec in (1, 2, 3):
            made.append(wrapper(magic, codec, plain, 3))
            made.append(wrapper(magic, codec, plain[:1], 0))
    return made


def wrapper(magic: int, codec: int, messages: list[bytes], last_offset: int, base: int = 0) -> bytes:
    """Return a wrapper message of format 0 (absolute inner offsets) or format 1 (relative inner offsets)."""
    inner = [struct.pack(">q", i if magic else base + i) + m[8:] for i, m in enumerate(messages)]
    whole = building.message(magic, None, b"", offset=last_offset, timestamp=1_700_000_000_003, attributes=codec)
    return repaired(with_length(whole[:-4] + sized(compressed(codec, b"".join(inner), magic))))


def sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


@cache
def all_batches() -> list[bytes]:
    return golden_batches() + built_batches() * 3


def batch(chance: Random) -> bytes:
    """Return a valid batch."""
    return chance.choice(all_batches())


def stream(chance: Random, most: int = 5) -> list[bytes]:
    """Return valid batches, usually all of the same format."""
    count = chance.randint(1, most)
    if chance.random() < 0.4:
        return [chance.choice(built_batches()) for _ in range(count)]
    found = [batch(chance) for _ in range(count)]
    return [b for b in found if b[16] == found[0][16]] if chance.random() < 0.7 else found


@cache
def golden_frames() -> list[tuple[str, int, int, bytes]]:
    """Return recorded frames, each as direction, API key, version and bytes."""
    found: dict[tuple[str, int, int, bytes], None] = {}
    for version in VERSIONS:
        for golden in frames(version):
            if len(golden.frame) <= 4000:
                found[golden.entry["direction"], golden.entry["api_key"], golden.entry["api_version"], golden.frame] = (
                    None
                )
    return list(found)


@cache
def side_files(suffix: str) -> list[bytes]:
    """Return the contents of golden index and snapshot files."""
    found: dict[bytes, None] = {}
    for path in sorted(GOLDEN.rglob(f"*.{suffix}")):
        data = path.read_bytes() if path.stat().st_size <= MOST_SIDE_BYTES else path.read_bytes()[:MOST_SIDE_BYTES]
        found[data] = None
    return list(found)


@cache
def named_files(name: str) -> list[bytes]:
    """Return the contents of all golden files with a given name, such as a checkpoint."""
    return list(dict.fromkeys(path.read_bytes()[:MOST_SIDE_BYTES] for path in sorted(GOLDEN.rglob(name)))) or [b""]


@cache
def partition_directories() -> list[Path]:
    """Return golden partition directories that are small enough to be copied for each input."""
    found = []
    for path in sorted({log.parent for log in golden_logs()}):
        sizes = [f.stat().st_size for f in path.iterdir() if f.is_file()]
        if sum(min(s, 1 << 20) for s in sizes) <= MOST_DIRECTORY_BYTES and len(sizes) <= MOST_DIRECTORY_FILES:
            found.append(path)
    return found


CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint",
               "cleaner-offset-checkpoint", "meta.properties")  # fmt: skip


def golden_directory(chance: Random) -> dict[str, bytes]:
    """Return a log directory with one partition, as a dict from path to content."""
    path = chance.choice(partition_directories())
    files = {f"{path.name}/{f.name}": f.read_bytes() for f in sorted(path.iterdir()) if f.is_file()}
    for name in CHECKPOINTS:
        if (path.parent / name).exists():
            files[name] = (path.parent / name).read_bytes()
    return files
