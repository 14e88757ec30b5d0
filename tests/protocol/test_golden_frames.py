"""Every recorded frame: read as Kafka's own classes read it, and written back byte for byte, on both cores."""

import json

import pytest
from wire_golden import VERSIONS, fields_of, frames

from kafkafmt import protocol
from kafkafmt.errors import KafkaFormatError
from kafkafmt.messages import classes


def read(golden):
    if golden.entry["direction"] == "request":
        return protocol.read_request(golden.frame)
    return protocol.read_response(
        golden.frame, api_key=golden.entry["api_key"], api_version=golden.entry["api_version"]
    )


def write(message):
    return (protocol.write_request if isinstance(message, protocol.Request) else protocol.write_response)(message)


@pytest.mark.parametrize("version", VERSIONS)
def test_fields_are_those_that_kafka_reads(package, version):
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
def test_written_back_byte_for_byte(package, version):
    for golden in frames(version):
        assert b"".join(write(read(golden))) == golden.frame, golden.name


@pytest.mark.parametrize("version", VERSIONS)
def test_both_cores_read_the_same(native, pure, version, monkeypatch):
    def read_all(core):
        monkeypatch.setattr(classes, "core", core)
        return [read(golden) for golden in frames(version)]

    assert read_all(native) == read_all(pure)


@pytest.mark.parametrize("version", VERSIONS)
def test_truncated_frame_raises_a_kafka_format_error(package, version):
    """With its size made right for what is left; no shorter frame of these can be read."""
    for golden in frames(version):
        if len(golden.frame) > 1500:
            continue
        for end in range(4, len(golden.frame)):
            cut = (end - 4).to_bytes(4, "big") + golden.frame[4:end]
            if golden.entry["api"] == "ApiVersions" and golden.entry["direction"] == "response":
                continue  # see test_frames: it may fall back
            with pytest.raises(KafkaFormatError) as error:
                read(golden._replace(frame=cut))
            assert 0 <= error.value.position <= end
