"""Read requests and responses from frames, and write them as frames.

A frame consists of a size field of four bytes, a header and a body. The header of a request
contains the API key and the version. The header of a response contains only a correlation id.
Therefore, to read a response, the caller must pass the API key and the version of the request.

In flexible versions (KIP-482), headers have tagged fields. The header of an ApiVersions response
never has tagged fields, because clients read this response before they have received the supported
versions.

Some clients, such as librdkafka, send additional bytes after a message, which Kafka's parser
ignores. This module stores such bytes in `trailing`, and writes them unchanged. If the API or the
version is not supported, the body is stored as an `UnknownBody`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from .._backend import core
from ..errors import KafkaFormatError, StructureError, TruncatedError, UnsupportedError
from ..messages import layout_of
from ..support.text import quantity
from ..types import Buffer, byte_view, view_of
from . import apis
from .error_codes import ErrorCode
from .message_classes import REQUEST, RESPONSE, Kind, Message, UnknownBody, class_of_key, header_class
from .requests import Request, Response, check_body, key_of_body

if TYPE_CHECKING:
    from ._classes import ApiVersionsResponse, RequestHeader, ResponseHeader

SIZE_BYTES, MAX_FRAME = 4, 2**31 - 1
"""Number of bytes in the size field of a frame, and the largest value of this field."""
FIXED_HEADER_BYTES = 8
"""Total size of the API key, version and correlation id at the start of a request, in bytes."""
CORRELATION_ID_BYTES = 4


def header_version(kind: Kind, key: int, version: int) -> int:
    """Return the version of the header for messages with the given API key and API version."""
    api = apis.api(key)
    flexible = api is not None and version in api.flexible
    if kind == RESPONSE:
        return int(flexible and key != apis.API_VERSIONS)
    return 0 if key == apis.CONTROLLED_SHUTDOWN and version == 0 else 1 + flexible


def _view_of_frame(frame: Buffer) -> memoryview:
    """Return a view of the bytes of a frame. If the size field is wrong, raise a KafkaFormatError."""
    view = byte_view(frame)
    if len(view) < SIZE_BYTES:
        raise TruncatedError(
            f"a frame starts with a size field of {SIZE_BYTES} bytes, but the input has only {quantity(len(view), 'byte')}",
            0,
        )
    size = int.from_bytes(view[:SIZE_BYTES], "big", signed=True)
    if size != len(view) - SIZE_BYTES:
        found = len(view) - SIZE_BYTES
        wrong = TruncatedError if size > found else StructureError
        raise wrong(f"the frame's size field is {size}, but the rest of the frame has {quantity(found, 'byte')}", 0)
    return view


def read_request_header(frame: Buffer, max_objects: int | None = None) -> tuple[RequestHeader, int]:
    # As in Kafka, the header of a version that is too new has the layout of the newest supported
    # version. The header of an unknown API is read without tagged fields, because its version is
    # unknown.
    view = _view_of_frame(frame)
    if len(view) < SIZE_BYTES + FIXED_HEADER_BYTES:
        raise TruncatedError(
            f"a request has at least {FIXED_HEADER_BYTES} bytes; this one has {len(view) - SIZE_BYTES}", SIZE_BYTES
        )
    key, version = (int.from_bytes(view[at : at + 2], "big", signed=True) for at in (SIZE_BYTES, SIZE_BYTES + 2))
    read: tuple[RequestHeader, int] = layout_of(header_class(REQUEST), header_version(REQUEST, key, version)).read(
        view, SIZE_BYTES, max_objects=max_objects
    )
    return read


def read_request_body(
    frame: Buffer, header: RequestHeader, position: int, max_objects: int | None = None
) -> tuple[Message | UnknownBody, bytes]:
    return _read_body(frame, position, REQUEST, header.api_key, header.api_version, max_objects)


def read_request(frame: Buffer, *, max_objects: int | None = None) -> Request[Message | UnknownBody]:
    """Read a request from its frame.

    Parameters
    ----------
    frame : bytes-like
        The whole frame, including its size field of four bytes.
    max_objects : int, optional
        Largest number of objects in the header and in the body. Each array, each unknown tagged
        field, and each array element that is not a number is an object. An object needs about 100
        bytes of memory. By default, the limit is 8388608 objects.

    Returns
    -------
    Request
        The request. Its record data is a view of `frame`. All other data is copied. The body is an
        `UnknownBody` if this release does not support its API or version. `trailing` contains the
        bytes after the body.

    Raises
    ------
    KafkaFormatError
        The frame's size field is wrong, or the header or the body is damaged. The subclass
        `TooLargeError` is raised if the request contains more than `max_objects` objects.
    """
    header, position = read_request_header(frame, max_objects)
    return Request(header, *read_request_body(frame, header, position, max_objects))


def correlation_id_of(frame: Buffer) -> int:
    view = _view_of_frame(frame)
    if len(view) < SIZE_BYTES + CORRELATION_ID_BYTES:
        found = len(view) - SIZE_BYTES
        raise TruncatedError(
            f"a response starts with a correlation id of {CORRELATION_ID_BYTES} bytes, but this one has only {quantity(found, 'byte')}",
            SIZE_BYTES,
        )
    return int.from_bytes(view[SIZE_BYTES : SIZE_BYTES + CORRELATION_ID_BYTES], "big", signed=True)


def read_response_header(frame: Buffer, api_key: int, api_version: int) -> tuple[ResponseHeader, int]:
    version = header_version(RESPONSE, api_key, api_version)
    read: tuple[ResponseHeader, int] = layout_of(header_class(RESPONSE), version).read(
        _view_of_frame(frame), SIZE_BYTES
    )
    return read


def read_response_body(
    frame: Buffer, position: int, api_key: int, api_version: int
) -> tuple[Message | UnknownBody, int, bytes]:
    """Return the body at `position`, its version, and the bytes after it."""
    # The version is usually `api_version`. For ApiVersions responses, it can be 0, see
    # `read_response`.
    try:
        body, trailing = _read_body(frame, position, RESPONSE, api_key, api_version)
    except KafkaFormatError:
        if api_key != apis.API_VERSIONS or api_version == 0:
            raise
        return _read_api_versions_0(frame, position)
    if api_key == apis.API_VERSIONS and isinstance(body, UnknownBody):
        with suppress(KafkaFormatError):
            return _read_api_versions_0(frame, position)
    return body, api_version, trailing


def _read_api_versions_0(frame: Buffer, position: int) -> tuple[Message | UnknownBody, int, bytes]:
    """Read an ApiVersions response in version 0. Bytes after it are allowed only with UNSUPPORTED_VERSION."""
    body, trailing = _read_body(frame, position, RESPONSE, apis.API_VERSIONS, 0)
    if trailing and cast("ApiVersionsResponse", body).error_code != ErrorCode.UNSUPPORTED_VERSION:
        position = byte_view(frame).nbytes - len(trailing)
        raise StructureError(f"the frame has {quantity(len(trailing), 'byte')} after the ApiVersionsResponse", position)
    return body, 0, trailing


def read_response(frame: Buffer, *, api_key: int | str, api_version: int) -> Response[Message | UnknownBody]:
    """Read a response from its frame.

    Parameters
    ----------
    frame : bytes-like
        The whole frame, including its size field of four bytes.
    api_key : int or str
        Key or name of the API that the request called.
    api_version : int
        Version of the request.

    Returns
    -------
    Response
        The response. Its record data is a view of `frame`. All other data is copied. The body is
        an `UnknownBody` if this release does not support its API or version. `trailing` contains
        the bytes after the body.

    Raises
    ------
    KafkaFormatError
        The frame's size field is wrong, or the header or the body is damaged.
    ValueError
        No API has the name `api_key`.

    Notes
    -----
    If a broker does not support the version of an ApiVersions request, it sends a response in
    version 0. Therefore, if an ApiVersions response cannot be read in the version of the request, the
    function reads the response in version 0. Kafka's ``ApiVersionsResponse.parse`` does the same.
    """
    key = apis.key_of(api_key)
    header, position = read_response_header(frame, key, api_version)
    return Response(header, *read_response_body(frame, position, key, api_version))


def _read_body(
    frame: Buffer, position: int, kind: Kind, key: int, version: int, max_objects: int | None = None
) -> tuple[Message | UnknownBody, bytes]:
    """Return the body at `position` and the bytes after it. An `UnknownBody` contains the rest of the frame."""
    try:
        layout = layout_of(class_of_key(key, kind), version)
    except UnsupportedError:
        return UnknownBody(kind, key, version, bytes(byte_view(frame)[position:])), b""
    message, end = layout.read(frame, position, max_objects=max_objects)
    return message, bytes(byte_view(frame)[end:]) if view_of(frame).nbytes > end else b""


def write_request(request: Request[Any]) -> list[bytes | memoryview]:
    """Convert a request to a frame, and return the frame as a list of buffers.

    Parameters
    ----------
    request : Request
        The request, such as one that `make_request` returned.

    Returns
    -------
    list of bytes and memoryview
        The parts of the frame, for ``socket.sendmsg`` or ``writelines``. Record data is not copied.
        Instead, the list contains views of the buffers in the body. The last bytes of the frame are
        `request.trailing`.

    Raises
    ------
    TypeError
        `request` is not a `Request`, or a field has a value of a wrong type.
    ValueError
        The version cannot represent the value of a field. For example, the value is None or out of
        range, or the version does not have this field.
    UnsupportedError
        This release does not support the version.
    """
    _check_type(request, Request)
    return _write(REQUEST, request.header, request.body, request.api_version, request.trailing)


def write_response(response: Response[Any]) -> list[bytes | memoryview]:
    """Convert a response to a frame, and return the frame as a list of buffers.

    Parameters
    ----------
    response : Response
        The response, such as one that `make_response` returned.

    Returns
    -------
    list of bytes and memoryview
        The parts of the frame, for ``socket.sendmsg`` or ``writelines``. Record data is not copied.
        Instead, the list contains views of the buffers in the body. The last bytes of the frame are
        `response.trailing`.

    Raises
    ------
    TypeError
        `response` is not a `Response`, or a field has a value of a wrong type.
    ValueError
        The version cannot represent the value of a field. For example, the value is None or out of
        range, or the version does not have this field.
    UnsupportedError
        This release does not support the version.
    """
    _check_type(response, Response)
    return _write(RESPONSE, response.header, response.body, response.api_version, response.trailing)


def _check_type(given: Any, wanted: type[Request[Any] | Response[Any]]) -> None:
    if not isinstance(given, wanted):
        name = wanted.__name__
        raise TypeError(
            f"expected a {name}, for example the result of make_{name.lower()}(body, api_version), "
            f"not {type(given).__name__}"
        )


def _write(
    kind: Kind, header: RequestHeader | ResponseHeader, body: Message | UnknownBody, version: int, trailing: bytes
) -> list[bytes | memoryview]:
    check_body(body, kind)
    key = key_of_body(body)
    if kind == REQUEST and (header_key := cast("RequestHeader", header).api_key) != key:
        raise ValueError(f"header.api_key is {header_key}, but the body is a {type(body).__name__} with API key {key}")
    header_layout = layout_of(type(header), header_version(kind, key, version))
    buffers: list[bytes | memoryview]
    if isinstance(body, Message):
        buffers = core.write_messages((header_layout, layout_of(type(body), version)), (header, body), True)
        return _extend(buffers, trailing) if trailing != b"" else buffers
    if body.api_version != version:
        raise ValueError(
            f"the undecoded body was read as version {body.api_version}, so it cannot be written as version {version}"
        )
    buffers = core.write_messages((header_layout,), (header,), True)
    return _extend(buffers, body.data, trailing)


def _extend(buffers: list[bytes | memoryview], *more: bytes) -> list[bytes | memoryview]:
    """Append buffers to a frame, and update its size field."""
    added = [part for part in more if memoryview(part).nbytes]
    if added:
        size = int.from_bytes(buffers[0][:SIZE_BYTES], "big") + sum(memoryview(part).nbytes for part in added)
        if size > MAX_FRAME:
            raise ValueError(f"the frame would have {size} bytes; the limit is {MAX_FRAME}")
        buffers[0] = size.to_bytes(SIZE_BYTES, "big") + buffers[0][SIZE_BYTES:]
    return buffers + added
