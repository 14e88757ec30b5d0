"""Check that brokers of Kafka 4.3, 2.8 and 0.10 understand the requests in exchanges.py."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import java_tools
import pytest
from api_lookup import api_of
from exchanges import Connection, converse, versions_of
from kafka_broker import Broker

from kafkafmt import protocol

TESTS = Path(__file__).resolve().parents[1]
RECORDED = sorted((TESTS / "golden" / "wire").glob("exchanges-*.jsonl.gz"))
SIX = {0: "Produce", 1: "Fetch", 2: "ListOffsets", 3: "Metadata", 8: "OffsetCommit", 9: "OffsetFetch"}


def check(frames: list[tuple[bytes, bytes]]) -> dict[int, set[int]]:
    """Check that writing each frame restores its bytes, and return the versions in use, by API key."""
    used: dict[int, set[int]] = {}
    for request, response in frames:
        asked = protocol.read_request(request)
        assert b"".join(protocol.write_request(asked)) == request
        answer = protocol.read_response(response, api_key=asked.api_key, api_version=asked.api_version)
        assert b"".join(protocol.write_response(answer)) == response
        used.setdefault(asked.api_key, set()).add(asked.api_version)
    return used


@pytest.mark.parametrize("path", RECORDED, ids=[p.name for p in RECORDED])
def test_recorded_frames_are_written_back_unchanged(package: ModuleType, path: Path) -> None:
    """Brokers accepted these requests when they were recorded, and kafkafmt can read the responses."""
    rows = [json.loads(line) for line in gzip.open(path, "rt")]
    frames = [(base64.b64decode(row["request"]), base64.b64decode(row["response"])) for row in rows]
    used = check(frames)
    lowest = {0: 0, 1: 0, 2: 0, 3: 0, 8: 0, 9: 0}
    assert {key: min(used[key]) for key in SIX} == lowest
    assert all(used[key] == set(range(max(used[key]) + 1)) for key in SIX)


def test_both_old_brokers_are_recorded() -> None:
    assert [p.name for p in RECORDED] == ["exchanges-0.10.2.2.jsonl.gz", "exchanges-2.8.2.jsonl.gz"]


@pytest.fixture(scope="module")
def frames(broker: Broker) -> list[tuple[bytes, bytes]]:
    return converse(("127.0.0.1", broker.port)).frames


@pytest.mark.broker
@pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are installed")
class TestLive:
    def test_six_apis_work_in_every_announced_version(
        self, frames: list[tuple[bytes, bytes]], package: ModuleType
    ) -> None:
        used = check(frames)
        assert {key: max(used[key]) for key in SIX} == {key: api_of(key).versions.last for key in SIX}
        announced = protocol.read_response(frames[0][1], api_key=18, api_version=0).api_keys
        # kafkafmt also supports the version of a newer broker
        assert max(used[18]) == next(a.max_version for a in announced if a.api_key == 18)

    def test_newer_api_versions_request_gets_a_response(self, broker: Broker) -> None:
        link = Connection(("127.0.0.1", broker.port))
        request = b"".join(protocol.write_request(protocol.make_request(protocol.ApiVersionsRequest(), 4, 9, "c")))
        link.socket.sendall(request[:6] + (999).to_bytes(2, "big") + request[8:])
        link.correlation.expect(9, 18, 4)
        (frame,) = link.splitter.feed(link.socket.recv(65536))
        answer = link.correlation.read_response(frame)
        assert (answer.api_version, answer.error_code) == (0, protocol.ErrorCode.UNSUPPORTED_VERSION)

    def test_every_other_api_responds_to_default_values(self, broker: Broker) -> None:
        """Most responses contain an error, in the layout of the requested version."""
        acls, add = protocol.DescribeAclsRequest, protocol.AddPartitionsToTxnRequest
        transaction = add.AddPartitionsToTxnTransaction(
            transactional_id="t", topics=[add.AddPartitionsToTxnTopic(name="none", partitions=[0])]
        )
        bodies: dict[
            int, Callable[[int], Any]
        ] = {  # if these fields have default values, the broker closes the connection or does not respond
            29: lambda version: acls(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1),
            24: lambda version: add(transactions=[transaction]) if version >= 4 else add(),
        }
        address = ("127.0.0.1", broker.port)
        link = Connection(address)
        ranges = {
            a.api_key: (a.min_version, a.max_version) for a in link.ask(protocol.ApiVersionsRequest(), 0).api_keys
        }
        answered = 0
        for key in sorted(set(ranges) - set(SIX)):
            for version in versions_of(ranges, key):
                other = Connection(address)
                body = bodies[key](version) if key in bodies else protocol.message_class(key, "request")()
                other.ask(body, version)
                check(other.frames)
                other.socket.close()
                answered += 1
        assert answered > 200
