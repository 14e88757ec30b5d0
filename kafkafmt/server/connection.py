"""Read the requests of one client, and write the responses."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import nullcontext
from typing import Any

from .. import protocol
from ..errors import KafkaFormatError
from ..protocol import ErrorCode, UnknownBody
from ..protocol.apis import API_VERSIONS
from ..protocol.frames import SIZE_BYTES
from ..text import plain
from .catalog import Catalog
from .fetch import FileResponse
from .file_records import FileRecords
from .handlers import CLOSE_AFTER_RESPONSE, HandlerSet, RequestContext
from .memory import ELEMENT_BYTES, FREE_FRAME, LARGE_RESPONSES, MOST_OBJECTS, ServerMemory, count_elements
from .response_writer import ClosedError, ResponseWriter
from .settings import ServerLimits

PARTIAL_TIMEOUT = 30.0
"""Seconds after which a connection is closed if a request has arrived only in part."""

Buffers = list[bytes | memoryview]


class ReadDeadline:
    """Limits the time of reads from a client: after the deadline, an incomplete read raises TimeoutError.

    One timer serves many reads. Almost all reads end before their deadline, and ``asyncio.timeout``
    would create and cancel two timers for each request.

    Parameters
    ----------
    reader : asyncio.StreamReader
        The bytes from the client.
    """

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._loop = asyncio.get_running_loop()
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float) -> None:
        """Set the deadline for the current read and all later reads."""
        self._deadline = deadline = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > deadline:
            self.close()
            self._timer = self._loop.call_at(deadline, self._expire)

    def clear(self) -> None:
        """Remove the deadline."""
        self._deadline = None

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        if self._loop.time() >= self._deadline:
            self._reader.set_exception(TimeoutError())
        else:
            self._timer = self._loop.call_at(self._deadline, self._expire)


class ClientConnection:
    """Answers the requests of one client connection, one after another.

    The next request is read only after the response to the previous request was written. Therefore,
    the server never holds several unread responses for one client.

    Parameters
    ----------
    reader, writer : asyncio.StreamReader and asyncio.StreamWriter
        The two directions of the connection.
    catalog : Catalog
        The partitions that are served.
    handlers : HandlerSet
        The request handlers of the server.
    memory : ServerMemory
        The limits that all connections share.
    open_apis : frozenset of int or None
        Keys of the APIs that a client may use before authentication. None if clients need not authenticate.

    Attributes
    ----------
    principal : str or None
        Name of the authenticated user.
    attributes : dict
        State that handlers keep for the connection.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        catalog: Catalog,
        handlers: HandlerSet,
        memory: ServerMemory,
        open_apis: frozenset[int] | None,
    ) -> None:
        self.principal: str | None = None
        self.attributes: dict[str, Any] = {}
        self._reader, self._writer = reader, writer
        self._deadline = ReadDeadline(reader)
        self._responses = ResponseWriter(writer, catalog, memory.unread)
        self._catalog = catalog
        self._handlers = handlers
        self._memory = memory
        self._open_apis = open_apis
        self._limits: ServerLimits = catalog.settings.limits
        name = writer.get_extra_info("peername") or ("", 0)
        self._peer: tuple[str, int] = (str(name[0]), int(name[1]))
        self._tls = isinstance(writer.get_extra_info("ssl_object"), ssl.SSLObject)

    @property
    def peer(self) -> tuple[str, int]:
        """Host and port of the client."""
        return self._peer

    @property
    def listener_secure(self) -> bool:
        """Whether the connection is encrypted."""
        return self._tls

    @property
    def gone(self) -> bool:
        """Whether the client has closed the connection."""
        return self._reader.at_eof() or self._reader.exception() is not None or self._writer.is_closing()

    async def run(self) -> None:
        """Answer requests until the client closes the connection, or a limit is exceeded."""
        why = ""
        try:
            while True:
                await self._answer_next()
        except ClosedError as error:
            why = str(error)
        except (ConnectionError, ssl.SSLError):
            pass
        except OSError as error:  # An OSError is raised if a segment is unreadable, or if the client is unreachable.
            why = str(error)
        finally:
            if why:
                host, port = self._peer
                self._catalog.settings.on_message(f"{host}:{port}: connection closed: {why}")
            self._deadline.close()
            self._writer.transport.abort()

    async def _answer_next(self) -> None:
        self._deadline.set(self._limits.idle_timeout)
        try:
            size_field = await self._reader.readexactly(SIZE_BYTES)
        except asyncio.IncompleteReadError as error:
            raise ClosedError("the client sent only a part of a request" if error.partial else "") from None
        except TimeoutError:
            raise ClosedError(f"no request for {self._limits.idle_timeout:g} seconds") from None
        size = int.from_bytes(size_field, "big", signed=True)
        if not 0 < size <= self._limits.max_frame_bytes:
            limit = self._limits.max_frame_bytes
            raise ClosedError(f"the size field of a request is {size}; it must be from 1 to {limit}")
        response = await self._response_to(size_field, size)
        if response is not None:
            await self._responses.write(*response)
        if CLOSE_AFTER_RESPONSE in self.attributes:
            raise ClosedError(self.attributes[CLOSE_AFTER_RESPONSE])

    async def _response_to(self, size_field: bytes, size: int) -> tuple[Buffers, FileRecords] | None:
        """Read the rest of a request, and return the response, or None if the request demands no response.

        The server handles a large request only when enough memory is available for the decoded
        objects. Until then, the server keeps only the bytes of the request.
        """
        if size <= FREE_FRAME:
            return await self._handle(self._decode(size_field + await self._rest(size)))
        self._deadline.clear()
        async with self._memory.frames.reserved(size):
            frame = size_field + await self._rest(size)
            request: Any = self._decode(frame)
            elements = count_elements(request.body)
            if elements > MOST_OBJECTS:
                raise ClosedError(f"a request contains {elements} array elements; the limit is {MOST_OBJECTS}")
            needed = elements * ELEMENT_BYTES
            if not self._memory.objects.has(needed):
                request = None
            async with self._memory.objects.reserved(needed):
                return await self._handle(self._decode(frame) if request is None else request)

    async def _rest(self, size: int) -> bytes:
        """Read the `size` bytes of a request that follow its size field."""
        self._deadline.set(PARTIAL_TIMEOUT)
        try:
            return await self._reader.readexactly(size)
        except asyncio.IncompleteReadError:
            raise ClosedError("the client sent only a part of a request") from None
        except TimeoutError:
            raise ClosedError(
                f"a request of {size} bytes was still incomplete after {PARTIAL_TIMEOUT:g} seconds"
            ) from None
        finally:
            self._deadline.clear()

    def _decode(self, frame: bytes) -> Any:
        try:
            return protocol.read_request(frame, max_objects=MOST_OBJECTS)
        except (KafkaFormatError, UnicodeDecodeError) as error:
            raise ClosedError(f"a request cannot be read: {error}") from None

    async def _handle(self, request: Any) -> tuple[Buffers, FileRecords] | None:
        """Return the response to a request, or None if the client expects no response."""
        key, version = request.header.api_key, request.header.api_version
        handler = self._handlers.find(key, version)
        if handler is None or (isinstance(request.body, UnknownBody) and key != API_VERSIONS):
            raise ClosedError(f"the server does not support version {version} of the API with key {key}")
        if self._open_apis is not None and self.principal is None and key not in self._open_apis:
            raise ClosedError(f"the API with key {key} was requested before authentication")
        client_id = request.header.client_id
        context = RequestContext(key, version, client_id, self)
        records = FileRecords()
        try:
            async with self._memory.turns if key in LARGE_RESPONSES else nullcontext():
                response = await handler(request.body, context)
                if response is None:
                    return None
                if isinstance(response, FileResponse):
                    response, records = response.body, response.records
                if key == API_VERSIONS and response.error_code == ErrorCode.UNSUPPORTED_VERSION:
                    version = 0  # KIP-511: clients expect an UNSUPPORTED_VERSION response in version 0
                made = protocol.make_response(response, version, request.header.correlation_id)
                return protocol.write_response(made), records
        except (ConnectionError, ClosedError):
            raise
        except Exception as error:
            raise ClosedError(
                f"{plain(client_id or '')}: the API with key {key}, version {version} failed: {error!r}"
            ) from error
