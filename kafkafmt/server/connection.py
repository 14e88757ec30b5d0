"""Read the requests of one client, and write the responses."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, cast

from .. import protocol
from ..errors import KafkaFormatError
from ..protocol import ErrorCode, UnknownBody
from ..protocol.apis import API_VERSIONS, FETCH
from ..protocol.frames import SIZE_BYTES
from .catalog import Catalog
from .closed_errors import (
    PARTIAL_REQUEST,
    failed,
    failed_handshake,
    incomplete,
    not_authenticated,
    undecodable,
    unsupported,
    wrong_size,
)
from .credentials import Credentials
from .fetch import FetchApi, StartedFetch
from .fetch_answer import FetchAnswers
from .fetch_frames import FetchFrames, fetch_frames
from .handlers import ANSWER_TOKEN, CLOSE_AFTER_RESPONSE, HandlerSet, RequestContext, nothing_reserved
from .memory import (
    ELEMENT_BYTES,
    FRAME_MEMORY,
    FREE_FRAME,
    LARGE_RESPONSES,
    MOST_OBJECTS,
    SHARE,
    ServerMemory,
    count_elements,
)
from .receiver import Receiver
from .response_parts import Parts, parts_of
from .response_writer import ClosedError, ResponseWriter

PARTIAL_TIMEOUT = 30.0
"""Seconds after which a connection is closed if a request has arrived only in part."""
LARGEST_BEFORE_AUTHENTICATION = 16 << 10
"""Largest request in bytes before a client is authenticated.

