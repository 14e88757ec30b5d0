"""Every recorded frame: read as Kafka's own classes read it, and written back byte for byte, on both cores."""

import json

import pytest
from wire_golden import VERSIONS, fields_of, frames

from kafkafmt import protocol
from kafkafmt.errors import KafkaFormatError


def read(golden, core):
    if golden.entry["direction"] == "request":
        return protocol.read_request(golden.frame, core=core)
    return protocol.read_response(golden.frame, api_key=golden.entry["api_key"], api_version=golden.entry["api_version"], core=core)


def write(message, core):
    return (protocol.write_request if isinstance(message, protocol.Request) else protocol.write_response)(message, core=core)


@pytest.mark.parametrize("version", VERSIONS)
def test_fields_are_those_that_kafka_reads(core, version):
    for golden in frames(version):
        message, entry = read(golden, core), golden.entry
        assert json.dumps(protocol.to_json(message.body, message.api_version)) == json.dumps(fields_of(entry)), golden.name
        assert (message.api_key, message.api, message.api_version) == (entry["api_key"], entry["api"], entry["api_version"])
        assert message.correlation_id == entry["correlation_id"]
        if entry["direction"] == "request":
            assert message.client_id == entry["client_id"]
            assert message.has_response == entry["has_response"]


@pytest.mark.parametrize("version", VERSIONS)
def test_written_back_byte_for_byte(core, version):
    for golden in frames(version):
        assert b"".join(write(read(golden, core), core)) == golden.frame, golden.name


@pytest.mark.parametrize("version", VERSIONS)
def test_both_cores_read_the_same(native, pure, version):
    for golden in frames(version):
        assert read(golden, native) == read(golden, pure)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_frame_cut_anywhere_is_an_error_of_ours(core, version):
    """With its size made right for what is left; no shorter frame of these can be read."""
    for golden in frames(version):
        if len(golden.frame) > 1500:
            continue
        for end in range(4, len(golden.frame)):
            cut = (end - 4).to_bytes(4, "big") + golden.frame[4:end]
            if golden.entry["api"] == "ApiVersions" and golden.entry["direction"] == "response":
                continue  # see test_frames: it may fall back
            with pytest.raises(KafkaFormatError) as error:
                read(golden._replace(frame=cut), core)
            assert 0 <= error.value.position <= end
