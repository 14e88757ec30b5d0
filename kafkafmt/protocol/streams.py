"""Streams of frames, as one side of a connection sends them, and the requests that wait for their responses."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from threading import Lock, RLock
from typing import Any

from ..arguments import integer
from ..errors import KafkaFormatError, StructureError, TooLargeError
from ..sharing import shared
from ..types import Buffer
from . import apis
from .frames import SIZE_BYTES, Request, Response, correlation_id_of, read_response

DEFAULT_MAX_SIZE = 100 << 20
"""The largest request that a broker accepts by default (``socket.request.max.bytes``)."""


class FrameSplitter:
    """Cuts a stream of bytes, fed in pieces of any size, into frames.

    Parameters
    ----------
    max_size : int, default 104857600
        The largest size of a frame, in bytes. A larger one raises before its bytes are kept.

    Attributes
    ----------
    position : int
        Where the next frame begins in the stream.
    buffered : int
        How many bytes of the next frame have been fed.
    """

    def __init__(self, max_size: int = DEFAULT_MAX_SIZE) -> None:
        self.max_size = integer("max_size", max_size, 0)
        self.position = 0
        self._held = bytearray()
        self._lock = RLock()
        self._error: KafkaFormatError | None = None

    def __repr__(self) -> str:
        return f"<kafkafmt.protocol.FrameSplitter: next frame at {self.position}, {self.buffered} bytes of it here>"

    @property
    def buffered(self) -> int:
        return len(self._held)

    def feed(self, data: Buffer) -> Iterator[memoryview]:
        """Yield the frames that this piece completes, with their sizes, as read-only memoryviews that stay valid.

        If `data` is bytes, the frames are views of it. A negative size, or one above `max_size`, raises after the frames before it,
        and again at every later call, because the start of the next frame is unknown.
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
        """Continue the frame that is held in part; return where the next one begins in `view`."""
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
        self._lock = Lock()  # one thread sends, another one receives

    def __repr__(self) -> str:
        return f"<kafkafmt.protocol.Correlation: {len(self)} requests wait>"

    def __len__(self) -> int:
        with self._lock:
            return sum(map(len, self._waiting.values()))

    def sent(self, request: Request) -> None:
        """Remember a request, unless it gets no response."""
        if request.has_response:
            self.expect(request.correlation_id, request.api_key, request.api_version)

    def expect(self, correlation_id: int, api_key: int | str, api_version: int) -> None:
        """Remember a request by its correlation id, the key or name of its API, and its version."""
        expected = apis.key_of(api_key), api_version
        with self._lock:
            self._waiting[correlation_id].append(expected)

    def forget(self, correlation_id: int) -> None:
        """Forget the request that was added last under this id, because it gets no response."""
        with self._lock:
            self._waiting[correlation_id].pop()
            if not self._waiting[correlation_id]:
                del self._waiting[correlation_id]

    def take(self, correlation_id: int) -> tuple[int, int] | None:
        """Return the API key and version of the request that a response answers, and forget it; None if no request waits.

        If several requests have the same correlation id, it is the first one, since brokers answer in the order of the requests.
        """
        with self._lock:
            waiting = self._waiting.get(correlation_id)
            if not waiting:
                return None
            found = waiting.popleft()
            if not waiting:
                del self._waiting[correlation_id]
            return found

    def read_response(self, frame: Buffer) -> Response:
        """Read the response to one of the requests; raise `StructureError` if no request waits for it."""
        correlation_id = correlation_id_of(frame)
        found = self.take(correlation_id)
        if found is None:
            raise StructureError(f"no request waits for a response with correlation id {correlation_id}", SIZE_BYTES)
        return read_response(frame, api_key=found[0], api_version=found[1])
