"""Read topics of a broker with kafka-python."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from typing import Any

import pytest
from golden_cases import Rows
from kafka_broker import Broker

LIMIT = 90.0
"""Seconds after which reading fails."""


def encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def consume_in_python(broker: Broker, level: str, topics: Sequence[str]) -> Rows:
    """Read all partitions of the topics at an isolation level, from the start to the end."""
    kafka = pytest.importorskip("kafka")
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        isolation_level=level,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    found: Rows = {}
    deadline = time.monotonic() + LIMIT
    try:
        places = [kafka.TopicPartition(t, p) for t in topics for p in sorted(consumer.partitions_for_topic(t) or ())]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        ends = consumer.end_offsets(places)
        while behind := [place for place in places if consumer.position(place) < ends[place]]:
            assert time.monotonic() < deadline, f"the consumer has not reached the end of {behind}"
            for batch in consumer.poll(timeout_ms=2000).values():
                for r in batch:
                    headers = [[name, encoded(value)] for name, value in r.headers]
                    row: list[Any] = [r.timestamp, r.timestamp_type, encoded(r.key), encoded(r.value), headers]
                    found[r.topic, r.partition, r.offset] = row
    finally:
        consumer.close()
    return found
