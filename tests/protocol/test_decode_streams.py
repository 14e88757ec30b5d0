"""Check the typed rows that `protocol.decode_requests` and `decode_responses` return for a connection."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import pytest

from kafkafmt import protocol


def request(correlation_id: int) -> bytes:
    """Return the frame of an ApiVersions request."""
    body = protocol.ApiVersionsRequest(client_software_name="test", client_software_version="1")
    made = protocol.make_request(body, api_version=3, correlation_id=correlation_id, client_id="me")
    return b"".join(bytes(part) for part in protocol.write_request(made))


def response(correlation_id: int) -> bytes:
    """Return the frame of a response with a given correlation id."""
    body = protocol.ApiVersionsResponse(error_code=0)
    made = protocol.make_response(body, api_version=3, correlation_id=correlation_id)
    return b"".join(bytes(part) for part in protocol.write_response(made))


def stream(*frames: bytes) -> io.BufferedReader:
    return io.BufferedReader(io.BytesIO(b"".join(frames)))


def test_responses_are_matched_to_requests() -> None:
    waiting = protocol.Correlation()
    sent = list(protocol.decode_requests(stream(request(1), request(2)), waiting))
    assert [(f.direction, f.api, f.api_version, f.correlation_id) for f in sent] == [
        ("request", "ApiVersions", 3, 1),
        ("request", "ApiVersions", 3, 2),
    ]
    assert [f.position for f in sent] == [0, len(request(1))]
    assert sent[0].header["clientId"] == "me"
    assert sent[0].to_dict()["body"] == sent[0].body
    received = list(protocol.decode_responses(stream(response(2), response(1)), waiting))
    assert [(f.api, f.correlation_id, f.error) for f in received] == [
        ("ApiVersions", 2, None),
        ("ApiVersions", 1, None),
    ]
    assert isinstance(received[0].message, protocol.ApiVersionsResponse)


def test_response_without_a_request_needs_an_api() -> None:
    (frame,) = protocol.decode_responses(stream(response(7)), protocol.Correlation())
    assert (frame.unmatched, frame.error) == (True, "no request has correlation id 7 (position 4)")
    assert "body" not in frame.to_dict()
    (frame,) = protocol.decode_responses(stream(response(7)), protocol.Correlation(), "ApiVersions", 3)
    assert (frame.unmatched, frame.error, frame.api) == (False, None, "ApiVersions")


def test_stream_that_ends_inside_a_frame_ends_with_an_error() -> None:
    first, last = protocol.decode_requests(stream(request(1), request(2)[:9]), protocol.Correlation())
    assert first.error is None
    assert (last.position, last.size) == (len(request(1)), 9)
    assert last.error == "the stream ends inside a frame, after 9 bytes of the frame; the size field is 21"
    (last,) = protocol.decode_requests(stream(b"\0\0\0"), protocol.Correlation())
    assert last.error == "the stream ends inside a frame, after 3 bytes of the frame"


FOREIGN = {
    b"GET / HTTP/1.1\r\nHost: broker:9092\r\n\r\n": ("an HTTP request", 0x47455420),
    b"POST /topics HTTP/1.1\r\n\r\n": ("an HTTP request", 0x504F5354),
    b"OPTIONS * HTTP/1.1\r\n\r\n": ("an HTTP request", 0x4F505449),
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": ("an HTTP request", 0x50524920),
    b"HTTP/1.1 400 Bad Request\r\n\r\n": ("an HTTP response", 0x48545450),
    b"\x16\x03\x01\x02\x00\x01" + bytes(511): ("TLS", 0x16030102),
    b"\x16\x03\x03\x00\x7a\x02" + bytes(121): ("TLS", 0x16030300),
    b"\x15\x03\x03\x00\x02\x02\x46": ("TLS", 0x15030300),
    b"\x17\x03\x03\x00\x30" + bytes(48): ("TLS", 0x17030300),
    b"SSH-2.0-OpenSSH_9.6\r\n": ("SSH", 0x5353482D),
    b"PROXY TCP4 192.0.2.1 192.0.2.2 4000 9092\r\n" + request(1): ("the PROXY protocol version 1", 0x50524F58),
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(12) + request(1): ("the PROXY protocol version 2", 0x0D0A0D0A),
}


class Slow(io.BytesIO):
    """A stream from which each read returns one byte."""

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read(1)


@pytest.mark.parametrize("decode", [protocol.decode_requests, protocol.decode_responses])
@pytest.mark.parametrize("data", FOREIGN, ids=lambda data: repr(data[:9]))
def test_stream_of_another_protocol_is_named(
    decode: Callable[..., Iterator[protocol.DecodedFrame]], data: bytes
) -> None:
    name, size = FOREIGN[data]
    for given in (stream(data), Slow(data)):
        (row,) = decode(given, protocol.Correlation())
        assert row.position == 0
        assert row.error is not None
        assert row.error.startswith(
            f"the stream is not Kafka's protocol but {name}: the size field is {size}, the bytes "
        )


def test_frame_whose_size_resembles_tls_is_decoded() -> None:
    """A response of 350 MB has the first two bytes of a TLS record."""
    frame = (0x16030000).to_bytes(4, "big") + (7).to_bytes(4, "big")
    (row,) = protocol.decode_responses(stream(frame + bytes(0x16030000 - 4)), protocol.Correlation())
    assert row.error == "no request has correlation id 7 (position 4)"


def tokens(*frames: bytes) -> list[bytes]:
    return [len(frame).to_bytes(4, "big") + frame for frame in frames]


def handshake(kind: str, version: int) -> bytes:
    if kind == "request":
        asked = protocol.make_request(protocol.SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), version, 5, "me")
        return b"".join(map(bytes, protocol.write_request(asked)))
    answered = protocol.make_response(protocol.SaslHandshakeResponse(mechanisms=["SCRAM-SHA-256"]), version, 5)
    return b"".join(map(bytes, protocol.write_response(answered)))


SENT = (b"n,,n=user,r=abc", b"c=biws,r=abcdef,p=c2VjcmV0", b"\0user\0secret", b"\x60\x82\x01\x02", b"")
RECEIVED = (b"r=abcdef,s=c2FsdA==,i=4096", b"v=c2ln", b"", b"xyz")


def test_sasl_tokens_after_handshake_version_0_are_opaque() -> None:
    waiting = protocol.Correlation()
    sent = list(
        protocol.decode_requests(stream(handshake("request", 0), *tokens(*SENT), request(6), request(7)), waiting)
    )
    assert [row.token for row in sent] == [None, *SENT, None, None]
    assert [row.error for row in sent] == [None] * 8
    assert sent[3].to_dict() == {
        "direction": "request", "position": sent[2].position + sent[2].size, "bytes": 16, "apiKey": None, "api": None,
        "apiVersion": None, "correlationId": None, "header": {}, "body": {"authBytes": "AHVzZXIAc2VjcmV0"},
    }  # fmt: skip
    received = list(
        protocol.decode_responses(
            stream(handshake("response", 0), *tokens(*RECEIVED), response(6), response(7)), waiting
        )
    )
    assert [row.token for row in received] == [None, *RECEIVED, None, None]
    assert [row.api for row in received][-2:] == ["ApiVersions", "ApiVersions"]
    assert len(waiting) == 0


def test_frames_after_other_requests_are_not_sasl_tokens() -> None:
    (token,) = tokens(SENT[2])
    for before in (handshake("request", 1), handshake("request", 0) + request(6)):
        rows = list(protocol.decode_requests(stream(before, token), protocol.Correlation()))
        assert rows[-1].token is None
        assert rows[-1].error is not None


def test_forgetting_an_unknown_request_does_nothing() -> None:
    waiting = protocol.Correlation()
    waiting.forget(5)
    waiting.expect(5, "ApiVersions", 3)
    assert waiting.take(5) == (18, 3)
    waiting.forget(5)
    assert len(waiting) == 0
    assert waiting.take(5) is None
