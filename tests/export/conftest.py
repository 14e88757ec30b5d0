"""Provide a Spark session for all tests of the export, and a function that exports."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from exporting import RunExport, assert_no_leftovers
from pyspark.sql import SparkSession

from kafkafmt.cli.offset_range import parse_offsets
from kafkafmt.exporting.job import Export, WriteBundle
from kafkafmt.exporting.local_engine import LocalEngine
from kafkafmt.exporting.options import ExportOptions, Progress
from kafkafmt.exporting.spark_jobs import SparkEngine
from kafkafmt.exporting.tasks import write_bundle
from kafkafmt.log import discover
from kafkafmt.log.reading.record_selection import OffsetBound, Selection
from kafkafmt.log.reading.selection import select_partitions
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
        bounds = parse_offsets(offsets) if isinstance(offsets, str) else offsets
        selected = {name: options.pop(name) for name in ("isolation", "below_log_start") if name in options}
        options["selection"] = Selection(*bounds, **selected)
        settings = ExportOptions(tuple(map(str, paths)), **options)
        found = discover(paths, settings.replicas)
        chosen = select_partitions(found.partitions, settings.topics, settings.partitions, settings.internal)
        job = Export(found, chosen, settings, tell)
        report = job.run(
            LocalEngine(2) if settings.engine == "local" else SparkEngine(spark), progress, write
        ).to_dict()
        out = Path(settings.output)
        assert json.loads((out / "report.json").read_text(encoding="utf-8")) == report
        assert (out / "_SUCCESS").exists()
        assert_no_leftovers(out)
        return report, out

    return run
