"""Read Fetch requests from frames, and write Fetch responses as frames."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from struct import Struct

from .. import protocol
from ..messages import layout_of
from ..protocol.apis import FETCH
from ..protocol.frames import SIZE_BYTES, header_version
from ..protocol.message_classes import REQUEST, header_class
from .fetch_answer import Answer, FetchAnswers
from .fetch_request import FIRST_PLAIN_VERSION, TopicKey, WantedFetch, read_plain, wanted_fetch
from .memory import MOST_OBJECTS
from .response_parts import FilePart, Parts

NEWEST_VERSION = 18
"""Newest supported version of Fetch."""
THROTTLE_VERSION = 1
STABLE_OFFSET_VERSION = 4
LOG_START_VERSION = 5
SESSION_VERSION = 7
REPLICA_VERSION = 11
FLEXIBLE_VERSION = 12
TOPIC_ID_VERSION = 13

_INT32 = Struct(">i")
_SHORT_LENGTH = Struct(">h")
_ABORTED = Struct(">qq")
_SESSION = Struct(">hi")
_NO_REPLICA = b"\xff\xff\xff\xff"
"""The value -1 of the field PreferredReadReplica."""
_BYTES = [bytes((value,)) for value in range(0x80)]
"""The lengths that are encoded in one byte."""
_NO_TAGS = b"\0"
"""The tagged fields of a structure, if all of them have their default values."""


class FetchFrames:
    """Reads the requests and writes the responses of one version of Fetch, in fewer steps than other APIs."""

    # Consumers send many Fetch requests. Usual requests are read without message objects
    # (`read_plain`); for the others, the layouts of the message classes are found only once. The
    # response is also written without message objects, and refers to segments instead of containing
    # record data.

    def __init__(self, version: int) -> None:
        self.version: int = version
        self._flexible = version >= FLEXIBLE_VERSION
        self._request_header = layout_of(header_class(REQUEST), header_version(REQUEST, FETCH, version))
        self._request = layout_of(protocol.FetchRequest, version)
        self._offsets = 1 + (version >= STABLE_OFFSET_VERSION) + (version >= LOG_START_VERSION)
        """Number of offsets in the response of a partition."""
        self._partition = Struct(">ih" + self._offsets * "q")
        tags, throttle = "x" * self._flexible, "4x" * (version >= THROTTLE_VERSION)
        replica = _NO_REPLICA * (version >= REPLICA_VERSION)
        self._unlisted = self._length(None) + replica, self._length(0) + replica
        """The fields after the offsets if the list of aborted transactions is null, or if it is empty."""
        self._start = Struct(">xxxxi" + tags + throttle)
        """The size field, which is set later, the correlation id, and the throttle time, which is 0."""

    def read(self, frame: bytes) -> tuple[int, str | None, WantedFetch]:
        """Return the correlation id, the client id and the body of a request. The caller has checked the size field."""
        if self.version >= FIRST_PLAIN_VERSION and (plain := read_plain(frame)) is not None:
            return plain
        header, position = self._request_header.read(frame, SIZE_BYTES, max_objects=MOST_OBJECTS)
        body, _ = self._request.read(frame, position, max_objects=MOST_OBJECTS)
        return header.correlation_id, header.client_id, wanted_fetch(body, self.version >= TOPIC_ID_VERSION)

    def write(self, response: FetchAnswers, correlation_id: int) -> Parts:
        """Encode a response. Return its parts in memory and the byte ranges of files to send between them."""
        first = data = bytearray(self._start.pack(correlation_id))
        if self.version >= SESSION_VERSION:
            data += _SESSION.pack(response.error, response.session_id)
        parts: Parts = deque()
        size = 0
        data += self._length(len(response.topics))
        for topic, answers in response.topics.items():
            self._add_topic(data, topic)
            data += self._length(len(answers))
            for answer in answers:
                self._add_partition(data, answer)
                if answer.spans and answer.served is not None:
                    parts.append(memoryview(data))
                    size += len(data) + answer.size
                    for span in answer.spans:
                        parts.append(FilePart(answer.served, span))
                    data = bytearray()
                elif answer.data:
                    data += answer.data
                if self._flexible:
                    data += _NO_TAGS
            if self._flexible:
                data += _NO_TAGS
        if self._flexible:
            data += _NO_TAGS
        if data:
            parts.append(memoryview(data))
        _INT32.pack_into(first, 0, size + len(data) - SIZE_BYTES)
        return parts

    def _add_topic(self, data: bytearray, topic: TopicKey) -> None:
        if isinstance(topic, bytes):
            data += topic
            return
        name = topic.encode()
        if self._flexible:
            data += self._length(len(name))
        else:
            data += _SHORT_LENGTH.pack(len(name))
        data += name

    def _add_partition(self, data: bytearray, answer: Answer) -> None:
        """Add the fields of a partition before its record data."""
        offsets = answer.high_watermark, answer.last_stable_offset, answer.log_start_offset
        data += self._partition.pack(answer.wanted.request.partition, answer.error, *offsets[: self._offsets])
        if answer.aborted and self.version >= STABLE_OFFSET_VERSION:
            self._add_aborted(data, answer.aborted)
        elif self.version >= STABLE_OFFSET_VERSION:
            data += self._unlisted[answer.aborted is not None]
        data += self._length(answer.size)

    def _add_aborted(self, data: bytearray, aborted: Sequence[tuple[int, int]]) -> None:
        data += self._length(len(aborted))
        for transaction in aborted:
            data += _ABORTED.pack(*transaction)
            if self._flexible:
                data += _NO_TAGS
        if self.version >= REPLICA_VERSION:
            data += _NO_REPLICA

    def _length(self, length: int | None) -> bytes | bytearray:
        """Encode the length of an array, of bytes or of a compact string. If `length` is None, encode a null value."""
        if not self._flexible:
            return _INT32.pack(-1 if length is None else length)
        left = 0 if length is None else length + 1
        if left <= 0x7F:
            return _BYTES[left]
        data = bytearray()
        while left > 0x7F:
            data.append(left & 0x7F | 0x80)
            left >>= 7
        data.append(left)
        return data


def fetch_frames() -> dict[int, FetchFrames]:
    """Return the layouts of all versions of Fetch that the server supports."""
    return {version: FetchFrames(version) for version in range(NEWEST_VERSION + 1)}
