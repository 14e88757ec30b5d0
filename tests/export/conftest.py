"""Provide a Spark session for all tests of the export, and a function that exports."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from export_jobs import job_of
from exporting import RunExport, assert_no_leftovers
from pyspark.sql import SparkSession

from kafkafmt.exporting.job import WriteBundle
from kafkafmt.exporting.local_engine import LocalEngine
from kafkafmt.exporting.options import Progress
from kafkafmt.exporting.spark_jobs import SparkEngine
from kafkafmt.exporting.tasks import write_bundle
from kafkafmt.log.reading.record_selection import OffsetBound
from kafkafmt.spark.session import make_session


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    return make_session("local[2]", "tests")


@pytest.fixture
def run_export(spark: SparkSession, tmp_path: Path) -> RunExport:
    """Return a function that runs an export, and returns the report and the output directory."""

    def run(
        paths: Sequence[Path],
        *,
        offsets: str | tuple[OffsetBound | None, OffsetBound | None] = ":",
        progress: Progress | None = None,
        write: WriteBundle = write_bundle,
        tell: Callable[[str], None] | None = None,
        **options: Any,
    ) -> tuple[dict[str, Any], Path]:
        options.setdefault("output", tmp_path / "out")
        job = job_of(paths, offsets, tell, **options)
        report = job.run(
            LocalEngine(2) if job.options.engine == "local" else SparkEngine(spark), progress, write
        ).to_dict()
        out = Path(job.options.output)
        assert json.loads((out / "report.json").read_text(encoding="utf-8")) == report
        assert (out / "_SUCCESS").exists()
        assert_no_leftovers(out)
        return report, out

    return run
