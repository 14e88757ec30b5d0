"""Measure `kafkafmt export` on two cores, compared with only pyarrow's Parquet writer.

A real broker wrote the topics, with values of 100 bytes. They are exported to Parquet on local[2].
The peer consists of two processes, which write the same Arrow record batches from memory, with the
same settings. The export and the peer take turns. The export cannot be faster than the peer. The
start of Spark and the first import in each worker are not measured. Planning and committing are
measured.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import report
from conftest import put

import kafkafmt
from kafkafmt.exporting import ExportOptions
from kafkafmt.exporting.engine import Engine
from kafkafmt.exporting.job import Export
from kafkafmt.exporting.local_engine import LocalEngine
from kafkafmt.exporting.parquet import COLUMNS, ROW_GROUP_BYTES, open_writer
from kafkafmt.exporting.spark_jobs import SparkEngine
from kafkafmt.log import discover
from kafkafmt.spark.quiet import quiet_start
from kafkafmt.spark.session import make_session

ROUNDS = 5
READY_BATCHES = 8
WORKER_LIMIT = 400_000_000
JVM_SECONDS = 1
"""Pause after a job of Spark, because the JVM still compiles and collects garbage for a moment."""


@pytest.fixture(scope="module")
def spark() -> Any:
    with quiet_start():
        return make_session("local[2]", "benchmark of the export")


def _row_groups(batches: list[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Combine Arrow record batches into tables that are as large as the row groups of an export."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if held and sum(b.nbytes for b in (*held, batch)) > ROW_GROUP_BYTES:
            yield pa.Table.from_batches(held)
            held = []
        held.append(batch)
    yield pa.Table.from_batches(held)


def _write_repeatedly(source: str, name: str, target: str, level: int, rows: int, ready: Any, go: Any) -> None:
    """Write `rows` rows of existing batches each time `go` is released, like one task after another."""
    partition = kafkafmt.open(source)[name, 0]
    batches = [batch for batch, _ in zip(partition.to_batches(COLUMNS, threads=1), range(READY_BATCHES), strict=False)]
    groups = list(_row_groups(batches))
    size = sum(g.num_rows for g in groups)
    while True:
        ready.release()
        if not go.acquire(timeout=600):
            return
        written = 0
        while written < rows:
            with open_writer(target, batches[0].schema, "zstd", level) as writer:
                for group in groups:
                    writer.write_table(group)
            written += size


@pytest.mark.parametrize(
    ("name", "level"), [("none", 1), ("none-64m", 1), ("lz4", 1), ("zstd", 1), ("none", 3)], ids=lambda v: str(v)
)
def test_export(
    benchmark: Any, topic: Callable[[str], Path], tmp_path: Path, spark: Any, name: str, level: int
) -> None:
    benchmark.group = "export"
    source, out = topic(name), tmp_path / "out"
    reports: list[dict[str, Any]] = []

    def export() -> None:
        found = discover([source])
        options = ExportOptions((source,), out, compression_level=level, overwrite=True)
        reports.append(Export(found, found.partitions, options).run(SparkEngine(spark)).to_dict())

    export()
    rows = reports[0]["written"]["records"]
    context = multiprocessing.get_context("spawn")
    ready, go = context.Semaphore(0), context.Semaphore(0)
    writers = [
        context.Process(
            target=_write_repeatedly, args=(str(source), name, target, level, rows // 2, ready, go), daemon=True
        )
        for target in (str(tmp_path / "0.parquet"), str(tmp_path / "1.parquet"))
    ]
    for writer in writers:
        writer.start()
    for _ in writers:
        ready.acquire()
    alone: list[float] = []

    def writer_alone() -> None:
        started = time.perf_counter()
        for _ in writers:
            go.release()
        for _ in writers:
            ready.acquire()
        alone.append(time.perf_counter() - started)

    benchmark.pedantic(export, setup=writer_alone, rounds=ROUNDS, iterations=1)
    for writer in writers:
        writer.terminate()
    own = benchmark.stats.stats.data
    low, ratio, high = report.quartiles([b / a for a, b in zip(own, alone, strict=True)])
    ours, peer = (report.quartiles([rows / s / 1e6 for s in seconds])[1] for seconds in (own, alone))
    case = f"{name}, zstd level {level}"
    figures = ("export", case, ours, "pyarrow's writer alone", peer, "M rows/s", ratio, low, high)
    put(benchmark, report.Row(*figures))
    spent = reports[-1]["seconds"]["in_tasks"]
    shares = {step: round(seconds / sum(spent.values()), 3) for step, seconds in spent.items()}
    memory = max(r["worker_memory"] for r in reports)
    benchmark.extra_info |= {"shares": shares, "worker_memory": memory, "bytes": reports[-1]["written"]["bytes"]}
    benchmark.extra_info |= {
        "load": os.getloadavg()[0],
        "seconds": {k: v for k, v in reports[-1]["seconds"].items() if k != "in_tasks"},
    }
    print(f"\n{case}: " + json.dumps(benchmark.extra_info))
    assert memory < WORKER_LIMIT


@pytest.mark.parametrize("name", ["none", "lz4"])
def test_export_in_threads(benchmark: Any, topic: Callable[[str], Path], tmp_path: Path, spark: Any, name: str) -> None:
    """Measure `--engine local` next to the same export on local[2], in turn."""
    benchmark.group = "export"
    source = topic(name)
    found = discover([source])
    rows: list[int] = []

    def export(engine: Engine) -> None:
        options = ExportOptions((source,), tmp_path / engine.name, overwrite=True)
        rows.append(Export(found, found.partitions, options).run(engine).written.records)

    on_spark: list[float] = []

    def with_spark() -> None:
        started = time.perf_counter()
        export(SparkEngine(spark))
        on_spark.append(time.perf_counter() - started)
        time.sleep(JVM_SECONDS)

    with_spark()
    on_spark.clear()
    benchmark.pedantic(lambda: export(LocalEngine(2)), setup=with_spark, rounds=ROUNDS, iterations=1)
    own = benchmark.stats.stats.data
    assert len(set(rows)) == 1
    low, ratio, high = report.quartiles([b / a for a, b in zip(own, on_spark, strict=True)])
    ours, peer = (report.quartiles([rows[0] / s / 1e6 for s in seconds])[1] for seconds in (own, on_spark))
    figures = ("export in threads", name, ours, "export on local[2]", peer, "M rows/s", ratio, low, high)
    put(benchmark, report.Row(*figures))
