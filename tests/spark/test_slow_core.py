"""Test that executors with the pure-Python core are reported once in the driver's log."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from golden_cases import case
from pyspark.sql import SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict

import kafkafmt.spark
from kafkafmt import _backend
from kafkafmt.spark import shipped
from kafkafmt.spark.schema import struct_of
from kafkafmt.spark.source.data_source import KafkaLogSource

ROOT = Path(__file__).resolve().parents[2]
SLOW = "runs the pure-Python core, which is many times slower: "


def test_sink_reports_slow_executors_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sink = KafkaLogSource(CaseInsensitiveDict({"path": str(tmp_path / "log"), "topic": "t"}))
    writer: Any = sink.writer(struct_of(["value"]), False)
    rows = pa.record_batch({"value": pa.array([b"x"], pa.binary())})
    monkeypatch.setattr(shipped, "_SAID", set())
    with monkeypatch.context() as executor:
        executor.setattr(_backend, "backend", "pure")
        executor.setattr(_backend, "backend_reason", "no compiler")
        staged = [writer.write(iter([rows])) for _ in range(3)]
    monkeypatch.setattr(_backend, "backend", "native")
    writer.commit(staged)
    assert [r.getMessage().partition(SLOW)[2] for r in caplog.records] == ["no compiler"]


@pytest.mark.full
def test_export_reports_slow_executors_once(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nKAFKAFMT_BACKEND=pure exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "kafkafmt", "export", str(case("epochs").roots[0]), "--output", str(tmp_path / "out")],
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(python), "KAFKAFMT_BACKEND": "native"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if SLOW in line] == done.stderr.splitlines()
    assert len(done.stderr.splitlines()) == 1


def test_executors_are_checked(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    (found,) = kafkafmt.spark.check_executors(spark)
    assert found["version"] == kafkafmt.__version__
    assert found["core"] == _backend.backend
    assert bool(caplog.records) == (found["core"] != "native")
