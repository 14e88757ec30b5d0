"""The protocol's messages as classes, made on first use: `FetchRequest`, `FetchResponse`, …"""

from __future__ import annotations

import base64
import dataclasses
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

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


@dataclass(slots=True)
class UnknownBody:
    """The body of a message of an API or a version that this release does not know, as bytes.

    Attributes
    ----------
    kind : {"request", "response"}
    api_key, api_version : int
        As the request's header has them.
    data : bytes
        Everything after the header. If the API is not known, `data` begins with the header's tagged fields, if there are any.
    """

    kind: str
    api_key: int
    api_version: int
    data: bytes = b""

    @property
    def KIND(self) -> str:
        """The same as `kind`, as a Message has it."""
        return self.kind

    def __repr__(self) -> str:
        return f"UnknownBody({self.kind}, api_key={self.api_key}, api_version={self.api_version}, <{len(self.data)} bytes>)"

    def why(self) -> str:
        """Return why the body was not decoded, and how long it is."""
        known = apis.api(self.api_key)
        what = f"API key {self.api_key}" if known is None else f"{known.name}{self.kind.title()} version {self.api_version}"
        others = "" if known is None else f", {known.versions} are"
        return f"{what} is not known{others}; {len(self.data)} bytes of body were not decoded"


def to_json(message: messages.Message | UnknownBody, version: int) -> dict[str, Any]:
    """Return a message in a version as plain dictionaries, lists and values, as Kafka's ``…JsonConverter`` classes do.

    Parameters
    ----------
    message : Message or UnknownBody
    version : int
        Version of the message. The version of an `UnknownBody` is its own.

    Returns
    -------
    dict
        The fields by Kafka's names. If `message` is an `UnknownBody`, the dict has the keys that ``kafkafmt decode`` shows: "apiKey",
        "api" (a name, or None), "apiVersion" and "undecodedBytes" (their number); and "data", these bytes in base64.
    """
    if not isinstance(message, UnknownBody):
        return messages.to_json(message, version)
    known, data = apis.api(message.api_key), base64.b64encode(message.data).decode()
    names = {"apiKey": message.api_key, "api": known and known.name, "apiVersion": message.api_version}
    return names | {"undecodedBytes": len(message.data), "data": data}


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
