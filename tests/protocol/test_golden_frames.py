"""Check that both cores read recorded frames as Kafka's classes do, and restore their bytes."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest
from wire_golden import VERSIONS, Golden, fields_of, frames

from kafkafmt import protocol
from kafkafmt.errors import KafkaFormatError
from kafkafmt.messages import classes
from kafkafmt.protocol.requests import Request, Response


def read(golden: Golden) -> Request[Any] | Response[Any]:
    if golden.entry["direction"] == "request":
        return protocol.read_request(golden.frame)
    return protocol.read_response(
        golden.frame, api_key=golden.entry["api_key"], api_version=golden.entry["api_version"]
    )


def write(message: Request[Any] | Response[Any]) -> list[bytes | memoryview]:
    if isinstance(message, protocol.Request):
        return protocol.write_request(message)
    return protocol.write_response(message)


@pytest.mark.parametrize("version", VERSIONS)
def test_fields_are_those_that_kafka_reads(package: ModuleType, version: str) -> None:
    for golden in frames(version):
        message, entry = read(golden), golden.entry
        assert json.dumps(protocol.to_json(message.body, message.api_version)) == json.dumps(fields_of(entry)), (
            golden.name
        )
        assert (message.api_key, message.api, message.api_version) == (
            entry["api_key"],
            entry["api"],
            entry["api_version"],
        )
        assert message.correlation_id == entry["correlation_id"]
        if entry["direction"] == "request":
            assert message.client_id == entry["client_id"]
            assert message.has_response == entry["has_response"]


@pytest.mark.parametrize("version", VERSIONS)
def test_frames_are_written_back_unchanged(package: ModuleType, version: str) -> None:
    for golden in frames(version):
        assert b"".join(write(read(golden))) == golden.frame, golden.name


@pytest.mark.parametrize("version", VERSIONS)
def test_both_cores_read_equal_messages(
    native: ModuleType, pure: ModuleType, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_all(core: ModuleType) -> list[Request[Any] | Response[Any]]:
        monkeypatch.setattr(classes, "core", core)
        return [read(golden) for golden in frames(version)]

    assert read_all(native) == read_all(pure)


@pytest.mark.parametrize("version", VERSIONS)
def test_truncated_frame_raises_a_kafka_format_error(package: ModuleType, version: str) -> None:
    """Frames are truncated, and their size field is corrected. None of them can be read."""
    for golden in frames(version):
        if len(golden.frame) > 1500:
            continue
        for end in range(4, len(golden.frame)):
            cut = (end - 4).to_bytes(4, "big") + golden.frame[4:end]
            if golden.entry["api"] == "ApiVersions" and golden.entry["direction"] == "response":
                continue  # in version 0, a truncated response can be valid (see test_frames)
            with pytest.raises(KafkaFormatError) as error:
                read(golden._replace(frame=cut))
            assert 0 <= error.value.position <= end
