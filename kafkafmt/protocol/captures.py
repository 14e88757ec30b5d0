"""Decode the connections in packet captures."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from ipaddress import ip_address
from typing import BinaryIO
from uuid import UUID

from ..errors import StructureError
from ..support.text import counted, quantity
from ..support.times import EPOCH
from .assembly import MAX_WINDOW, Hole, Stream
from .decode import Connection, DecodedFrame, RequestDecoder, ResponseDecoder, default_api
from .foreign import explain, foreign_protocol
from .frame_search import REQUEST_HEAD_BYTES, FrameSearch, is_request_head
from .message_classes import REQUEST, RESPONSE, Kind
from .packets import FIN, RST, SYN, Endpoint, PacketReader, Segment
from .streams import Correlation
from .topic_names import TopicNames

MAX_CONNECTIONS = 10_000
"""Number of connections that are followed at the same time."""
MAX_WAITING = 10_000
"""Number of requests of a connection that wait for a response. Older ones are dropped."""


class _Side:
    """One side of a connection: the stream of bytes that it sent, and the search for frames in it."""

    def __init__(self, kind: Kind, waiting: Correlation) -> None:
        self.stream = Stream()
        self.search = FrameSearch(kind, waiting, False)


class _Tracked:
    """A connection that is followed. If `guessed`, the first side that sends a request becomes the client."""

    def __init__(
        self, number: int, client: Endpoint, broker: Endpoint, guessed: bool, default: tuple[int, int] | None
    ) -> None:
        self.number = number
        self.client, self.broker, self.guessed = client, broker, guessed
        self.ended: bool = False  # by FIN or RST
        self.is_kafka: bool = False
        self._ignored = False  # because it is of another protocol
        self._micros = 0
        self._requests = 0
        self._waiting = Correlation()
        self._decoders: dict[Kind, RequestDecoder | ResponseDecoder] = {
            REQUEST: RequestDecoder(self._waiting),
            RESPONSE: ResponseDecoder(self._waiting, default),
        }
        self.sides = {
            client: _Side(REQUEST, self._waiting),
            broker: _Side(REQUEST if guessed else RESPONSE, self._waiting),
        }

    def is_continued_by(self, segment: Segment) -> bool:
        """Return whether a segment belongs to this connection, not to a later one with the same addresses."""
        stream, other = self.sides[segment.source].stream, self.sides[segment.target].stream
        if segment.flags & SYN:
            if stream.first is None:
                return other.first is None or segment.acknowledged is not None
            return stream.first == (segment.sequence + 1) & 0xFFFFFFFF
        if stream.first is None or not segment.data:
            return True
        distance = stream.position_of(segment.sequence) - stream.position
        return -MAX_WINDOW <= distance and not (self.ended and distance > MAX_WINDOW)

    def start(self, source: Endpoint, sequence: int) -> None:
        """Process the flag SYN."""
        side = self.sides[source]
        if side.stream.first is None:
            side.stream.start(sequence + 1)
            side.search = FrameSearch(side.search.kind, self._waiting, True)

    def add(self, segment: Segment) -> Iterator[DecodedFrame]:
        if self.ended:
            return
        self._micros = segment.micros
        side, other = self.sides[segment.source], self.sides[segment.target]
        if segment.flags & SYN:
            self.start(segment.source, segment.sequence)
        # The sender had received all bytes that it acknowledges before it sent the segment.
        if segment.acknowledged is not None and other.stream.first is not None:
            yield from self._decode(other, other.stream.acknowledge(segment.acknowledged))
        if segment.data or segment.flags & FIN:
            if side.stream.first is None:
                side.stream.start(segment.sequence)
            sequence = segment.sequence + bool(segment.flags & SYN)
            yield from self._decode(side, side.stream.add(sequence, segment.data, bool(segment.flags & FIN)))
        if segment.flags & RST or (side.stream.finished and other.stream.finished):
            yield from self.finish()

    def finish(self) -> Iterator[DecodedFrame]:
        """End the connection, and yield what remains."""
        if self.ended:
            return
        self.ended = True
        for side in self.sides.values():
            yield from self._decode(side, side.stream.finish())
        rows = [self._row(side, *found) for side in self.sides.values() for found in side.search.finish()]
        if rows and not self._ignored:
            received = any(side.search.received for side in self.sides.values())
            yield from [self._not_kafka()] if received and not self.is_kafka else rows
        self._ignore()

    def _ignore(self) -> None:
        """Ignore all data from now on, and release the buffers."""
        self._ignored = True
        for side in self.sides.values():
            side.search = FrameSearch(side.search.kind, self._waiting, True)

    def _decode(self, side: _Side, parts: Iterable[bytes | Hole]) -> Iterator[DecodedFrame]:
        for part in parts:
            if self._ignored:
                continue
            search = side.search
            if isinstance(part, bytes):
                search.received += len(part)
                if len(search.head) < REQUEST_HEAD_BYTES and not self.is_kafka:
                    search.head += part[: REQUEST_HEAD_BYTES - len(search.head)]
                    if search.from_start and (error := _other_protocol(search)):
                        yield self._other(search, error)
                        continue
            for found in search.feed(part):
                if self.guessed:
                    self._set_client(side)
                row = self._row(side, *found)
                if not self.is_kafka and row.direction == REQUEST and not found.error:
                    yield self._other(
                        search, f"the stream is not Kafka's protocol: the first request is invalid: {row.error}"
                    )
                    break
                yield row

    def _other(self, search: FrameSearch, error: str) -> DecodedFrame:
        """Return a row for a connection of another protocol, and ignore its data from now on."""
        self._ignore()
        return self._placed(DecodedFrame(search.kind, 0, search.received, error=error))

    def _set_client(self, client: _Side) -> None:
        """Store which side is the client, because its first request was found."""
        self.guessed = False
        (self.client, _), (self.broker, broker) = sorted(self.sides.items(), key=lambda item: item[1] is not client)
        broker.search.expect_responses()

    def _row(self, side: _Side, position: int, size: int, frame: bytes | None, error: str) -> DecodedFrame:
        row = self._decoders[side.search.kind].decode(position, size, frame, error)
        decoded = row.error is None or row.undecoded_bytes is not None or row.unmatched
        self.is_kafka = self.is_kafka or decoded or (bool(error) and row.api_key is not None)
        self._requests += side.search.kind == REQUEST
        if self._requests == MAX_WAITING:
            self._requests = 0
            for number in list(self._waiting.waiting())[:-MAX_WAITING]:
                self._waiting.take(number)
        return self._placed(row)

    def _placed(self, row: DecodedFrame) -> DecodedFrame:
        row.connection = Connection(self.number, _text(self.client), _text(self.broker))
        try:
            row.time = EPOCH + timedelta(microseconds=self._micros)
        except OverflowError:  # the clock of the capture is wrong
            row.time = None
        return row

    def _not_kafka(self) -> DecodedFrame:
        """Return a row for a connection in which no frame was found."""
        searches = [side.search for side in self.sides.values()]
        received = sum(search.received for search in searches)
        error = f"no frame of Kafka's protocol was found in {quantity(received, 'byte')}, which begin with {searches[0].head!r}"
        for search in searches:
            if name := foreign_protocol(search.head, True):
                error = explain(name, search.head)
        return self._placed(DecodedFrame(REQUEST, 0, received, error=error))


def _other_protocol(search: FrameSearch) -> str | None:
    """Return an error message if the first bytes of a stream are not those of Kafka's protocol."""
    head = search.head
    if name := foreign_protocol(head, False):
        return explain(name, head)
    if search.kind == REQUEST and len(head) == REQUEST_HEAD_BYTES and not is_request_head(head):
        return f"the stream is not Kafka's protocol: its first bytes are {head!r}"
    return None


