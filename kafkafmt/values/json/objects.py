"""Decode single JSON values into Python objects for JSON."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

import numpy as np

from ..._backend import core
from ...constants import VALUE_COLUMNS, VALUE_FAULTS
from ..errors import ValueFault
from .program import compile_text

DEEPEST = 64
MOST_INT_DIGITS = 4000
"""Python limits the digits of an int that is converted from or to text."""
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class NumberText(str):
    """A number that neither int nor float holds."""

    __slots__ = ()


def json_to_object(body: memoryview) -> Any:
    """Return the value of a JSON text. ValueFault: it is not valid, by the rules of the core.

    A number that neither int nor float holds is text (`NumberText`). Of members with the same name, the last
    one counts.
    """
    raw = bytes(body)
    if raw.count(b"{") + raw.count(b"[") > DEEPEST or _SURROGATE.search(raw):
        _check(raw)  # json.loads accepts lone surrogates
    try:
        return json.loads(raw.decode(), parse_constant=_refuse, parse_float=_float, parse_int=_int)
    except ValueError:
        _check(raw)
        raise


def _check(raw: bytes) -> None:
    """Raise ValueFault if the core does not accept a JSON text."""
    faults = np.empty((1, 3), np.int64)
    at, size, first = np.zeros(1, np.int64), np.array([len(raw)], np.int32), np.zeros(1, np.int32)
    builder = core.ColumnBuilder(
        [VALUE_COLUMNS.index("binary")], [0], [1], [0], np.zeros(1, np.uint8), lambda n: np.empty(n, np.uint8)
    )
    if builder.decode([compile_text()], first, raw, at, size, faults):
        raise ValueFault(VALUE_FAULTS[faults[0, 1]], int(faults[0, 2]))


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _float(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else NumberText(text)


def _int(text: str) -> int | str:
    return int(text) if len(text) <= MOST_INT_DIGITS else NumberText(text)
