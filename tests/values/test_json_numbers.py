"""Compare the numbers that are read from JSON with those of Python, bit for bit."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from fractions import Fraction
from random import Random
from types import ModuleType

import pytest
from json_texts import Maker, decode_json

from kafkafmt.values.types import Simple

DOUBLE = Simple("double")


def check(core: ModuleType, texts: Sequence[str]) -> None:
    result = decode_json(core, DOUBLE, [text.encode() for text in texts])
    for text, found, error in zip(texts, result.values, result.errors, strict=True):
        number = float(text)
        if math.isinf(number):
            assert error == ("bad_number", 0), text
        else:
            assert error is None, text
            assert struct.pack("<d", found) == struct.pack("<d", number), text


def test_doubles_of_all_forms_equal_those_of_python(core: ModuleType) -> None:
    maker = Maker(Random(5))
    check(core, [maker.number() for _ in range(20_000 if core.__name__.endswith("_core") else 2000)])


def test_all_powers_of_ten_are_exact(native: ModuleType) -> None:
    check(
        native, [f"{digits}e{power}" for power in range(-400, 330) for digits in ("1", "9007199254740993", "123456789")]
    )


def test_random_digits_and_exponents_equal_those_of_python(native: ModuleType) -> None:
    chance = Random(6)
    sizes = (1, 2, 15, 16, 17, 18, 19, 20, 21, 30, 770, 800)
    texts = []
    for _ in range(60_000):
        digits = chance.randrange(
            10 ** chance.choice(sizes[:9]) if chance.random() < 0.97 else 10 ** chance.choice(sizes)
        )
        texts.append(f"{digits}e{chance.randint(-345, 310) - chance.choice((0, 0, len(str(digits))))}")
    check(native, texts)


def halfway(bits: int) -> Fraction:
    low, high = (struct.unpack("<d", struct.pack("<Q", bits + i))[0] for i in (0, 1))
    return (Fraction(low) + Fraction(high)) / 2 if math.isfinite(high) else Fraction(low) + Fraction(low) / 2**54


def decimal_digits(number: Fraction) -> tuple[str, int]:
    power = number.denominator.bit_length() - 1
    return str(number.numerator * 5**power), power


@pytest.mark.parametrize(
    "bits", [0, 1, 2, 2**52 - 2, 2**52 - 1, 2**52, 2**52 + 1, (0x7FF << 52) - 2, (0x7FF << 52) - 1]
)
def test_ties_at_the_limits_of_doubles_are_rounded_to_even(core: ModuleType, bits: int) -> None:
    digits, power = decimal_digits(halfway(bits))
    below = str(int(digits) - 1).rjust(len(digits), "0")
    check(core, [f"{d}e-{power}" for d in (digits, below, str(int(digits) + 1))])
    check(core, [f"{digits}{'0' * 900}1e-{power + 901}", f"{below}{'9' * 900}e-{power + 900}"])


def test_random_ties_are_rounded_to_even(native: ModuleType) -> None:
    chance, texts = Random(7), []
    for _ in range(3000):
        digits, power = decimal_digits(halfway(chance.getrandbits(chance.choice((52, 60, 62, 63))) % (0x7FE << 52)))
        texts += [f"{int(digits) + i}e-{power}" for i in (-1, 0, 1)]
        point = chance.randrange(len(digits))
        texts.append(f"{int(digits[: point + 1])}.{digits[point + 1 :] or 0}e{len(digits) - point - 1 - power}")
    check(native, texts)
