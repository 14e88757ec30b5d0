"""Change indexes, snapshots, checkpoints and properties entry by entry."""

from __future__ import annotations

import struct
from random import Random

import crc32c

from .mutate_bytes import mutate, mutate_text, number_near

ENTRIES = {"index": ">ii", "timeindex": ">qi", "txnindex": ">hqqqq", "snapshot": ">qhiqiqiq"}
BITS = {"b": 8, "h": 16, "i": 32, "q": 64}
SNAPSHOT_HEAD = 10


def mutate_entries(chance: Random, data: bytes, suffix: str) -> bytes:
    """Return an index or a snapshot with changed entries. The CRC of a snapshot is usually correct."""
    if chance.random() < 0.15:
        return mutate(chance, data)
    form = struct.Struct(ENTRIES[suffix])
    start = SNAPSHOT_HEAD if suffix == "snapshot" else 0
    body = data[start : start + (len(data) - start) // form.size * form.size]
    entries = [list(e) for e in form.iter_unpack(body)]
    for _ in range(chance.choice((1, 1, 2))):
        _change_entry(chance, entries, ENTRIES[suffix][1:])
    made = b"".join(form.pack(*e) for e in entries)
    if suffix == "snapshot":
        count = len(entries) if chance.random() < 0.8 else number_near(chance, len(entries), 32)
        made = struct.pack(">i", count) + made
        crc = crc32c.crc32c(made) if chance.random() < 0.85 else chance.getrandbits(32)
        made = struct.pack(">hI", 1 if chance.random() < 0.95 else number_near(chance, 1, 16), crc) + made
    return made + data[start + len(body) :] + (bytes(chance.choice((0, 0, 0, 3, 8, 64))))


def _change_entry(chance: Random, entries: list[list[int]], kinds: str) -> None:
    way = chance.randrange(8)
    if not entries or way == 0:
        entries.insert(chance.randrange(len(entries) + 1), [number_near(chance, 0, BITS[k]) for k in kinds])
        return
    at, other = chance.randrange(len(entries)), chance.randrange(len(entries))
    if way == 1:
        entries.insert(at, list(entries[other]))
    elif way == 2:
        del entries[at]
    elif way == 3:
        entries[at], entries[other] = entries[other], entries[at]
    else:
        field = chance.randrange(len(kinds))
        entries[at][field] = number_near(chance, entries[at][field], BITS[kinds[field]])


def mutate_file(chance: Random, name: str, data: bytes) -> bytes:
    """Return the content of an index, snapshot, checkpoint or properties file with suitable changes."""
    suffix = name.rpartition(".")[2]
    if suffix in ENTRIES:
        return mutate_entries(chance, data, suffix)
    if chance.random() < 0.15:
        return mutate(chance, data)
    return mutate_text(chance, data.decode(errors="replace")).encode(errors="surrogatepass")
