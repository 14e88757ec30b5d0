"""Write responses to one client, and send bytes of segments without copying them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import Any

from ..log.storage import DISK_ERRORS
from ..support.paths import UrlPath
from .catalog import Catalog
from .memory import HeldMemory
from .open_files import OpenSegment
from .response_parts import FilePart, Parts

CHUNK = 1 << 20
"""Largest number of bytes of a segment that are sent at once. The client must read them within the write timeout."""
SMALL_SPAN = 16 << 10
"""Up to this number of bytes, a read and a write take less time than sendfile."""
MOST_IN_TURN = 8 << 20
"""Bytes after which other connections get a turn. A fast client could keep the event loop busy."""
WRITE_BUFFER = 256 << 10
"""Number of encrypted bytes that are kept until the client has read them, before the server waits."""


class ClosedError(Exception):
    """Raised to close a connection. The error message is the reason; it is empty if the client has disconnected."""


class SegmentError(ClosedError):
    """Raised if a segment cannot be read, or was changed, while it is sent."""

    def __init__(self, part: FilePart, message: str) -> None:
        super().__init__(message)
        self.part = part


class ResponseWriter:
    # Without TLS, responses are written directly to the socket, and nothing else may write to the
    # transport. asyncio's own ``loop.sendfile`` is not used: after each call, it waits until the
    # client has read most of the data, even if the kernel has accepted all data. This doubles the
    # time of a fetch.

    def __init__(self, catalog: Catalog, unread: HeldMemory) -> None:
        self._unread = unread
        self._catalog = catalog
        self._files = catalog.resources.files
        self._timeout = catalog.settings.limits.write_timeout
        self._transport: asyncio.Transport
        self._encrypted = False
        self._descriptor = -1
        """Descriptor of the socket, or -1 if the connection is encrypted or closed."""
        self._drained: asyncio.Future[None] | None = None
        """Future that ends when the client has read encrypted data, or None if the write buffer is not full."""
        self._in_turn = 0

    def connect(self, transport: asyncio.Transport) -> None:
        """Set the transport. The TLS handshake must be complete."""
        self._transport = transport
        self._encrypted = transport.get_extra_info("sslcontext") is not None
        if self._encrypted:
            transport.set_write_buffer_limits(WRITE_BUFFER)
        else:
            self._descriptor = transport.get_extra_info("socket").fileno()

    def disconnect(self) -> None:
        """Forget the socket of a closed connection, whose descriptor may be reused. End all waits for the connection."""
        self._descriptor = -1
        self.resume()

    def pause(self) -> None:
        """Stop writing encrypted data until `resume` is called, because the write buffer is full."""
        if self._drained is None:
            self._drained = asyncio.get_running_loop().create_future()

    def resume(self) -> None:
        """Continue to write encrypted data."""
        drained, self._drained = self._drained, None
        if drained is not None:
            _set_once(drained)

    def write_now(self, parts: Parts) -> Coroutine[Any, Any, None] | None:
        """Send a response. If the server must wait for the client or a file, return a coroutine that sends the rest."""
        self._in_turn = 0
        if self._encrypted:
            return self._write(parts)
        try:
            return None if self._push(parts) else self._write(parts)
        except SegmentError as error:
            return self._forget(error)

    async def write(self, parts: Parts) -> None:
        rest = self.write_now(parts)
        if rest is not None:
            await rest

    async def _write(self, parts: Parts) -> None:
        """Send the rest of a response. Wait for files and for the client."""
        try:
            while parts:
                part = parts[0]
                if isinstance(part, FilePart) and (self._encrypted or isinstance(part.span.path, UrlPath)):
                    await self._load(part, parts)
                elif isinstance(part, memoryview) and self._encrypted:
                    await self._encrypt(part)
                    parts.popleft()
                elif self._in_turn >= MOST_IN_TURN:
                    self._in_turn = 0
                    await asyncio.sleep(0)
                else:
                    await self._writable(memoryview(part.obj).nbytes if isinstance(part, memoryview) else 0)
                if not self._encrypted:
                    self._push(parts)
        except SegmentError as error:
            await self._forget(error)

    async def _forget(self, error: SegmentError) -> None:
        """Discard the cached batches of the partition, so that the next fetch checks the file, and raise `error`."""
        await self._catalog.run(error.part.partition.forget, error.part.span)
        raise error

    def _push(self, parts: Parts) -> bool:
        """Send what the socket accepts, and remove it from `parts`. Return whether everything was sent."""
        # A connection stops after MOST_IN_TURN bytes, and at a file that is not local.
        descriptor = self._open_socket()
        try:
            while parts:
                part = parts[0]
                if type(part) is memoryview:
                    sent = os.write(descriptor, part)
                    if sent < len(part):
                        parts[0] = part[sent:]
                    else:
                        parts.popleft()
                elif self._in_turn >= MOST_IN_TURN or not self._push_file(part, parts, descriptor):
                    return False
        except BlockingIOError:
            return False
        return True

    def _push_file(self, part: FilePart, parts: Parts, descriptor: int) -> bool:
        """Send bytes of `part`, the first item of `parts`, to the socket. Return False if the file is not local."""
        file = self._open(part)
        try:
            if file.descriptor < 0:
                return False
            if part.size <= SMALL_SPAN:
                data = file.read(part.position, part.size)
                parts[0] = memoryview(data)
                sent = len(data) if len(data) == part.size else 0
            else:
                # The kernel sends the bytes directly from the file.
                sent = os.sendfile(descriptor, file.descriptor, part.position, min(part.size, CHUNK))
                part.position += sent
                part.size -= sent
                if not part.size:
                    parts.popleft()
        except BlockingIOError:
            raise
        except OSError as error:
            raise _unreadable(error, part) from None
        finally:
            self._files.release(file)
        if not sent:
            raise SegmentError(part, f"{part.span.path} was truncated while it was sent")
        self._in_turn += sent
        return True

    def _open(self, part: FilePart) -> OpenSegment:
        """Open the segment of a part, and check that it was not replaced since its batches were checked."""
        span = part.span
        try:
            file = self._files.acquire(span.path, span.inode)
        except OSError as error:
            raise ClosedError(f"{span.path} cannot be opened: {error.strerror}") from None
        if span.inode and file.inode != span.inode:
            self._files.release(file)
            raise SegmentError(part, f"{span.path} was changed while it was sent")
        return file

    async def _load(self, part: FilePart, parts: Parts) -> None:
        """Read the next bytes of a part in a thread, and insert them before the part."""
        file = self._open(part)
        count = min(part.size, CHUNK)
        try:
            if count <= SMALL_SPAN and file.descriptor >= 0:
                data = file.read(part.position, count)
            else:
                data = await self._catalog.run(file.read, part.position, count)
        except OSError as error:
            raise _unreadable(error, part) from None
        finally:
            self._files.release(file)
        if not data:
            raise SegmentError(part, f"{part.span.path} was truncated while it was sent")
        part.position += len(data)
        part.size -= len(data)
        if not part.size:
            parts.popleft()
        parts.appendleft(memoryview(data))

    async def _encrypt(self, data: memoryview) -> None:
        for start in range(0, len(data), CHUNK):
            if self._transport.is_closing():
                raise ConnectionResetError("the connection is closed")
            self._transport.write(data[start : start + CHUNK])
            if self._drained is not None:
                await self._in_time(self._drained, memoryview(data.obj).nbytes)

    def _open_socket(self) -> int:
        """Return the descriptor of the socket. Raise an error if the socket was closed."""
        if self._descriptor < 0:
            raise ConnectionResetError("the connection is closed")
        return self._descriptor

    async def _writable(self, held: int = 0) -> None:
        """Wait until the socket is writable. `held` is the number of response bytes that stay in memory meanwhile."""
        # The event loop rejects callbacks for a descriptor that belongs to a transport. Therefore,
        # a duplicate is watched.
        loop = asyncio.get_running_loop()
        try:
            watched = os.dup(self._open_socket())
        except ConnectionError:
            raise
        except OSError as error:
            raise ClosedError(f"a response cannot be written: {error}") from None
        ready = loop.create_future()
        loop.add_writer(watched, _set_once, ready)
        try:
            await self._in_time(ready, held)
        finally:
            loop.remove_writer(watched)
            os.close(watched)

    async def _in_time(self, waiting: Any, held: int) -> None:
        deadline = asyncio.get_running_loop().time() + self._timeout
        try:
            async with asyncio.timeout_at(deadline) as limit:
                with self._unread.held(limit, held):
                    await waiting
        except TimeoutError:
            if asyncio.get_running_loop().time() < deadline:
                raise ClosedError(
                    f"the client did not read {held} bytes, and the memory for unread responses is full"
                ) from None
            raise ClosedError(f"the client read nothing for {self._timeout:g} seconds") from None


def _set_once(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _unreadable(error: OSError, part: FilePart) -> Exception:
    """Convert a disk error to SegmentError, and return other errors unchanged."""
    if error.errno in DISK_ERRORS:
        return SegmentError(part, f"a segment cannot be read: {error.strerror}")
    return error
