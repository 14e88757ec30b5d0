"""Frames: a size of four bytes, a header, a body. Whole requests and responses, and streams of them.

A request's header says which API and version follow; a response's has nothing but the correlation id of its request, so
who reads it has to know. Flexible versions have a header with tagged fields, but for ApiVersions' response, which a
client must be able to read before it knows anything of the broker.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .._backend import core
from ..arguments import integer
from ..errors import KafkaFormatError, StructureError, TooLargeError, TruncatedError
from ..messages import layout_of
from ..types import Buffer
from . import apis
from .messages import REQUEST, RESPONSE, Message, header_class, message_class

PRODUCE, CONTROLLED_SHUTDOWN, API_VERSIONS = 0, 7, 18
SIZE_BYTES = 4
FIXED_HEADER_BYTES = 8
"""Of a request: key, version, correlation id."""
DEFAULT_MAX_SIZE = 100 << 20
"""What brokers take at most (socket.request.max.bytes)."""


class _Whole:
    """What a frame holds; the body's fields can be asked for directly."""

    __slots__ = ()

    header: Any
    body: Any

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("header", "body"):
            raise AttributeError(name)
        return getattr(self.body, name)

    @property
    def api_key(self) -> int:
        return int(self.body.API.key)

    @property
    def api(self) -> str:
        """The API's name."""
        return str(self.body.API.name)

    @property
    def correlation_id(self) -> int:
        return int(self.header.correlation_id)


@dataclass(slots=True)
class Request(_Whole):
    """A request: `header` (a RequestHeader) and `body`, whose fields are this object's attributes too."""

    header: Any
    body: Any

    @property
    def api_version(self) -> int:
        return int(self.header.api_version)

    @property
    def client_id(self) -> str | None:
        found: str | None = self.header.client_id
        return found

    @property
    def has_response(self) -> bool:
        """Whether a broker answers: it does, but for a Produce with acks 0."""
        return self.api_key != PRODUCE or self.body.acks != 0


@dataclass(slots=True)
class Response(_Whole):
    """A response: `header` (a ResponseHeader) and `body`, in the version `api_version`."""

    header: Any
    body: Any
    api_version: int


def _check_body(body: Any, kind: str) -> None:
    if not isinstance(body, Message) or getattr(body, "KIND", None) != kind:
        raise TypeError(f"the body of a {kind} is needed, such as protocol.Fetch{kind.title()}(…), not {type(body).__name__}")


def make_request(body: Message, api_version: int, correlation_id: int = 0, client_id: str | None = None) -> Request:
    """A request with a header to go with its body."""
    _check_body(body, REQUEST)
    header: Any = header_class(REQUEST)
    return Request(header(api_key=body.API.key, api_version=api_version, correlation_id=correlation_id, client_id=client_id), body)


def make_response(body: Message, api_version: int, correlation_id: int = 0) -> Response:
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
    """A frame's RequestHeader and the position behind it.

    Of an API or a version that is not known too: its client id stands in the same place, its tagged fields are then left.
    """
    view = _body_of(frame)
    if len(view) < SIZE_BYTES + FIXED_HEADER_BYTES:
        raise TruncatedError(f"a request has at least {FIXED_HEADER_BYTES} bytes, {len(view) - SIZE_BYTES} are there", SIZE_BYTES)
    key, version = (int.from_bytes(view[at : at + 2], "big", signed=True) for at in (SIZE_BYTES, SIZE_BYTES + 2))
    read: tuple[Any, int] = layout_of(header_class(REQUEST), header_version(REQUEST, key, version)).read(view, SIZE_BYTES)
    return read


def read_request_body(frame: Buffer, header: Any, position: int) -> Any:
    """What stands behind the header."""
    layout = layout_of(message_class(header.api_key, REQUEST), header.api_version)
    return _read_to_end(layout, frame, position)


def read_request(frame: Buffer) -> Request:
    """A request from its frame, size and all. Record data is a view of the frame; everything else is copied."""
    header, position = read_request_header(frame)
    return Request(header, read_request_body(frame, header, position))


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


def read_response_body(frame: Buffer, position: int, api_key: int, api_version: int) -> tuple[Any, int]:
    """What stands behind the header, and in which version it was read: see `read_response`."""
    message = message_class(api_key, RESPONSE)
    try:
        return _read_to_end(layout_of(message, api_version), frame, position), api_version
    except KafkaFormatError:
        if api_key != API_VERSIONS or api_version == 0:
            raise
        return _read_to_end(layout_of(message, 0), frame, position), 0


def read_response(frame: Buffer, *, api_key: int | str, api_version: int) -> Response:
    """A response from its frame, as the answer to a request of that API (by its key or name) and version.

    A broker that does not know the version of an ApiVersions request answers in version 0; so a response of ApiVersions that
    cannot be read in the version asked for is read in that one, as Kafka's clients do.
    """
    key = apis.key_of(api_key)
    header, position = read_response_header(frame, key, api_version)
    return Response(header, *read_response_body(frame, position, key, api_version))


def _read_to_end(layout: Any, frame: Buffer, position: int) -> Any:
    raw: Any = frame
    message, end = layout.read(frame, position)
    left = memoryview(raw).nbytes - end
    if left:
        raise StructureError(f"{left} bytes are left over behind the {type(message).__name__}", end)
    return message


def write_request(request: Request) -> list[Any]:
    """A request's frame as buffers, for `sendmsg` or `writelines`. Record data stands among them as it was given, not copied."""
    _check_whole(request, Request)
    return _write(REQUEST, request.header, request.body, request.api_version)


