"""Decode the bytes that a client and a broker have sent over a connection."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO
from uuid import UUID

from ..errors import KafkaFormatError, StructureError, UnsupportedError
from ..messages.as_json import uuid_text
from ..support.text import quantity
from ..types import Buffer, byte_view
from . import apis
from .apis import SASL_HANDSHAKE
from .foreign import HEAD_BYTES, ends_inside, explain, foreign_protocol
from .frames import (
    SIZE_BYTES,
    correlation_id_of,
    header_version,
    read_request_body,
    read_request_header,
    read_response_body,
    read_response_header,
)
from .message_classes import REQUEST, RESPONSE, Message, UnknownBody, to_json
from .requests import Request
from .streams import Correlation, FrameSplitter

CHUNK = 1 << 20
MAX_FRAME = 2**31 - 1
"""Largest frame of the protocol, in bytes. Memory is allocated only for bytes that were read."""


@dataclass(frozen=True)
class Connection:
    """A TCP connection in a packet capture.

    Attributes
    ----------
    number : int
        Number of the connection, starting at 1, in the order of the first packets. Two connections
        with the same addresses have different numbers.
    client, broker : str
        Addresses and ports, such as "10.0.0.7:50412" and "[2001:db8::9]:9092".
    """

    number: int
    client: str
    broker: str


@dataclass
class DecodedFrame:
    """A request or response from a stream of bytes. Fields that could not be decoded are None.

    Attributes
    ----------
    direction : {"request", "response"}
        Whether the frame contains a request or a response.
    position, size : int
        Position of the frame in the stream, and its size including the size field, in bytes.
    api_key, api_version, correlation_id : int or None
        Values from the header. For a response, the API key and version are those of its request.
    api : str or None
        Name of the API. None if the API key is unknown.
    header : dict
        The header, in the form that Kafka's JsonConverter writes.
    message : Message, UnknownBody or None
        The body. It is an `UnknownBody` if its API or version is unknown.
    body : object
        The body, in the form that Kafka's JsonConverter writes. None if there is an error.
    error : str or None
        Reason why the frame could not be decoded. None if it was decoded.
    unmatched : bool
        Whether the frame is a response for which no matching request was found.
    trailing_bytes : int
        Number of bytes in the frame after the body.
    undecoded_bytes : int or None
        Size of the body in bytes, if its API or version is unknown. Otherwise None.
    token : bytes or None
        The SASL token in the frame. After SaslHandshake version 0, clients and brokers send tokens
        without a header. None for all other frames.
    topic_names : dict of UUID to str
        Names of topics of which the frame contains only the id. `read_capture` sets them.
    connection : Connection or None
        Connection of the frame. Only frames of `read_capture` have one.
    time : datetime or None
        Time of the packet with which the frame was complete, in UTC. Only frames of `read_capture`
        have a time.
    """

    direction: str
    position: int
    size: int
    api_key: int | None = None
    api: str | None = None
    api_version: int | None = None
    correlation_id: int | None = None
    header: dict[str, Any] = field(default_factory=dict)
    message: Message | UnknownBody | None = None
    body: Any = None
    error: str | None = None
    unmatched: bool = False
    trailing_bytes: int = 0
    undecoded_bytes: int | None = None
    token: bytes | None = None
    topic_names: dict[UUID, str] = field(default_factory=dict)
    connection: Connection | None = None
    time: datetime | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the frame as the JSON object that ``kafkafmt decode --format json`` prints."""
        row: dict[str, Any] = {}
        if self.connection is not None:
            row = {
                "time": self.time_text,
                "connection": self.connection.number,
                "client": self.connection.client,
                "broker": self.connection.broker,
            }
        row |= {
            "direction": self.direction,
            "position": self.position,
            "bytes": self.size,
            "apiKey": self.api_key,
            "api": self.api,
            "apiVersion": self.api_version,
            "correlationId": self.correlation_id,
            "header": self.header,
        }
        if self.undecoded_bytes is not None:
            row["undecodedBytes"] = self.undecoded_bytes
        if self.error is not None:
            return row | {"error": self.error}
        row["body"] = self.body
        if self.topic_names:
            row["topicNames"] = {uuid_text(topic_id): name for topic_id, name in self.topic_names.items()}
        return row | ({"trailingBytes": self.trailing_bytes} if self.trailing_bytes else {})

    @property
    def time_text(self) -> str | None:
        """The time in ISO format, with microseconds. None if the frame has no time."""
        return None if self.time is None else self.time.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"

    def _name_api(self, key: int, version: int) -> None:
        known = apis.api(key)
        self.api_key, self.api, self.api_version = key, None if known is None else known.name, version

    def _set_body(self, message: Message | UnknownBody, version: int, trailing: Any) -> None:
        """Store the body of the frame. Raise `UnsupportedError` if its API or version is unknown."""
        self.message = message
        if isinstance(message, UnknownBody):
            self.undecoded_bytes = len(message.data)
            raise UnsupportedError(message.why(), self.size - len(message.data))
        self.body = to_json(message, version)
        self.trailing_bytes = len(trailing)

    @property
    def _begins_tokens(self) -> bool:
        return self.api_key == SASL_HANDSHAKE and self.api_version == 0 and self.error is None


def _token(direction: str, position: int, frame: Buffer) -> DecodedFrame:
    """Return a row for a frame that contains a SASL token. Its body is that of SaslAuthenticate."""
    token = bytes(byte_view(frame)[SIZE_BYTES:])
    body = {"authBytes": base64.b64encode(token).decode()}
    return DecodedFrame(direction, position, SIZE_BYTES + len(token), body=body, token=token)


