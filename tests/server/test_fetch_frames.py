"""Check that the server reads and writes frames of Fetch as `kafkafmt.protocol` does."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from kafkafmt import KafkaFormatError, protocol
from kafkafmt.protocol import ErrorCode
from kafkafmt.server.checked_batches import Span
from kafkafmt.server.fetch_answer import Answer, FetchAnswers
from kafkafmt.server.fetch_frames import NEWEST_VERSION, FetchFrames
from kafkafmt.server.fetch_request import PartitionRequest, WantedFetch, read_plain, wanted_fetch
from kafkafmt.server.response_parts import FilePart
from kafkafmt.server.sessions import FetchedPartition

Request = protocol.FetchRequest
Response = protocol.FetchResponse
SERVED: Any = object()
"""Stands for a partition, of which a response contains only the segments."""
SIZES = (0, 1, 126, 127, 128, 16_382, 16_383, 70_000)


def random_answer(chance: Random) -> Answer:
    wanted = FetchedPartition("t", PartitionRequest(chance.randrange(2**31), -1, 0, 0))
    answer = Answer(wanted, None, chance.choice(list(ErrorCode)))
    answer.high_watermark, answer.last_stable_offset, answer.log_start_offset = (
        chance.choice((-1, 0, 2**63 - 1, chance.randrange(10**9))) for _ in range(3)
    )
    if chance.random() < 0.5:
        answer.aborted = [(chance.randrange(2**63), chance.randrange(2**63)) for _ in range(chance.choice((0, 1, 200)))]
    if chance.random() < 0.3:
        answer.data = chance.randbytes(chance.choice(SIZES))
        answer.size = len(answer.data)
    elif chance.random() < 0.5:
        sizes = [chance.choice(SIZES[1:]) for _ in range(chance.randrange(1, 4))]
        answer.served, answer.size = SERVED, sum(sizes)
        answer.spans = [Span(Path("x"), 1, chance.randrange(10**6), size, False) for size in sizes]
    return answer


def expected(answers: FetchAnswers, version: int) -> Any:
    topics = []
    for topic, parts in answers.topics.items():
        partitions = [
            Response.PartitionData(
                partition_index=answer.wanted.request.partition,
                error_code=answer.error,
                high_watermark=answer.high_watermark,
                last_stable_offset=answer.last_stable_offset,
                log_start_offset=answer.log_start_offset,
                aborted_transactions=None
                if answer.aborted is None
                else [Response.AbortedTransaction(producer_id=p, first_offset=o) for p, o in answer.aborted],
                records=bytes(answer.size) if answer.spans else answer.data,
            )
            for answer in parts
        ]
        made = Response.FetchableTopicResponse(partitions=partitions)
        if isinstance(topic, bytes):
            made.topic_id = UUID(bytes=topic)
        else:
            made.topic = topic
        topics.append(made)
    response = Response(responses=topics)
    if version >= 7:
        response.error_code, response.session_id = answers.error, answers.session_id
    return response


@pytest.mark.parametrize("version", range(NEWEST_VERSION + 1))
@pytest.mark.slow
def test_response_equals_response_of_the_protocol_module(version: int) -> None:
    chance = Random(version)
    for count in (0, 0, 1, 1, 1, 2, 3, 150):
        topics: dict[Any, list[Answer]] = {}
        for _ in range(count):
            name = chance.choice(("a", "é" * chance.choice((1, 100)), "t" * 200, f"t{chance.random()}"))
            topic = chance.randbytes(16) if version >= 13 else name
            topics[topic] = [random_answer(chance) for _ in range(chance.choice((1, 1, 2, 130)))]
        answers = FetchAnswers(chance.randrange(2**31), topics, chance.choice(list(ErrorCode)))
        parts = FetchFrames(version).write(answers, 77)
        spans = [span for found in topics.values() for answer in found for span in answer.spans or ()]
        assert [part.span for part in parts if isinstance(part, FilePart)] == spans
        frame = b"".join(bytes(part.size) if isinstance(part, FilePart) else bytes(part) for part in parts)
        made = protocol.make_response(expected(answers, version), version, 77)
        assert frame == b"".join(map(bytes, protocol.write_response(made)))


def random_request(chance: Random, version: int, plain: bool) -> Any:
    """Return a Fetch request. If `plain` is True, it contains only what `read_plain` reads."""
    number = chance.randrange
    topics = []
    for _ in range(count := chance.choice((0, 1, 1, 1, 1, 2, 2, 126 if plain else 127))):
        topic = Request.FetchTopic(partitions=[])
        if version >= 13:
            topic.topic_id = UUID(int=chance.getrandbits(128))
        else:
            topic.topic = chance.choice(("t", "é", "t" * 200))
        for _ in range(chance.choice((0, 1, 1, 1, 1, 3, 126 if plain else 128) if count < 3 else (0, 1))):
            wanted = Request.FetchPartition(partition=number(-1, 2**31), fetch_offset=number(-5, 2**63))
            wanted.partition_max_bytes = number(-5, 2**31)
            if version >= 9:
                wanted.current_leader_epoch = number(-1, 100)
            if version >= 18 and not plain and chance.random() < 0.1:
                wanted.high_watermark = number(2**62)
            topic.partitions.append(wanted)
        topics.append(topic)
    request = Request(topics=topics, max_wait_ms=number(-5, 2**31), min_bytes=number(-5, 2**31))
    if version >= 7:
        request.max_bytes, request.isolation_level = number(-5, 2**31), number(3)
        request.session_id, request.session_epoch = number(2**31), number(-1, 2**31)
    if version >= 11 and not plain:
        request.rack_id = chance.choice(("", "rack", "r" * 300))
    if version >= 13 and not plain and chance.random() < 0.3:
        forgotten = Request.ForgottenTopic(topic_id=UUID(int=chance.getrandbits(128)), partitions=[1, 2, 3])
        request.forgotten_topics_data = [forgotten]
    return request


def read_generally(frame: bytes, version: int) -> tuple[int, str | None, WantedFetch]:
    read = protocol.read_request(frame)
    body = wanted_fetch(read.body, version >= 13)
    return read.header.correlation_id, read.header.client_id, body


@pytest.mark.parametrize("version", range(NEWEST_VERSION + 1))
def test_requests_are_read_as_by_the_protocol_module(version: int) -> None:
    chance, plainly = Random(version), 0
    for number in range(200):
        body = random_request(chance, version, plain=number % 2 == 0)
        client = chance.choice((None, "", "rdkafka", "é", "c" * 300))
        request = protocol.make_request(body, version, correlation_id=chance.randrange(-5, 2**31), client_id=client)
        frame = b"".join(map(bytes, protocol.write_request(request)))
        expected = read_generally(frame, version)
        assert FetchFrames(version).read(frame) == expected
        if version >= 15:
            found = read_plain(frame)
            assert found in (None, expected)
            assert found is not None or number % 2 or client == "é"
            plainly += found is not None
    assert plainly >= 70 or version < 15


@pytest.mark.parametrize("version", range(15, NEWEST_VERSION + 1))
def test_damaged_requests_are_never_read_differently(version: int) -> None:
    chance = Random(version)
    for _ in range(1000):
        body = random_request(chance, version, plain=True)
        made = protocol.make_request(body, version, correlation_id=1, client_id="client")
        frame = bytearray(b"".join(map(bytes, protocol.write_request(made))))
        if chance.random() < 0.3:
            del frame[chance.randrange(8, len(frame)) :]
        else:
            frame[chance.randrange(8, min(len(frame), 200))] = chance.choice((0, 1, 2, 127, 128, 255))
        try:
            expected: Any = read_generally(bytes(frame), version)
        except (KafkaFormatError, UnicodeDecodeError) as error:
            expected = type(error)
        try:
            found: Any = FetchFrames(version).read(bytes(frame))
        except (KafkaFormatError, UnicodeDecodeError) as error:
            found = type(error)
        assert found == expected
