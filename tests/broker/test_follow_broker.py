"""Test that `cat -f` prints the records of the Java consumer while a broker writes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import java_tools
import pytest
from golden_cases import rows, same_rows
from kafka_broker import Broker
from live_topics import FIRST, LEVELS, THEN

pytestmark = [
    pytest.mark.full,
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]


def test_follow_prints_what_the_consumer_returns(tmp_path: Path) -> None:
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
        expected = {level: rows(broker.consume(*topics, committed=level == "read_committed")) for level in LEVELS}
        assert len(expected["read_uncommitted"]) > len(expected["read_committed"]) > 3000
        deadline = time.monotonic() + 120
        for level in LEVELS:
            while (tmp_path / level).read_text().count("\n") < len(expected[level]) and time.monotonic() < deadline:
                time.sleep(0.2)
        for process in running:
            process.send_signal(signal.SIGINT)
            assert process.wait(120) == 130
    for level in LEVELS:
        same_rows(rows((tmp_path / level).read_text().splitlines()), expected[level])