def write_response(response: Response) -> list[Any]:
    """The same for a response."""
    _check_whole(response, Response)
    return _write(RESPONSE, response.header, response.body, response.api_version)


def _check_whole(given: Any, wanted: type[_Whole]) -> None:
    if not isinstance(given, wanted):
        name = wanted.__name__
        raise TypeError(f"a {name} is needed, such as make_{name.lower()}(body, api_version) gives, not {type(given).__name__}")


def _write(kind: str, header: Any, body: Any, version: int) -> list[Any]:
    _check_body(body, kind)
    key = body.API.key
    if kind == REQUEST and header.api_key != key:
        raise ValueError(f"the header's api_key is {header.api_key}, the body is a {type(body).__name__}")
    layouts = (layout_of(type(header), header_version(kind, key, version)), layout_of(type(body), version))
    buffers: list[Any] = core.write_messages(layouts, (header, body), True)
    return buffers


class FrameSplitter:
    """Cuts a stream of bytes, fed in pieces of any size, into frames.

    max_size: the largest size of a frame that is let through; it is compared before anything is kept.
    position: where in the stream the next frame begins. buffered: how many bytes of it are here already.
    """

    def __init__(self, max_size: int = DEFAULT_MAX_SIZE) -> None:
        self.max_size = integer("max_size", max_size, 0)
        self.position = 0
        self._held = bytearray()
        self._error: KafkaFormatError | None = None

    def __repr__(self) -> str:
        return f"<kafkafmt.protocol.FrameSplitter: next frame at {self.position}, {self.buffered} bytes of it here>"

    @property
    def buffered(self) -> int:
        return len(self._held)

    def feed(self, data: Buffer) -> Iterator[memoryview]:
        """The frames that are whole with this piece, sizes and all, as read-only memoryviews that stay valid.

        They are views of `data` itself where it cannot change (bytes). A size that no frame can have, or above
        `max_size`, raises once the frames before it were given, and again at every later call: from there on nobody knows
        where a frame begins.
        """
        frames: list[memoryview] = []
        if self._error is None:
            try:
                self._split(data, frames)
            except KafkaFormatError as error:
                self._error = error
        return self._give(frames)

    def _give(self, frames: list[memoryview]) -> Iterator[memoryview]:
        yield from frames
        if self._error is not None:
            raise self._error

    def _split(self, data: Buffer, frames: list[memoryview]) -> None:
        raw: Any = data
        view = memoryview(raw).cast("B")
        if not isinstance(view.obj, bytes):
            view = memoryview(bytes(view))
        start = 0
        if self._held:
            start = self._complete(view, frames)
        while len(view) - start >= SIZE_BYTES:
            whole = self._whole_size(view[start : start + SIZE_BYTES])
            if whole > len(view) - start:
                break
            frames.append(view[start : start + whole])
            start += whole
            self.position += whole
        self._held += view[start:]

    def _complete(self, view: memoryview, frames: list[memoryview]) -> int:
        """Go on with the frame that is held in part; where in `view` the next one begins."""
        start = max(0, min(SIZE_BYTES - len(self._held), len(view)))
        self._held += view[:start]
        if len(self._held) < SIZE_BYTES:
            return start
        whole = self._whole_size(self._held[:SIZE_BYTES])
        end = min(start + whole - len(self._held), len(view))
        self._held += view[start:end]
        if len(self._held) == whole:
            frames.append(memoryview(self._held).toreadonly())
            self.position += whole
            self._held = bytearray()
        return end

    def _whole_size(self, head: memoryview | bytearray) -> int:
        size = int.from_bytes(head, "big", signed=True)
        if size < 0:
            raise StructureError(f"a frame cannot have {size} bytes", self.position)
        if size > self.max_size:
            raise TooLargeError(f"a frame of {size} bytes, more than {self.max_size}", self.position)
        return SIZE_BYTES + size


class Correlation:
    """The requests of one connection that wait for their responses."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[tuple[int, int]]] = defaultdict(deque)

    def __repr__(self) -> str:
        return f"<kafkafmt.protocol.Correlation: {len(self)} requests wait>"

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def sent(self, request: Request) -> None:
        """Remember a request, unless it gets no response."""
        if request.has_response:
            self.expect(request.correlation_id, request.api_key, request.api_version)

    def expect(self, correlation_id: int, api_key: int | str, api_version: int) -> None:
        """The same by what matters of it; the API by its key or name."""
        self._waiting[correlation_id].append((apis.key_of(api_key), api_version))

    def forget(self, correlation_id: int) -> None:
        """The request added last under this id gets no response."""
        self._waiting[correlation_id].pop()
        if not self._waiting[correlation_id]:
            del self._waiting[correlation_id]

    def take(self, correlation_id: int) -> tuple[int, int] | None:
        """API key and version of the request that a response answers, which waits no longer; None if none waits.

        Brokers answer in the order of the requests, so of several with one correlation id it is the first.
        """
        waiting = self._waiting.get(correlation_id)
        if not waiting:
            return None
        found = waiting.popleft()
        if not waiting:
            del self._waiting[correlation_id]
        return found

    def read_response(self, frame: Buffer) -> Response:
        """The response to one of the requests; StructureError where it answers none of them."""
        correlation_id = correlation_id_of(frame)
        found = self.take(correlation_id)
        if found is None:
            raise StructureError(f"no request waits for a response with correlation id {correlation_id}", SIZE_BYTES)
        return read_response(frame, api_key=found[0], api_version=found[1])
