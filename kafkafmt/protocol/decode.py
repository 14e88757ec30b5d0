"""Decode the bytes that a client and a broker have sent over a connection."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from ..errors import KafkaFormatError, StructureError, UnsupportedError
from ..support.text import quantity
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

    def to_dict(self) -> dict[str, Any]:
        """Return the frame as the JSON object that ``kafkafmt decode --format json`` prints."""
        row: dict[str, Any] = {
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
        return row | ({"trailingBytes": self.trailing_bytes} if self.trailing_bytes else {})

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


def _token(direction: str, position: int, frame: memoryview) -> DecodedFrame:
    """Return a row for a frame that contains a SASL token. Its body is that of SaslAuthenticate."""
    token = bytes(frame[SIZE_BYTES:])
    body = {"authBytes": base64.b64encode(token).decode()}
    return DecodedFrame(direction, position, len(frame), body=body, token=token)


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
    tokens = False
    for position, size, frame, error in _frames(stream):
        row, header, has_response = DecodedFrame(REQUEST, position, size), None, True
        try:
            if frame is None:
                raise StructureError(error)
            header, end = read_request_header(frame)
            row._name_api(header.api_key, header.api_version)
            row.correlation_id = header.correlation_id
            row.header = to_json(header, header_version(REQUEST, header.api_key, header.api_version))
            body, trailing = read_request_body(frame, header, end)
            row._set_body(body, header.api_version, trailing)
            has_response = Request(header, body).has_response
        except KafkaFormatError as failure:
            row.error = error or str(failure)
        if tokens and frame is not None and (row.error is not None or row.trailing_bytes):
            yield _token(REQUEST, position, frame)
            continue
        tokens = row._begins_tokens
        if header is not None and has_response:
            waiting.expect(header.correlation_id, header.api_key, header.api_version)
        yield row


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
    default = None if api is None or api_version is None else (apis.key_of(api), api_version)
    tokens = False
    for position, size, frame, error in _frames(stream):
        row = DecodedFrame(RESPONSE, position, size)
        answered = None
        try:
            if frame is None:
                raise StructureError(error)
            row.correlation_id = correlation_id_of(frame)
            answered = waiting.take(row.correlation_id)
            found = answered or default
            if found is None:
                row.unmatched = True
                raise StructureError(f"no request has correlation id {row.correlation_id}", SIZE_BYTES)
            key, version = found
            row._name_api(key, version)
            header, end = read_response_header(frame, key, version)
            row.header = to_json(header, header_version(RESPONSE, key, version))
            body, row.api_version, trailing = read_response_body(frame, end, key, version)
            row._set_body(body, row.api_version, trailing)
        except KafkaFormatError as failure:
            row.error = error or str(failure)
        if tokens and frame is not None and answered is None and (row.error is not None or row.trailing_bytes):
            yield _token(RESPONSE, position, frame)
            continue
        tokens = row._begins_tokens
        yield row
