"""Define `Request` and `Response`, which contain a header, a body and the bytes after the body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from . import apis
from .message_classes import REQUEST, RESPONSE, Kind, Message, UnknownBody, header_class

if TYPE_CHECKING:
    from ._classes import ProduceRequest, RequestHeader, ResponseHeader

BODIES = (Message, UnknownBody)

Body = TypeVar("Body", bound=Message | UnknownBody)
"""Type of the `body` of a `Request` or `Response`."""


class _FrameContent:
    """Base class of `Request` and `Response`.

    A field of the body can also be read as an attribute of the request or response.
    """

    __slots__ = ()

    header: Any
    body: Any
    trailing: bytes

    def __getattr__(self, name: str) -> Any:
        # For type checkers, `request.acks` has the type Any. `request.body.acks` has the precise
        # type.
        if name.startswith("__") or name in ("header", "body"):
            raise AttributeError(name)
        return getattr(self.body, name)

    @property
    def api_key(self) -> int:
        """Key of the API."""
        return key_of_body(self.body)

    @property
    def api(self) -> str | None:
        """Name of the API. None if this release does not support the API."""
        known = apis.api(self.api_key)
        return None if known is None else known.name

    @property
    def correlation_id(self) -> int:
        """Number that matches a response to its request."""
        return int(self.header.correlation_id)


@dataclass(slots=True)
class Request(_FrameContent, Generic[Body]):
    """A request of the wire protocol. A field of the body can also be read as an attribute of this object.

    Attributes
    ----------
    header : RequestHeader
    body : Message or UnknownBody
        A type checker infers the type of the body from `make_request`, or from a test such as
        ``isinstance(request.body, protocol.ProduceRequest)``.
    trailing : bytes, default b""
        Bytes after the body. `write_request` writes them even if `body` was changed. To omit them,
        set `trailing` to b"".
    """

    header: RequestHeader
    body: Body
    trailing: bytes = b""

    @property
    def api_version(self) -> int:
        """Version of the API in which the body is written, and in which the broker responds."""
        return int(self.header.api_version)

    @property
    def client_id(self) -> str | None:
        """Client id, which is a name that the client chooses."""
        return self.header.client_id

    @property
    def has_response(self) -> bool:
        """Whether a broker must respond to the request.

        A Produce request with acks 0 requires no response. If the body was not decoded
        (`UnknownBody`), a response is assumed to be required.
        """
        return (
            self.api_key != apis.PRODUCE
            or isinstance(self.body, UnknownBody)
            or cast("ProduceRequest", self.body).acks != 0
        )


@dataclass(slots=True)
class Response(_FrameContent, Generic[Body]):
    """A response of the wire protocol. A field of the body can also be read as an attribute of this object.

    Attributes
    ----------
    header : ResponseHeader
    body : Message or UnknownBody
        A type checker infers the type of the body from `make_response`, or from a test such as
        ``isinstance(response.body, protocol.FetchResponse)``.
    api_version : int
        Version of the body.
    trailing : bytes, default b""
        Bytes after the body. `write_response` writes them even if `body` was changed. To omit them,
        set `trailing` to b"".
    """

    header: ResponseHeader
    body: Body
    api_version: int
    trailing: bytes = b""


def key_of_body(body: Message | UnknownBody) -> int:
    return body.API.key if isinstance(body, Message) else body.api_key


def check_body(body: Any, kind: Kind) -> None:
    """Raise TypeError if `body` is not the body of a message of this kind ("request" or "response")."""
    if not isinstance(body, BODIES) or getattr(body, "KIND", None) != kind:
        raise TypeError(
            f"the body must be a {kind}, such as protocol.Fetch{kind.title()}(…), not {type(body).__name__}"
        )


def make_request(body: Body, api_version: int, correlation_id: int = 0, client_id: str | None = None) -> Request[Body]:
    """Create a request from its body. The header is added.

    Parameters
    ----------
    body : Message or UnknownBody
        Body of a request, such as ``MetadataRequest()``.
    api_version : int
        Version in which `write_request` writes the body.
    correlation_id : int, default 0
        Number that matches the response to the request.
    client_id : str, optional
        Client id, which is a name that the client chooses.

    Raises
    ------
    TypeError
        `body` is not the body of a request.
    """
    check_body(body, REQUEST)
    header = cast("type[RequestHeader]", header_class(REQUEST))
    return Request(
        header(api_key=key_of_body(body), api_version=api_version, correlation_id=correlation_id, client_id=client_id),
        body,
    )


def make_response(body: Body, api_version: int, correlation_id: int = 0) -> Response[Body]:
    """Create a response that consists of a new header and the given body.

    Parameters
    ----------
    body : Message or UnknownBody
        Body of a response, such as ``MetadataResponse()``.
    api_version : int
        Version in which `write_response` writes the body.
    correlation_id : int, default 0
        Number that matches the response to its request.

    Raises
    ------
    TypeError
        `body` is not the body of a response.
    """
    check_body(body, RESPONSE)
    header = cast("type[ResponseHeader]", header_class(RESPONSE))
    return Response(header(correlation_id=correlation_id), body, api_version)
