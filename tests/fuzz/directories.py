"""Generate partition directories, change their files, and write them to disk."""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import building
from building import LOG_APPEND_TIME, TRANSACTIONAL

from kafkafmt.log.writing.index_builder import SegmentIndexes
from kafkafmt.types import BATCH_DTYPE

from . import batches, seeds
from .mutate_batches import mutate_batch, mutate_stream
from .mutate_bytes import mutate
from .mutate_files import mutate_file

Files = dict[str, bytes]
MEMORY = "/dev/shm"
TOPIC = "t-0"


@contextmanager
def written(files: Files) -> Iterator[Path]:
    """Write files into a new directory, in memory if possible, and remove it at the end of the context."""
    with tempfile.TemporaryDirectory(prefix="kafkafmt-fuzz-", dir=MEMORY if os.path.isdir(MEMORY) else None) as folder:
        root = Path(folder) / "log"
        root.mkdir()
        for name, data in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        yield root


def generated(chance: Random) -> Files:
    """Return a log directory with one partition of random segments."""
    kind = chance.choice(("plain", "plain", "transactions", "wrappers", "messages", "mixed"))
    offset = chance.choice((0, 0, 0, 7, 2**40))
    files: Files = {}
    aborted: list[tuple[int, int, int, int]] = []
    open_: dict[int, int] = {}
    for _ in range(chance.choice((1, 1, 2, 4))):
        base, parts = offset, []
        for _ in range(chance.randrange(12)):
            part, taken = _one(chance, kind, offset, open_, aborted)
            parts.append(part)
            offset += taken
        name = f"{TOPIC}/{base:020}"
        files[f"{name}.log"] = b"".join(parts)
        if chance.random() < 0.7:
            files[f"{name}.index"], files[f"{name}.timeindex"] = _indexes(files[f"{name}.log"], base)
        if aborted and chance.random() < 0.9:
            files[f"{name}.txnindex"] = b"".join(struct.pack(">hqqqq", 0, *entry) for entry in aborted)
            aborted.clear()
        if offset == base:
            break
    if chance.random() < 0.3:
        files["log-start-offset-checkpoint"] = f"0\n1\nt 0 {chance.randint(0, offset)}\n".encode()
    if chance.random() < 0.3:
        files[f"{TOPIC}/leader-epoch-checkpoint"] = b"0\n1\n0 0\n"
    return files


def _one(
    chance: Random, kind: str, offset: int, open_: dict[int, int], aborted: list[tuple[int, int, int, int]]
) -> tuple[bytes, int]:
    """Return the next batch or message at an offset, and the number of offsets that it contains."""
    value = chance.choice((b"v", b"value " * 9, chance.randbytes(40), chance.choice(seeds.built_batches())))
    if kind in ("wrappers", "messages") or (kind == "mixed" and chance.random() < 0.5):
        magic = chance.choice((0, 1))
        stamp = 1_700_000_000_000 + offset
        count = chance.randint(1, 4)
        messages = [
            building.message(magic, b"k", b"%d:" % i + value, offset=offset + i, timestamp=stamp + i)
            for i in range(count)
        ]
        if kind == "messages" or chance.random() < 0.3:
            return messages[0], 1
        return seeds.wrapper(magic, chance.choice((1, 2, 3)), messages, offset + count - 1, offset), count
    if kind == "transactions" and chance.random() < 0.8:
        producer = chance.choice((1, 2))
        if producer in open_ and chance.random() < 0.5:
            how, first = chance.choice((building.ABORT, building.COMMIT)), open_.pop(producer)
            if how == building.ABORT:
                aborted.append((producer, first, offset, min([*open_.values(), offset + 1])))
            return building.control_batch(how, base_offset=offset, producer_id=producer), 1
        open_.setdefault(producer, offset)
        fields: dict[str, Any] = {
            "flags": TRANSACTIONAL,
            "producer_id": producer,
            "producer_epoch": 0,
            "base_sequence": chance.choice((0, 5)),
        }
    else:
        fields = {"flags": chance.choice((0, 0, 0, LOG_APPEND_TIME))}
    count = chance.randint(1, 5)
    rows = [(i, i, chance.choice((None, b"k%d" % i)), b"%d:" % (offset + i) + value, ()) for i in range(count)]
    if chance.random() < 0.05:  # Kafka accepts every offset delta
        rows = [(chance.choice((0, 1, i, -i, 70_000)), *row[1:]) for i, row in enumerate(rows)]
    gap = chance.choice((0, 0, 0, 0, 3))
    codec = chance.choice((0, 0, 0, 1, 2, 3, 4))
    stamp = 1_700_000_000_000 + offset
    made = building.batch(
        rows, base_offset=offset, codec=codec, base_timestamp=stamp, last_offset_delta=count - 1 + gap, **fields
    )
    return made, count + gap


