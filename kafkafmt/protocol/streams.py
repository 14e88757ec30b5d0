"""Split a byte stream into frames, and match responses to requests."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from threading import Lock, RLock
from typing import Any

from ..errors import KafkaFormatError, StructureError, TooLargeError
from ..support.arguments import integer
from ..support.sharing import shared
from ..support.text import quantity
from ..types import Buffer, byte_view
from . import apis
from .frames import SIZE_BYTES, correlation_id_of, read_response
from .message_classes import Message, UnknownBody
from .requests import Request, Response

DEFAULT_MAX_SIZE = 100 << 20
"""Default maximum size of a request that a broker accepts, in bytes (``socket.request.max.bytes``)."""


class FrameSplitter:
    """Splits a stream of bytes into frames. The caller passes consecutive parts of the stream, which can have any size.

    Parameters
    ----------
    max_size : int, default 104857600 (100 MiB)
        Largest valid value of a frame's size field. A larger value raises an error before the frame
        is buffered.

    Attributes
    ----------
    position : int
        Position of the next frame in the stream, in bytes.
    buffered : int
        Number of bytes of the next frame that have been buffered so far.
    """

    def __init__(self, max_size: int = DEFAULT_MAX_SIZE) -> None:
        self.max_size: int = integer("max_size", max_size, 0)
        self.position: int = 0
        self._held = bytearray()
        self._lock = RLock()
        self._error: KafkaFormatError | None = None

    def __repr__(self) -> str:
        return f"<kafkafmt.protocol.FrameSplitter: next frame at {self.position}, {quantity(self.buffered, 'byte')} buffered>"

    @property
    def buffered(self) -> int:
        """Number of bytes of the next frame that have been buffered so far."""
        return len(self._held)

    def head(self, count: int) -> bytes:
        """Return the first `count` bytes of the next frame, or fewer if they have not been buffered."""
        return bytes(self._held[:count])

    def feed(self, data: Buffer) -> Iterator[memoryview]:
        """Add the next part of the stream, and yield all frames that are now complete.

        Parameters
        ----------
        data : bytes-like
            The next part of the stream. If it is a bytes object that contains a whole frame, this
            frame is not copied.

        Yields
        ------
        memoryview
            A complete frame, including its size field. The view is read-only and remains valid.

        Raises
        ------
        KafkaFormatError
            A size field is negative (`StructureError`) or greater than `max_size`
            (`TooLargeError`). The frames before this size field are yielded first. Every later call
            raises the same error, because the start of the next frame is unknown.
        """
        frames: list[memoryview] = []
        with self._lock:
            if self._error is None:
                try:
                    self._split(data, frames)
                except KafkaFormatError as error:
                    self._error = error
        return self._give(frames)

    @shared
    def _give(self, frames: list[memoryview]) -> Iterator[memoryview]:
        yield from frames
        if self._error is not None:
            raise self._error

    def _split(self, data: Buffer, frames: list[memoryview]) -> None:
        """Append each frame that is now complete to `frames`. Store the rest of `data` in the buffer."""
        view = byte_view(data)
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
        """Append bytes of `view` to the incomplete frame in the buffer. Return the number of appended bytes."""
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
        """Read the size field of a frame. Return the total size of the frame, including the size field."""
        size = int.from_bytes(head, "big", signed=True)
        if size < 0:
            raise StructureError(f"the frame's size field is {size}; it cannot be negative", self.position)
        if size > self.max_size:
            raise TooLargeError(f"the frame's size field is {size}; the limit is {self.max_size}", self.position)
        return SIZE_BYTES + size


class Correlation:
    """Matches the responses on one connection to their requests by correlation id.

    An object can be used by two threads at the same time: one that sends requests, and one that
    reads responses.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, deque[tuple[int, int]]] = defaultdict(deque)
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<kafkafmt.protocol.Correlation: {len(self)} requests without a response>"

    def __len__(self) -> int:
        """Return the number of requests that wait for a response."""
        with self._lock:
            return sum(map(len, self._waiting.values()))

    def sent(self, request: Request[Any]) -> None:
        """Add a request that was sent. Requests without a response (Produce with acks=0) are ignored."""
        if request.has_response:
            self.expect(request.correlation_id, request.api_key, request.api_version)

    def expect(self, correlation_id: int, api_key: int | str, api_version: int) -> None:
        """Add a request with the given correlation id, API (key or name) and version."""
        expected = apis.key_of(api_key), api_version
        with self._lock:
            self._waiting[correlation_id].append(expected)

    def forget(self, correlation_id: int) -> None:
        """Remove the most recently added request with this correlation id, for example because it has no response.

        If no request has this correlation id, do nothing. This happens, for example, if another thread has
        already read the response.
        """
        with self._lock:
            waiting = self._waiting.get(correlation_id)
            if waiting:
                waiting.pop()
            if not waiting:
                self._waiting.pop(correlation_id, None)

    def take(self, correlation_id: int) -> tuple[int, int] | None:
        """Remove the request with this correlation id, and return its API key and version.

        If several requests have this correlation id, the oldest one is removed, because a broker
        responds to requests in order. If no request has this correlation id, return None.
        """
        with self._lock:
            waiting = self._waiting.get(correlation_id)
            if not waiting:
                return None
            found = waiting.popleft()
            if not waiting:
                del self._waiting[correlation_id]
            return found

    def waiting(self) -> dict[int, tuple[int, int]]:
        """Return the API key and version of the oldest waiting request of each correlation id."""
        with self._lock:
            return {correlation_id: found[0] for correlation_id, found in self._waiting.items()}

    def read_response(self, frame: Buffer) -> Response[Message | UnknownBody]:
        """Read a response, and remove its request from the requests that wait for a response.

        Parameters
        ----------
        frame : bytes-like
            The whole frame, including its size field of four bytes.

        Raises
        ------
        KafkaFormatError
            The frame is damaged, or no request has its correlation id (`StructureError`).
        """
        correlation_id = correlation_id_of(frame)
        found = self.take(correlation_id)
        if found is None:
            raise StructureError(
                f"no request with correlation id {correlation_id} is waiting for a response", SIZE_BYTES
            )
        return read_response(frame, api_key=found[0], api_version=found[1])
