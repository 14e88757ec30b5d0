"""Options as text into values; what cannot be is one line that names the option."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlparse


class OptionError(ValueError):
    """An option's name or value that cannot be; the message is one line."""


def check_names(given: Mapping[str, str], names: Sequence[str], others: Sequence[str] = ()) -> None:
    """Refuse what is none of these options, but for others that are let by, and what begins with `kafka.`."""
    known, let_by = {name.lower(): name for name in names}, {name.lower() for name in others}
    for name in given:
        lower = name.lower()
        if lower not in known and lower not in let_by and not lower.startswith("kafka."):
            near = difflib.get_close_matches(lower, known, 1)
            hint = f"did you mean {known[near[0]]}?" if near else f"there are {', '.join(n for n in names if not n.startswith('path'))}"
            raise OptionError(f"there is no option {name}; {hint}")


def local_path(path: str) -> str:
    """A path, or a file: URL as Spark makes them."""
    parts = urlparse(path)
    if not re.match(r"[a-z][a-z0-9+.-]+:/", path):
        return path
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise OptionError(f"{path}: only local files can be used so far, on paths that every worker sees")
    return unquote(parts.path)


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


def flag_of(options: Mapping[str, str], name: str) -> bool:
    return word_of(options, name, ("false", "true")) == "true"


def word_of(options: Mapping[str, str], name: str, words: Sequence[str]) -> str:
    """One of some words, in whatever case; the first where the option is not given."""
    given = options.get(name, words[0])
    for allowed in words:
        if given.strip().lower() == allowed.lower():
            return allowed
    raise OptionError(f"{name} is {given!r}; it can be {' or '.join(words)}")
