"""Compare the replay of metadata records with Kafka's own classes `MetadataDelta` and `MetadataImage`.

Kafka applies a sequence of records, and writes its image as the records of a snapshot. The replay of
the same sequence must give the same state as the records of this snapshot. Kafka 4.3 does not define
UnregisterControllerRecord, so the sequences do not contain it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import java_tools
import pytest
from golden_cases import GOLDEN
from metadata_logs import decoded, record, uuid

import kafkafmt as k
from kafkafmt.errors import KafkaFormatError
from kafkafmt.kraft.image import Image, ReplayError

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]
HERE = Path(__file__).parent
NODES = (1, 2, 3)
SEQUENCES, LENGTH = 60, 120
LEVEL = 30
"""Level of metadata.version 4.3-IV0, in which Kafka writes its image."""
VERSION = record("FeatureLevelRecord", name="metadata.version", feature_level=LEVEL)


def kafka_images(sequences: list[list[bytes]]) -> list[tuple[set[int], list[bytes]]]:
    """Return the numbers of the records that Kafka rejects, and the records of the image, for each sequence."""
    path = java_tools.classpath("org.apache.kafka:kafka_2.13:4.3.1")
    compiled = java_tools.compile_java([HERE / "MetadataImages.java"], path)
    lines = "".join("".join(base64.b64encode(r).decode() + "\n" for r in s) + "\n" for s in sequences)
    output = java_tools.run("MetadataImages", path=compiled, stdin=lines)
    found = []
    for text in output.split("\n\n")[:-1]:
        words = text.split("\n")
        rejected = {int(w[1:].partition(" ")[0]) for w in words if w.startswith("!")}
        found.append((rejected, [base64.b64decode(w) for w in words if w and not w.startswith("!")]))
    return found


def replayed(records: list[bytes]) -> tuple[Image, set[int]]:
    """Return the state after all records, and the numbers of the records that cannot be applied."""
    image, rejected = Image(), set()
    for number, value in enumerate(records):
        try:
            image.apply(decoded(value))
        except ReplayError:
            rejected.add(number)
    return image, rejected


def numbers(chance: Random) -> list[int]:
    return chance.sample(NODES, chance.randint(1, 3))


def optional(chance: Random, value: Any) -> Any:
    return value if chance.random() < 0.5 else None


def random_record(chance: Random) -> bytes:
    """Return a record with one of a few ids and names, so that many records concern the same topic or broker."""
    topic, node = chance.randrange(4), chance.choice(NODES)
    at = {"topic_id": uuid(topic), "partition_id": chance.randrange(2)}
    replicas = numbers(chance)
    directories = [uuid(100 + r) for r in replicas] if chance.random() < 0.8 else []
    entity = [
        {"entity_type": t, "entity_name": chance.choice(("a", None))} for t in chance.sample(("user", "client-id"), 2)
    ]
    mechanism = chance.choice((1, 2))
    acl = uuid(chance.randrange(200, 204))
    features = [{"name": "f", "min_supported_version": 0, "max_supported_version": chance.randrange(3)}]
    listeners = [{"name": "L", "host": "h", "port": 65535, "security_protocol": chance.randrange(4)}]
    makers = [
        lambda: record("TopicRecord", name=f"topic-{topic}", topic_id=uuid(topic)),
        lambda: record("RemoveTopicRecord", topic_id=uuid(topic)),
        lambda: record("ClearElrRecord", topic_name=chance.choice((f"topic-{topic}", ""))),
        lambda: record("ConfigRecord", resource_type=chance.choice((2, 4, 16, 32)), resource_name=f"topic-{topic}",
                       name=chance.choice(("a", "b.password")), value=chance.choice(("1", "", None))),
        lambda: record("ClientQuotaRecord", entity=entity, key=chance.choice(("x", "y")), value=chance.random(),
                       remove=chance.random() < 0.4),
        lambda: record("UserScramCredentialRecord", name=chance.choice("uv"), mechanism=mechanism, salt=b"s",
                       stored_key=b"k", server_key=b"v", iterations=chance.randrange(4096, 9000)),
        lambda: record("RemoveUserScramCredentialRecord", name=chance.choice("uv"), mechanism=mechanism),
        lambda: record("AccessControlEntryRecord", id=acl, resource_type=chance.randint(2, 7), resource_name="r",
                       pattern_type=chance.choice((3, 4)), principal="User:p", host="*", operation=chance.randint(2, 15),
                       permission_type=chance.choice((2, 3))),
        lambda: record("RemoveAccessControlEntryRecord", id=acl),
        lambda: record("FeatureLevelRecord", name=chance.choice(("group.version", "share.version")),
                       feature_level=chance.randrange(2)),
        lambda: record("ProducerIdsRecord", broker_id=node, broker_epoch=5, next_producer_id=chance.randrange(9999)),
        lambda: record("DelegationTokenRecord", owner="User:o", requester="User:q", renewers=["User:r"],
                       issue_timestamp=1, max_timestamp=3, expiration_timestamp=2, token_id=chance.choice("tw")),
        lambda: record("RemoveDelegationTokenRecord", token_id=chance.choice("tw")),
        lambda: record("RegisterBrokerRecord", broker_id=node, broker_epoch=chance.choice((5, 6)), incarnation_id=uuid(300),
                       end_points=listeners, features=features, rack=optional(chance, "rack"), fenced=chance.random() < 0.5,
                       in_controlled_shutdown=chance.random() < 0.5, log_dirs=[uuid(302), uuid(301)],
                       cordoned_log_dirs=chance.choice((None, [], [uuid(301)]))),
        lambda: record("UnregisterBrokerRecord", broker_id=node, broker_epoch=5),
        lambda: record("FenceBrokerRecord", id=node, epoch=chance.choice((5, 6))),
        lambda: record("UnfenceBrokerRecord", id=node, epoch=chance.choice((5, 6))),
        lambda: record("BrokerRegistrationChangeRecord", broker_id=node, broker_epoch=chance.choice((5, 6)),
                       fenced=chance.choice((-1, 0, 1, 2)), in_controlled_shutdown=chance.choice((0, 1)),
                       log_dirs=chance.choice(([], [uuid(303)])), cordoned_log_dirs=chance.choice((None, [], [uuid(303)]))),
        lambda: record("RegisterControllerRecord", controller_id=node, incarnation_id=uuid(300), zk_migration_ready=False,
                       end_points=listeners, features=features),
        lambda: record("NoOpRecord"),
    ]  # fmt: skip
    partitions = [
        lambda: record("PartitionRecord", **at, replicas=replicas, isr=numbers(chance), removing_replicas=[],
                       adding_replicas=[], leader=chance.choice((-1, *replicas)), leader_epoch=chance.randrange(9),
                       partition_epoch=chance.randrange(9), leader_recovery_state=chance.choice((0, 1)),
                       directories=directories or [uuid(1)] * chance.choice((0, len(replicas))),
                       eligible_leader_replicas=optional(chance, numbers(chance)), last_known_elr=optional(chance, numbers(chance))),
        lambda: record("PartitionChangeRecord", **at, isr=optional(chance, numbers(chance)), leader=chance.choice((-2, -1, 1, 2)),
                       replicas=(kept := optional(chance, replicas)), removing_replicas=optional(chance, numbers(chance)),
                       adding_replicas=optional(chance, numbers(chance)), leader_recovery_state=chance.choice((-1, 0, 1)),
                       directories=[uuid(9)] * len(replicas) if kept or chance.random() < 0.2 else None,
                       eligible_leader_replicas=optional(chance, numbers(chance)), last_known_elr=optional(chance, numbers(chance))),
    ]  # fmt: skip
    make: Callable[[], bytes] = chance.choice([*makers, *partitions * 6])
    return make()


def test_random_records_give_the_state_that_kafkas_classes_give() -> None:
    """Check 60 sequences of 120 records, some of which contradict the state and are rejected."""
    sequences = []
    for seed in range(SEQUENCES):
        chance = Random(seed)
        sequences.append([VERSION, *(random_record(chance) for _ in range(LENGTH))])
    answers = kafka_images(sequences)
    assert len(answers) == SEQUENCES
    rejections = 0
    for seed, (records, (rejected, written)) in enumerate(zip(sequences, answers, strict=True)):
        image, refused = replayed(records)
        assert refused == rejected, seed
        assert image == replayed(written)[0], seed
        rejections += len(rejected)
    assert rejections > 100


@pytest.mark.parametrize("version", ["kafka-3.9.2", "kafka-4.3.1"])
def test_golden_log_gives_the_state_that_kafkas_classes_give(version: str) -> None:
    log = k.open(GOLDEN / version / "internal" / "log")["__cluster_metadata", 0]
    records = []
    for value in (bytes(r.value or b"") for r in log.records()):
        try:
            message = decoded(value)
        except KafkaFormatError:
            continue
        if "Transaction" not in type(message).__name__:  # the transaction in this log was committed
            records.append(value)
    ((rejected, written),) = kafka_images([[*records, VERSION]])
    image, refused = replayed([*records, VERSION])
    assert len(records) > 100
    assert refused == rejected == set()
    assert image == replayed(written)[0]
