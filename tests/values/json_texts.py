"""Make JSON types and texts of these types from random numbers, and compute what the columns must contain."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from contextlib import nullcontext
from fractions import Fraction
from random import Random
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from decoding_values import plain, using

from kafkafmt.constants import VALUE_FAULTS
from kafkafmt.values import value_columns
from kafkafmt.values.json import program as program_module
from kafkafmt.values.json.writer import JsonWriter
from kafkafmt.values.types import Array, Field, Map, Record, Simple, Union, ValueType

NAMES = (
    "a",
    "b",
    "id",
    "customer",
    "exactly16bytes__",
    "seventeen bytes__",
    "longer than all others",
    'q"',
    "\\",
    "é",
    "",
)
UNKNOWN = ("u", "vip", "custome", "customers", "ü", "\n", "q", "exactly16bytes_")
KINDS = ("boolean", "long", "double", "string", "json", "null")
NUMBERS = (
    "0", "-0", "0.0", "-0.0", "1", "-1", "5.0", "1e3", "1E+3", "100e-2", "9223372036854775807", "-9223372036854775808",
    "9007199254740993", "0.1", "1.7976931348623157e308", "4.9e-324", "2.2250738585072011e-308", "5e-324", "1e-400",
    "0.000001", "123456789012345678901234567890", "1e22", "1e23", "8.5", "0e999", "12345678.12345678",
)  # fmt: skip
TOO_LARGE = ("9223372036854775808", "-9223372036854775809", "1e999", "-1e309", "1.5", "1e19")


INSERTED = (
    b'"', b",", b":", b"{", b"}", b"[", b"]", b"\\", b"\\ud800", b"\\u00e9", b"0", b"e", b"E+", b".", b"-", b"+", b"\xff",
    b"\xc3", b"\0", b" ", b"\x0b", b"null", b"true", b"NaN", b"1e999", b'"a":', b"\xef\xbb\xbf",
)  # fmt: skip
"""Bytes that are inserted into valid texts."""


class Number(str):
    """The text of a number."""

    __slots__ = ()


class Pairs(tuple[tuple[str, Any], ...]):
    """The members of an object."""

    __slots__ = ()


class Misfit(Exception):
    """A value does not fit its column, or is not JSON."""


class Maker:
    def __init__(self, chance: Random, valid: bool = True, repeats: bool = True) -> None:
        self._chance, self._valid, self._repeats = chance, valid, repeats

    def type(self, depth: int, path: str = "") -> ValueType:
        kind = self._chance.randrange(5) if depth else 0
        if kind < 2:
            return Simple(self._chance.choice(KINDS))
        if kind == 2:
            return Array(self.type(depth - 1, f"{path}/[]"))
        if kind == 3:
            return Map(self.type(depth - 1, f"{path}/*"))
        return self.record(depth, path)

    def record(self, depth: int, path: str = "") -> Record:
        names = self._chance.sample(NAMES, self._chance.randint(1, 6))
        return Record(path, [Field(name, self.type(depth - 1, f"{path}/{name}")) for name in names])

    def text(self, type_: ValueType, depth: int = 0) -> str:
        chance = self._chance
        if chance.random() < 0.1:
            return "null"
        if isinstance(type_, Record):
            names = [f.name for f in type_.fields if chance.random() < 0.85]
            types = {f.name: f.type for f in type_.fields}
            if chance.random() < 0.3:
                chance.shuffle(names)
            if chance.random() < 0.3:
                for _ in range(chance.randint(1, 3)):
                    names.insert(chance.randint(0, len(names)), chance.choice(UNKNOWN))
            if names and chance.random() < 0.1:
                names.insert(chance.randint(0, len(names)), chance.choice(names))
            members = [(name, self.text(types[name], depth + 1) if name in types else self.any(2)) for name in names]
            return self._object(members)
        if isinstance(type_, Map):
            names = chance.sample(UNKNOWN, chance.choice((0, 1, 1, 2, 3)))
            return self._object([(name, self.text(type_.values, depth + 1)) for name in names])
        if isinstance(type_, Array):
            items = [self.text(type_.items, depth + 1) for _ in range(chance.choice((0, 1, 1, 2, 3)))]
            return self._list(items)
        kind = type_.kind
        if not self._valid and chance.random() < 0.03:
            return chance.choice(TOO_LARGE) if kind in ("long", "double") else self.any(1)
        if kind == "long":
            number = chance.choice((chance.randrange(100), chance.getrandbits(63), -chance.getrandbits(20)))
            return chance.choice((str(number), str(number), chance.choice(("0", "-0", "5.0", "1e3", "1.20e2", "-0.0"))))
        if kind == "double":
            return self.number()
        return {"null": "null"}.get(kind) or (
            chance.choice(("true", "false"))
            if kind == "boolean"
            else self.string()
            if kind == "string"
            else self.any(3)
        )

    def number(self) -> str:
        chance = self._chance
        kind = chance.randrange(6)
        if kind == 0:
            return chance.choice(NUMBERS)
        if kind == 1:
            found = struct.unpack("<d", chance.randbytes(8))[0]
            return repr(found) if math.isfinite(found) else "1"
        if kind == 2:  # halfway between two doubles, and close to it
            bits = chance.getrandbits(chance.choice((63, 53, 5))) % (0x7FE << 52)
            low, high = (struct.unpack("<d", struct.pack("<Q", bits + i))[0] for i in (0, 1))
            exact = _halfway(low, high)
            return exact if chance.random() < 0.5 else _nudged(exact, chance)
        digits = "".join(chance.choice("0123456789") for _ in range(chance.choice((1, 5, 17, 19, 20, 25, 40))))
        whole = digits.lstrip("0") or "0"
        cut = chance.randint(0, len(whole) - 1)
        text = f"{whole[: cut + 1]}.{whole[cut + 1 :]}" if whole[cut + 1 :] else whole
        if kind > 3:
            text += (
                chance.choice("eE") + chance.choice(("", "+", "-")) + str(chance.randrange(chance.choice((5, 30, 280))))
            )
        return chance.choice(("", "-")) + text

    def string(self, text: str | None = None) -> str:
        chance = self._chance
        if text is None:
            text = "".join(chance.choice('ab"\\/\b\f\n\r\t\0\x7fé€😀') for _ in range(chance.choice((0, 1, 3, 20))))
            text = chance.choice((text, "plain text", "x" * chance.randrange(40), "y" * 15 + "é"))
        short = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
        out = []
        for c in text:
            units = c.encode("utf-16-be")
            long = "".join(f"\\u{units[i] << 8 | units[i + 1]:04x}" for i in range(0, len(units), 2))
            if c in short or c < " ":
                out.append(chance.choice((short.get(c, long), short.get(c, long), long)))
            else:
                out.append(long if chance.random() < 0.05 else "\\/" if c == "/" and chance.random() < 0.5 else c)
        return '"' + "".join(out) + '"'

    def any(self, depth: int) -> str:
        """Return a value of any type."""
        chance = self._chance
        kind = chance.randrange(7 if depth else 5)
        if kind == 5:
            return self._list([self.any(depth - 1) for _ in range(chance.randrange(4))])
        if kind == 6:
            return self._object(
                [(chance.choice(UNKNOWN + NAMES), self.any(depth - 1)) for _ in range(chance.randrange(4))]
            )
        return (self.number(), self.string(), "true", "false", "null")[kind]

    def _space(self) -> str:
        return self._chance.choice(("", "", "", " ", "\n\t", "\r  "))

    def _list(self, items: Sequence[str]) -> str:
        parts = [self._space() + item + self._space() for item in items]
        return "[" + (",".join(parts) or self._space()) + "]"

    def _object(self, members: Sequence[tuple[str, str]]) -> str:
        if not self._repeats:
            members = list(dict(members).items())
        parts = [
            f"{self._space()}{self.string(name)}{self._space()}:{self._space()}{value}{self._space()}"
            for name, value in members
        ]
        return "{" + (",".join(parts) or self._space()) + "}"

    def document(self, type_: ValueType) -> bytes:
        return f"{self._space()}{self.text(type_)}{self._space()}".encode()


def _halfway(low: float, high: float) -> str:
    """Return all digits of the number halfway between two doubles."""
    middle = (Fraction(low) + Fraction(high)) / 2
    power = middle.denominator.bit_length() - 1
    digits = str(middle.numerator * 5**power)
    return f"{digits}e-{power}"


def _nudged(number: str, chance: Random) -> str:
    mantissa, _, power = number.partition("e")
    tail = "0" * chance.choice((0, 3, 800)) + "1"
    if "." not in mantissa:
        mantissa += "."
    return f"{mantissa}{tail}" + (f"e{power}" if power else "")


def strict(body: bytes) -> Any:
    """Return the value of a JSON text. Misfit: it is not strictly valid."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        value = json.loads(
            body.decode(), object_pairs_hook=Pairs, parse_int=Number, parse_float=Number, parse_constant=refuse
        )
        _check(value, 0)
    except (RecursionError, ValueError) as error:
        raise Misfit(str(error)) from None
    return value


