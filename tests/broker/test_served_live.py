"""Serve the directory of a broker that writes, and compare what clients read from both."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

import confluent_kafka
import java_tools
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from golden_cases import rows, same_rows
from kafka_broker import Broker
from live_topics import FIRST, LEVELS, THEN

import kafkafmt

pytestmark = [
    pytest.mark.full,
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]
SETTINGS = {
    "log.segment.bytes": "1048576",
    "log.index.size.max.bytes": "16384",
    "log.flush.start.offset.checkpoint.interval.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.segment.delete.delay.ms": "500",
    "log.initial.task.delay.ms": "500",
}
TOPICS = ("live", "tx", "later")
Place = tuple[str, int, int]


class Reader:
    """A librdkafka consumer that reads topics in a thread while they grow."""

    def __init__(self, address: str, isolation: str) -> None:
        self.found: list[Place] = []
        self._ended = Event()
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": address,
                "group.id": f"live-{isolation}",
                "isolation.level": isolation,
                "auto.offset.reset": "earliest",
                "check.crcs": True,
                "topic.metadata.refresh.interval.ms": 500,
            }
        )
        self._consumer.subscribe(list(TOPICS))
        self._thread = Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while not self._ended.is_set():
            for message in self._consumer.consume(1000, 0.2):
                if message.error() is None:
                    self.found.append((str(message.topic()), message.partition() or 0, message.offset() or 0))
        self._consumer.close()

    def has(self, count: int) -> bool:
        """Wait until the consumer has read this number of records, and return whether it has."""
        return until(lambda: len(self.found) >= count)

    def close(self) -> None:
        self._ended.set()
        self._thread.join()


def until(condition: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.1)
    return condition()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker"), SETTINGS) as broker:
        yield broker


def earliest(address: str, topic: str) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": "none"})
    low, _ = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), timeout=20)
    consumer.close()
    return int(low)


def java_rows(broker: Broker, address: str, isolation: str, *topics: str) -> list[str]:
    return broker.java("Consume.java", address, isolation, *topics).splitlines()


def test_clients_read_the_same_from_the_server_and_the_live_broker(broker: Broker) -> None:
    broker.produce(*FIRST)
    with kafkafmt.serve(broker.log_dirs) as server:
        readers = {level: Reader(server.address, level) for level in LEVELS}
        try:
            broker.produce(*THEN)
            for level in LEVELS:
                expected = broker.consume(*TOPICS, committed=level == "read_committed")
                same_rows(rows(java_rows(broker, server.address, level, *TOPICS)), rows(expected))
                assert readers[level].has(len(rows(expected)))
                time.sleep(0.5)
                assert sorted(readers[level].found) == sorted(rows(expected))
        finally:
            for reader in readers.values():
                reader.close()
        assert not [line for line in server.messages if "damaged" in line]


def test_deleted_records_are_noticed(broker: Broker) -> None:
    broker.produce("topic=records count=500")
    with kafkafmt.serve(broker.log_dirs) as server:
        assert earliest(server.address, "records") == 0
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        wanted = confluent_kafka.TopicPartition("records", 0, 123)
        for future in admin.delete_records([wanted]).values():
            future.result(30)
        assert until(lambda: earliest(server.address, "records") == 123)
        same_rows(rows(java_rows(broker, server.address, LEVELS[0], "records")), rows(broker.consume("records")))


def test_retention_is_noticed_and_its_segments_are_closed(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkafmt.server.service.CLEANING_INTERVAL", 0.5)
    monkeypatch.setattr("kafkafmt.server.resources.IDLE_READER", 0.5)
    broker.produce("topic=short count=6000 value=1000 flush=500")
    folder = broker.log_dirs[0] / "short-0"
    assert len(list(folder.glob("*.log"))) > 3
    with kafkafmt.serve(broker.log_dirs) as server:
        assert len(java_rows(broker, server.address, LEVELS[0], "short")) == 6000
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        entry = ConfigEntry("retention.bytes", "1500000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, "short", incremental_configs=[entry])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(30)
        assert until(lambda: earliest(broker.bootstrap, "short") > 0)
        assert until(lambda: earliest(server.address, "short") == earliest(broker.bootstrap, "short"))
        same_rows(rows(java_rows(broker, server.address, LEVELS[0], "short")), rows(broker.consume("short")))
        assert until(lambda: not deleted_files(folder))


def deleted_files(folder: Path) -> list[str]:
    """Return the deleted files of a directory that this process has open."""
    names = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            name = os.readlink(f"/proc/self/fd/{descriptor}")
        except FileNotFoundError:
            continue
        if str(folder) in name and ("(deleted)" in name or ".deleted" in name):
            names.append(name)
    return names
