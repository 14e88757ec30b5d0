"""Check that the replay of a metadata log takes time that is linear in the number of its records."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from metadata_logs import MetadataLog, record, uuid

import kafkafmt as k
from kafkafmt.log.writing.mounting import Metadata

from .growth import grows_linearly, lines_of

NUMBER = itertools.count()
EPOCH = {"leader": 1, "leader_epoch": 0, "partition_epoch": 0, "replicas": [1], "isr": [1], "directories": [uuid(1)]}


def topics(n: int) -> list[bytes]:
    values = []
    for i in range(n):
        values.append(record("TopicRecord", name=f"t{i}", topic_id=uuid(i)))
        values.append(record("PartitionRecord", topic_id=uuid(i), partition_id=0, **EPOCH))
    return values


def cleared(n: int) -> list[bytes]:
    """Return records that clear the eligible leader replicas of all topics, and of one topic, n times."""
    change = record("PartitionChangeRecord", topic_id=uuid(0), partition_id=0, eligible_leader_replicas=[1])
    clear = [record("ClearElrRecord", topic_name=name) for name in ("", "t0")]
    return topics(n) + [value for _ in range(n) for value in (change, *clear)]


def removed(n: int) -> list[bytes]:
    configs = [record("ConfigRecord", resource_type=2, resource_name=f"t{i}", name="a", value="1") for i in range(n)]
    return topics(n) + configs + [record("RemoveTopicRecord", topic_id=uuid(i)) for i in range(n)]


def transaction(n: int) -> list[bytes]:
    return [record("BeginTransactionRecord"), *topics(n), record("EndTransactionRecord")] * 2


def acls(n: int) -> list[bytes]:
    fields = {
        "resource_type": 2,
        "pattern_type": 3,
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return [record("AccessControlEntryRecord", id=uuid(i), resource_name=f"t{i % 7}", **fields) for i in range(n)]


@pytest.mark.parametrize("make", [topics, cleared, removed, transaction, acls])
def test_replay_diff_and_script_grow_linearly(make: Callable[[int], list[bytes]], tmp_path: Path) -> None:
    def work(n: int) -> Counter[str]:
        folder = tmp_path / str(next(NUMBER))
        MetadataLog(folder).append(*make(n))
        empty = tmp_path / str(next(NUMBER))
        MetadataLog(empty).append(record("NoOpRecord"))
        other = k.metadata(empty)

        def run() -> None:
            state = k.metadata(folder)
            state.to_dict()
            state.commands()
            state.diff(other)

        return lines_of(run)

    grows_linearly(150, work)


@pytest.mark.parametrize("make", [topics, removed, transaction])
def test_topics_for_restore_grow_linearly(make: Callable[[int], list[bytes]]) -> None:
    def work(n: int) -> Counter[str]:
        found, values = Metadata(), make(n)

        def run() -> None:
            for value in values:
                found.add(value)

        return lines_of(run)

    grows_linearly(150, work)