def _check(value: Any, depth: int) -> None:
    if isinstance(value, Pairs | list):
        if depth == 64:
            raise ValueError("too deep")
        for item in value:
            if isinstance(value, Pairs):
                item[0].encode()
            _check(item[1] if isinstance(value, Pairs) else item, depth + 1)
    elif isinstance(value, str):
        value.encode()


class Expected(NamedTuple):
    value: Any
    rest: Any  # None: there is none


def expected(value: Any, type_: ValueType) -> Expected:
    """Return what the columns and the rest must contain for a value. Misfit: it does not fit."""
    if isinstance(type_, Union):
        type_ = type_.others[0]
    if value is None:
        return Expected(None, None)
    kind = type_.kind
    if kind == "json":
        return Expected(AsJson(value), None)
    if isinstance(type_, Record) and isinstance(value, Pairs):
        types = {field.name: field.type for field in type_.fields}
        found: dict[str, Expected] = {}
        rest: dict[str, Any] = {}
        opened = False
        for name, member in value:
            if name not in types:
                rest[name] = plain_json(member)
                opened = True
                continue
            found[name] = expected(member, types[name])
            rest.pop(name, None)
            if found[name].rest is not None:
                rest[name] = found[name].rest
                opened = True
        values = {name: found[name].value if name in found else None for name in types}
        return Expected(values, rest if opened else None)
    if isinstance(type_, Map) and isinstance(value, Pairs):
        members = [(name, expected(member, type_.values)) for name, member in value]
        others = {name: member.rest for name, member in members if member.rest is not None}
        return Expected([(name, member.value) for name, member in members], others or None)
    if isinstance(type_, Array) and isinstance(value, list):
        items = [expected(item, type_.items) for item in value]
        others = {str(i): item.rest for i, item in enumerate(items) if item.rest is not None}
        return Expected([item.value for item in items], others or None)
    if isinstance(value, Number):
        if kind == "double" and math.isfinite(float(value)):
            return Expected(float(value), None)
        if kind == "long" and not value.lower().partition("e")[0].strip("-0."):
            return Expected(0, None)
        if kind == "long" and 0.5 < abs(float(value)) < 1e20:
            number = Fraction(value)
            if number.denominator == 1 and -(2**63) <= number < 2**63:
                return Expected(int(number), None)
    elif (kind == "string" and isinstance(value, str)) or (kind == "boolean" and isinstance(value, bool)):
        return Expected(value, None)
    raise Misfit(f"{value!r:.50} does not fit {kind}")


