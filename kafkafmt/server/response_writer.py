"""Write responses to one client, and send bytes of segments without copying them."""

from __future__ import annotations

import asyncio
import os
from itertools import groupby
from typing import Any

from ..log.format.unreadable import DISK_ERRORS
from .catalog import Catalog
from .checked_batches import Span
from .file_records import FileRecords, is_placeholder
from .memory import UnreadResponses
from .open_files import OpenSegment
from .served_partition import ServedPartition

CHUNK = 1 << 20
"""Largest number of bytes of a segment that are sent at once. The client must read them within the write timeout."""
SMALL_SPAN = 16 << 10
"""Up to this number of bytes, a read and a write take less time than sendfile."""
MOST_IN_TURN = 8 << 20
"""Number of bytes after which a connection lets the event loop serve other connections.

A client that reads fast could otherwise keep the event loop busy.
"""


class ClosedError(Exception):
    """Raised to close a connection. The error message is the reason; it is empty if the client has disconnected."""


class UnreadableError(ClosedError):
    """Raised if a segment cannot be read while it is sent."""


class ResponseWriter:
    """Writes the responses of one connection.

    Without TLS, the responses are written directly to the socket, and nothing else may write to the
    transport. asyncio's own ``loop.sendfile`` is not used. It waits after each call until the client
    has read most of the data, even if the kernel has accepted all data. This wait doubles the time
    of a fetch.

    Parameters
    ----------
    writer : asyncio.StreamWriter
        The connection.
    catalog : Catalog
        The served partitions and the open segments.
    unread : UnreadResponses
        Limits the memory of responses that clients have not read yet.
    """

    def __init__(self, writer: asyncio.StreamWriter, catalog: Catalog, unread: UnreadResponses) -> None:
        self._unread = unread
        self._writer = writer
        self._catalog = catalog
        self._timeout = catalog.settings.limits.write_timeout
        self._socket: Any = None
        """The socket, or None if the connection is encrypted."""
        if writer.get_extra_info("ssl_object") is None:
            self._socket = writer.get_extra_info("socket")
        self._in_turn = 0

    async def write(self, buffers: list[bytes | memoryview], records: FileRecords) -> None:
        """Send a response. For each placeholder in `buffers`, send bytes of a segment instead.

        Raises
        ------
        ClosedError
            The client does not read, or a segment was changed while it was sent.
        ConnectionError
            The client has closed the connection.
        """
        self._in_turn = 0
        if not len(records):
            data = b"".join(buffers)
            buffers.clear()  # otherwise, memory would contain the response twice while the client reads
            await self._send_bytes(data)
            return
        spans = iter(records)
        for placeholder, group in groupby(buffers, is_placeholder):
            if not placeholder:
                await self._send_bytes(b"".join(group))
                continue
            for _ in group:
                await self._send_span(*next(spans))

    async def _send_span(self, partition: ServedPartition, span: Span) -> None:
        """Send bytes of a segment, if the segment has not changed since its batches were checked."""
        files = self._catalog.resources.files
        try:
            file = files.acquire(span.path, span.inode)
        except OSError as error:
            raise ClosedError(f"{span.path} cannot be opened: {error.strerror}") from None
        try:
            if (span.inode and file.inode != span.inode) or file.size() < span.position + span.size:
                await self._catalog.run(partition.forget, span)
                raise ClosedError(f"{span.path} was changed while it was sent")
            await self._send_file(file, span.position, span.size)
        except UnreadableError:
            # Discard the cached batches, so that the next fetch reads the file and returns the read error to the client.
            await self._catalog.run(partition.forget, span)
            raise
        finally:
            files.release(file)

    async def _send_file(self, file: OpenSegment, position: int, size: int) -> None:
        """Send bytes of a file. If possible, the kernel sends the bytes directly from the file (``sendfile``)."""
        local = file.fileno() >= 0
        direct = local and self._socket is not None and size > SMALL_SPAN
        while size > 0:
            count = min(size, CHUNK)
            if direct:
                sent = await self._sendfile(file.fileno(), position, count)
            else:
                small = local and count <= SMALL_SPAN
                try:
                    data = file.read(position, count) if small else await self._catalog.run(file.read, position, count)
                except OSError as error:
                    raise _unreadable(error) from None
                await self._send_bytes(data)
                sent = len(data)
            if sent <= 0:
                raise ClosedError(f"{file.view.path} was truncated while it was sent")
            position, size = position + sent, size - sent
            self._in_turn += sent
            if self._in_turn >= MOST_IN_TURN:
                self._in_turn = 0
                await asyncio.sleep(0)

    async def _sendfile(self, source: int, position: int, count: int) -> int:
        """Call ``os.sendfile``, and return how many bytes the kernel has accepted. 0 means the end of the file."""
        while True:
            try:
                return os.sendfile(self._open_socket(), source, position, count)
            except BlockingIOError:
                await self._writable()
            except OSError as error:
                raise _unreadable(error) from None

    async def _send_bytes(self, data: bytes) -> None:
        if self._socket is None:
            view = memoryview(data)
            for start in range(0, len(data), CHUNK):
                self._writer.write(view[start : start + CHUNK])
                await self._in_time(self._writer.drain(), len(data))
            return
        rest = memoryview(data)
        while len(rest):
            try:
                rest = rest[os.write(self._open_socket(), rest) :]
            except BlockingIOError:
                await self._writable(len(data))

    def _open_socket(self) -> int:
        """Return the descriptor of the socket. Raise an error if the transport has closed the socket."""
        descriptor = int(self._socket.fileno())
        if descriptor < 0:
            raise ConnectionResetError("the connection is closed")
        return descriptor

    async def _writable(self, held: int = 0) -> None:
        """Wait until the socket is writable. `held` is the number of response bytes that stay in memory meanwhile.

        The event loop rejects callbacks for a descriptor that belongs to a transport. Therefore,
        this method watches a duplicate of the socket's descriptor.
        """
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


def _unreadable(error: OSError) -> Exception:
    """Convert a disk error to UnreadableError, and return other errors unchanged."""
    if error.errno in DISK_ERRORS:
        return UnreadableError(f"a segment cannot be read: {error.strerror}")
    return error
