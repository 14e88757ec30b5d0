"""Check that bytes after a message, and unknown APIs and versions, are kept and counted."""

from __future__ import annotations

import base64
import copy
import json
import pickle
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from api_lookup import api_of
from command import kafkafmt

from kafkafmt import protocol
from kafkafmt.errors import KafkaFormatError, StructureError, TruncatedError
from kafkafmt.protocol import apis
from kafkafmt.protocol.message_classes import Kind

LIBRDKAFKA = bytes.fromhex("00000019 0003000d 00000004 0007 72646b61666b61 00 00000000 010000")
"""Metadata v13 for all topics, as librdkafka writes it: a null of one byte, where three more bytes
are reserved.
"""
NEWER_API_VERSIONS = bytes.fromhex("00000017 0012 0006 00000005 0001 78 00 02 61 02 62 00 ffffffff 00 aa")
"""A request ApiVersions v6."""


def framed(hexadecimal: str) -> bytes:
    data = bytes.fromhex(hexadecimal)
    return len(data).to_bytes(4, "big") + data


def rows(
    tmp_path: Path, requests: bytes = b"", responses: bytes = b"", *options: str, code: int = 0
) -> list[dict[str, Any]]:
    (tmp_path / "q").write_bytes(requests)
    (tmp_path / "a").write_bytes(responses)
    done = kafkafmt("decode", "--requests", tmp_path / "q", "--responses", tmp_path / "a", "--format", "json", *options)
    assert done.returncode == code, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def text(tmp_path: Path, requests: bytes, code: int) -> str:
    (tmp_path / "q").write_bytes(requests)
    done = kafkafmt("decode", "--requests", tmp_path / "q")
    assert done.returncode == code
    return done.stdout


def test_bytes_after_a_request_are_kept_and_written_back(package: ModuleType) -> None:
    request = protocol.read_request(LIBRDKAFKA)
    assert (request.api_version, request.topics, request.allow_auto_topic_creation, request.trailing) == (
        13,
        None,
        False,
        b"\1\0\0",
    )
    assert b"".join(protocol.write_request(request)) == LIBRDKAFKA
    assert copy.deepcopy(request) == pickle.loads(pickle.dumps(request)) == request
    assert protocol.make_request(protocol.MetadataRequest(), 13).trailing == b""


@pytest.mark.parametrize("kind", ["request", "response"])
def test_bytes_after_any_message_are_kept_and_written_back(package: ModuleType, kind: Kind) -> None:
    for key in apis.keys().values():
        message = protocol.message_class(key, kind)
        for version in range(message.VERSIONS.first, message.VERSIONS.last + 1):
            try:
                if kind == "request":
                    frame = b"".join(protocol.write_request(protocol.make_request(message(), version, 7)))
                else:
                    frame = b"".join(protocol.write_response(protocol.make_response(message(), version, 7)))
            except ValueError:
                continue  # a message whose default values cannot be written
            longer = (len(frame) - 4 + 5).to_bytes(4, "big") + frame[4:] + b"\xff\0\1\2\3"
            found: protocol.Request[Any] | protocol.Response[Any]
            if kind == "request":
                found = protocol.read_request(longer)
                written = protocol.write_request(found)
            else:
                found = protocol.read_response(longer, api_key=key, api_version=version)
                written = protocol.write_response(found)
            assert (found.trailing, found.api_key, found.api_version) == (b"\xff\0\1\2\3", key, version)
            assert b"".join(written) == longer


def test_trailing_bytes_are_kept_until_they_are_cleared() -> None:
    request = protocol.read_request(LIBRDKAFKA)
    assert isinstance(request.body, protocol.MetadataRequest)
    request.body.topics = [protocol.MetadataRequest.MetadataRequestTopic(name="orders")]
    frame = b"".join(protocol.write_request(request))
    assert frame.endswith(b"\1\0\0")
    assert protocol.read_request(frame) == request
    request.trailing = b""
    assert protocol.read_request(b"".join(protocol.write_request(request))).trailing == b""
    assert len(b"".join(protocol.write_request(request))) == len(frame) - 3


def test_trailing_bytes_follow_record_data_that_is_not_copied() -> None:
    body = protocol.ProduceRequest(topic_data=[protocol.ProduceRequest.TopicProduceData(name="t")])
    body.topic_data[0].partition_data = [protocol.ProduceRequest.PartitionProduceData(records=[b"abc", b"def"])]
    made = protocol.make_request(body, 8)
    made.trailing = b"xyz"
    frame = b"".join(protocol.write_request(made))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    read = protocol.read_request(frame)
    assert (bytes(read.topic_data[0].partition_data[0].records), read.trailing) == (b"abcdef", b"xyz")


