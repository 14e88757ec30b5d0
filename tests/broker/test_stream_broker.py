"""Test that a stream reads each record once while a broker writes."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import java_tools
import pytest
import source_rows
from golden_cases import rows, same_rows
from kafka_broker import Broker
from live_topics import FIRST, LEVELS, THEN
from pyspark.sql.streaming.datasource import ReadMaxRows

from kafkafmt.spark.schema import struct_of

pytestmark = [
    pytest.mark.full,
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]


class Stream(threading.Thread):
    """Read one micro-batch after another. After every seventh, a new reader continues, as after a restart."""

    def __init__(self, log_dirs: list[Path], level: str) -> None:
        super().__init__()
        options = {"startingOffsets": "earliest", "subscribePattern": "live|tx|later", "kafka.isolation.level": level}
        self.source = source_rows.source(log_dirs, **options)
        self.batches: list[Any] = []
        self.rounds = 0
        self.done = threading.Event()

    def run(self) -> None:
        reader: Any = self.make()
        end = reader.initialOffset()
        idle = False
        while not (self.done.is_set() and idle):
            idle = self.done.is_set()
            following = reader.latestOffset(end, ReadMaxRows(500))
            idle = idle and following == end
            if self.rounds % 7 == 6:
                reader = self.make()
            self.batches += [b for part in reader.partitions(end, following) for b in reader.read(part)]
            end = following
            self.rounds += 1
            time.sleep(0.02)

    def make(self) -> Any:
        return self.source.streamReader(struct_of(source_rows.COLUMNS))


def test_stream_reads_each_record_of_the_consumer_once(tmp_path: Path) -> None:
    settings = {"log.segment.bytes": "1048576", "log.index.size.max.bytes": "16384"}
    with Broker(tmp_path / "broker", settings) as broker:
        broker.produce(*FIRST)
        streams = {level: Stream(broker.log_dirs, level) for level in LEVELS}
        for stream in streams.values():
            stream.start()
        broker.produce(*THEN)
        expected = {
            level: rows(broker.consume("live", "tx", "later", committed=level == "read_committed")) for level in LEVELS
        }
        for stream in streams.values():
            stream.done.set()
            stream.join(120)
    for level, stream in streams.items():
        assert stream.rounds > 20
        assert sum(b.num_rows for b in stream.batches) == len(expected[level])
        same_rows(source_rows.rows(source_rows.table(stream.batches)), expected[level])
