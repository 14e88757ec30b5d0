"""Read the directory of a broker under load in a loop. No offset may be reported as lost.

The broker deletes old segments, deletes records on request, compacts, and deletes and creates topics.
The test also reads copies of the running broker that were made with tar, and file by file. The
variable KAFKAFMT_LIVE_SECONDS sets the duration.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import confluent_kafka
import java_tools
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from kafka_broker import Broker

import kafkafmt
from kafkafmt import Damage, Finding

pytestmark = [
    pytest.mark.full,
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]
SECONDS = float(os.environ.get("KAFKAFMT_LIVE_SECONDS", "20"))
SETTINGS = {
    "log.retention.check.interval.ms": "300",
    "log.segment.delete.delay.ms": "300",
    "log.initial.task.delay.ms": "300",
    "log.cleaner.backoff.ms": "200",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "log.flush.start.offset.checkpoint.interval.ms": "500",
    "log.index.size.max.bytes": "16384",
}
TOPICS = {
    "retained": {"retention.bytes": "3000000", "segment.bytes": "1048576"},
    "trimmed": {"segment.bytes": "1048576"},
    "compacted": {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"},
    "both": {"cleanup.policy": "compact,delete", "segment.bytes": "1048576", "retention.bytes": "4000000"},
    "again": {},
}
LOSSES = ("missing_segment", "missing_end", "missing_start")


def create(admin: AdminClient, topic: str) -> None:
    for future in admin.create_topics([NewTopic(topic, 1, 1, config=TOPICS[topic])]).values():
        with suppress(confluent_kafka.KafkaException):  # the topic is still being deleted
            future.result(10)


def write(address: str, stopped: Event) -> None:
    """Write records to all topics. The values are random, so that segments are full soon."""
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "linger.ms": 5, "message.timeout.ms": 5000})
    n = 0
    while not stopped.is_set():
        for topic in TOPICS:
            with suppress(BufferError, confluent_kafka.KafkaException):
                producer.produce(topic, os.urandom(4000), key=f"key {n % 17}")
        n += 1
        producer.poll(0.002)
    producer.flush(10)


def change(address: str, stopped: Event) -> None:
    """Delete records of a topic, and delete and create another one."""
    admin = AdminClient({"bootstrap.servers": address})
    reader = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": "none"})
    while not stopped.wait(1):
        with suppress(confluent_kafka.KafkaException):
            low, high = reader.get_watermark_offsets(confluent_kafka.TopicPartition("trimmed", 0), 5)
            place = confluent_kafka.TopicPartition("trimmed", 0, low + (high - low) * 2 // 3)
            for future in admin.delete_records([place]).values():
                future.result(10)
            for deleted in admin.delete_topics(["again"]).values():
                deleted.result(10)
        create(admin, "again")
    reader.close()


def losses(path: Path) -> Iterator[tuple[str, Damage | Finding]]:
    """Yield the lost offsets that `verify` and a reader report."""
    for partition in kafkafmt.verify(path).partitions:
        for damage in partition.damaged:
            if damage.code in LOSSES:
                yield partition.topic, damage
        yield from ((partition.topic, f) for f in partition.findings if f.code in LOSSES)
    for part in kafkafmt.open(path).partitions:
        with suppress(OSError):  # a segment was compacted, or its topic was deleted
            part.to_arrow(["offset"], on_error="skip")
        yield from ((part.topic, damage) for damage in part.damaged if damage.code in LOSSES)


def copy_files(source: Path, target: Path) -> bool:
    """Copy a directory as rsync does: list all files first. Return whether all of them still existed."""
    complete = True
    for folder, _, names in list(os.walk(source)):
        place = target / Path(folder).relative_to(source)
        place.mkdir(parents=True, exist_ok=True)
        for name in sorted(names):
            try:
                shutil.copy2(Path(folder) / name, place / name)
            except FileNotFoundError:
                complete = False
    return complete


def copy_tar(source: Path, target: Path) -> bool:
    """Copy a directory with tar. Return whether no file was deleted before tar read it."""
    target.mkdir()
    command = ["tar", "-C", str(source), "-cf", str(target) + ".tar", "."]
    made = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"LC_ALL": "C"})
    subprocess.run(["tar", "-C", str(target), "-xf", str(target) + ".tar"], check=True)
    return "No such file" not in made.stderr and "removed before" not in made.stderr


def test_running_broker_loses_nothing(tmp_path: Path) -> None:
    with Broker(tmp_path / "broker", SETTINGS) as broker:
        admin, stopped = AdminClient({"bootstrap.servers": broker.bootstrap}), Event()
        for topic in TOPICS:
            create(admin, topic)
        threads = [Thread(target=work, args=(broker.bootstrap, stopped)) for work in (write, change)]
        for thread in threads:
            thread.start()
        try:
            deadline, rounds, copies = time.monotonic() + SECONDS, 0, 0
            while time.monotonic() < deadline:
                (folder,) = broker.log_dirs
                assert list(losses(folder)) == []
                if rounds % 3 == 0:
                    for copy in (copy_files, copy_tar):
                        complete = copy(folder, tmp_path / "copy")
                        found = list(losses(tmp_path / "copy"))
                        # A copy of a running broker may contain checkpoints that are newer than its segments.
                        assert not complete or [f for f in found if f[1].code != "missing_end"] == []
                        copies += complete
                        shutil.rmtree(tmp_path / "copy")
                rounds += 1
        finally:
            stopped.set()
            for thread in threads:
                thread.join()
        assert rounds > SECONDS / 10
        assert copies
    assert list(losses(folder)) == []
