"""Frames: a size of four bytes, a header, a body. Whole requests and responses are read and written here.

A request's header says which API and version follow; a response's has nothing but the correlation id of its request, so
who reads it has to know. Flexible versions have a header with tagged fields, but for ApiVersions' response, which a
client must be able to read before it knows anything of the broker.

Kafka's parser ignores bytes after a message, and librdkafka sends some. They are kept in `trailing` and written back. The body
of an API or a version that is not known is kept as an `UnknownBody`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .._backend import core
from ..errors import KafkaFormatError, StructureError, TruncatedError, UnsupportedError
from ..messages import layout_of
from ..types import Buffer
from . import apis
from .messages import REQUEST, RESPONSE, Message, UnknownBody, header_class, message_class

PRODUCE, CONTROLLED_SHUTDOWN, API_VERSIONS = 0, 7, 18
UNSUPPORTED_VERSION = 35
SIZE_BYTES, MAX_FRAME = 4, 2**31 - 1
BODIES = (Message, UnknownBody)
FIXED_HEADER_BYTES = 8
"""Of a request: key, version, correlation id."""


class _Whole:
    """What a frame holds; the body's fields can be asked for directly."""

    __slots__ = ()

    header: Any
    body: Any
    trailing: bytes

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("header", "body"):
            raise AttributeError(name)
        return getattr(self.body, name)

    @property
    def api_key(self) -> int:
        return _key_of(self.body)

    @property
    def api(self) -> str | None:
        """The API's name. None if the API is not known."""
        known = apis.api(self.api_key)
        return None if known is None else known.name

    @property
    def correlation_id(self) -> int:
        return int(self.header.correlation_id)


@dataclass(slots=True)
class Request(_Whole):
    """A request, whose body's fields are this object's attributes too.

    Attributes
    ----------
    header : RequestHeader
    body : Message or UnknownBody
    trailing : bytes, default b""
        Bytes after the body. `write_request` writes them after whatever `body` is then; set `trailing` to b"" to drop them.
    """

    header: Any
    body: Any
    trailing: bytes = b""

    @property
    def api_version(self) -> int:
        return int(self.header.api_version)

    @property
    def client_id(self) -> str | None:
        found: str | None = self.header.client_id
        return found

    @property
    def has_response(self) -> bool:
        """Whether a broker answers: always, except a Produce request with acks 0. True if the body is an `UnknownBody`."""
        return self.api_key != PRODUCE or isinstance(self.body, UnknownBody) or self.body.acks != 0


@dataclass(slots=True)
class Response(_Whole):
    """A response, whose body's fields are this object's attributes too.

    Attributes
    ----------
    header : ResponseHeader
    body : Message or UnknownBody
    api_version : int
        The version of the body.
    trailing : bytes, default b""
        Bytes after the body. `write_response` writes them after whatever `body` is then; set `trailing` to b"" to drop them.
    """

    header: Any
    body: Any
    api_version: int
    trailing: bytes = b""


def _key_of(body: Any) -> int:
    key: int = body.API.key if isinstance(body, Message) else body.api_key
    return key


def _check_body(body: Any, kind: str) -> None:
    if not isinstance(body, BODIES) or getattr(body, "KIND", None) != kind:
        raise TypeError(f"the body of a {kind} is needed, such as protocol.Fetch{kind.title()}(…), not {type(body).__name__}")


def make_request(body: Message | UnknownBody, api_version: int, correlation_id: int = 0, client_id: str | None = None) -> Request:
    """A request with a header to go with its body."""
    _check_body(body, REQUEST)
    header: Any = header_class(REQUEST)
    return Request(header(api_key=_key_of(body), api_version=api_version, correlation_id=correlation_id, client_id=client_id), body)


def make_response(body: Message | UnknownBody, api_version: int, correlation_id: int = 0) -> Response:
    """The same for a response."""
    _check_body(body, RESPONSE)
    header: Any = header_class(RESPONSE)
    return Response(header(correlation_id=correlation_id), body, api_version)


def header_version(kind: str, key: int, version: int) -> int:
    """Which version of a request's or response's header goes with a version of an API."""
    api = apis.api(key)
    flexible = api is not None and version in api.flexible
    if kind == RESPONSE:
        return int(flexible and key != API_VERSIONS)
    return 0 if key == CONTROLLED_SHUTDOWN and version == 0 else 1 + flexible


