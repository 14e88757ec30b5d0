"""Test the export in threads of one process: its output equals that of Spark's engine."""

from __future__ import annotations

import gzip
import json
import os
import random
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from building import mutate, simple_batch
from exporting import RunExport, assert_no_leftovers, expected_rows, read_with_pyarrow, rows_of
from golden_cases import CASES, Case, case, same_rows

import kafkafmt
from kafkafmt.exporting.engine import JobProgress
from kafkafmt.exporting.local_engine import LocalEngine

UNDAMAGED = [c for c in CASES if not c.torn]
TORN = case("torn").roots[0]
VARIES = ("started", "finished", "output", "seconds", "steps", "worker_memory", "options")
"""Keys of a report whose values differ between two exports of the same log."""


def local(paths: Any, out: Path, **options: Any) -> kafkafmt.reports.ExportReport:
    report = kafkafmt.export(paths, out, engine="local", **options)
    assert json.loads((out / "report.json").read_text(encoding="utf-8")) == report.to_dict()
    assert_no_leftovers(out)
    return report


@pytest.mark.parametrize("golden", UNDAMAGED, ids=str)
def test_export_of_every_golden_log_equals_the_consumer(golden: Case, tmp_path: Path) -> None:
    report = local(golden.roots, tmp_path / "out", internal=golden.internal)
    assert report.ok
    assert report.options.engine == "local"
    actual = rows_of(read_with_pyarrow(tmp_path / "out" / "data"))
    same_rows({at: row for at, row in actual.items() if at[0] != "__cluster_metadata"}, expected_rows(golden))


def test_report_and_quarantine_equal_those_of_spark(run_export: RunExport, tmp_path: Path) -> None:
    with_spark, spark_out = run_export([TORN])
    report = local(TORN, tmp_path / "local").to_dict()
    assert not report["ok"]
    assert {k: v for k, v in report.items() if k not in VARIES} == {
        k: v for k, v in with_spark.items() if k not in VARIES
    }
    assert pq.read_table(tmp_path / "local" / "quarantine") == pq.read_table(spark_out / "quarantine")
    same_rows(rows_of(read_with_pyarrow(tmp_path / "local" / "data")), rows_of(read_with_pyarrow(spark_out / "data")))


@pytest.mark.parametrize(
    "damaged",
    [
        mutate(simple_batch([b"v"] * 3, 1), 23, struct.pack(">i", -5), repair=True),
        simple_batch([random.Random(1).randbytes(5 << 20)], 1),
    ],
    ids=["negative delta", "too large"],
)
def test_export_omits_damaged_batches_whose_crc_matches(tmp_path: Path, damaged: bytes) -> None:
    segment = tmp_path / "log" / "t-0" / f"{0:020}.log"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(simple_batch([b"a"], 0) + damaged + simple_batch([b"b"], 4))
    report = local(tmp_path / "log", tmp_path / "out", max_batch_bytes=1 << 20)
    assert (report.written.records, report.quarantined.spans) == (2, 1)


def test_damage_ends_the_export_in_fail_mode(tmp_path: Path) -> None:
    with pytest.raises(kafkafmt.DamagedLogError):
        local(TORN, tmp_path / "out", on_error="fail")
    assert list(tmp_path.iterdir()) == []


def test_local_export_loads_neither_pyspark_nor_java(tmp_path: Path) -> None:
    code = (
        "import sys, kafkafmt\n"
        "kafkafmt.export(sys.argv[1], sys.argv[2], engine='local')\n"
        "print([name for name in ('pyspark', 'py4j') if name in sys.modules])"
    )
    root = case("codecs").roots[0]
    command = [sys.executable, "-c", code, str(root), str(tmp_path / "out")]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "JAVA_HOME": "/nowhere", "PATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "[]\n"


def test_error_of_a_task_is_raised_after_the_running_tasks_end() -> None:
    running, failed = [0], threading.Event()

    def work(item: int) -> int:
        running[0] += 1
        try:
            if item == 3:
                failed.set()
                raise OSError("disk")
            failed.wait(20)
            return item
        finally:
            running[0] -= 1

    with pytest.raises(OSError, match="disk"):
        LocalEngine(2).run([[0, 1], [3], [4], [5]], work, lambda *_: JobProgress(1), "test")
    assert running == [0]


def test_results_are_in_the_order_of_the_tasks() -> None:
    seen: list[int] = []
    results = LocalEngine(3).run(
        [[n, n + 1] for n in range(0, 20, 2)],
        lambda n: n * n,
        lambda *_: JobProgress(1),
        "test",
        lambda done: not seen.append(done.bytes),  # type: ignore[func-returns-value]
    )
    assert results == [n * n for n in range(20)]
    assert seen[-1] == 20
    assert LocalEngine(1).run([], work_nothing, lambda *_: JobProgress(), "test") == []


def work_nothing(item: int) -> int:
    return item


def test_progress_cancels_the_tasks_that_have_not_started() -> None:
    started: list[int] = []

    def work(item: int) -> None:
        started.append(item)
        release.wait(20)

    def progress(_: JobProgress) -> bool:
        release.set()
        return False

    release = threading.Event()
    assert LocalEngine(1).run([[n] for n in range(10)], work, lambda *_: JobProgress(1), "test", progress) == []
    assert len(started) < 10


def test_truncated_compressed_segment_fails_the_export(tmp_path: Path) -> None:
    with kafkafmt.LogDirectory(tmp_path / "log", segment_bytes=600) as directory:
        writer = directory.writer("t", 0)
        for i in range(20):
            writer.append([(b"k", b"v" * 100, i)])
    first = min((tmp_path / "log" / "t-0").glob("*.log"))
    packed = first.with_name(f"{first.name}.gz")
    packed.write_bytes(gzip.compress(first.read_bytes())[:-20])
    first.unlink()
    with pytest.raises(OSError, match="the gzip data is damaged or incomplete"):
        kafkafmt.export(tmp_path / "log", tmp_path / "out", engine="local")
    assert not (tmp_path / "out").exists()