def test_frame_that_ends_early_is_an_error() -> None:
    short = (len(LIBRDKAFKA) - 4 - 6).to_bytes(4, "big") + LIBRDKAFKA[4:-6]
    with pytest.raises(TruncatedError):
        protocol.read_request(short)
    with pytest.raises(StructureError):
        protocol.read_request(LIBRDKAFKA + b"\0")  # the byte is after the frame, not inside it
    with pytest.raises(TruncatedError):
        # Metadata v99 without the tagged fields in its header
        protocol.read_request(framed("0003 0063 00000001 ffff"))


def test_decode_counts_bytes_after_a_message(tmp_path: Path) -> None:
    plain = b"".join(protocol.write_request(protocol.make_request(protocol.MetadataRequest(), 13, 5)))
    first, second = rows(tmp_path, LIBRDKAFKA + plain)
    assert (first["trailingBytes"], first["body"]["topics"]) == (3, None)
    assert "trailingBytes" not in second
    lines = text(tmp_path, LIBRDKAFKA + plain, 0).splitlines()
    assert lines[0].endswith("  and 3 bytes after the message")
    assert "after" not in lines[1]


def test_newer_api_versions_request_is_read_from_its_header(package: ModuleType) -> None:
    request = protocol.read_request(NEWER_API_VERSIONS)
    assert (request.api, request.api_version, request.correlation_id, request.client_id) == ("ApiVersions", 6, 5, "x")
    assert request.body == protocol.UnknownBody("request", 18, 6, NEWER_API_VERSIONS[16:])
    assert request.has_response
    assert b"".join(protocol.write_request(request)) == NEWER_API_VERSIONS
    assert list(protocol.record_data(request.body)) == []


@pytest.mark.parametrize("key", sorted(apis.keys().values()))
def test_newer_version_of_any_api_is_kept_and_written_back(package: ModuleType, key: int) -> None:
    api = api_of(key)
    flexible = api.versions.last + 1 in api.flexible
    head = key.to_bytes(2, "big") + (api.versions.last + 1).to_bytes(2, "big") + b"\0\0\0\x09\0\1c" + b"\0" * flexible
    frame = (len(head) + 4).to_bytes(4, "big") + head + b"\1\2\3\4"
    request = protocol.read_request(frame)
    assert isinstance(request.body, protocol.UnknownBody)
    assert (request.client_id, request.api, request.body.data) == ("c", api.name, b"\1\2\3\4")
    assert b"".join(protocol.write_request(request)) == frame
    head = b"\0\0\0\x09" + b"\0" * (flexible and key != 18)
    frame = (len(head) + 4).to_bytes(4, "big") + head + b"\1\2\3\4"
    correlation = protocol.Correlation()
    correlation.sent(request)
    response = correlation.read_response(frame)
    assert isinstance(response.body, protocol.UnknownBody)
    assert (response.api_version, response.body.data, response.api_key) == (api.versions.last + 1, b"\1\2\3\4", key)
    assert b"".join(protocol.write_response(response)) == frame


@pytest.mark.parametrize(("key", "version"), [(999, 1), (999, 0), (-1, 3), (32767, -1), (3, -1), (95, 0)])
def test_unknown_api_key_or_negative_version_is_kept_and_written_back(
    package: ModuleType, key: int, version: int
) -> None:
    head = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + b"\0\0\0\x09\0\1c"
    frame = (len(head) + 3).to_bytes(4, "big") + head + b"\0ab"
    request = protocol.read_request(frame)
    assert isinstance(request.body, protocol.UnknownBody)
    assert (request.client_id, request.correlation_id, request.body.data) == ("c", 9, b"\0ab")
    assert request.api == ("Metadata" if key == 3 else None)
    assert b"".join(protocol.write_request(request)) == frame
    response = protocol.read_response(b"\0\0\0\6\0\0\0\x09ab", api_key=key, api_version=version)
    assert isinstance(response.body, protocol.UnknownBody)
    assert response.body.data == b"ab"
    assert b"".join(protocol.write_response(response)) == b"\0\0\0\6\0\0\0\x09ab"


