"""Check that Fetch responses of the server equal those that `kafkafmt.protocol` writes."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from kafkafmt import protocol
from kafkafmt.protocol import ErrorCode
from kafkafmt.server.checked_batches import Span
from kafkafmt.server.fetch_answer import Answer, FetchAnswers
from kafkafmt.server.fetch_frames import NEWEST_VERSION, FetchFrames
from kafkafmt.server.response_parts import FilePart
from kafkafmt.server.sessions import FetchedPartition

Response = protocol.FetchResponse
SERVED: Any = object()
"""Stands for a partition, of which a response contains only the segments."""
SIZES = (0, 1, 126, 127, 128, 16_382, 16_383, 70_000)


def random_answer(chance: Random) -> Answer:
    wanted = FetchedPartition("t", protocol.FetchRequest.FetchPartition(partition=chance.randrange(2**31)))
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
        if isinstance(topic, UUID):
            made.topic_id = topic
        else:
            made.topic = topic
        topics.append(made)
    response = Response(responses=topics)
    if version >= 7:
        response.error_code, response.session_id = answers.error, answers.session_id
    return response


@pytest.mark.parametrize("version", range(NEWEST_VERSION + 1))
def test_response_equals_response_of_the_protocol_module(version: int) -> None:
    chance = Random(version)
    for count in (0, 0, 1, 1, 1, 2, 3, 150):
        topics: dict[Any, list[Answer]] = {}
        for _ in range(count):
            name = chance.choice(("a", "é" * chance.choice((1, 100)), "t" * 200, f"t{chance.random()}"))
            topic = UUID(int=chance.getrandbits(128)) if version >= 13 else name
            topics[topic] = [random_answer(chance) for _ in range(chance.choice((1, 1, 2, 130)))]
        answers = FetchAnswers(chance.randrange(2**31), topics, chance.choice(list(ErrorCode)))
        parts = FetchFrames(version).write(answers, 77)
        spans = [span for found in topics.values() for answer in found for span in answer.spans or ()]
        assert [part.span for part in parts if isinstance(part, FilePart)] == spans
        frame = b"".join(bytes(part.size) if isinstance(part, FilePart) else bytes(part) for part in parts)
        made = protocol.make_response(expected(answers, version), version, 77)
        assert frame == b"".join(map(bytes, protocol.write_response(made)))
