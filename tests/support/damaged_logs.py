"""Write log directories with random content and random damage, and read them with `kafkafmt cat`."""

from __future__ import annotations

import base64
import contextlib
import io
import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import click
from random_producers import CODECS, RandomProducers
from writing import FIRST

import kafkafmt
from kafkafmt import LogDirectory
from kafkafmt.cli.main import group
from kafkafmt.constants import CODEC_NAMES
from kafkafmt.log import discover

DAY = 86_400_000
TOPICS = ("a", "b-c", "t.x", "__internal")
LENGTHS = (1, 8, 61, 200, 1000)


def write_damaged_directory(root: Path, chance: Random) -> None:
    """Write a log directory with one to three topics, and damage it in up to five places."""
    root.mkdir(parents=True)
    for topic in chance.sample(TOPICS, chance.randrange(1, 4)):
        for partition in range(chance.choice((1, 1, 2, 3))):
            _write_partition(root, topic, partition, chance)
    _damage_places(root, chance)


def write_mixed_directory(root: Path, chance: Random, damaged: bool = True) -> None:
    """Write a random log directory. Logs can be compacted, and can contain messages of formats 0 and 1.

    If `damaged` is True, some segments may be damaged.
    """
    root.mkdir(parents=True)
    for topic in chance.sample(TOPICS, chance.randrange(1, 4)):
        for partition in range(chance.choice((1, 1, 2, 3))):
            if chance.random() < 0.3:
                _write_old_partition(root / f"{topic}-{partition}", chance)
            else:
                _write_partition(root, topic, partition, chance)
    if chance.random() < 0.3:
        plain = root.rename(root.with_name(f"{root.name}-plain"))
        kafkafmt.rewrite(plain, root, topics=("*", "__*"), compact=True)
    if damaged and chance.random() < 0.6:
        _damage_places(root, chance)


def append_to_directory(root: Path, chance: Random, run: int) -> None:
    """Append batches of new producers to about half of the partitions. End some transactions of earlier producers.

    `run` is the number of earlier calls, plus 1.
    """
    keys = [p.key for p in discover([root]).partitions]
    with LogDirectory(root, segment_bytes=4_000, index_interval_bytes=100) as directory:
        for topic, partition in keys:
            if chance.random() < 0.5:
                continue
            writer = directory.writer(topic, partition)
            for producer in range(1, 10 * run):
                if producer % 10 in range(1, 5) and chance.random() < 0.5:
                    writer.end_transaction(producer, 0, commit=chance.random() < 0.5)
            producers = RandomProducers(writer)
            for _ in range(chance.randrange(1, 20)):
                records = [_record(chance, FIRST + 20 * DAY) for _ in range(chance.randrange(1, 9))]
                producers.append(10 * run + chance.randrange(1, 5), chance.random(), records, chance.choice(CODECS))
            if chance.random() < 0.3:
                producers.end_all(chance)


def _damage_places(root: Path, chance: Random) -> None:
    for _ in range(chance.choice((0, 1, 2, 2, 3, 5))):
        segments = sorted(root.glob("*/*.log"))
        if segments:
            damage(chance.choice(segments), chance)


