"""Options as text into values; what cannot be is one line that names the option."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..paths import local_path


class OptionError(ValueError):
    """An option's name or value that cannot be; the message is one line."""


def check_names(given: Mapping[str, str], names: Sequence[str], others: Sequence[str] = ()) -> None:
    """Refuse what is none of these options, but for others that are let by, and what begins with `kafka.`."""
    known, let_by = {name.lower(): name for name in names}, {name.lower() for name in others}
    for name in given:
        lower = name.lower()
        if lower not in known and lower not in let_by and not lower.startswith("kafka."):
            near = difflib.get_close_matches(lower, known, 1)
            hint = (
                f"did you mean {known[near[0]]}?"
                if near
                else f"there are {', '.join(n for n in names if not n.startswith('path'))}"
            )
            raise OptionError(f"there is no option {name}; {hint}")


def path_of(text: str) -> str:
    """Return the absolute local path that an option means, since executors have other working directories. Raise `OptionError`."""
    try:
        path = local_path(text)
    except ValueError as error:
        raise OptionError(str(error)) from None
    return os.path.abspath(path) if path else path


def json_value(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise OptionError(f"{name} is not JSON: {error}") from None


def whole_number(name: str, text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise OptionError(f"{name} is {text!r}, which is no whole number") from None
    if value < least:
        raise OptionError(f"{name} is {value}; it can be {least} at least")
    return value


def size_of(options: Mapping[str, str], name: str, default: int) -> int:
    """Bytes, or 64k, 64m, 1g."""
    if name not in options:
        return default
    found = re.fullmatch(r"(\d+)\s*([kmg]?)i?b?", options[name].strip().lower())
    if not found or not (value := int(found[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[found[2]]):
        raise OptionError(f"{name} is {options[name]!r}; it can be bytes, or 64k, 64m, 1g")
    return value


UNITS = {"us": 1e-6, "ms": 1e-3, "": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
"""Of Spark's time strings; milliseconds if there is none."""


def seconds_of(options: Mapping[str, str], name: str, default: str) -> float:
    """Return a time such as 500ms, 30s or 15m in seconds."""
    given = options.get(name, default)
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", given.strip().lower())
    if not found or found[2] not in UNITS:
        raise OptionError(f"{name} is {given!r}; it can be a time such as 500ms, 30s or 15m")
    return int(found[1]) * UNITS[found[2]]


def flag_of(options: Mapping[str, str], name: str) -> bool:
    return word_of(options, name, ("false", "true")) == "true"


def word_of(options: Mapping[str, str], name: str, words: Sequence[str]) -> str:
    """One of some words, in whatever case; the first where the option is not given."""
    given = options.get(name, words[0])
    for allowed in words:
        if given.strip().lower() == allowed.lower():
            return allowed
    raise OptionError(f"{name} is {given!r}; it can be {' or '.join(words)}")
