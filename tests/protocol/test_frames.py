"""Check frames, streams of frames, headers and correlation ids with the public API."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import tracemalloc
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_golden import frames

import kafkafmt
from kafkafmt import protocol
from kafkafmt.errors import KafkaFormatError, StructureError, TooLargeError, TruncatedError, UnsupportedError

REQUESTS = [g.frame for g in frames("1.1.1") if g.entry["direction"] == "request"]
STREAM = b"".join(REQUESTS)


def test_complete_frames_are_views_of_the_input() -> None:
    found = list(protocol.FrameSplitter().feed(STREAM))
    assert found == REQUESTS
    assert all(f.obj is STREAM and f.readonly for f in found)


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_splitter_accepts_a_stream_in_any_parts(cuts: list[int]) -> None:
    splitter = protocol.FrameSplitter()
    found: list[memoryview] = []
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(STREAM)], strict=True):
        found += splitter.feed(STREAM[start:end])
        assert splitter.position + splitter.buffered == end
        assert splitter.position == sum(map(len, found))
    assert found == REQUESTS
    assert splitter.buffered == 0


def test_splitter_accepts_single_bytes() -> None:
    splitter = protocol.FrameSplitter()
    assert [bytes(f) for i in range(len(STREAM)) for f in splitter.feed(STREAM[i : i + 1])] == REQUESTS


def test_frames_are_unchanged_if_the_input_buffer_is_reused() -> None:
    buffer = bytearray(STREAM[:300])
    found = list(protocol.FrameSplitter().feed(memoryview(buffer)))
    buffer[:] = bytes(300)
    assert found == REQUESTS[: len(found)]


@pytest.mark.parametrize("cut", [2, 4, 100])
def test_frame_above_the_limit_is_rejected_at_its_size(cut: int) -> None:
    splitter = protocol.FrameSplitter(max_size=1000)
    wire = REQUESTS[0] + (2**31 - 1).to_bytes(4, "big") + bytes(5000)
    assert [len(REQUESTS[0])] == [len(f) for f in splitter.feed(wire[: len(REQUESTS[0])])]
    start = len(REQUESTS[0])
    if cut < 4:
        assert list(splitter.feed(wire[start : start + cut])) == []
        start += cut
    with pytest.raises(TooLargeError) as error:
        list(splitter.feed(wire[start:]))
    assert error.value.position == len(REQUESTS[0])
    with pytest.raises(TooLargeError):
        list(splitter.feed(b""))


def test_frames_before_an_invalid_size_are_delivered() -> None:
    splitter = protocol.FrameSplitter()
    found: list[memoryview] = []
    with pytest.raises(StructureError):
        found.extend(f for f in splitter.feed(STREAM + b"\x80\0\0\0"))
    frames = splitter.feed(b"")
    with pytest.raises(StructureError):
        next(frames)
    splitter = protocol.FrameSplitter()
    feed = splitter.feed(STREAM + b"\x80\0\0\0")
    assert [next(feed) for _ in REQUESTS] == REQUESTS


def test_announced_size_allocates_no_memory() -> None:
    splitter = protocol.FrameSplitter(max_size=2**31 - 1)
    tracemalloc.start()
    assert list(splitter.feed((2**31 - 1).to_bytes(4, "big") + b"x")) == []
    for _ in range(100):
        assert list(splitter.feed(b"x")) == []
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


def test_request_and_response_are_written_and_read(package: ModuleType) -> None:
    request = protocol.MetadataRequest(topics=[protocol.MetadataRequest.MetadataRequestTopic(name="orders")])
    made = protocol.make_request(request, api_version=12, correlation_id=7, client_id="me")
    read = protocol.read_request(b"".join(protocol.write_request(made)))
    assert read == made
    assert read.topics[0].name == "orders"
    assert (read.header.client_id, read.api_key, read.api, read.api_version, read.correlation_id) == (
        "me",
        3,
        "Metadata",
        12,
        7,
    )
    body = protocol.FetchResponse()
    body.topics = topics = [protocol.FetchResponse.FetchableTopicResponse(topic="t")]
    assert body.responses is body.topics is topics
    answer = b"".join(protocol.write_response(protocol.make_response(body, api_version=4, correlation_id=7)))
    assert protocol.read_response(answer, api_key=1, api_version=4).topics[0].topic == "t"


def test_header_versions_are_those_of_kafka(package: ModuleType) -> None:
    def request(name: str, version: int) -> bytes:
        return b"".join(protocol.write_request(protocol.make_request(getattr(protocol, name)(), version, 1, "c")))

    def response(name: str, version: int) -> bytes:
        return b"".join(protocol.write_response(protocol.make_response(getattr(protocol, name)(), version, 1)))

    assert request("ControlledShutdownRequest", 0) == bytes.fromhex("0000000c 0007 0000 00000001 00000000")
    assert request("ControlledShutdownRequest", 1) == bytes.fromhex("0000000f 0007 0001 00000001 0001 63 00000000")
    assert request("HeartbeatRequest", 4)[4:].startswith(bytes.fromhex("000c 0004 00000001 0001 63 00"))
    assert request("SaslHandshakeRequest", 1) == bytes.fromhex("0000000d 0011 0001 00000001 0001 63 0000")
    assert response("HeartbeatResponse", 3) == bytes.fromhex("0000000a 00000001 00000000 0000")
    assert response("HeartbeatResponse", 4) == bytes.fromhex("0000000c 00000001 00 00000000 0000 00")
    assert response("ApiVersionsResponse", 4)[:8] == bytes.fromhex(
        "0000000c 00000001"
    )  # the body is flexible, but not the header
    assert len(response("ApiVersionsResponse", 4)) == 16


def test_unknown_tagged_fields_are_kept(package: ModuleType) -> None:
    header, body = protocol.RequestHeader, protocol.HeartbeatRequest
    made = protocol.make_request(body(group_id="g", unknown_tagged_fields=((3, b"abc"), (70000, b""))), 4, 1, "c")
    made.header.unknown_tagged_fields = ((0, b"x"),)
    assert isinstance(made.header, header)
    frame = b"".join(protocol.write_request(made))
    read = protocol.read_request(frame)
    assert isinstance(read.body, body)
    assert read.header.unknown_tagged_fields == ((0, b"x"),)
    assert read.body.unknown_tagged_fields == ((3, b"abc"), (70000, b""))
    assert b"".join(protocol.write_request(read)) == frame
    assert "unknown_tagged_fields=((3, b'abc')" in repr(read.body)


def test_api_versions_response_can_have_version_0(package: ModuleType) -> None:
    """A broker that does not support the requested version responds in version 0, with error 35."""
    answer = protocol.ApiVersionsResponse(
        error_code=35, api_keys=[protocol.ApiVersionsResponse.ApiVersion(api_key=18, max_version=3)]
    )
    frame = b"".join(protocol.write_response(protocol.make_response(answer, 0, 5)))
    for asked in (0, 1, 2, 3, 4):
        read = protocol.read_response(frame, api_key=18, api_version=asked)
        assert (read.api_version, read.error_code, read.api_keys) == (0, 35, answer.api_keys)
    with pytest.raises(KafkaFormatError):
        protocol.read_response(frame[:-1], api_key=18, api_version=3)


@pytest.mark.parametrize(
    ("frame", "error", "position"),
    [
        (b"", TruncatedError, 0),
        (b"\0\0\0", TruncatedError, 0),
        (b"\0\0\0\5abcd", TruncatedError, 0),
        (b"\0\0\0\3abcd", StructureError, 0),
        (b"\xff\xff\xff\xffabcd", StructureError, 0),
        (b"\0\0\0\4abcd", TruncatedError, 4),
        (
            b"\0\0\0\x0a\0\3\0\x63\0\0\0\1\xff\xff",
            TruncatedError,
            14,
        ),  # Metadata 99 has header version 2. Its tagged fields are missing in this frame.
    ],
)
def test_invalid_frame_is_an_error(
    package: ModuleType, frame: bytes, error: type[KafkaFormatError], position: int
) -> None:
    with pytest.raises(KafkaFormatError) as raised:
        protocol.read_request(frame)
    assert type(raised.value) is error
    assert raised.value.position == position


def test_wrong_arguments_are_rejected() -> None:
    request = protocol.make_request(protocol.FetchRequest(), 4)
    with pytest.raises(TypeError):
        protocol.write_response(request)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        protocol.write_request(protocol.Request(request.header, protocol.FetchRequest.FetchTopic()))
    with pytest.raises(UnsupportedError):
        protocol.write_request(protocol.make_request(protocol.FetchRequest(), 99))
    request.header.api_key = 3
    with pytest.raises(ValueError, match="api_key is 3"):
        protocol.write_request(request)
    with pytest.raises(AttributeError):
        protocol.NonsenseRequest  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ValueError):
        protocol.FrameSplitter(-1)


def test_correlation_matches_responses_to_requests() -> None:
    correlation = protocol.Correlation()
    for body, version, number in (
        (protocol.ApiVersionsRequest(), 0, 1),
        (protocol.ProduceRequest(acks=0), 3, 2),
        (protocol.ProduceRequest(acks=1), 3, 3),
        (protocol.HeartbeatRequest(), 4, 1),  # the correlation id of a request without a response
    ):
        correlation.sent(protocol.make_request(body, version, number))
    assert len(correlation) == 3

    def answer(name: str, version: int, number: int) -> bytes:
        return b"".join(protocol.write_response(protocol.make_response(getattr(protocol, name)(), version, number)))

    assert correlation.read_response(answer("ApiVersionsResponse", 0, 1)).api == "ApiVersions"
    assert correlation.read_response(answer("HeartbeatResponse", 4, 1)).api == "Heartbeat"
    assert correlation.read_response(answer("ProduceResponse", 3, 3)).api_version == 3
    with pytest.raises(StructureError, match="correlation id 2"):
        correlation.read_response(answer("ProduceResponse", 3, 2))
    assert len(correlation) == 0


def test_messages_have_copy_pickle_and_repr() -> None:
    request = protocol.FetchRequest
    body = request(
        max_wait_ms=5, topics=[request.FetchTopic(topic="t", partitions=[request.FetchPartition(fetch_offset=9)])]
    )
    assert pickle.loads(pickle.dumps(body)) == copy.deepcopy(body) == body
    assert copy.deepcopy(body).topics[0] is not body.topics[0]
    assert pickle.loads(pickle.dumps(protocol.make_request(body, 4, 1))) == protocol.make_request(body, 4, 1)
    assert (
        repr(body)
        == "FetchRequest(max_wait_ms=5, topics=[FetchTopic(topic='t', partitions=[FetchPartition(fetch_offset=9)])])"
    )
    assert body != request()
    assert inspect.signature(request).parameters["cluster_id"].annotation == str | None
    assert inspect.signature(request).parameters["max_bytes"].default == 2**31 - 1
    assert dataclasses.replace(body, max_wait_ms=6).max_wait_ms == 6
    with pytest.raises(AttributeError):
        body.no_such_field = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        request(no_such_field=1)  # type: ignore[call-arg]
    assert "FetchRequest" in dir(protocol)
    assert kafkafmt.protocol is protocol


def test_error_codes_have_names_and_messages() -> None:
    code = protocol.ErrorCode(6)
    assert code == 6
    assert code is protocol.ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code.retriable
    assert not protocol.ErrorCode.OFFSET_OUT_OF_RANGE.retriable
    assert all(c.message for c in protocol.ErrorCode)
