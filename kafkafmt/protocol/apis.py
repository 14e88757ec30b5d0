"""The APIs, as the files in `schemas/` tell them: a file an API, numbered by its key; request and response under one heading."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

from ..arguments import integer
from ..messages.schema import Heading, Struct, Versions, parse_message


@dataclass(frozen=True)
class Api:
    """Everything about one API: its messages and in which versions they are flexible (compact forms, tagged fields)."""

    key: int
    name: str
    versions: Versions
    flexible: Versions
    request: Struct
    response: Struct


@cache
def keys() -> dict[str, int]:
    """Name of an API in snake case, as its file has it → its key; in the order of the keys."""
    names = (file.name.removesuffix(".txt").partition("_") for file in files(__package__).joinpath("schemas").iterdir())
    return dict(sorted(((name, int(key)) for key, _, name in names if key.isdigit()), key=lambda item: item[1]))


def key_of(given: int | str) -> int:
    """An API's key, by itself or by the API's name, in any case; ValueError for a name that is not known."""
    if not isinstance(given, str):
        return integer("api_key", given, kind="an API's key or name")
    known = {name.replace("_", ""): key for name, key in keys().items()}
    word = given.replace("_", "").lower()
    if word in known:
        return known[word]
    near = [found.name for name in get_close_matches(word, known, 1) if (found := api(known[name]))]
    raise ValueError(f"{given!r} is no API that is known" + "".join(f"; the nearest is {name}" for name in near))


@cache
def _load(file: str) -> Api:
    title, *lines = files(__package__).joinpath("schemas", file).read_text(encoding="utf-8").splitlines()
    heading = Heading.parse(title)
    parts: dict[str, list[str]] = {"request": [], "response": []}
    for line in lines:
        if line in parts:
            part = parts[line]
        elif line.strip():
            part.append(line)
    key = -1 if heading.number is None else heading.number
    messages = [parse_message(heading.name + word.title(), part) for word, part in parts.items()]
    return Api(key, heading.name, heading.versions, heading.flexible, *messages)


@cache
def api(key: int) -> Api | None:
    """What is known of an API; None for a key that is not."""
    return next((_load(f"{key:02}_{name}.txt") for name, known in keys().items() if known == key), None)


def header(kind: str) -> Api:
    """The header of requests or of responses, written down in the same way."""
    return _load(f"{kind}_header.txt")