def _text(endpoint: Endpoint) -> str:
    address = ip_address(endpoint[0])
    return f"{f'[{address}]' if address.version == 6 else address}:{endpoint[1]}"


class Capture:
    """Iterator over the frames in packet captures, which `read_capture` returns.

    Attributes
    ----------
    messages : list of str
        Messages about packets that were not read, for example because the file ends inside a
        packet. The list is complete after the last frame.
    """

    def __init__(
        self,
        sources: Collection[str | os.PathLike[str] | BinaryIO],
        ports: Collection[int],
        topic_names: TopicNames,
        default: tuple[int, int] | None,
    ) -> None:
        self.messages: list[str] = []
        self._reader = PacketReader()
        self._sources = sources
        self._ports = frozenset(ports)
        self._names = topic_names
        self._default = default
        self._tracked: dict[tuple[Endpoint, Endpoint], _Tracked] = {}  # the latest one last
        self._count = 0
        self._dropped = 0
        self._errors: list[StructureError] = []
        self._frames = self._read()

    def __iter__(self) -> Iterator[DecodedFrame]:
        return self

    def __next__(self) -> DecodedFrame:
        return next(self._frames)

    def _read(self) -> Iterator[DecodedFrame]:
        rows = 0
        for row in self._rows():
            rows += 1
            yield self._names.complete(row)
        self.messages += self._reader.messages + self._reader.describe_unread()
        if self._dropped:
            text = f"more than {counted(MAX_CONNECTIONS, 'connection')} were open"
            self.messages.append(
                f"{text}; {counted(self._dropped, 'connection')} without traffic was decoded in two parts"
            )
        if self._errors:
            self.messages += [error.message for error in self._errors[1:]]
            raise self._errors[0]
        if not self._reader.segments:
            raise StructureError(
                f"the capture contains no TCP segment; it has {counted(self._reader.packets, 'packet')}"
            )
        if not rows:
            at = f" to port {', '.join(map(str, sorted(self._ports)))}" if self._ports else ""
            raise StructureError(
                f"the capture contains no data of a connection{at}; it has {counted(self._reader.segments, 'TCP segment')}"
            )

    def _rows(self) -> Iterator[DecodedFrame]:
        for source in self._sources:
            opened: tuple[str, AbstractContextManager[BinaryIO]]
            if isinstance(source, str | os.PathLike):
                opened = str(source), open(source, "rb")
            else:
                opened = "the stream", nullcontext(source)
            name, context = opened
            with context as stream:
                try:
                    for segment in self._reader.read(stream, name):
                        yield from self._add(segment)
                except StructureError as error:
                    self._errors.append(error)
        for tracked in list(self._tracked.values()):
            yield from tracked.finish()

    def _add(self, segment: Segment) -> Iterator[DecodedFrame]:
        ends = segment.source, segment.target
        if self._ports and self._ports.isdisjoint(port for _, port in ends):
            return
        key = (min(ends), max(ends))
        tracked = self._tracked.pop(key, None)
        if tracked is not None and not tracked.is_continued_by(segment):
            yield from tracked.finish()
            tracked = None
        if tracked is None:
            if not segment.data and not segment.flags & SYN:
                return
            tracked = self._track(segment)
        self._tracked[key] = tracked
        yield from tracked.add(segment)
        if len(self._tracked) > MAX_CONNECTIONS:
            oldest = self._tracked.pop(next(iter(self._tracked)))
            self._dropped += not oldest.ended
            yield from oldest.finish()

    def _track(self, segment: Segment) -> _Tracked:
        self._count += 1
        client, broker, guessed = segment.source, segment.target, False
        if segment.flags & SYN:
            if segment.acknowledged is not None:
                client, broker = broker, client
        elif broker[1] not in self._ports:
            client, broker, guessed = (broker, client, False) if client[1] in self._ports else (client, broker, True)
        return _Tracked(self._count, client, broker, guessed, self._default)


