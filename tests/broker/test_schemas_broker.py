"""Test that the schemas in a topic that a real broker wrote, and compacts, are read."""

from __future__ import annotations

import time
from pathlib import Path

import java_tools
import pytest
from kafka_broker import Broker
from schema_records import NOOP, ORDER, config, deletion, hard_deleted, schema

import kafkafmt as k

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]
CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"}
RECORDS = [
    NOOP,
    *(schema("orders-value", n, n, f'"{kind}"') for n, kind in enumerate(("int", "long", "float", "double"), 1)),
    config(None, "FULL"),
    schema("orders-value", 1, 1, '"int"', deleted=True),
    schema("orders-value", 3, 3, '"float"', deleted=True),
    hard_deleted("orders-value", 1),
    deletion("old", 1),
    schema("old", 2, 5, ORDER),
    NOOP,
]


def test_schemas_of_a_broker_are_read_also_after_compaction(tmp_path: Path) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    admin = pytest.importorskip("confluent_kafka.admin")
    with Broker(tmp_path, {"log.cleaner.backoff.ms": "100"}) as broker:
        servers = {"bootstrap.servers": broker.bootstrap}
        topic = admin.NewTopic("_schemas", 1, config=CONFIG)
        client = admin.AdminClient(servers)
        client.create_topics([topic])["_schemas"].result(30)
        producer = confluent_kafka.Producer(servers | {"acks": "all", "enable.idempotence": True, "linger.ms": 0})
        for key, value in RECORDS:
            producer.produce("_schemas", key=key, value=value)
            assert producer.flush(30) == 0
            time.sleep(0.15)  # so that each record has its own segment, which the cleaner can remove
        deadline = time.monotonic() + 60
        while (
            len(left := list(k.open(broker.log_dirs[0])["_schemas", 0])) == len(RECORDS) and time.monotonic() < deadline
        ):
            time.sleep(0.2)
    assert len(left) < len(RECORDS)
    registry = k.schemas(broker.log_dirs[0])
    assert [(v.subject, v.version, v.schema_id, v.deleted) for v in registry] == [
        ("old", 2, 5, False),
        ("orders-value", 2, 2, False),
        ("orders-value", 3, 3, True),
        ("orders-value", 4, 4, False),
    ]
    assert {v.compatibility for v in registry} == {"FULL"}
    assert registry.findings == []