def _indexes(data: bytes, base: int) -> tuple[bytes, bytes]:
    """Return the indexes that a broker with a small index interval writes for a segment of format 2."""
    import numpy as np

    rows, at = [], 0
    for part in batches.split(data):
        if part[16] == 2:
            rows.append(
                (
                    at,
                    batches.get(part, "base_offset"),
                    batches.get(part, "max_timestamp"),
                    batches.get(part, "last_offset_delta"),
                )
            )
        at += len(part)
    table = np.zeros(len(rows), BATCH_DTYPE)
    for row, (position, first, timestamp, delta) in zip(table, rows, strict=True):
        row["position"], row["base_offset"], row["max_timestamp"], row["last_offset_delta"] = (
            position,
            first,
            timestamp,
            delta,
        )
    made = SegmentIndexes(base, 100)
    made.add(table)
    made.close()
    return made.take()


def mutated(chance: Random) -> Files:
    """Return a recorded or generated log directory with up to three random modifications."""
    files = seeds.golden_directory(chance) if chance.random() < 0.4 else generated(chance)
    for _ in range(chance.choice((0, 1, 1, 1, 1, 2, 3))):
        _change(chance, files)
    return files


def _change(chance: Random, files: Files) -> None:
    logs = [name for name in files if name.endswith(".log")]
    if not logs:
        return
    way = chance.randrange(16)
    if way <= 8:
        name = chance.choice(logs)
        files[name] = _change_log(chance, files[name])
    elif way <= 11:
        name = chance.choice(list(files))
        if not name.endswith(".log"):
            files[name] = mutate_file(chance, name.rpartition("/")[2], files[name])
    elif way == 12:
        del files[chance.choice(list(files))]
    elif way == 13:
        one, other = chance.choice(logs), chance.choice(logs)
        files[one], files[other] = files[other], files[one]
    elif way == 14:
        name = chance.choice(logs)
        folder, _, base = name.rpartition("/")
        offset = max(0, int(base[:20]) + chance.choice((-1, 1, 5, 1000))) if base[:20].isdigit() else 0
        files[f"{folder}/{offset:020}.log"] = files.pop(name) if chance.random() < 0.5 else files[name]
    else:
        folder = chance.choice(logs).rpartition("/")[0]
        name = chance.choice(
            ("leader-epoch-checkpoint", "partition.metadata", "junk.log", f"{5:020}.snapshot", f"{3:020}.txnindex")
        )
        files[f"{folder}/{name}"] = chance.choice((b"", b"junk\n", b"0\n1\n0 0\n", bytes(50)))


def _change_log(chance: Random, data: bytes) -> bytes:
    """Return a segment in which a batch was changed, or bytes were changed, removed or overwritten."""
    parts = batches.split(data)
    way = chance.randrange(8)
    if way <= 2 and parts:
        at = chance.randrange(len(parts))
        parts[at] = mutate_batch(chance, parts[at])
    elif way == 3:
        return mutate_stream(chance, parts)
    elif way == 4:
        return data[: chance.randrange(len(data) + 1)] + bytes(chance.choice((0, 0, 8, 100, 4096)))
    elif way == 5 and data:
        at = chance.randrange(len(data))
        size = chance.choice((1, 16, 512, 4096))
        return data[:at] + chance.choice((bytes(size), chance.randbytes(size)))[: len(data) - at] + data[at + size :]
    elif way == 6 and len(parts) > 1:  # two damaged neighbours
        at = chance.randrange(len(parts) - 1)
        parts[at], parts[at + 1] = mutate(chance, parts[at]), mutate(chance, parts[at + 1])
    else:
        return mutate(chance, data)
    return b"".join(parts)
