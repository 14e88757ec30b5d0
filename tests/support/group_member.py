"""A member of a consumer group, as a separate process that tests can kill.

    python group_member.py CLIENT ADDRESS GROUP TOPIC [INSTANCE_ID]

CLIENT is confluent-kafka, kafka-python, aiokafka, or confluent-consumer, which is confluent-kafka with
the consumer protocol (KIP-848). The member prints one JSON object per line: its
partitions whenever they change, and the position of each partition after each commit.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable
from typing import Any

SESSION_MS = 6000


def report(**values: Any) -> None:
    print(json.dumps(values), flush=True)


def report_partitions(partitions: Iterable[int]) -> None:
    report(partitions=sorted(partitions))


CLASSIC = {
    "session.timeout.ms": SESSION_MS,
    "heartbeat.interval.ms": 500,
    "partition.assignment.strategy": "range",
}
CONSUMER = {"group.protocol": "consumer"}


def run_confluent(address: str, group: str, topic: str, instance_id: str | None, protocol: dict[str, Any]) -> None:
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **protocol,
            **({"group.instance.id": instance_id} if instance_id else {}),
        }
    )

    reported: list[int] | None = []

    def assigned(*_: Any) -> None:
        nonlocal reported
        reported = None  # report the partitions even if they are the previous ones

    consumer.subscribe([topic], on_assign=assigned)
    while True:
        partitions = sorted(p.partition for p in consumer.assignment())
        if partitions != reported:
            report_partitions(partitions)
            reported = partitions
        message: Any = consumer.poll(0.2)
        if message is not None and message.error() is None:
            try:
                consumer.commit(message=message, asynchronous=False)
            except confluent_kafka.KafkaException:
                continue  # a rebalance has begun, so another member reads the record again
            report(committed=[message.partition(), message.offset() + 1])


def run_kafka_python(address: str, group: str, topic: str, instance_id: str | None) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.errors import CommitFailedError

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            pass

        def on_partitions_assigned(self, assigned: Any) -> None:
            report_partitions(p.partition for p in assigned)

    consumer = KafkaConsumer(
        bootstrap_servers=address,
        group_id=group,
        group_instance_id=instance_id,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    consumer.subscribe([topic], listener=Listener())
    while True:
        for records in consumer.poll(200).values():
            try:
                consumer.commit()
            except CommitFailedError:
                continue
            report(committed=[records[-1].partition, records[-1].offset + 1])


async def run_aiokafka(address: str, group: str, topic: str, instance_id: str | None) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.errors import CommitFailedError

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: Any) -> None:
            pass

        async def on_partitions_assigned(self, assigned: Any) -> None:
            report_partitions(p.partition for p in assigned)

    consumer = AIOKafkaConsumer(
        bootstrap_servers=address,
        group_id=group,
        group_instance_id=instance_id,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=(RangePartitionAssignor,),
    )
    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    while True:
        for partition, records in (await consumer.getmany(timeout_ms=200)).items():
            try:
                await consumer.commit({partition: records[-1].offset + 1})
            except CommitFailedError:
                continue
            report(committed=[partition.partition, records[-1].offset + 1])


def main(client: str, address: str, group: str, topic: str, instance_id: str | None = None) -> None:
    if client == "confluent-kafka":
        run_confluent(address, group, topic, instance_id, CLASSIC)
    elif client == "confluent-consumer":
        run_confluent(address, group, topic, instance_id, CONSUMER)
    elif client == "kafka-python":
        run_kafka_python(address, group, topic, instance_id)
    else:
        asyncio.run(run_aiokafka(address, group, topic, instance_id))


if __name__ == "__main__":
    main(*sys.argv[1:])
