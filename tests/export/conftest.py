"""What the tests of the export share: a Spark session, and a way to export in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from exporting import assert_nothing_beside

from kafkafmt.cli.offset_range import parse_offsets
from kafkafmt.log import discover
from kafkafmt.log.reading.record_selection import Selection
from kafkafmt.log.reading.selection import select_partitions


@pytest.fixture(scope="session")
def spark():
    from kafkafmt.spark.session import make_session

    return make_session("local[2]", "tests")


@pytest.fixture
def run_export(spark, tmp_path):
    """Do one in this session: (report, OUT)."""
    from kafkafmt.spark.export import ExportOptions
    from kafkafmt.spark.export.job import Export

    def run(
        paths: list[Path],
        *,
        offsets=":",
        progress=None,
        write=None,
        tell=None,
        **options: Any,
    ):
        options.setdefault("output", tmp_path / "out")
        bounds = parse_offsets(offsets) if isinstance(offsets, str) else offsets
        selected = {name: options.pop(name) for name in ("isolation", "below_log_start") if name in options}
        options["selection"] = Selection(*bounds, **selected)
        wanted = ExportOptions(tuple(map(str, paths)), **options)
        found = discover(paths, wanted.replicas)
        chosen = select_partitions(found.partitions, wanted.topics, wanted.partitions, wanted.internal)
        job = Export(found, chosen, wanted, tell)
        further = {} if write is None else {"write": write}
        report = job.run(spark, progress, **further).to_dict()
        out = Path(wanted.output)
        assert json.loads((out / "report.json").read_text(encoding="utf-8")) == report
        assert (out / "_SUCCESS").exists()
        assert_nothing_beside(out)
        return report, out

    return run
