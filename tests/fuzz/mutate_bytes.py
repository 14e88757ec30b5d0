"""Change bytes and lines of files in any format."""

from __future__ import annotations

from random import Random

BYTES = (0, 1, 2, 3, 0x0F, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
NUMBERS = (
    0,
    1,
    -1,
    2,
    -2,
    7,
    127,
    128,
    -128,
    255,
    256,
    32767,
    -32768,
    65536,
    2**24,
    2**31 - 1,
    -(2**31),
    2**32,
    2**63 - 1,
    -(2**63),
)


def number_near(chance: Random, value: int, bits: int) -> int:
    """Return a signed number of `bits` bits: an extreme value, a neighbour of `value`, or a random one."""
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    way = chance.randrange(4)
    if way == 0:
        made = chance.choice((low, high, 0, -1, 1, low + 1, high - 1))
    elif way == 1:
        made = value + chance.choice((-2, -1, 1, 2, 10, -10, 1000))
    elif way == 2:
        made = chance.choice(NUMBERS)
    else:
        made = chance.getrandbits(bits) + low if chance.random() < 0.5 else chance.randrange(-5, 300)
    return max(low, min(high, made))


def mutate(chance: Random, data: bytes, times: int = 0) -> bytes:
    """Return the bytes after `times` random changes, insertions, removals or repetitions. 0 means one to four."""
    changed = bytearray(data)
    for _ in range(times or chance.choice((1, 1, 1, 2, 2, 4))):
        _change_once(chance, changed)
    return bytes(changed)


def _change_once(chance: Random, data: bytearray) -> None:
    at = chance.randrange(len(data) + 1)
    way = chance.randrange(9)
    if way <= 1 and at < len(data):
        data[at] ^= 1 << chance.randrange(8)
    elif way <= 3 and at < len(data):
        data[at] = chance.choice(BYTES) if chance.random() < 0.7 else chance.randrange(256)
    elif way == 4:
        size = chance.choice((1, 2, 4, 8))
        data[at : at + size] = (chance.choice(NUMBERS) & (1 << 8 * size) - 1).to_bytes(size, "big")
    elif way == 5:
        data[at:at] = chance.randbytes(chance.choice((1, 2, 4, 9, 40)))
    elif way == 6:
        del data[at : at + chance.choice((1, 2, 4, 12, 61, 200))]
    elif way == 7:
        size = chance.choice((1, 8, 30, 100))
        data[at:at] = data[max(0, at - size) : at]
    elif chance.random() < 0.5:
        del data[at:]
    else:
        data[at:] = bytes(len(data) - at)


TEXT_PARTS = ("0", "1", "-1", "9223372036854775807", "9223372036854775808", "٣", " ", "\t", "\x85", "\u2028", "\ufffd", "é", "\\", "=", ":",
              "#", "\\u00", "\\\n", "\r", "\0", "1_0", "+5", "1e3", "topic", "x" * 300)  # fmt: skip


def mutate_text(chance: Random, text: str) -> str:
    """Return a text in which lines or words were changed, repeated, removed or swapped."""
    lines = text.split("\n")
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(len(lines))
        way = chance.randrange(7)
        if way == 0:
            lines.insert(at, lines[chance.randrange(len(lines))])
        elif way == 1 and len(lines) > 1:
            del lines[at]
        elif way == 2:
            other = chance.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        elif way == 3:
            lines[at] = chance.choice(TEXT_PARTS)
        elif way == 4:
            words = lines[at].split(" ")
            words[chance.randrange(len(words))] = chance.choice(TEXT_PARTS)
            lines[at] = " ".join(words)
        else:
            where = chance.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:where] + chance.choice(TEXT_PARTS) + lines[at][where + chance.randrange(3) :]
    return "\n".join(lines)


def cuts(chance: Random, data: bytes) -> list[bytes]:
    """Return the bytes as one part, as single bytes, or as parts of random sizes."""
    way = chance.randrange(4)
    if way == 0:
        return [data]
    most = 1 if way == 1 else chance.choice((3, 10, 100, 5000))
    pieces, at = [], 0
    while at < len(data):
        size = chance.randint(0 if most > 1 and chance.random() < 0.05 else 1, most)
        pieces.append(data[at : at + size])
        at += size
    return pieces