class AsJson(NamedTuple):
    """A value that a column has as JSON text."""

    value: Any


def plain_json(value: Any) -> Any:
    """Return a value with dicts. Of members with the same name, the last one counts."""
    if isinstance(value, Pairs):
        return {name: plain_json(member) for name, member in value}
    return [plain_json(item) for item in value] if isinstance(value, list) else value


def loads_exactly(text: str) -> Any:
    """Return the value of a JSON text, with numbers as text."""
    return json.loads(text, parse_int=Number, parse_float=Number)


def same_json(found: Any, wanted: Any) -> bool:
    """Return whether a value of a column is the expected one."""
    if isinstance(wanted, AsJson):
        return isinstance(found, str) and strict(found.encode()) == wanted.value
    if isinstance(wanted, dict):
        return (
            isinstance(found, dict)
            and list(found) == list(wanted)
            and all(same_json(found[n], wanted[n]) for n in wanted)
        )
    if isinstance(wanted, list | tuple):
        return isinstance(found, list | tuple) and len(found) == len(wanted) and all(map(same_json, found, wanted))
    return type(found) is type(wanted) and repr(found) == repr(wanted)


class JsonColumns(NamedTuple):
    array: pa.Array
    rest: list[str | None]
    errors: list[tuple[str, int] | None]

    @property
    def values(self) -> list[Any]:
        return plain(self.array)


