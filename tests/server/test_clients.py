"""Read the golden logs from a server with Kafka clients for Python."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from golden_cases import BY_NAME, CASES, LEGACY, Case
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition
from kafka.errors import KafkaError

import kafkafmt
from kafkafmt.typing import Isolation

Start = Callable[..., kafkafmt.server.Server]
Row = tuple[str, int, int, bytes | None, bytes | None, int]
LEVELS = ("read_uncommitted", "read_committed")
TIMEOUT = 15.0
CODECS = BY_NAME["kafka-4.3.1/codecs"]
SHORT = ("kafka-4.3.1/codecs", "kafka-4.3.1/transactions", "kafka-4.3.1/torn", "legacy/0.10.2.2-mixed")
TRANSACTIONS = "kafka-4.3.1/transactions"
TESTED = [
    pytest.param(case, isolation, marks=() if default else pytest.mark.full)
    for case in [*CASES, *LEGACY]
    for isolation in (LEVELS if case.transactional else LEVELS[:1])
    for default in [str(case) in SHORT and (isolation == "read_committed") == (str(case) == TRANSACTIONS)]
]


def expected(log: kafkafmt.Log, isolation: Isolation) -> list[Row]:
    return sorted(
        (p.topic, p.partition, r.offset, r.key, r.value, r.timestamp)
        for p in log.partitions
        for r in p.records(on_error="skip", isolation=isolation)
    )


def ends(log: kafkafmt.Log, isolation: Isolation) -> dict[tuple[str, int], int]:
    """Return the offset after the last record that a consumer can read, for each partition with records."""
    return {
        (p.topic, p.partition): p.next_offset if isolation == "read_uncommitted" else p.last_stable_offset
        for p in log.partitions
        if p.next_offset > p.log_start_offset
    }


def read_with_confluent(
    server: kafkafmt.server.Server, ends: dict[tuple[str, int], int], isolation: Isolation
) -> list[Row]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": server.address,
            "group.id": "none",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "check.crcs": True,
            "enable.partition.eof": True,
        }
    )
    found: list[Row] = []
    consumer.assign([confluent_kafka.TopicPartition(t, p, confluent_kafka.OFFSET_BEGINNING) for t, p in ends])
    left = set(ends)
    while left:
        message = consumer.poll(TIMEOUT)
        assert message is not None, left
        topic, partition = str(message.topic()), int(message.partition() or 0)
        error = message.error()
        if error is None:
            time = message.timestamp()[1]
            found.append((topic, partition, int(message.offset() or 0), message.key(), message.value(), time))
        else:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            left.discard((topic, partition))
    consumer.close()
    return sorted(found)


def read_with_kafka_python(
    server: kafkafmt.server.Server, ends: dict[tuple[str, int], int], isolation: Isolation
) -> list[Row]:
    consumer = KafkaConsumer(
        bootstrap_servers=server.address, group_id=None, isolation_level=isolation, auto_offset_reset="earliest"
    )
    wanted = {PythonPartition(t, p): end for (t, p), end in ends.items()}
    consumer.assign(list(wanted))
    consumer.seek_to_beginning()
    found: list[Row] = []
    while any(consumer.position(tp) < end for tp, end in wanted.items()):
        for tp, records in consumer.poll(1000).items():
            found += [(tp.topic, tp.partition, r.offset, r.key, r.value, r.timestamp) for r in records]
    consumer.close()
    return sorted(found)


async def read_with_aiokafka(
    server: kafkafmt.server.Server, ends: dict[tuple[str, int], int], isolation: Isolation
) -> list[Row]:
    consumer = AIOKafkaConsumer(bootstrap_servers=server.address, isolation_level=isolation)
    await consumer.start()
    wanted = {AioPartition(t, p): end for (t, p), end in ends.items()}
    consumer.assign(list(wanted))
    await consumer.seek_to_beginning()
    found: list[Row] = []
    while True:
        positions = {tp: await consumer.position(tp) for tp in wanted}
        if all(positions[tp] >= end for tp, end in wanted.items()):
            break
        for tp, records in (await consumer.getmany(timeout_ms=300)).items():
            found += [(tp.topic, tp.partition, r.offset, r.key, r.value, r.timestamp) for r in records]
    await consumer.stop()
    return sorted(found)


def read_with_kcat(server: kafkafmt.server.Server, ends: dict[tuple[str, int], int], isolation: Isolation) -> list[Row]:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    found: list[Row] = []
    for topic, partition in ends:
        command = ["kcat", "-C", "-q", "-b", server.address, "-t", topic, "-p", str(partition), "-o", "beginning", "-e"]
        command += ["-X", f"isolation.level={isolation}", "-X", "check.crcs=true", "-f", "%o %T %K %S\n%k%s"]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=TIMEOUT).stdout
        while output:
            numbers, _, output = output.partition(b"\n")
            offset, timestamp, *lengths = map(int, numbers.split())
            parts: list[bytes | None] = []
            for length in lengths:
                parts.append(output[:length] if length >= 0 else None)
                output = output[max(length, 0) :]
            found.append((topic, partition, offset, parts[0], parts[1], timestamp))
    return sorted(found)


CLIENTS: dict[str, Callable[..., list[Row]]] = {
    "confluent-kafka": read_with_confluent,
    "kafka-python": read_with_kafka_python,
    "kcat": read_with_kcat,
    "aiokafka": lambda *args: asyncio.run(asyncio.wait_for(read_with_aiokafka(*args), 30)),
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("case", "isolation"), TESTED, ids=str)
def test_client_reads_every_record(case: Case, client: str, isolation: Isolation, started: Start) -> None:
    log = kafkafmt.open([str(root) for root in case.roots])
    server = started(log, internal=True)
    assert CLIENTS[client](server, ends(log, isolation), isolation) == expected(log, isolation)


def test_producer_gets_the_reason_of_the_refusal(started: Start) -> None:
    server = started([str(root) for root in CODECS.roots])
    failed: list[Any] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": server.address})
    producer.produce("codec-none", b"x", callback=lambda error, _: failed.append(error))
    producer.flush(TIMEOUT)
    assert [error.code() for error in failed] == [confluent_kafka.KafkaError.POLICY_VIOLATION]
    assert "Produce refused, because the server is read-only" in server.messages[-1]


def test_idempotent_producer_is_refused(started: Start) -> None:
    server = started([str(root) for root in CODECS.roots])
    from kafka import KafkaProducer

    with pytest.raises(KafkaError):
        KafkaProducer(bootstrap_servers=server.address, enable_idempotence=True).send("codec-none", b"x").get(10)
