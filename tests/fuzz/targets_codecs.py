"""Fuzz decompression with each codec and framing, and with a limit."""

from __future__ import annotations

from random import Random
from typing import Any

from kafkafmt.codecs import Arena, Decompressor

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