def _write_old_partition(folder: Path, chance: Random) -> None:
    """Write segments without indexes. The message format starts at 0 or 1, and can increase up to 2."""
    folder.mkdir()
    offset, now, magic = chance.choice((0, 0, 500)), FIRST, chance.randrange(2)
    for _ in range(chance.randrange(1, 5)):
        base, batches = offset, []
        for _ in range(chance.randrange(1, 12)):
            magic = max(magic, chance.choice((0, 0, 0, 0, 1, 2)))
            now += chance.randrange(DAY // 3)
            records = [
                (key, value, now if magic else -1)
                for key, value, *_ in (_record(chance, now) for _ in range(chance.randrange(1, 9)))
            ]
            codec = chance.choice(CODEC_NAMES[:4])
            batches.append(kafkafmt.build_batch(records, magic=magic, codec=codec, base_offset=offset))
            offset += len(records) + chance.choice((0, 0, 0, 3))
        (folder / f"{base:020}.log").write_bytes(b"".join(batches))


def _write_partition(root: Path, topic: str, partition: int, chance: Random) -> None:
    now = FIRST + chance.randrange(DAY)
    segment_bytes, interval = chance.choice((4_000, 8_000, 60_000)), chance.choice((100, 500, 4096))
    with LogDirectory(root, segment_bytes=segment_bytes, index_interval_bytes=interval) as directory:
        writer = directory.writer(topic, partition)
        producers = RandomProducers(writer)
        for _ in range(chance.randrange(70)):
            producer, action = chance.randrange(1, 5), chance.random()
            now += chance.choice((1, 50, 3_600_000, DAY // 3, -100))
            if action < 0.15 and producer in producers.open:
                producers.end(producer, chance)
                continue
            records = [_record(chance, now) for _ in range(chance.randrange(1, 9))]
            producers.append(producer, action, records, chance.choice(CODECS))
        if chance.random() < 0.6:
            producers.end_all(chance)
        if chance.random() < 0.3:
            writer.delete_before(chance.randrange(writer.next_offset + 1))


def _record(chance: Random, now: int) -> Any:
    key = None if chance.random() < 0.1 else b"key-%d" % chance.randrange(12)
    value = None if chance.random() < 0.15 else chance.randbytes(chance.choice((0, 3, 50, 300)))
    headers = [("h", b"x"), ("h", None)][: chance.randrange(3)] if chance.random() < 0.2 else []
    return key, value, now + chance.randrange(10), headers


def damage(segment: Path, chance: Random) -> None:
    """Change a segment, its indexes or the producer snapshots of its partition at random."""
    kind = chance.choice(("flip", "flip", "flip", "zero", "cut", "insert", "repeat", "truncate", "pad", "swap", "base"))
    other = chance.random()
    if other < 0.1:
        for path in segment.parent.glob(f"{segment.stem}.*" if other < 0.04 else "*.[its]*"):
            path.unlink()
    elif other < 0.2:
        for path in sorted(segment.parent.glob("*.[its]*")):
            path.write_bytes(_changed(path.read_bytes(), "flip", chance))
    else:
        segment.write_bytes(_changed(segment.read_bytes(), kind, chance))


def _changed(data: bytes, kind: str, chance: Random) -> bytes:
    if not data:
        return data
    at, length, starts = chance.randrange(len(data)), chance.choice(LENGTHS), _batch_starts(data)
    head, tail = data[:at], data[at:]
    if kind == "base" and starts:
        at = chance.choice(starts) + chance.randrange(8)
    if kind in ("flip", "base"):
        return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
    if kind == "swap" and len(starts) > 2:
        i = chance.randrange(len(starts) - 2)
        a, b, c = starts[i : i + 3]
        return data[:a] + data[b:c] + data[a:b] + data[c:]
    return {
        "zero": head + bytes(min(length, len(tail))) + tail[length:],
        "cut": head + tail[length:],
        "insert": head + chance.randbytes(length) + tail,
        "repeat": head + tail[:length] + tail,
        "truncate": head,
        "pad": data + bytes(8 * length),
    }.get(kind, data)


def _batch_starts(data: bytes) -> list[int]:
    starts, at = [], 0
    while at + 61 <= len(data):
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        if size < 61 or at + size > len(data):
            break
        starts.append(at)
        at += size
    return starts


def cat(arguments: Iterable[str | Path]) -> tuple[list[dict[str, Any]], int]:
    """Run `kafkafmt cat --on-error skip` in this process, and return the records and the exit code.

    The keys, the values and the values of headers are bytes.
    """
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    given = ["cat", *map(str, arguments), "--on-error", "skip", "--format", "json", "--bytes", "base64"]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        try:
            with group.make_context("kafkafmt", given) as context:
                code: int = group.invoke(context)
        except click.exceptions.Exit as stop:
            code = stop.exit_code
    out.flush()
    buffer = out.buffer
    assert isinstance(buffer, io.BytesIO)
    return [_with_bytes(json.loads(line)) for line in buffer.getvalue().splitlines()], code


def _with_bytes(row: dict[str, Any]) -> dict[str, Any]:
    def decoded(text: str | None) -> bytes | None:
        return None if text is None else base64.b64decode(text)

    headers = [{"key": name, "value": decoded(value)} for name, value in row["headers"]]
    millis = row["timestamp"]
    return row | {
        "key": decoded(row["key"]),
        "value": decoded(row["value"]),
        "headers": headers or None,
        "timestamp": None if row["timestampType"] < 0 else millis * 1000,
        "timestampMillis": millis,
    }
