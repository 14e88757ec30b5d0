"""Parse conditions on the fields of decoded keys and values, such as ``value.amount > 100 and key.country = "DE"``."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

from ..support.text import shown

Test: TypeAlias = Callable[[Mapping[str, Any]], bool]
"""A function of an object with the members "key" and "value"."""

DEEPEST = 100
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'[^']*')|(?P<number>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"""
    r"""|(?P<operator>[<>!]=|==|[=<>()])|(?P<name>[^\s=<>!()"']+))"""
)
_WORDS = {"true": True, "false": False, "null": None}


def parse_where(text: str) -> Test:
    """Return a function that tests a condition. ValueError: the text is not a condition."""
    parser = _Parser(text)
    test = parser.alternatives()
    if parser.next is not None:
        raise ValueError(f"{shown(text)}: {shown(parser.next[1])} is not expected; join conditions with and, or")
    return test


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._tokens, self._depth = text, list[tuple[str, str]](), 0
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise ValueError(f"{shown(text)}: {shown(text[at:].strip())} cannot be read")
            self._tokens.append((match.lastgroup or "", match[match.lastgroup or 0]))
            at = match.end()
        self._tokens.reverse()

    @property
    def next(self) -> tuple[str, str] | None:
        return self._tokens[-1] if self._tokens else None

    def _take(self, expected: str) -> tuple[str, str]:
        if not self._tokens:
            raise ValueError(f"{shown(self._text)}: it ends where {expected} is expected")
        return self._tokens.pop()

    def _takes(self, word: str) -> bool:
        if self.next is not None and self.next[0] in ("name", "operator") and self.next[1] == word:
            self._tokens.pop()
            return True
        return False

    def alternatives(self) -> Test:
        tests = [self._all()]
        while self._takes("or"):
            tests.append(self._all())
        return tests[0] if len(tests) == 1 else lambda record: any(test(record) for test in tests)

    def _all(self) -> Test:
        tests = [self._one()]
        while self._takes("and"):
            tests.append(self._one())
        return tests[0] if len(tests) == 1 else lambda record: all(test(record) for test in tests)

    def _one(self) -> Test:
        self._depth += 1
        if self._depth > DEEPEST:
            raise ValueError(f"{shown(self._text)}: it has too many parentheses and nots inside each other")
        test = self._operand()
        self._depth -= 1
        return test

    def _operand(self) -> Test:
        if self._takes("not"):
            test = self._one()
            return lambda record: not test(record)
        if self._takes("("):
            test = self.alternatives()
            if not self._takes(")"):
                raise ValueError(f"{shown(self._text)}: a closing parenthesis is missing")
            return test
        kind, name = self._take("a field")
        side, *path = name.split(".")
        if kind != "name" or side not in ("key", "value") or "" in path:
            raise ValueError(f"{shown(self._text)}: {shown(name)} is not a field such as value.amount or key")
        kind, symbol = self._take("an operator such as = or >")
        if symbol not in _OPERATORS:
            raise ValueError(f"{shown(self._text)}: {shown(symbol)} is not one of {', '.join(_OPERATORS)}")
        return _comparison(side, path, _OPERATORS[symbol], self._literal())

    def _literal(self) -> Any:
        kind, text = self._take("a number, a text in quotes, true, false or null")
        try:
            if kind == "number":
                return Decimal(text)
            if kind == "text":
                return json.loads(text) if text[0] == '"' else text[1:-1]
        except (InvalidOperation, ValueError):
            raise ValueError(f"{shown(self._text)}: {shown(text)} cannot be read") from None
        if text in _WORDS:
            return _WORDS[text]
        raise ValueError(f"{shown(self._text)}: {shown(text)} is not a number, a text in quotes, true, false or null")


def _comparison(side: str, path: list[str], compare: Callable[[Any, Any], bool], literal: Any) -> Test:
    def test(record: Mapping[str, Any]) -> bool:
        found = record.get(side)
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        if found is None or literal is None or isinstance(found, bool) or isinstance(literal, bool):
            # Null is only equal to null, and true and false are not numbers.
            if compare in (operator.eq, operator.ne):
                return compare(found is literal, True)
            return False
        if isinstance(literal, Decimal):
            try:
                return compare(Decimal(str(found)), literal)  # decimals are texts
            except InvalidOperation:
                return compare is operator.ne
        return compare(found, literal) if isinstance(found, str) else compare is operator.ne

    return test