def read_capture(
    *sources: str | os.PathLike[str] | BinaryIO,
    ports: Collection[int] = (),
    topic_names: Mapping[UUID, str] | None = None,
    api: int | str | None = None,
    api_version: int | None = None,
) -> Capture:
    """Decode the connections of Kafka in packet captures, such as those of tcpdump and Wireshark.

    Parameters
    ----------
    *sources : str, os.PathLike or binary stream
        Captures in the format pcap or pcapng. Several captures are read one after another, as one
        capture.
    ports : collection of int, optional
        Ports of brokers. Connections to all other ports are ignored. By default, all connections
        are decoded.
    topic_names : dict of UUID to str, optional
        Names of topics by id. Names in messages that were decoded before, such as Metadata
        responses, are also used.
    api : int or str, optional
        Key or name of the API of responses that match no request. By default, such a response is an
        error.
    api_version : int, optional
        API version of responses that match no request.

    Returns
    -------
    Capture
        Iterator over `DecodedFrame` objects, in the order in which the frames were complete. Their
        attributes `connection` and `time` are set. A part of a stream that cannot be decoded is an
        item with an `error`, for example because packets are missing in the capture. A connection
        of another protocol is one item with an `error`.

    Raises
    ------
    ModuleNotFoundError
        The package dpkt is not installed.
    OSError
        A capture cannot be read.
    StructureError
        A source is not a capture, or is damaged, or contains no TCP connection with data. This
        error is raised after everything that can be read.

    Notes
    -----
    Ethernet with and without VLAN tags, Linux cooked captures (SLL and SLL2), loopback and raw IP are
    supported. IP fragments are not reassembled. If the client is not visible from a SYN or from
    `ports`, it is the side that sends a request.
    """
    return Capture(sources, ports, TopicNames(topic_names or {}), default_api(api, api_version))