def _body_of(frame: Buffer) -> memoryview:
    """The frame as bytes, once its size is known to be what it says."""
    raw: Any = frame
    view = memoryview(raw).cast("B")
    if len(view) < SIZE_BYTES:
        raise TruncatedError(f"a frame begins with its size in {SIZE_BYTES} bytes, {len(view)} are there", 0)
    size = int.from_bytes(view[:SIZE_BYTES], "big", signed=True)
    if size > len(view) - SIZE_BYTES:
        raise TruncatedError(f"the frame's size in its first {SIZE_BYTES} bytes is {size}, {len(view) - SIZE_BYTES} follow", 0)
    if size < len(view) - SIZE_BYTES:
        raise StructureError(f"the frame's size in its first {SIZE_BYTES} bytes is {size}, {len(view) - SIZE_BYTES} follow", 0)
    return view


def read_request_header(frame: Buffer) -> tuple[Any, int]:
    """Read a frame's RequestHeader; return it with the position after it.

    The header of a newer version of a known API is read in the form of the API's newest versions, as Kafka does. Of an API that is
    not known, the tagged fields of the header are left to the body: only flexible versions have them.
    """
    view = _body_of(frame)
    if len(view) < SIZE_BYTES + FIXED_HEADER_BYTES:
        raise TruncatedError(f"a request has at least {FIXED_HEADER_BYTES} bytes, {len(view) - SIZE_BYTES} are there", SIZE_BYTES)
    key, version = (int.from_bytes(view[at : at + 2], "big", signed=True) for at in (SIZE_BYTES, SIZE_BYTES + 2))
    read: tuple[Any, int] = layout_of(header_class(REQUEST), header_version(REQUEST, key, version)).read(view, SIZE_BYTES)
    return read


def read_request_body(frame: Buffer, header: Any, position: int) -> tuple[Any, bytes]:
    """Read the body after a header that ends at `position`; return it with the bytes after it."""
    return _read_body(frame, position, REQUEST, header.api_key, header.api_version)


def read_request(frame: Buffer) -> Request:
    """Read a request from its frame.

    Parameters
    ----------
    frame : bytes-like
        The whole frame, with its four bytes of size.

    Returns
    -------
    Request
        Record data is a view of the frame; everything else is copied. The body of an API or a version that is not known is an
        `UnknownBody`. `trailing` has the bytes after the body.

    Raises
    ------
    KafkaFormatError
        The frame's size is wrong, or the header or the body is damaged.
    """
    header, position = read_request_header(frame)
    return Request(header, *read_request_body(frame, header, position))


def correlation_id_of(frame: Buffer) -> int:
    """The correlation id of a response's frame."""
    view = _body_of(frame)
    if len(view) < SIZE_BYTES + 4:
        raise TruncatedError(f"a response begins with its correlation id in 4 bytes, {len(view) - SIZE_BYTES} are there", SIZE_BYTES)
    return int.from_bytes(view[SIZE_BYTES : SIZE_BYTES + 4], "big", signed=True)


def read_response_header(frame: Buffer, api_key: int, api_version: int) -> tuple[Any, int]:
    """A frame's ResponseHeader and the position behind it."""
    version = header_version(RESPONSE, api_key, api_version)
    read: tuple[Any, int] = layout_of(header_class(RESPONSE), version).read(_body_of(frame), SIZE_BYTES)
    return read


def read_response_body(frame: Buffer, position: int, api_key: int, api_version: int) -> tuple[Any, int, bytes]:
    """Read the body after a header that ends at `position`; return it with its version and the bytes after it: see `read_response`."""
    try:
        body, trailing = _read_body(frame, position, RESPONSE, api_key, api_version)
    except KafkaFormatError:
        if api_key != API_VERSIONS or api_version == 0:
            raise
        return _fallback(frame, position)
    if api_key == API_VERSIONS and isinstance(body, UnknownBody):
        with suppress(KafkaFormatError):
            return _fallback(frame, position)
    return body, api_version, trailing