def test_response_to_newer_api_versions_is_read_in_version_0(package: ModuleType) -> None:
    version = protocol.ApiVersionsResponse.ApiVersion(api_key=18, max_version=4)
    body = protocol.ApiVersionsResponse(error_code=35, api_keys=[version])
    answer = b"".join(protocol.write_response(protocol.make_response(body, 0, 5)))
    for asked in (4, 5, 6, 99):
        read = protocol.read_response(answer, api_key=18, api_version=asked)
        assert (read.api_version, read.body, read.trailing) == (0, body, b"")
        assert b"".join(protocol.write_response(read)) == answer
    newer = b"".join(
        protocol.write_response(protocol.make_response(protocol.ApiVersionsResponse(api_keys=[version]), 4, 5))
    )
    read = protocol.read_response(newer, api_key=18, api_version=6)  # a broker that supports version 6
    assert (read.api_version, type(read.body)) == (6, protocol.UnknownBody)


def test_unknown_body_is_written_only_in_its_version() -> None:
    request = protocol.read_request(NEWER_API_VERSIONS)
    request.header.api_version = 4
    with pytest.raises(ValueError, match="read as version 6"):
        protocol.write_request(request)
    request.header.api_version, request.header.api_key = 6, 3
    with pytest.raises(ValueError, match="api_key is 3"):
        protocol.write_request(request)
    with pytest.raises(TypeError, match="body must be a response"):
        protocol.make_response(request.body, 6)
    with pytest.raises(AttributeError):
        _ = request.client_software_name


def test_decode_reports_unknown_versions_and_their_bytes(tmp_path: Path) -> None:
    other = framed("03e7 0001 00000006 ffff 0000")
    (tmp_path / "q").write_bytes(NEWER_API_VERSIONS + other + LIBRDKAFKA)
    first, second, third = rows(tmp_path, NEWER_API_VERSIONS + other + LIBRDKAFKA, code=1)
    assert (first["api"], first["apiVersion"], first["correlationId"], first["undecodedBytes"]) == (
        "ApiVersions",
        6,
        5,
        11,
    )
    assert first["header"]["clientId"] == "x"
    assert first["error"] == (
        "ApiVersionsRequest version 6 is not supported (supported: 0 to 5); kafkafmt did not decode the 11 bytes of the body (position 16)"
    )
    assert "body" not in first
    assert (second["apiKey"], second["api"], second["undecodedBytes"]) == (999, None, 2)
    assert third["api"] == "Metadata"
    shown = text(tmp_path, NEWER_API_VERSIONS + other, 1).splitlines()
    assert "ApiVersions v6  #5  x  error: ApiVersionsRequest version 6 is not supported" in shown[0]
    assert (
        "API 999 v1  #6  error: API key 999 is not supported; kafkafmt did not decode the 2 bytes of the body"
        in shown[1]
    )


def test_decode_shows_responses_of_unknown_versions(tmp_path: Path) -> None:
    answer = framed("00000005 00 0102")
    (row,) = rows(tmp_path, b"", answer, "--api", "Metadata", "--api-version", "99", "--records", code=1)
    assert (row["api"], row["apiVersion"], row["undecodedBytes"]) == ("Metadata", 99, 2)
    assert "MetadataResponse version 99 is not supported" in row["error"]


def test_damaged_api_versions_response_is_an_error() -> None:
    body = protocol.ApiVersionsResponse(api_keys=[protocol.ApiVersionsResponse.ApiVersion(api_key=k) for k in range(9)])
    frame = b"".join(protocol.write_response(protocol.make_response(body, 4, 5)))
    for cut in range(8, len(frame)):
        with pytest.raises(KafkaFormatError):
            protocol.read_response((cut - 4).to_bytes(4, "big") + frame[4:cut], api_key=18, api_version=4)


def test_json_of_an_unknown_body_contains_its_bytes(package: ModuleType) -> None:
    request = protocol.read_request(NEWER_API_VERSIONS)
    assert isinstance(request.body, protocol.UnknownBody)
    assert protocol.to_json(request.body, request.api_version) == {
        "apiKey": 18,
        "api": "ApiVersions",
        "apiVersion": 6,
        "undecodedBytes": len(request.body.data),
        "data": base64.b64encode(request.body.data).decode(),
    }
    json.dumps(protocol.to_json(request.body, request.api_version))
    assert protocol.to_json(protocol.UnknownBody("response", 999, 3), 3)["api"] is None
