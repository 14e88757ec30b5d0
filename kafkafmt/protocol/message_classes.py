"""Create the classes of the protocol's messages, such as `FetchRequest`, when they are first used.

Type checkers and IDEs read the types of these classes from `_classes.pyi`. The command `make stubs`
generates this file.
"""

from __future__ import annotations

import base64
import dataclasses
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final, Literal

from .. import messages
from ..errors import UnsupportedError
from ..messages import SchemaMessage, make_class
from ..messages.schema import snake_case
from ..support.arguments import one_of
from ..support.text import quantity
from . import apis
from .apis import Api

Kind = Literal["request", "response"]
REQUEST: Final = "request"
RESPONSE: Final = "response"


class Message(SchemaMessage):
    """Base class of requests, responses and headers, and of the structures inside them."""

    __slots__ = ()

    API: ClassVar[Api]
    """API of the message. The classes of structures inside a message do not have this attribute."""
    KIND: ClassVar[Kind]
    """Kind: "request" or "response". Only the classes of requests, responses and headers have this attribute."""


@dataclass(slots=True)
class UnknownBody:
    """The undecoded body of a message whose API or version this release does not support.

    Attributes
    ----------
    kind : {"request", "response"}
    api_key, api_version : int
        API key and version from the header of the request.
    data : bytes
        All bytes after the header. If the API is not supported, they include the tagged fields of
        the header, because it is not known whether the version is flexible and has tagged fields.
    """

    kind: Kind
    api_key: int
    api_version: int
    data: bytes = b""

    @property
    def KIND(self) -> Kind:
        """Kind of the message, "request" or "response", as in `Message.KIND`."""
        return self.kind

    def __repr__(self) -> str:
        return f"UnknownBody({self.kind}, api_key={self.api_key}, api_version={self.api_version}, <{quantity(len(self.data), 'byte')}>)"

    def why(self) -> str:
        """Return a text that states why the body was not decoded, and how many bytes the body has."""
        known = apis.api(self.api_key)
        if known is None:
            reason = f"API key {self.api_key} is not supported"
        else:
            reason = f"{known.name}{self.kind.title()} version {self.api_version} is not supported (supported: {known.versions})"
        return f"{reason}; kafkafmt did not decode the {quantity(len(self.data), 'byte')} of the body"


def to_json(message: SchemaMessage | UnknownBody, version: int) -> dict[str, Any]:
    """Convert a message to JSON types, as Kafka's ``…JsonConverter`` classes do.

    Parameters
    ----------
    message : Message or UnknownBody
    version : int
        Version of the message. Ignored if `message` is an `UnknownBody`, which contains its
        version.

    Returns
    -------
    dict
        The JSON values, with Kafka's field names as keys. If `message` is an `UnknownBody`, the
        dict has the same keys as the output of ``kafkafmt decode``: "apiKey", "api" (the API's
        name, or None), "apiVersion" and "undecodedBytes" (a number). The additional key "data"
        contains the bytes in base64.
    """
    if not isinstance(message, UnknownBody):
        return messages.to_json(message, version)
    known, data = apis.api(message.api_key), base64.b64encode(message.data).decode()
    names = {"apiKey": message.api_key, "api": known and known.name, "apiVersion": message.api_version}
    return names | {"undecodedBytes": len(message.data), "data": data}


def _make(api: Api, kind: Kind, name: str) -> type[Message]:
    struct = dataclasses.replace(api.request if kind == REQUEST else api.response, name=name)
    made = make_class(struct, api.versions, api.flexible, Message, __package__)
    made.API, made.KIND = api, kind
    return made


def message_class(key: int | str, kind: Kind) -> type[Message]:
    """Return the message class for requests or responses of an API.

    Parameters
    ----------
    key : int or str
        Key or name of the API.
    kind : {"request", "response"}

    Raises
    ------
    UnsupportedError
        This release does not support an API with the key `key`.
    ValueError
        No API has the name `key`, or `kind` is invalid.
    """
    return class_of_key(apis.key_of(key), one_of("kind", kind, (REQUEST, RESPONSE)))


@cache
def class_of_key(key: int, kind: Kind) -> type[Message]:
    api = apis.api(key)
    if api is None:
        raise UnsupportedError(f"API key {key} is not supported")
    return _make(api, kind, f"{api.name}{kind.title()}")


@cache
def header_class(kind: Kind) -> type[Message]:
    return _make(apis.header(kind), kind, f"{kind.title()}Header")


def class_names() -> list[str]:
    """Return the names of all message classes: first the headers, then the APIs in key order."""
    names = [api.name for key in apis.keys().values() if (api := apis.api(key))]
    return ["RequestHeader", "ResponseHeader", *(name + kind.title() for name in names for kind in (REQUEST, RESPONSE))]


def find_class(name: str) -> type[Message] | None:
    """Return the message class with this name, such as "FetchRequest". If there is no such class, return None."""
    kinds: tuple[Kind, ...] = (REQUEST, RESPONSE)
    for kind in kinds:
        if name == f"{kind.title()}Header":
            return header_class(kind)
        key = apis.keys().get(snake_case(name.removesuffix(kind.title())))
        if key is not None and name.endswith(kind.title()):
            found = message_class(key, kind)
            return found if found.__name__ == name else None
    return None
