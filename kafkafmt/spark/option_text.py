"""Parse the values of Spark options, which are strings.

Each error message is a single line and names the option.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from ..support.paths import UrlPath, input_path, is_url, local_path, without_secrets
from ..support.text import shown

Word = TypeVar("Word", bound=str)

NO_BROKER = "because no broker is contacted"
"""Part of a log message: the reason why an option for the connection to a broker is ignored."""


class OptionError(ValueError):
    """Raised if an option of the data source or data sink is unknown or invalid. The message is a single line."""


def check_names(given: Mapping[str, str], names: Sequence[str], others: Sequence[str] = ()) -> None:
    """Raise OptionError if the name of an option is unknown. Names that start with `kafka.` are valid."""
    # Error messages suggest only names in `names`, not those in `others`.
    known, accepted = {name.lower(): name for name in names}, {name.lower() for name in others}
    for name in given:
        lower = name.lower()
        if lower not in known and lower not in accepted and not lower.startswith("kafka."):
            near = difflib.get_close_matches(lower, known, 1)
            hint = (
                f"did you mean {known[near[0]]}?"
                if near
                else f"the valid options are {', '.join(n for n in names if not n.startswith('path'))}"
            )
            raise OptionError(f"unknown option {name}; {hint}")


def path_of(text: str) -> str:
    """Convert an option to an absolute local path."""
    # The driver and the executors can have different working directories.
    try:
        path = local_path(text)
    except ValueError as error:
        raise OptionError(str(error)) from None
    return os.path.abspath(path) if path else path


def sink_path_of(text: str) -> str:
    """Convert an option to the absolute path of the log directory to write to, which cannot be in a bucket."""
    if is_url(text):
        remedy = "write to a local path, and copy the log directory after the query has ended"
        raise OptionError(
            f"{without_secrets(text)} is a URL, but the data sink writes to local log directories only; {remedy}"
        )
    return path_of(text)


def input_of(text: str) -> str:
    """Convert an option to a URL that kafkafmt can read, or to an absolute local path."""
    try:
        place = input_path(text) if text else None
    except ValueError as error:
        raise OptionError(str(error)) from None
    return place.url if isinstance(place, UrlPath) else path_of(text)


def json_value(name: str, text: str) -> Any:
    """Parse the value of an option as JSON. Raise OptionError if it is not valid JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise OptionError(f"{name} is not valid JSON: {error}") from None


def whole_number(name: str, text: str, least: int) -> int:
    """Parse the value of an option as an integer that must be at least `least`."""
    try:
        value = int(text)
    except ValueError:
        raise OptionError(f"{name} is {shown(text)}, which is not an integer") from None
    if value < least:
        raise OptionError(f"{name} is {value}; it must be at least {least}")
    return value


def size_of(options: Mapping[str, str], name: str, default: int) -> int:
    """Parse the value of an option as a size such as 64k, 64m, 1g or 65536. Return the number of bytes."""
    if name not in options:
        return default
    found = re.fullmatch(r"(\d+)\s*([kmg]?)i?b?", options[name].strip().lower())
    if not found or not (value := int(found[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[found[2]]):
        raise OptionError(
            f"{name} is {shown(options[name])}; it must be a positive number of bytes, or a size such as 64k, 64m or 1g"
        )
    return value


UNITS = {"us": 1e-6, "ms": 1e-3, "": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
"""Number of seconds in each unit of time that Spark accepts. A time without a unit is in milliseconds."""


def seconds_of(options: Mapping[str, str], name: str, default: str) -> float:
    """Parse the value of an option as a time such as 500ms, 30s or 15m. Return the number of seconds."""
    given = options.get(name, default)
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", given.strip().lower())
    if not found or found[2] not in UNITS:
        raise OptionError(f"{name} is {shown(given)}; it must be a time such as 500ms, 30s or 15m")
    return int(found[1]) * UNITS[found[2]]


def flag_of(options: Mapping[str, str], name: str) -> bool:
    """Return the value of a boolean option. If the option is not given, return False."""
    return word_of(options, name, ("false", "true")) == "true"


def word_of(options: Mapping[str, str], name: str, words: Sequence[Word]) -> Word:
    """Return the value of an option, which must be one of `words`, in any case. The first one is the default."""
    given = options.get(name, words[0])
    for allowed in words:
        if given.strip().lower() == allowed.lower():
            return allowed
    raise OptionError(f"{name} is {shown(given)}; it must be {' or '.join(words)}")
