"""The protocol's messages as classes, made on first use: `FetchRequest`, `FetchResponse`, …"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import ClassVar

from .. import messages
from ..arguments import one_of
from ..errors import UnsupportedError
from ..messages import make_class
from ..messages.schema import snake_case
from . import apis
from .apis import Api

REQUEST, RESPONSE = "request", "response"


class Message(messages.Message):
    """A request, a response or a header, or a structure inside one."""

    __slots__ = ()

    API: ClassVar[Api]
    """Of a whole message: its API."""
    KIND: ClassVar[str]
    """Of a whole message: request or response."""


def _make(api: Api, kind: str, name: str) -> type[Message]:
    struct = dataclasses.replace(api.request if kind == REQUEST else api.response, name=name)
    made = make_class(struct, api.versions, api.flexible, Message, __package__)
    made.API, made.KIND = api, kind
    return made


def message_class(key: int | str, kind: str) -> type[Message]:
    """The class of an API's requests or responses, kind says which; UnsupportedError for a key that is not known."""
    return _message_class(apis.key_of(key), one_of("kind", kind, (REQUEST, RESPONSE)))


@cache
def _message_class(key: int, kind: str) -> type[Message]:
    api = apis.api(key)
    if api is None:
        raise UnsupportedError(f"API key {key} is not known")
    return _make(api, kind, f"{api.name}{kind.title()}")


@cache
def header_class(kind: str) -> type[Message]:
    """RequestHeader or ResponseHeader."""
    return _make(apis.header(kind), kind, f"{kind.title()}Header")


def find_class(name: str) -> type[Message] | None:
    """The class of a message or header by its own name, as in `FetchRequest`; None if there is none."""
    for kind in (REQUEST, RESPONSE):
        if name == f"{kind.title()}Header":
            return header_class(kind)
        key = apis.keys().get(snake_case(name.removesuffix(kind.title())))
        if key is not None and name.endswith(kind.title()):
            found = message_class(key, kind)
            return found if found.__name__ == name else None
    return None
