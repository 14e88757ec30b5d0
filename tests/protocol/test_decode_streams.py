"""Check the typed rows that `protocol.decode_requests` and `decode_responses` return for a connection."""

from __future__ import annotations

import io

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
    assert last.error == "the stream ends inside a frame, after 9 bytes of the frame"


def test_forgetting_an_unknown_request_does_nothing() -> None:
    waiting = protocol.Correlation()
    waiting.forget(5)
    waiting.expect(5, "ApiVersions", 3)
    assert waiting.take(5) == (18, 3)
    waiting.forget(5)
    assert len(waiting) == 0
    assert waiting.take(5) is None
