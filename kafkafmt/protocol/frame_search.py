"""Find the frames in one direction of a captured connection, also after missing bytes.

If bytes are missing, the next frame starts at the first of these positions:

1. The end of the frame that lacks bytes, if its size field was captured, and all missing bytes are in this frame.
2. In requests: a size field and a header with a supported API and version.
3. In responses: a size field and the correlation id of a request that waits for a response.

In the cases 2 and 3, the whole frame must be valid and have no trailing bytes. Without this rule, requests were
found in public captures of other protocols, all of them with trailing bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import KafkaFormatError
from ..support.text import quantity
from . import apis
from .assembly import Hole
from .foreign import HEAD_BYTES, ends_inside
from .frames import SIZE_BYTES, read_request, read_response
from .message_classes import REQUEST, RESPONSE, Kind, UnknownBody
from .requests import Request, Response
from .streams import DEFAULT_MAX_SIZE, Correlation

REQUEST_HEAD_BYTES, RESPONSE_HEAD_BYTES = 14, 8
"""Size of a request up to the length of its client id, and of a response up to its correlation id."""
MAX_PARTIAL_HEADER = 1024
MAX_SOUGHT = 64
"""Number of requests whose responses are searched for, which are the most recent ones, and of incomplete candidates."""
# Size, API key, version, correlation id, and length of the client id.
_REQUEST = re.compile(
    rb"[\x00-\x06]...\x00[\x00-\x7f]\x00[\x00-\x1f][\x00-\x7f]...(?:\xff\xff|[\x00-\x7f].)", re.DOTALL
)


class Found(NamedTuple):
    """A frame, or a part of the stream that was not decoded. Its `error` says why; `frame` can contain its header."""

    position: int
    size: int
    frame: bytes | None
    error: str


@dataclass
class _Gap:
    """A part of the stream that is not decoded."""

    start: int
    reason: str
    head: bytes = b""  # of the frame that lacks bytes
    resume: int | None = None  # position of the next frame; None if it must be searched for
    missing: int = 0
    holes: int = 0

    def add_hole(self, position: int, size: int) -> None:
        if not self.holes:
            self.reason += (
                f"{'; ' if self.reason else ''}the capture lacks bytes of the stream from position {position}"
            )
        self.missing += size
        self.holes += 1
        if self.resume is not None and position + size > self.resume:
            self.resume = None

    def describe(self, end: int, resumes: bool) -> str:
        parts = [self.reason]
        if self.holes:
            parts.append(f"{quantity(self.missing, 'byte')} missing in {quantity(self.holes, 'part')}")
        skipped = end - self.start - self.missing
        if skipped and resumes:
            parts.append(f"{quantity(skipped, 'captured byte')} before the next frame, at position {end}, not decoded")
        elif not resumes:
            parts.append(f"no later frame was found, {quantity(skipped, 'captured byte')} not decoded")
        return "; ".join(parts)


class FrameSearch:
    """Finds frames in the parts of a stream. `kind` is the kind of the frames."""

    def __init__(self, kind: Kind, waiting: Correlation, from_start: bool) -> None:
        self.kind = kind
        self.from_start = from_start
        self.head: bytes = b""  # the first bytes
        self.received: int = 0
        self._waiting = waiting
        self._buffer = bytearray()
        self._position = 0  # of the first byte in the buffer
        self._sought = 0  # position at which the search for a frame continues
        self._candidates: list[tuple[int, int]] = []  # positions of frames that may be incomplete
        self._gap = None if from_start else _Gap(0, "the capture starts inside the connection")

    def expect_responses(self) -> None:
        """Search for responses instead of requests."""
        self.kind = RESPONSE
        self._sought, self._candidates = 0, []

    def feed(self, part: bytes | Hole) -> Iterator[Found]:
        """Add the next part of the stream, and yield what was found."""
        if isinstance(part, Hole):
            yield from self._frames(final=True)
            self._add_hole(part.size)
        else:
            self._buffer += part
            yield from self._frames()

    def finish(self) -> Iterator[Found]:
        """Yield what remains at the end of the stream."""
        yield from self._frames(final=True)
        start, head = self._position, bytes(self._buffer[:MAX_PARTIAL_HEADER])
        end = start + len(self._buffer)
        if self._gap is not None:
            if end > self._gap.start:
                message = self._gap.describe(end, False)
                yield Found(self._gap.start, end - self._gap.start, _partial(self._gap.head), message)
        elif head:
            error = ends_inside(head[:HEAD_BYTES], quantity(end - start, "byte"))
            yield Found(start, end - start, _partial(head), error)

    def _frames(self, final: bool = False) -> Iterator[Found]:
        buffer = self._buffer
        while True:
            if self._gap is not None:
                if not self._reaches_frame(self._gap, final):
                    return
                gap, self._gap = self._gap, None
                if self._position > gap.start:
                    message = gap.describe(self._position, True)
                    yield Found(gap.start, self._position - gap.start, _partial(gap.head), message)
            if len(buffer) < SIZE_BYTES:
                return
            size = int.from_bytes(buffer[:SIZE_BYTES], "big", signed=True)
            if not 0 <= size <= DEFAULT_MAX_SIZE:
                limit = f"the limit is {DEFAULT_MAX_SIZE}" if size > 0 else "it cannot be negative"
                self._gap = _Gap(self._position, f"the frame's size field is {size}; {limit}")
                if size < 0:
                    self._drop(1)
                else:
                    self._gap.resume = self._position + SIZE_BYTES + size
                continue
            if len(buffer) < SIZE_BYTES + size:
                return
            position, frame = self._position, bytes(memoryview(buffer)[: SIZE_BYTES + size])
            self._drop(len(frame))
            yield Found(position, len(frame), frame, "")

    def _drop(self, count: int) -> None:
        del self._buffer[:count]
        self._position += count

    def _add_hole(self, size: int) -> None:
        buffer = self._buffer
        if self._gap is None:
            self._gap = _Gap(self._position, "", bytes(buffer[:MAX_PARTIAL_HEADER]))
            if len(buffer) >= SIZE_BYTES:
                self._gap.resume = self._position + SIZE_BYTES + int.from_bytes(buffer[:SIZE_BYTES], "big")
        self._drop(len(buffer))
        self._candidates = []
        self._gap.add_hole(self._position, size)
        self._position += size

    def _reaches_frame(self, gap: _Gap, final: bool) -> bool:
        """Drop the bytes before the next frame. Return whether the start of this frame was found."""
        if gap.resume is not None:
            self._drop(min(len(self._buffer), gap.resume - self._position))
            return self._position == gap.resume
        is_request = self.kind == REQUEST
        head_bytes = REQUEST_HEAD_BYTES if is_request else RESPONSE_HEAD_BYTES
        expected = {} if is_request else dict(list(self._waiting.waiting().items())[-MAX_SOUGHT:])
        pattern = _REQUEST if is_request else _responses(expected)
        # Incomplete candidates are kept until their last byte was captured, or a later candidate is valid.
        candidates = [(start - self._position, end - self._position) for start, end in self._candidates]
        at = max(0, self._sought - self._position)
        while match := pattern.search(self._buffer, at):
            at = match.start()
            end = at + SIZE_BYTES + int.from_bytes(self._buffer[at : at + SIZE_BYTES], "big")
            is_head = not is_request or is_request_head(self._buffer[at : at + head_bytes])
            if at + head_bytes <= end <= at + SIZE_BYTES + DEFAULT_MAX_SIZE and is_head:
                candidates.append((at, end))
            at += 1
        sought = self._position + max(0, len(self._buffer) - head_bytes + 1)
        incomplete = []
        for start, end in candidates:
            if end > len(self._buffer):
                incomplete.append((self._position + start, self._position + end))
            elif self._is_valid(start, end, expected):
                self._drop(start)
                self._sought, self._candidates = 0, []
                return True
        self._sought, self._candidates = sought, [] if final else incomplete[:MAX_SOUGHT]
        keep_from = min([sought, *(start for start, _ in self._candidates)])
        self._drop(keep_from - self._position)
        return False

    def _is_valid(self, start: int, end: int, expected: dict[int, tuple[int, int]]) -> bool:
        """Return whether a frame can be decoded, and a valid size field or nothing follows it in the buffer."""
        frame, after = bytes(self._buffer[start:end]), self._buffer[end : end + SIZE_BYTES]
        if len(after) == SIZE_BYTES and int.from_bytes(after, "big") > DEFAULT_MAX_SIZE:
            return False
        with suppress(KafkaFormatError):
            message: Request[Any] | Response[Any]
            if self.kind == REQUEST:
                message = read_request(frame)
                if message.client_id == "":  # zeros can be a request; no common client has an empty id
                    return False
            else:
                key, version = expected[int.from_bytes(frame[SIZE_BYTES:RESPONSE_HEAD_BYTES], "big", signed=True)]
                message = read_response(frame, api_key=key, api_version=version)
            return not isinstance(message.body, UnknownBody) and not message.trailing
        return False


def is_request_head(head: bytes | bytearray) -> bool:
    """Return whether the first REQUEST_HEAD_BYTES of a frame can be those of a request."""
    # The version can be too new: clients send their newest version of ApiVersions first.
    size, key, client_id = (int.from_bytes(head[a:b], "big", signed=True) for a, b in ((0, 4), (4, 6), (12, 14)))
    fits = size >= REQUEST_HEAD_BYTES - SIZE_BYTES + max(0, client_id)
    return fits and _REQUEST.match(head) is not None and apis.api(key) is not None


def _responses(expected: dict[int, tuple[int, int]]) -> re.Pattern[bytes]:
    """Return a pattern for a size field and one of the correlation ids."""
    ids = b"|".join(re.escape(number.to_bytes(4, "big", signed=True)) for number in expected)
    return re.compile(rb"[\x00-\x06]...(?:" + (ids or rb"(?!)") + rb")", re.DOTALL)


def _partial(head: bytes) -> bytes | None:
    """Return the start of an incomplete frame as a frame, from which a header can be read."""
    return (len(head) - SIZE_BYTES).to_bytes(4, "big") + head[SIZE_BYTES:] if len(head) > SIZE_BYTES else None
