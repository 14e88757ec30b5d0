"""Real brokers understand what we write: 4.3 live, 2.8 and 0.10 recorded. See exchanges.py."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import java_tools
import pytest
from exchanges import Connection, converse, versions_of

from kafkafmt import protocol
from kafkafmt.protocol import apis

TESTS = Path(__file__).resolve().parents[1]
RECORDED = sorted((TESTS / "golden" / "wire").glob("exchanges-*.jsonl.gz"))
SIX = {0: "Produce", 1: "Fetch", 2: "ListOffsets", 3: "Metadata", 8: "OffsetCommit", 9: "OffsetFetch"}


def check(said):
    """Every frame is read, and written back to the same bytes; the versions of each API that were spoken."""
    spoken: dict[int, set[int]] = {}
    for request, response in said:
        asked = protocol.read_request(request)
        assert b"".join(protocol.write_request(asked)) == request
        answer = protocol.read_response(response, api_key=asked.api_key, api_version=asked.api_version)
        assert b"".join(protocol.write_response(answer)) == response
        spoken.setdefault(asked.api_key, set()).add(asked.api_version)
    return spoken


@pytest.mark.parametrize("path", RECORDED, ids=[p.name for p in RECORDED])
def test_recorded_conversations(package, path):
    """What we wrote then, brokers of that version took; we write the same today, and read their answers."""
    rows = [json.loads(line) for line in gzip.open(path, "rt")]
    said = [tuple(base64.b64decode(row[name]) for name in ("request", "response")) for row in rows]
    spoken = check(said)
    lowest = {0: 0, 1: 0, 2: 0, 3: 0, 8: 0, 9: 0}
    assert {key: min(spoken[key]) for key in SIX} == lowest
    assert all(spoken[key] == set(range(max(spoken[key]) + 1)) for key in SIX)


def test_both_eras_are_recorded():
    assert [p.name for p in RECORDED] == ["exchanges-0.10.2.2.jsonl.gz", "exchanges-2.8.2.jsonl.gz"]


@pytest.mark.broker
@pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there")
class TestLive:
    @pytest.fixture(scope="class")
    def said(self, broker):
        return converse(("127.0.0.1", broker.port)).said

    def test_the_six_in_every_version_that_it_announces(self, said, package):
        spoken = check(said)
        assert {key: max(spoken[key]) for key in SIX} == {key: apis.api(key).versions.last for key in SIX}
        announced = protocol.read_response(said[0][1], api_key=18, api_version=0).api_keys
        assert max(spoken[18]) == next(
            a.max_version for a in announced if a.api_key == 18
        )  # our newest is that of a newer broker

    def test_a_version_of_api_versions_that_it_does_not_know(self, broker):
        link = Connection(("127.0.0.1", broker.port))
        request = b"".join(protocol.write_request(protocol.make_request(protocol.ApiVersionsRequest(), 4, 9, "c")))
        link.socket.sendall(request[:6] + (999).to_bytes(2, "big") + request[8:])
        link.correlation.expect(9, 18, 4)
        (frame,) = link.splitter.feed(link.socket.recv(65536))
        answer = link.correlation.read_response(frame)
        assert (answer.api_version, answer.error_code) == (0, protocol.ErrorCode.UNSUPPORTED_VERSION)

    def test_every_other_api_with_a_request_of_defaults(self, broker):
        """It answers each, most with some error, in the form of that version."""
        acls, add = protocol.DescribeAclsRequest, protocol.AddPartitionsToTxnRequest
        transaction = add.AddPartitionsToTxnTransaction(
            transactional_id="t", topics=[add.AddPartitionsToTxnTopic(name="none", partitions=[0])]
        )
        bodies = {  # where it hangs up on defaults, or never answers them
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
                check(other.said)
                other.socket.close()
                answered += 1
        assert answered > 200
