"""Receive bytes from one client, and limit the time until a request is complete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..protocol.frames import SIZE_BYTES

MOST_BUFFERED = 16 << 10
"""Number of received bytes at which the server stops to receive, until it has answered earlier requests."""


class Receiver(asyncio.BufferedProtocol):
    """Stores received bytes until they are a complete request. Base class of `ClientConnection`."""

    # asyncio's `StreamReader` is not used: it needs a task for each connection and two iterations
    # of the event loop for each request. All connections of an event loop can share `buffer`.

    transport: asyncio.Transport

    def __init__(self, buffer: memoryview) -> None:
        self.at_eof: bool = False
        self.encrypted: bool = False
        """Whether the connection uses TLS. True as soon as the server starts the TLS handshake."""
        self._loop = asyncio.get_running_loop()
        self._buffer = buffer
        self._received = bytearray()
        self._paused = False
        self._waiting: asyncio.Future[None] | None = None
        self._needed = 0
        """Number of bytes for which `_waiting` waits."""
        self._count: Callable[[int], None]
        """Function that is called with the number of bytes if bytes are received while `_waiting` waits."""
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        """Time at which `_timer` expires."""

    def received(self) -> None:
        """React to received bytes, or to the end of the stream."""
        raise NotImplementedError

    def whole_request(self, buffer: memoryview, count: int) -> bool:
        """Answer a request, if the first `count` bytes of `buffer` are exactly one request. Otherwise, return False."""
        raise NotImplementedError

    def expired(self) -> None:
        raise NotImplementedError

    def get_buffer(self, _: int) -> memoryview:
        """Return memory for received bytes. asyncio calls this method."""
        return self._buffer

    def buffer_updated(self, count: int) -> None:
        """Store received bytes. asyncio calls this method."""
        if not self._received and self.whole_request(self._buffer, count):
            return
        self._received += self._buffer[:count]
        if self._waiting is not None:
            self._count(count)
            self._wake()
            return
        if len(self._received) > MOST_BUFFERED:
            self._paused = True
            self.transport.pause_reading()
        self.received()

    def eof_received(self) -> bool:
        """Store that the client sends no more bytes. asyncio calls this method."""
        # True keeps the connection open, so that the client still receives responses. With TLS,
        # asyncio closes the connection in any case.
        self.at_eof = True
        if self._waiting is not None:
            self._wake()
        else:
            self.received()
        return not self.encrypted

    def connection_lost(self, error: Exception | None) -> None:
        """Store that the client sends no more bytes. asyncio calls this method."""
        self.at_eof = True
        self.stop_timer()
        self._wake()

    def size_field(self) -> int | None:
        """Return the size field of the next request, or None if it was not received yet."""
        if len(self._received) < SIZE_BYTES:
            return None
        return int.from_bytes(self._received[:SIZE_BYTES], "big", signed=True)

    def take(self, count: int) -> bytes | None:
        """Remove and return the next `count` bytes, or return None if fewer were received."""
        data = self._received
        if len(data) < count:
            return None
        if len(data) == count:
            taken = bytes(data)
            data.clear()
        else:
            taken = bytes(data[:count])
            del data[:count]
        if self._paused and len(data) <= MOST_BUFFERED:
            self._resume()
        return taken

    async def take_later(self, count: int, received: Callable[[int], None]) -> bytes | None:
        """Wait for `count` bytes. Return None if the client closes first."""
        # `received` gets the number of bytes of each receipt.
        received(len(self._received))
        self._needed = count
        if len(self._received) < count and not self.at_eof:
            self._waiting, self._count = self._loop.create_future(), received
            if self._paused:
                self._resume()
            try:
                await self._waiting
            finally:
                self._waiting = None
        return self.take(count)

    def set_deadline(self, seconds: float) -> None:
        """Set the time after which the wait for bytes ends."""
        # The timer of an earlier deadline is kept: almost all requests arrive before their
        # deadline, and then need no timer.
        self._deadline = deadline = self._loop.time() + seconds
        if self._timer is None or self._timer_at > deadline:
            self._set_timer(deadline)

    def clear_deadline(self) -> None:
        self._deadline = None

    def stop_timer(self) -> None:
        """Remove the deadline and its timer, because the connection is closed."""
        self._deadline = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = self._loop.call_at(deadline, self._expire), deadline

    def _expire(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        if self._loop.time() < self._deadline:
            self._set_timer(self._deadline)
        else:
            self.expired()

    def _wake(self) -> None:
        waiting = self._waiting
        if waiting is not None and not waiting.done() and (len(self._received) >= self._needed or self.at_eof):
            waiting.set_result(None)

    def _resume(self) -> None:
        self._paused = False
        self.transport.resume_reading()
