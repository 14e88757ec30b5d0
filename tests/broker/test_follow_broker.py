"""`cat -f` beside a real broker that is being written to: what it prints is what the Java consumer returns, at both levels."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from golden_cases import rows, same_rows

sys.path.insert(0, str(Path(__file__).parent))

import java_tools
from kafka_broker import Broker

pytestmark = [
    pytest.mark.full,
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]

FIRST = [
    "topic=live partitions=2 codec=zstd content=mixed count=400 flush=60 time=1700000000000",
    "topic=tx partitions=1 count=5",
]
THEN = [
    "topic=live partitions=2 codec=lz4 count=3000 value=400",
    "topic=tx count=6 id=first end=open",
    "topic=tx count=8 id=second end=abort codec=zstd",
    "topic=tx count=4 id=first end=commit",
    "topic=later count=50 codec=snappy",
    "topic=tx count=4 id=third end=open",
    "topic=tx count=3 id=second end=commit",
]
LEVELS = ("read_uncommitted", "read_committed")


def test_reading_next_to_a_live_broker(tmp_path: Path) -> None:
    settings = {"log.segment.bytes": "1048576", "log.index.size.max.bytes": "16384"}
    with Broker(tmp_path / "broker", settings) as broker:
        broker.produce(*FIRST)
        running = []
        for level in LEVELS:
            command = [sys.executable, "-m", "kafkafmt", "cat", "-f", *map(str, broker.log_dirs), "--isolation", level]
            output = (tmp_path / level).open("w")
            environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
            running.append(
                subprocess.Popen([*command, "--bytes", "base64", "--format", "json"], stdout=output, env=environment)
            )
        broker.produce(*THEN)
        topics = ("live", "tx", "later")
        want = {level: rows(broker.consume(*topics, committed=level == "read_committed")) for level in LEVELS}
        assert len(want["read_uncommitted"]) > len(want["read_committed"]) > 3000
        deadline = time.monotonic() + 30
        for level in LEVELS:
            while (tmp_path / level).read_text().count("\n") < len(want[level]) and time.monotonic() < deadline:
                time.sleep(0.2)
        for process in running:
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
    for level in LEVELS:
        same_rows(rows((tmp_path / level).read_text().splitlines()), want[level])