Clients that are not authenticated could otherwise use all memory for large requests. Kafka's counterpart
is ``sasl.server.max.receive.size``.
"""
_START = Struct(">ihh")
"""The size field, the API key and the version of a request."""
READ_BUFFER = 16 << 10
"""Largest number of bytes that are received at once."""

Answering = Coroutine[Any, Any, None]
CLOSING = (ConnectionError, ClosedError)
"""Errors that close a connection without a message about a failed handler."""


@dataclass
class Shared:
    catalog: Catalog
    handlers: HandlerSet
    fetch: FetchApi
    open_apis: frozenset[int] | None  # APIs that clients may use before authentication; None: no authentication
    credentials: Credentials
    most_connections: int
    report_closed: Callable[[str], None]
    memory: ServerMemory = field(default_factory=ServerMemory)
    fetch_frames: dict[int, FetchFrames] = field(default_factory=fetch_frames)
    connections: set[ClientConnection] = field(default_factory=set)  # including those in the TLS handshake
    # memory for the bytes of one call of ``recv``
    buffer: memoryview = field(default_factory=lambda: memoryview(bytearray(READ_BUFFER)))


class ClientConnection(Receiver):
    """Answers the requests of one client connection, one after another."""

    # The next request is handled only after the response to the previous one was written, so the
    # server never holds several unread responses for one client. Most Fetch requests are answered
    # without a task. A request that must wait, for example for a file or for other clients, gets a
    # task.

    transport: asyncio.Transport

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared.buffer)
        self.principal: str | None = None
        self.attributes: dict[str, Any] = {}
        self._shared = shared
        self._limits = shared.catalog.settings.limits
        self._responses = ResponseWriter(shared.catalog, shared.memory.unread)
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._incomplete = False
        """Whether the size field of the next request was received, but not the whole request."""
        self._peer: tuple[str, int] = ("", 0)
        self._authenticate_by = self._loop.time() + self._limits.authentication_timeout
        """Time by which the client must be authenticated."""

    @property
    def _must_authenticate(self) -> bool:
        return self._shared.open_apis is not None and self.principal is None

    @property
    def peer(self) -> tuple[str, int]:
        return self._peer

    @property
    def listener_secure(self) -> bool:
        return self._shared.credentials.tls is not None

    @property
    def gone(self) -> bool:
        return self.at_eof or self.transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for requests, or close the connection if too many connections are open. asyncio calls this method."""
        self.transport = cast(asyncio.Transport, transport)
        shared, name = self._shared, transport.get_extra_info("peername") or ("", 0)
        self._peer = str(name[0]), int(name[1])
        if (count := len(shared.connections)) >= shared.most_connections:
            self._closed = True
            self.transport.abort()
            shared.catalog.settings.on_message(f"{count} connections are open, so new connections are closed")
            return
        shared.connections.add(self)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if (tls := shared.credentials.tls) is not None:
            self._start(self._shake_hands(tls))
        else:
            self._responses.connect(self.transport)
            self._set_deadline_of_request()

    def connection_lost(self, error: Exception | None) -> None:
        """Release the connection. A running task notices that the client has disconnected, and ends."""
        super().connection_lost(error)
        self._closed = True
        self._responses.disconnect()
        if self._task is None:
            self._shared.connections.discard(self)

    def pause_writing(self) -> None:
        """Stop writing until the client reads again. asyncio calls this method if the write buffer is full."""
        self._responses.pause()

    def resume_writing(self) -> None:
        """Continue to write. asyncio calls this method if the write buffer has space again."""
        self._responses.resume()

    async def close(self) -> None:
        """Close the connection, and wait until its task has ended."""
        task = self._task
        if task is None:
            self._end(ClosedError(""))
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def whole_request(self, buffer: memoryview, count: int) -> bool:
        """Answer a small request, if the first `count` bytes of `buffer` are exactly one request."""
        # `received` could answer it, too. Most requests arrive as a whole, and this way has fewer
        # steps.
        if self._task is not None or not _START.size <= count <= FREE_FRAME or self._closed:
            return False
        size, key, version = _START.unpack_from(buffer)
        if size != count - SIZE_BYTES:
            return False
        try:
            self._answer_small(bytes(buffer[:count]), key, version)
        except Exception as error:
            self._end(error)
        return True

    def received(self) -> None:
        """Answer the next request, if it was received completely and no other request is being answered."""
        if self._task is not None or self._closed:
            return
        try:
            self._next_request()
        except Exception as error:
            self._end(error)

    def expired(self) -> None:
        """Close the connection, because no complete request was received in time."""
        size = self.size_field()
        if self._must_authenticate and self._loop.time() >= self._authenticate_by:
            limit = self._limits.authentication_timeout
            self._end(ClosedError(f"the client did not authenticate within {limit:g} seconds"))
        elif size is None:
            self._end(ClosedError(f"no request for {self._limits.idle_timeout:g} seconds"))
        else:
            self._end(incomplete(size, PARTIAL_TIMEOUT))

    def _set_deadline_of_request(self) -> None:
        """Limit the time until the next request, and until the client is authenticated."""
        # Clients that do not authenticate could otherwise use all connections for any time.
        seconds = self._limits.idle_timeout
        if self._must_authenticate:
            seconds = min(seconds, max(self._authenticate_by - self._loop.time(), 0.0))
        self.set_deadline(seconds)

    def _next_request(self) -> None:
        size = self.size_field()
        if size is None:
            if self.at_eof:
                raise ClosedError(PARTIAL_REQUEST if self._received else "")
            return
        limit, authenticated = min(self._limits.max_frame_bytes, FRAME_MEMORY // SHARE), True
        if self._must_authenticate:
            limit, authenticated = min(limit, LARGEST_BEFORE_AUTHENTICATION), False
        if not 0 < size <= limit:
            raise wrong_size(size, limit, authenticated, self.encrypted)
        if size > FREE_FRAME:
            self._start(self._large_request(size))
            return
        frame = self.take(SIZE_BYTES + size)
        if frame is None:
            if self.at_eof:
                raise ClosedError(PARTIAL_REQUEST)
            if not self._incomplete:
                self._incomplete = True
                self.set_deadline(PARTIAL_TIMEOUT)
            return
        # A frame can be shorter than _START.
        _, key, version = _START.unpack(frame[: _START.size].ljust(_START.size, b"\xff"))
        self._answer_small(frame, key, version)

    def _answer_small(self, frame: bytes, key: int, version: int) -> None:
        """Answer a request of at most FREE_FRAME bytes, or start a task that answers it."""
        self._incomplete = False
        if ANSWER_TOKEN in self.attributes:
            self._start(self._answer_token(frame[SIZE_BYTES:]))
            return
        answering = self._fetch_now(frame, version) if key == FETCH else self._small_request(frame)
        if answering is not None:
            self._start(answering)
        else:
            self._finished()

    def _finished(self) -> None:
        """Wait for the next request. If it was already received, answer it after other connections had a turn."""
        if CLOSE_AFTER_RESPONSE in self.attributes:
            raise ClosedError(self.attributes[CLOSE_AFTER_RESPONSE])
        self._set_deadline_of_request()
        if self._received or self.at_eof:
            self._loop.call_soon(self.received)

    def _start(self, answering: Answering) -> None:
        self.clear_deadline()
        self._task = self._loop.create_task(self._run(answering))

    async def _run(self, answering: Answering) -> None:
        try:
            await answering
            self._task = None
            if self._closed:
                raise ClosedError("")
            self._finished()
        except asyncio.CancelledError:
            self._end(ClosedError(""))
        except Exception as error:
            self._end(error)

    def _end(self, error: Exception) -> None:
        """Close the connection, and log the reason unless the client has closed the connection."""
        self._task = None
        self._closed = True
        self._shared.connections.discard(self)
        self.transport.abort()
        self.stop_timer()
        if isinstance(error, ConnectionError | ssl.SSLError):
            return
        if not isinstance(error, ClosedError | OSError):  # An OSError is raised if a segment is unreadable.
            raise error
        if str(error):
            host, port = self._peer
            self._shared.report_closed(f"{host}:{port}: connection closed: {error}")

    async def _shake_hands(self, context: ssl.SSLContext) -> None:
        """Encrypt the connection."""
        # The listener itself does not use TLS: asyncio reports a TLS connection only after the
        # handshake, so clients that never complete the handshake would not count as connections.
        limit = self._limits.handshake_timeout
        self.encrypted = True
        try:
            made = await self._loop.start_tls(
                self.transport, self, context, server_side=True, ssl_handshake_timeout=limit
            )
        except ConnectionAbortedError:
            raise ClosedError(f"the TLS handshake was still incomplete after {limit:g} seconds") from None
        except ConnectionError:
            raise ClosedError("") from None
        except OSError as error:  # ssl.SSLError is an OSError
            raise failed_handshake(error) from None
        assert made is not None
        self.transport = made
        self._responses.connect(made)

    def _fetch_now(self, frame: bytes, version: int) -> Answering | None:
        """Answer a Fetch request if this needs no wait. Otherwise, return a coroutine that answers the request."""
        shared = self._shared
        frames = shared.fetch_frames.get(version)
        if frames is None or (shared.open_apis is not None and self.principal is None):
            return self._small_request(frame)
        try:
            correlation_id, client_id, request = frames.read(frame)
        except (KafkaFormatError, UnicodeDecodeError) as error:
            raise undecodable(error) from None
        try:
            started = shared.fetch.start(request, version)
            response = started.known()
            if response is None:
                return self._fetch_later(started, frames, correlation_id, client_id)
            parts = frames.write(response, correlation_id)
        except CLOSING:
            raise
        except Exception as error:
            raise failed(error, FETCH, version, client_id) from error
        return self._responses.write_now(parts)

    async def _fetch_later(
        self, started: StartedFetch, frames: FetchFrames, correlation_id: int, client_id: str | None
    ) -> None:
        try:
            response = await started.complete(self)
            parts = frames.write(response, correlation_id)
        except CLOSING:
            raise
        except Exception as error:
            raise failed(error, FETCH, frames.version, client_id) from error
        await self._responses.write(parts)

    async def _small_request(self, frame: bytes) -> None:
        response = await self._response_to(_decode(frame))
        if response is not None:
            await self._responses.write(response)

    async def _large_request(self, size: int) -> None:
        """Answer a request when enough memory is available for its decoded objects."""
        response = await self._large_response(size)
        if response is not None:
            await self._responses.write(response)

    async def _large_response(self, size: int) -> Parts | None:
        async with AsyncExitStack() as reserved:
            deadline = self._loop.time() + PARTIAL_TIMEOUT
            try:
                async with asyncio.timeout_at(deadline) as limit:
                    with self._shared.memory.frames.held(limit, 0) as hold:
                        frame = await self.take_later(SIZE_BYTES + size, hold)
                        if frame is None:
                            raise ClosedError(PARTIAL_REQUEST)
                        limit.reschedule(None)
                        if ANSWER_TOKEN in self.attributes:
                            return await self._token_parts(frame[SIZE_BYTES:])
                        request, release = await self._decode_later(frame, reserved)
            except TimeoutError:
                raise incomplete(size, PARTIAL_TIMEOUT if limit.when() == deadline else None) from None
            answering = self._response_to(request, release)
            del frame, request  # see _response_to
            return await answering

    async def _decode_later(self, frame: bytes, reserved: AsyncExitStack) -> tuple[Any, Callable[[], None]]:
        """Decode a request when enough memory is available. Return it, and a function that releases the memory."""
        request = _decode(frame)
        elements = count_elements(request.body)
        if elements > MOST_OBJECTS:
            raise ClosedError(f"a request contains {elements} array elements; the limit is {MOST_OBJECTS}")
        needed, objects = elements * ELEMENT_BYTES, self._shared.memory.objects
        if not objects.has(needed):
            request = None
        release = await reserved.enter_async_context(objects.reserved(needed))
        return _decode(frame) if request is None else request, release

    async def _answer_token(self, token: bytes) -> None:
        parts = await self._token_parts(token)
        if parts is not None:
            await self._responses.write(parts)

    async def _token_parts(self, token: bytes) -> Parts | None:
        answer = await self.attributes[ANSWER_TOKEN](token)
        return None if answer is None else parts_of([len(answer).to_bytes(SIZE_BYTES, "big"), answer])

    async def _response_to(self, request: Any, release: Callable[[], None] = nothing_reserved) -> Parts | None:
        """Return the response, or None if the client expects none."""
        # `release` releases the memory reserved for the request.
        key, version = request.header.api_key, request.header.api_version
        handler = self._shared.handlers.find(key, version)
        if handler is None or (isinstance(request.body, UnknownBody) and key != API_VERSIONS):
            raise unsupported(key, version, self._shared.open_apis is not None)
        open_apis = self._shared.open_apis
        if open_apis is not None and self.principal is None and key not in open_apis:
            raise not_authenticated(key)
        client_id, correlation_id = request.header.client_id, request.header.correlation_id
        context = RequestContext(key, version, client_id, self, release)
        try:
            async with self._shared.memory.turns if key in LARGE_RESPONSES else nullcontext():
                answering = handler(request.body, context)
                del request  # the handler can then delete the body before it waits
                response = await answering
                if response is None:
                    return None
                if isinstance(response, FetchAnswers):
                    return self._shared.fetch_frames[version].write(response, correlation_id)
                if key == API_VERSIONS and response.error_code == ErrorCode.UNSUPPORTED_VERSION:
                    version = 0  # KIP-511: clients expect an UNSUPPORTED_VERSION response in version 0
                made = protocol.make_response(response, version, correlation_id)
                return parts_of(protocol.write_response(made))
        except CLOSING:
            raise
        except Exception as error:
            raise failed(error, key, version, client_id) from error


def _decode(frame: bytes) -> Any:
    try:
        return protocol.read_request(frame, max_objects=MOST_OBJECTS)
    except (KafkaFormatError, UnicodeDecodeError) as error:
        raise undecodable(error) from None