def _fallback(frame: Buffer, position: int) -> tuple[Any, int, bytes]:
    """Read an ApiVersions response in version 0, if it is the answer to a version that the broker does not know."""
    body, trailing = _read_body(frame, position, RESPONSE, API_VERSIONS, 0)
    if trailing and body.error_code != UNSUPPORTED_VERSION:
        raw: Any = frame
        position = memoryview(raw).nbytes - len(trailing)
        raise StructureError(f"{len(trailing)} bytes are left over after the ApiVersionsResponse", position)
    return body, 0, trailing


def read_response(frame: Buffer, *, api_key: int | str, api_version: int) -> Response:
    """Read a response from its frame.

    Parameters
    ----------
    frame : bytes-like
        The whole frame, with its four bytes of size.
    api_key : int or str
        Key or name of the API that the response answers.
    api_version : int
        Version of the request that the response answers.

    Returns
    -------
    Response
        The body of an API or a version that is not known is an `UnknownBody`. `trailing` has the bytes after the body.

    Raises
    ------
    KafkaFormatError
        The frame's size is wrong, or the header or the body is damaged.

    Notes
    -----
    A broker that does not know the version of an ApiVersions request answers in version 0. So an ApiVersions response that
    cannot be read in the version asked for is read in version 0, as Kafka's ``ApiVersionsResponse.parse`` does.
    """
    key = apis.key_of(api_key)
    header, position = read_response_header(frame, key, api_version)
    return Response(header, *read_response_body(frame, position, key, api_version))


def _read_body(frame: Buffer, position: int, kind: str, key: int, version: int) -> tuple[Any, bytes]:
    """Read a body that begins at `position`; return it with the bytes after it. An `UnknownBody` has all of them."""
    raw: Any = frame
    view = memoryview(raw)
    try:
        layout = layout_of(message_class(key, kind), version)
    except UnsupportedError:
        return UnknownBody(kind, key, version, bytes(view.cast("B")[position:])), b""
    message, end = layout.read(frame, position)
    return message, bytes(view.cast("B")[end:]) if view.nbytes > end else b""


def write_request(request: Request) -> list[Any]:
    """Write a request's frame as a list of buffers, for `sendmsg` or `writelines`.

    Record data stays the buffers that it was given as; it is not copied. `request.trailing` ends the frame.
    """
    _check_whole(request, Request)
    return _write(REQUEST, request.header, request.body, request.api_version, request.trailing)


def write_response(response: Response) -> list[Any]:
    """Write a response's frame as a list of buffers: see `write_request`."""
    _check_whole(response, Response)
    return _write(RESPONSE, response.header, response.body, response.api_version, response.trailing)


def _check_whole(given: Any, wanted: type[_Whole]) -> None:
    if not isinstance(given, wanted):
        name = wanted.__name__
        raise TypeError(f"a {name} is needed, such as make_{name.lower()}(body, api_version) gives, not {type(given).__name__}")


def _write(kind: str, header: Any, body: Any, version: int, trailing: Buffer) -> list[Any]:
    _check_body(body, kind)
    known = isinstance(body, Message)
    key = body.API.key if known else body.api_key
    if kind == REQUEST and header.api_key != key:
        raise ValueError(f"the header's api_key is {header.api_key}, the body is a {type(body).__name__} of API key {key}")
    header_layout = layout_of(type(header), header_version(kind, key, version))
    if known:
        buffers: list[Any] = core.write_messages((header_layout, layout_of(type(body), version)), (header, body), True)
        return _extend(buffers, trailing) if trailing != b"" else buffers
    if body.api_version != version:
        raise ValueError(f"the body was read in version {body.api_version} (not known); it cannot be written in version {version}")
    return _extend(core.write_messages((header_layout,), (header,), True), body.data, trailing)


def _extend(buffers: list[Any], *more: Any) -> list[Any]:
    """Append buffers to a frame and correct its size."""
    added = [part for part in more if memoryview(part).nbytes]
    if added:
        size: int = int.from_bytes(buffers[0][:SIZE_BYTES], "big") + sum(memoryview(part).nbytes for part in added)
        if size > MAX_FRAME:
            raise ValueError(f"a frame of {size} bytes, more than {MAX_FRAME}")
        buffers[0] = size.to_bytes(SIZE_BYTES, "big") + buffers[0][SIZE_BYTES:]
    return buffers + added
