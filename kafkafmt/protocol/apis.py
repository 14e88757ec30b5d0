"""Read the definitions of Kafka's APIs from the files in `schemas/`.

Each file describes one API: its key, its name, its versions, the request and the response. The file
name consists of the API key and the API name in snake case, as in ``03_metadata.txt``.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

from ..messages.schema import Heading, Struct, Versions, parse_message
from ..support.arguments import integer
from ..support.text import shown

PRODUCE = 0
FETCH = 1
CONTROLLED_SHUTDOWN = 7
SASL_HANDSHAKE = 17
API_VERSIONS = 18
SHARE_FETCH = 78


@dataclass(frozen=True)
class Api:
    key: int  # Kafka's number for the API; -1 for a header
    name: str  # Kafka's name, such as "ApiVersions"
    versions: Versions
    flexible: Versions  # versions that use compact types and tagged fields (KIP-482)
    request: Struct
    response: Struct


@cache
def keys() -> dict[str, int]:
    """Return a dict from API name in snake case to API key, in ascending order of the API keys."""
    names = (file.name.removesuffix(".txt").partition("_") for file in files(__package__).joinpath("schemas").iterdir())
    return dict(sorted(((name, int(key)) for key, _, name in names if key.isdigit()), key=lambda item: item[1]))


def key_of(given: int | str) -> int:
    """Return the key of an API from its key or name, in which case and underscores are ignored."""
    if not isinstance(given, str):
        return integer("api_key", given, kind="an API's key or name")
    known = {name.replace("_", ""): key for name, key in keys().items()}
    word = given.replace("_", "").lower()
    if word in known:
        return known[word]
    near = [found.name for name in get_close_matches(word, known, 1) if (found := api(known[name]))]
    raise ValueError(f"there is no API {shown(given)}" + "".join(f"; did you mean {shown(name)}?" for name in near))


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
    return next((_load(f"{key:02}_{name}.txt") for name, known in keys().items() if known == key), None)


def header(kind: str) -> Api:
    """Return the definition of a header. `kind` is "request" or "response"."""
    # The result is an `Api`, because the schema files of headers and APIs have the same form.
    return _load(f"{kind}_header.txt")