def _frames(stream: Any) -> Iterator[tuple[int, int, memoryview | None, str]]:
    """Yield (position, size, frame, error) for each frame. For a complete one, `error` is ""."""
    # If the stream ends inside a frame, has a wrong size field, or is of another protocol, the last
    # tuple describes the rest of the stream: `frame` is None, and `error` is a message.
    splitter, position, head = FrameSplitter(MAX_FRAME), 0, b""
    try:
        while data := stream.read1(CHUNK):  # unlike read(), read1() does not wait for CHUNK bytes
            if len(head) < HEAD_BYTES:
                head = (head + data[:HEAD_BYTES])[:HEAD_BYTES]
                if (name := foreign_protocol(head, False)) is not None:
                    yield 0, splitter.buffered + len(data), None, explain(name, head)
                    return
            for frame in splitter.feed(data):
                yield position, len(frame), frame, ""
                position += len(frame)
    except KafkaFormatError as error:
        yield position, splitter.buffered, None, error.message
        return
    if splitter.buffered:
        why = ends_inside(splitter.head(HEAD_BYTES), quantity(splitter.buffered, "byte"))
        yield position, splitter.buffered, None, why


class RequestDecoder:
    """Decodes the frames of one client in order, and adds the requests to `waiting`."""

    def __init__(self, waiting: Correlation) -> None:
        self._waiting = waiting
        self._tokens = False

    def decode(self, position: int, size: int, frame: Buffer | None, error: str = "") -> DecodedFrame:
        """Decode a frame. If there is an `error`, decode only the header in `frame`, if there is one."""
        row, header, has_response = DecodedFrame(REQUEST, position, size), None, True
        try:
            if frame is None:
                raise StructureError(error)
            header, end = read_request_header(frame)
            row._name_api(header.api_key, header.api_version)
            row.correlation_id = header.correlation_id
            row.header = to_json(header, header_version(REQUEST, header.api_key, header.api_version))
            if error:
                raise StructureError(error)
            body, trailing = read_request_body(frame, header, end)
            row._set_body(body, header.api_version, trailing)
            has_response = Request(header, body).has_response
        except KafkaFormatError as failure:
            row.error = error or str(failure)
        if self._tokens and frame is not None and not error and (row.error is not None or row.trailing_bytes):
            return _token(REQUEST, position, frame)
        self._tokens = row._begins_tokens
        if header is not None and has_response:
            self._waiting.expect(header.correlation_id, header.api_key, header.api_version)
        return row


class ResponseDecoder:
    """Decodes the frames of one broker in order. `default` is the API and version of responses that match no request."""

    def __init__(self, waiting: Correlation, default: tuple[int, int] | None = None) -> None:
        self._waiting = waiting
        self._default = default
        self._tokens = False

    def decode(self, position: int, size: int, frame: Buffer | None, error: str = "") -> DecodedFrame:
        """Decode a frame. If there is an `error`, decode only the header in `frame`, if there is one."""
        row = DecodedFrame(RESPONSE, position, size)
        answered = None
        try:
            if frame is None:
                raise StructureError(error)
            row.correlation_id = correlation_id_of(frame)
            answered = self._waiting.take(row.correlation_id)
            found = answered or self._default
            if found is None:
                row.unmatched = not error
                raise StructureError(f"no request has correlation id {row.correlation_id}", SIZE_BYTES)
            key, version = found
            row._name_api(key, version)
            header, end = read_response_header(frame, key, version)
            row.header = to_json(header, header_version(RESPONSE, key, version))
            if error:
                raise StructureError(error)
            body, row.api_version, trailing = read_response_body(frame, end, key, version)
            row._set_body(body, row.api_version, trailing)
        except KafkaFormatError as failure:
            row.error = error or str(failure)
        wrong = row.error is not None or bool(row.trailing_bytes)
        if self._tokens and frame is not None and not error and answered is None and wrong:
            return _token(RESPONSE, position, frame)
        self._tokens = row._begins_tokens
        return row


def decode_requests(stream: BinaryIO, waiting: Correlation) -> Iterator[DecodedFrame]:
    """Decode the requests that a client sent.

    Parameters
    ----------
    stream : binary stream with the method read1
        Consecutive frames, each with a size field at its start.
    waiting : Correlation
        Object to which the requests are added, so that `decode_responses` can match responses to
        them.

    Yields
    ------
    DecodedFrame
        One item for each frame. If a frame cannot be decoded, its `error` contains the reason, and
        decoding continues with the next frame. If the stream ends inside a frame or a size field is
        negative, the last item has an error.
    """
    decoder = RequestDecoder(waiting)
    for position, size, frame, error in _frames(stream):
        yield decoder.decode(position, size, frame, error)


def decode_responses(
    stream: BinaryIO, waiting: Correlation, api: int | str | None = None, api_version: int | None = None
) -> Iterator[DecodedFrame]:
    """Decode the responses that a broker sent.

    Parameters
    ----------
    stream : binary stream with the method read1
        Consecutive frames, each with a size field at its start.
    waiting : Correlation
        Requests that were decoded before. Responses are matched to them by correlation id.
    api : int or str, optional
        Key or name of the API of responses that match no request. By default, such a response is an
        error.
    api_version : int, optional
        API version of responses that match no request.

    Yields
    ------
    DecodedFrame
        One item for each frame. If a frame cannot be decoded, its `error` contains the reason, and
        decoding continues with the next frame. If the stream ends inside a frame or a size field is
        negative, the last item has an error.
    """
    decoder = ResponseDecoder(waiting, default_api(api, api_version))
    for position, size, frame, error in _frames(stream):
        yield decoder.decode(position, size, frame, error)


def default_api(api: int | str | None, api_version: int | None) -> tuple[int, int] | None:
    """Return the API key and version of responses that match no request, or None if one of both is None."""
    return None if api is None or api_version is None else (apis.key_of(api), api_version)
