"""The data source's stream beside a real broker that is being written to: its records are those of the Java consumer, each once."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from golden_cases import rows, same_rows
from pyspark.sql.streaming.datasource import ReadMaxRows

from kafkafmt.spark.schema import struct_of

sys.path.insert(0, str(Path(__file__).parents[1] / "spark"))
sys.path.insert(0, str(Path(__file__).parent))

import java_tools
import source_rows
from kafka_broker import Broker
from test_follow_broker import FIRST, LEVELS, THEN

pytestmark = [
    pytest.mark.full,
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]


class Stream(threading.Thread):
    """Batch after batch, with a new reader now and then, as after a restart."""

    def __init__(self, log_dirs: list[Path], level: str) -> None:
        super().__init__()
        options = {"startingOffsets": "earliest", "subscribePattern": "live|tx|later", "kafka.isolation.level": level}
        self.source = source_rows.source(log_dirs, **options)
        self.batches: list[Any] = []
        self.looks = 0
        self.done = threading.Event()

    def run(self) -> None:
        reader: Any = self.make()
        end = reader.initialOffset()
        quiet = False
        while not (self.done.is_set() and quiet):
            quiet = self.done.is_set()
            following = reader.latestOffset(end, ReadMaxRows(500))
            quiet = quiet and following == end
            if self.looks % 7 == 6:
                reader = self.make()
            self.batches += [b for part in reader.partitions(end, following) for b in reader.read(part)]
            end = following
            self.looks += 1
            time.sleep(0.02)

    def make(self) -> Any:
        return self.source.streamReader(struct_of(source_rows.COLUMNS))


def test_reading_next_to_a_live_broker(tmp_path: Path) -> None:
    settings = {"log.segment.bytes": "1048576", "log.index.size.max.bytes": "16384"}
    with Broker(tmp_path / "broker", settings) as broker:
        broker.produce(*FIRST)
        streams = {level: Stream(broker.log_dirs, level) for level in LEVELS}
        for stream in streams.values():
            stream.start()
        broker.produce(*THEN)
        want = {
            level: rows(broker.consume("live", "tx", "later", committed=level == "read_committed")) for level in LEVELS
        }
        for stream in streams.values():
            stream.done.set()
            stream.join(120)
    for level, stream in streams.items():
        assert stream.looks > 20
        assert sum(b.num_rows for b in stream.batches) == len(want[level])
        same_rows(source_rows.rows(source_rows.table(stream.batches)), want[level])
