"""Change single fields of batches: header, records, payload, framing and codec. Most CRCs are corrected."""

from __future__ import annotations

from random import Random

from . import batches
from .batches import (
    compressed,
    get,
    put,
    read_records,
    repaired,
    unpacked,
    with_length,
    with_payload,
    with_records,
    write_record,
)
from .mutate_bytes import mutate, number_near

REPAIRED = 0.85
"""Probability that a mutated batch gets a correct CRC."""
BITS = {">q": 64, ">i": 32, ">h": 16, ">b": 8}
ATTRIBUTES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 0x10, 0x20, 0x30, 0x40, 0x78, 0x80, -1)


def mutate_batch(chance: Random, batch: bytes) -> bytes:
    """Return a batch or message after one random kind of change."""
    for _ in range(chance.choice((1, 1, 1, 2))):
        batch = chance.choice(_WAYS)(chance, batch)
    return repaired(batch) if chance.random() < REPAIRED else batch


def _header(chance: Random, batch: bytes) -> bytes:
    name = chance.choice(list(batches.fields_of(batch)))
    if name == "attributes":
        return put(batch, name, get(batch, name) ^ chance.choice(ATTRIBUTES))
    if name == "magic":
        return put(batch, name, chance.choice((0, 1, 2, 3, -1, 127)))
    form = batches.fields_of(batch)[name][1]
    return put(batch, name, number_near(chance, get(batch, name), BITS[form]))


def _codec(chance: Random, batch: bytes) -> bytes:
    """Return a batch with the same records, compressed with another codec."""
    records = unpacked(batch)
    return batch if records is None else with_records(batch, records, chance.randrange(5 if batch[16] >= 2 else 4))


def _framing(chance: Random, batch: bytes) -> bytes:
    """Return a batch whose compressed bytes were changed, truncated or combined with another stream."""
    place = batches.payload_at(batch)
    if place is None:
        return batch
    payload = batch[slice(*place)]
    way = chance.randrange(4)
    if way == 0:
        codec = batches.codec_of(batch)
        payload += compressed(codec, chance.randbytes(20), batch[16]) if 0 < codec < 5 else b"\0"
    elif way == 1:
        payload = payload[: chance.randrange(len(payload) + 1)]
    else:
        payload = mutate(chance, payload)
    return with_payload(batch, payload)


def _payload(chance: Random, batch: bytes) -> bytes:
    """Return a batch whose decompressed bytes were changed at random."""
    records = unpacked(batch)
    return batch if records is None else with_records(batch, mutate(chance, records), batches.codec_of(batch) % 5)


def _records(chance: Random, batch: bytes) -> bytes:
    """Return a batch in which fields of its records or inner messages were changed."""
    payload = unpacked(batch)
    if payload is None:
        return batch
    codec = batches.codec_of(batch) % 5
    if batch[16] >= 2:
        return with_records(batch, _some_records(chance, payload), codec)
    if codec == 0:
        return mutate(chance, batch)
    return with_records(batch, mutate_stream(chance, batches.split(payload), depth=1), codec)


def _some_records(chance: Random, payload: bytes) -> bytes:
    found = read_records(payload)
    if not found:
        return mutate(chance, payload)
    parts = [write_record(r) for r in found]
    for _ in range(chance.choice((1, 1, 2))):
        at = chance.randrange(len(parts))
        attributes, offset, timestamp, key, value, headers = found[min(at, len(found) - 1)]
        wrong: dict[str, int] = {}
        way = chance.randrange(9)
        if way == 0:
            offset = number_near(chance, offset, 32)
        elif way == 1:
            timestamp = number_near(chance, timestamp, 64)
        elif way == 2:
            key = chance.choice((None, b"", b"k" * chance.choice((1, 63, 64, 127, 128, 5000))))
        elif way == 3:
            headers = [(b"h" * chance.choice((0, 1, 64)), chance.choice((None, b"", b"\xff\xfe")))] * chance.choice(
                (0, 1, 2, 70)
            )
        elif way == 4:
            wrong["header_count"] = number_near(chance, len(headers), 32)
        elif way == 5:
            wrong["length"] = number_near(chance, len(parts[at]) - 1, 32)
        elif way == 6:
            attributes = chance.randrange(256)
        elif way == 7:
            parts.insert(at, parts[chance.randrange(len(parts))])
            continue
        else:
            del parts[at]
            if not parts:
                break
            continue
        parts[at] = write_record((attributes, offset, timestamp, key, value, headers), **wrong)
    return b"".join(parts)


def _bytes(chance: Random, batch: bytes) -> bytes:
    return mutate(chance, batch)


def _sized_bytes(chance: Random, batch: bytes) -> bytes:
    """Return a batch with random changes and a correct length field."""
    return with_length(mutate(chance, batch))


_WAYS = (_header, _header, _header, _codec, _framing, _payload, _records, _records, _records, _bytes, _sized_bytes)


def mutate_stream(chance: Random, parts: list[bytes], depth: int = 0) -> bytes:
    """Return batches of which some were changed, repeated, swapped, truncated, nested or separated."""
    parts = list(parts)
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
        if not parts:
            break
        at = chance.randrange(len(parts))
        way = chance.randrange(12)
        if way <= 5 and depth == 0:
            parts[at] = mutate_batch(chance, parts[at])
        elif way <= 6:
            parts[at] = repaired(_header(chance, parts[at]))
        elif way == 7:
            parts.insert(chance.randrange(len(parts) + 1), parts[at])
        elif way == 8:
            del parts[at]
        elif way == 9:
            parts.insert(at, chance.choice((b"\0" * 8, b"\0" * 100, chance.randbytes(5), chance.randbytes(70))))
        elif way == 10:
            parts[at] = parts[at][: chance.randrange(len(parts[at]) + 1)]
        else:
            other = chance.randrange(len(parts))
            parts[at], parts[other] = parts[other], parts[at]
    data = b"".join(parts)
    return mutate(chance, data, 1) if chance.random() < 0.1 else data


def renumbered(parts: list[bytes], start: int = 0) -> list[bytes]:
    """Assign consecutive offsets to batches, as far as their headers allow."""
    made, offset = [], start
    for part in parts:
        if len(part) >= 61 and part[16] >= 2:
            part = put(part, "base_offset", offset)
            offset += max(get(part, "last_offset_delta"), 0) + 1
        elif len(part) > 18 and part[16] < 2:
            count = 1
            if batches.codec_of(part) and (inner := unpacked(part)):
                count = len(batches.split(inner))
            part = put(part, "offset", offset + count - 1)
            offset += count
        made.append(part)
    return made