def decode_json(
    core: ModuleType, type_: ValueType, bodies: Sequence[bytes | None], fields: Any = None, batch: int = 0
) -> JsonColumns:
    """Decode bodies into the columns of a type, and return them with the rest."""
    root = value_columns.columns_of(type_, fields)
    captures, columns = value_columns.Captures(), list(root.walk())
    if fields is None:
        columns.append(root.add_rest())
    with using(core) if vars(program_module)["core"] is not core else nullcontext():
        program = JsonWriter(type_).compile(root, captures, False)
    builder = core.ColumnBuilder(
        [c.kind for c in columns], [c.width for c in columns], [c.last for c in columns], [c.precision for c in columns],
        value_columns.DECIMAL_LIMITS, lambda n: np.empty(n, np.uint8),
    )  # fmt: skip
    errors: list[tuple[str, int] | None] = [None] * len(bodies)
    step = batch or max(len(bodies), 1)
    for start in range(0, len(bodies), step):
        some = bodies[start : start + step]
        lengths = np.array([len(b or b"") for b in some], np.int32)
        positions = np.cumsum(lengths, dtype=np.int64) - lengths
        which = np.array([-1 if b is None else 0 for b in some], np.int32)
        faults = np.empty((len(some), 3), np.int64)
        n = builder.decode([program], which, b"".join(b or b"" for b in some), positions, lengths, faults)
        for row, code, position in faults[:n].tolist():
            errors[start + row] = VALUE_FAULTS[code], position
    buffers = builder.finish()
    array = value_columns.build_array(root, buffers, captures)
    array.validate(full=True)
    assert len(array) == len(bodies)
    rest: list[str | None] = [None] * len(bodies)
    if root.rest is not None:
        found = value_columns.build_rest(root.rest, buffers, len(array))
        found.validate(full=True)
        rest = found.to_pylist()
    return JsonColumns(array, rest, errors)


def check_bodies(cores: Sequence[ModuleType], type_: ValueType, bodies: Sequence[bytes]) -> list[JsonColumns]:
    """Check verdicts, values and rests on all cores, and that the cores agree on codes and positions."""
    wanted: list[Expected | None] = []
    for body in bodies:
        try:
            wanted.append(expected(strict(body), type_))
        except Misfit:
            wanted.append(None)
    results = [decode_json(core, type_, bodies, batch=3) for core in cores]
    for result in results:
        assert result.errors == results[0].errors
        assert result.rest == results[0].rest
        for body, error, want, value, rest in zip(
            bodies, result.errors, wanted, result.values, result.rest, strict=True
        ):
            assert (error is None) == (want is not None), (body, error)
            if want is None:
                assert (value, rest) == (None, None), body
                continue
            assert same_json(value, want.value), (body, value, want.value)
            assert (None if rest is None else loads_exactly(rest)) == (want.rest or None), (body, rest, want.rest)
    return results


def mutated(body: bytes, chance: Random) -> bytes:
    found = bytearray(body)
    for _ in range(chance.randint(1, 2)):
        at = chance.randrange(len(found) + 1)
        change = chance.randrange(5)
        if change == 0 and at < len(found):
            found[at] ^= 1 << chance.randrange(8)
        elif change == 1:
            del found[at:]
        elif change == 2:
            found[at:at] = chance.choice(INSERTED)
        elif change == 3 and at < len(found):
            found[at] = chance.randrange(256)
        elif at < len(found):
            del found[at]
    return bytes(found)
