"""Fuzz decompression with each codec and framing, and with a limit."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from kafkafmt import _backend
from kafkafmt.codecs.decompressor import Arena, Decompressor
from kafkafmt.types import BATCH_DTYPE

from .batches import compressed
from .case import Case, of_bytes
from .mutate_bytes import mutate
from .outcome import Failed, attempt, check, same
from .target import target

CODECS = (1, 2, 3, 4)


def codec_case(chance: Random) -> Case:
    codec = chance.choice(CODECS)
    parts = [bytes(chance.choice((0, 1, 100, 70_000))), chance.randbytes(chance.choice((0, 5, 3000)))]
    parts.append(b"text " * chance.choice((0, 9, 8000)))
    data = b"".join(chance.sample(parts, chance.randint(1, 3)))
    packed = compressed(codec, data)
    if chance.random() < 0.2:
        packed += compressed(chance.choice((codec, codec, chance.choice(CODECS))), chance.choice(parts))
    if chance.random() < 0.8:
        packed = mutate(chance, packed)
    return of_bytes(packed, codec=codec, limit=chance.choice((1, 100, max(len(data), 1), len(data) + 1, 1 << 20)))


@target("decompress", codec_case, quick=150, compared=False)
def decompress(case: Case) -> Any:
    """Check that the output never exceeds the limit, and that previous bytes in the arena do not change."""
    codec, limit = case.params["codec"], case.params["limit"]
    arena = Arena(64)
    arena.append(b"before")
    size = attempt(Decompressor(limit).decompress, codec, memoryview(case.data), arena)
    same(bytes(arena.view[:6]), b"before", "earlier bytes of the arena")
    if isinstance(size, Failed):
        return size
    check(0 <= size <= limit, f"{size} bytes were decompressed, but the limit is {limit}")
    same(arena.filled, 6 + size, "number of bytes in the arena")
    again = Arena(1 << 16)
    same(Decompressor(limit).decompress(codec, case.data, again), size, "number of bytes from a second decompressor")
    same(bytes(again.view[:size]), bytes(arena.view[6 : 6 + size]), "decompressed bytes")
    return size


def window_case(chance: Random) -> Case:
    """Return several payloads of one buffer, most of them valid."""
    blobs, codecs = {}, []
    for i in range(chance.randint(1, 12)):
        codecs.append(chance.choice(CODECS))
        data = chance.randbytes(chance.choice((0, 1, 60, 3000))) + b"text " * chance.choice((0, 9, 100, 8000))
        packed = compressed(codecs[-1], data)
        blobs[str(i)] = mutate(chance, packed) if chance.random() < 0.4 else packed
    limit, room = chance.choice((1, 100, 40_000, 1 << 20)), chance.choice((1, 4096, 1 << 20))
    magic = chance.choice((1, 2, 2, 2))
    return Case({"codecs": codecs, "limit": limit, "room": room, "magic": magic}, blobs)


@target("decompress-windows", window_case, quick=100, compared=False)
def decompress_windows(case: Case) -> Any:
    """Check that a window of many batches is decompressed like each of its batches."""
    limit, buffer = case.params["limit"], b"".join(case.blobs.values())
    table = np.zeros(len(case.blobs), BATCH_DTYPE)
    table["magic"], table["attributes"] = case.params["magic"], case.params["codecs"]
    table["payload_size"] = [len(blob) for blob in case.blobs.values()]
    table["payload_position"] = np.cumsum(table["payload_size"]) - table["payload_size"]
    decompressor, arena, moved, row = (
        Decompressor(limit),
        Arena(case.params["room"]),
        np.empty(len(table), BATCH_DTYPE),
        0,
    )
    while row < len(table):
        begin, start = row, arena.filled
        row = decompressor.append(memoryview(buffer), table, moved, row, arena, 1 << 30)
        check(
            len(arena.view) <= case.params["room"] + 2 * (start + limit * (row - begin + 1)) + 2,
            "the arena is too large",
        )
        for i in range(begin, row):
            expected, payload, size = Arena(1 << 16), list(case.blobs.values())[i], int(moved["payload_size"][i])
            same(Decompressor(limit).decompress(case.params["codecs"][i], payload, expected), size, "size")
            same(int(moved["payload_position"][i]), start, "position")
            same(bytes(arena.view[start : start + size]), bytes(expected.view[:size]), "decompressed bytes")
            start += size
        same(arena.filled, start, "number of bytes in the arena")
        row += 1  # the core has refused this batch
    return moved["payload_size"].tolist()


def snappy_case(chance: Random) -> Case:
    """Return a few snappy payloads. Some are xerial streams, and most are mutated."""
    blobs = {}
    for name in ("first", "second", "third"):
        data = chance.randbytes(chance.choice((0, 1, 60, 61, 300))) + b"text " * chance.choice((0, 9, 100))
        packed = compressed(2, data)
        if chance.random() < 0.5:
            packed = packed[20:]  # the first raw block
        blobs[name] = mutate(chance, packed) if chance.random() < 0.8 else packed
    return Case({"limit": chance.choice((0, 1, 100, 1 << 20))}, blobs)


@target("check-snappy", snappy_case, quick=200)
def check_snappy(case: Case) -> list[int]:
    """Check that no snappy payload with a fault can be decompressed."""
    payloads, limit = list(case.blobs.values()), case.params["limit"]
    lengths = np.array([len(payload) for payload in payloads], np.int32)
    positions, faults = np.cumsum(lengths, dtype=np.int64) - lengths, np.full(len(payloads), -1, np.int8)
    _backend.core.check_snappy(b"".join(payloads), positions, lengths, len(payloads), limit, faults)
    for payload, fault in zip(payloads, faults.tolist(), strict=True):
        result = attempt(Decompressor(max(limit, 1)).decompress, 2, memoryview(payload), Arena(64))
        check(fault == 0 or isinstance(result, Failed) or limit == 0, f"fault {fault} in data of {result} bytes")
    return list(faults.tolist())
