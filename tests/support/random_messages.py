"""Generate messages with random values: null, empty, nested, non-ASCII, extreme, unknown tagged fields."""

from __future__ import annotations

import uuid
from random import Random
from typing import Any

TEXTS = ("", "a", "größe-日本-😀", "x" * 300)


def random_value(chance: Random, f: Any, message: Any, version: int, depth: int) -> Any:
    if f.struct is not None:
        return random_message(chance, message.STRUCTS[f.type], version, depth + 1)
    if f.type in ("string", "uuid", "bool", "float64"):
        choices = {
            "string": TEXTS,
            "uuid": (uuid.UUID(int=0), uuid.UUID(int=chance.getrandbits(128))),
            "bool": (True, False),
            "float64": (0.0, -0.5, 1e300, chance.gauss(0, 1)),
        }
        return chance.choice(choices[f.type])
    if f.type in ("bytes", "records"):
        return chance.randbytes(chance.choice((0, 1, 127, 200)))
    bits = int(f.type.removeprefix("u").removeprefix("int"))
    low, high = (0, 2**bits - 1) if f.type.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return chance.choice((low, high, 0, 1, chance.randint(low, high)))


def random_message(chance: Random, message: Any, version: int, depth: int = 0) -> Any:
    """Return a message with random values in the fields of a version."""
    made = message()
    for f in message.SCHEMA.fields:
        if version not in f.versions or (f.tag is not None and chance.random() < 0.3):
            continue
        if version in f.nullable and chance.random() < 0.25:
            value = None
        elif f.array:
            value = [
                random_value(chance, f, message, version, depth) for _ in range(chance.randrange(4 if depth < 3 else 2))
            ]
        else:
            value = random_value(chance, f, message, version, depth)
        setattr(made, f.name, value)
    flexible = version in message.FLEXIBLE
    if flexible and chance.random() < 0.25:
        made.unknown_tagged_fields = ((100, chance.randbytes(3)), (20000, b""))
    return made
