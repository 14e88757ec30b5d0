"""Check what a new user does with messages: names of APIs, copies, wrong arguments, new error codes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import kafkafmt
from kafkafmt import protocol

BATCH = kafkafmt.build_batch([(b"key", b"value")])


def fetched() -> protocol.Response[Any]:
    """Return a Fetch response that was read from a frame. Its record data is a view of the frame."""
    cls: Any = protocol.FetchResponse
    part = cls.PartitionData(
        partition_index=3, records=BATCH, aborted_transactions=[cls.AbortedTransaction(producer_id=1, first_offset=0)]
    )
    body = cls(responses=[cls.FetchableTopicResponse(topic="t", partitions=[part])])
    frame = b"".join(protocol.write_response(protocol.make_response(body, 12, 9)))
    return protocol.read_response(frame, api_key="Fetch", api_version=12)


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
def test_copies_own_their_record_data(package: ModuleType, clone: Callable[[Any], Any]) -> None:
    response = fetched()
    assert isinstance(response.responses[0].partitions[0].records, memoryview)
    cloned = clone(response)
    assert cloned == response
    assert cloned.responses[0].partitions[0].records == BATCH
    assert type(cloned.responses[0].partitions[0].records) is bytes
    assert b"".join(protocol.write_response(cloned)) == b"".join(protocol.write_response(response))
    assert clone(response.responses[0].partitions[0]).aborted_transactions[0].producer_id == 1


def test_record_data_in_parts_is_copied() -> None:
    cls: Any = protocol.ProduceRequest
    part = cls.PartitionProduceData(index=1, records=[memoryview(BATCH)[:20], memoryview(BATCH)[20:]])
    assert b"".join(copy.deepcopy(part).records) == b"".join(pickle.loads(pickle.dumps(part)).records) == BATCH


def test_apis_can_be_given_by_name() -> None:
    response = fetched()
    for name in ("Fetch", "fetch", "FETCH", 1):
        frame = b"".join(protocol.write_response(response))
        assert protocol.read_response(frame, api_key=name, api_version=12) == response
    assert protocol.message_class("api_versions", "request") is protocol.ApiVersionsRequest
    waiting = protocol.Correlation()
    waiting.expect(9, "Fetch", 12)
    assert "1 requests without a response" in repr(waiting)
    assert waiting.read_response(frame).api == "Fetch"
    with pytest.raises(ValueError, match="there is no API 'Fech'; did you mean 'Fetch'\\?"):
        protocol.read_response(frame, api_key="Fech", api_version=12)
    with pytest.raises(ValueError, match="kind is 'answer'; it must be 'request' or 'response'"):
        protocol.message_class("Fetch", "answer")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="api_key must be an API's key or name"):
        protocol.read_response(frame, api_key=None, api_version=12)  # type: ignore[arg-type]


def test_body_is_rejected_in_place_of_a_response() -> None:
    body: Any = protocol.FetchResponse()
    response: Any = fetched()
    nothing: Any = {}
    calls: list[tuple[Callable[[], object], str]] = [
        (
            lambda: protocol.write_response(body),
            r"expected a Response, for example the result of make_response\(.*\), not FetchResponse",
        ),
        (lambda: protocol.write_request(response), "expected a Request, .* not Response"),
        (
            lambda: protocol.make_request(body, 12),
            r"body must be a request, such as protocol.FetchRequest\(…\), not FetchResponse",
        ),
        (lambda: protocol.make_response(nothing, 12), "the body must be a response, .* not dict"),
    ]
    for call, words in calls:
        with pytest.raises(TypeError, match=words):
            call()


def test_error_code_of_a_later_release_is_kept() -> None:
    code = protocol.ErrorCode(9999)
    assert (code.name, code.value, code.retriable) == ("UNKNOWN_9999", 9999, False)
    assert code == 9999
    assert "does not define" in code.message
    assert protocol.ErrorCode(9999) is code
    assert pickle.loads(pickle.dumps(code)) is code
    assert protocol.ErrorCode(-7).name == "UNKNOWN_MINUS_7"
    assert code not in list(protocol.ErrorCode)
    wrong: Any
    for wrong in ("6", 2**15, None):
        with pytest.raises(ValueError, match="is not a valid ErrorCode"):
            protocol.ErrorCode(wrong)
