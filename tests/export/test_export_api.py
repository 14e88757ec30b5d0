"""Test `kafkafmt.export`, the Python API of the export."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from exporting import assert_no_leftovers, expected_rows, in_micros, read_with_pyarrow, rows_of
from golden_cases import Case, case, same_rows
from pyspark.sql import SparkSession

import kafkafmt
from kafkafmt.log import DamagedLogError, NoLogError, PartitionLog, discover

GOLDEN = case("segments")
GROUPS = Case("legacy", "0.10.2.2-groups")
TORN = case("torn")


def test_export_returns_the_report_that_it_writes(spark: SparkSession, tmp_path: Path) -> None:
    steps: dict[str, list[tuple[int, int]]] = {}
    report = kafkafmt.export(
        GOLDEN.roots,
        tmp_path / "out",
        progress=lambda step, done, total: steps.setdefault(step, []).append((done, total)),
    )
    assert isinstance(report, kafkafmt.reports.ExportReport)
    assert report.ok
    assert report.output == tmp_path / "out"
    assert report.to_dict() == json.loads((tmp_path / "out" / "report.json").read_text())
    assert report.written.records == sum(p.written.records for p in report.partitions) == len(GOLDEN.expected())
    assert report.started <= report.finished
    assert list(steps) == ["exporting"]  # the active session is used, and Spark is not started
    assert all(done <= total for calls in steps.values() for done, total in calls)
    same_rows(rows_of(read_with_pyarrow(tmp_path / "out" / "data")), expected_rows(GOLDEN))
    assert_no_leftovers(tmp_path / "out")
    assert spark.range(1).count() == 1  # the export has not stopped the session


def test_export_selects_by_topic_partition_and_offset(spark: SparkSession, tmp_path: Path) -> None:
    report = kafkafmt.export(
        [str(root) for root in GOLDEN.roots], str(tmp_path / "out"), topics="segments-s*", partitions=0, start=5, end=20
    )
    expected = {
        at: row for at, row in expected_rows(GOLDEN).items() if at[:2] == ("segments-size", 0) and 5 <= at[2] < 20
    }
    same_rows(rows_of(read_with_pyarrow(tmp_path / "out" / "data")), expected)
    options = report.to_dict()["options"]
    assert (options["topics"], options["partitions"]) == (["segments-s*"], [0])
    assert options["offsets"] == {"from": {"kind": "offset", "n": 5}, "to": {"kind": "offset", "n": 20}}


def test_export_counts_negative_offsets_from_the_end(spark: SparkSession, tmp_path: Path) -> None:
    ends = {p.key: PartitionLog(p).next_offset for p in discover(GOLDEN.roots).partitions}
    kafkafmt.export(GOLDEN.roots, tmp_path / "out", start=-5, end=-1)
    expected = {at: row for at, row in GOLDEN.expected().items() if ends[at[:2]] - 5 <= at[2] < ends[at[:2]] - 1}
    same_rows(rows_of(read_with_pyarrow(tmp_path / "out" / "data")), in_micros(expected))


def test_export_accepts_times_as_milliseconds_and_datetimes(spark: SparkSession, tmp_path: Path) -> None:
    bounds: list[int | datetime] = [1700000002000, datetime.fromtimestamp(1700000002, UTC)]
    reports = [kafkafmt.export(GOLDEN.roots, tmp_path / str(i), start_time=bound) for i, bound in enumerate(bounds)]
    assert reports[0].written.records == reports[1].written.records < len(GOLDEN.expected())
    assert reports[0].options.selection == reports[1].options.selection


def test_export_reports_damage_in_fields_and_html(spark: SparkSession, tmp_path: Path) -> None:
    report = kafkafmt.export(TORN.roots, tmp_path / "out", compression="snappy")
    assert not report.ok
    (damage,) = next(p for p in report.partitions if p.topic == "torn-flip-old").quarantined.damaged
    assert (damage.first_offset, damage.last_offset) == (144, 146)
    assert report.quarantined.spans == pq.read_table(tmp_path / "out" / "quarantine").num_rows
    assert (report.codec.name, report.codec.level) == ("snappy", None)
    page = report._repr_html_()
    assert ">torn-flip-old-0</td>" in page
    assert "damaged spans" in page
    with pytest.raises(DamagedLogError):
        kafkafmt.export(TORN.roots, tmp_path / "other", on_error="fail")
    assert not (tmp_path / "other").exists()


def test_error_of_the_output_carries_facts_and_names_arguments(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(kafkafmt.OutputExistsError, match="pass overwrite=True") as exists:
        kafkafmt.export(GOLDEN.roots, tmp_path / "out")
    assert exists.value.output == tmp_path / "out"
    with pytest.raises(kafkafmt.OutputPlaceError, match=r"contains .*, which is an input; choose another directory"):
        kafkafmt.export(GOLDEN.roots, GOLDEN.roots[0].parent, overwrite=True)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"topics": "segments-z"}, kafkafmt.PartitionNotFoundError, "no topic matches 'segments-z'"),
        ({"start": 1, "start_time": 1}, ValueError, "start and start_time cannot both be given"),
        ({"start": "1"}, TypeError, "start"),
        ({"isolation": "committed"}, ValueError, "isolation is 'committed'"),
        ({"on_error": "skip"}, ValueError, "on_error is 'skip'"),
        ({"compression": "gzip"}, ValueError, "compression is 'gzip'"),
        ({"compression": "lz4", "compression_level": 3}, ValueError, "compression_level is for compression 'zstd'"),
        ({"compression_level": 23}, ValueError, "compression_level is 23; it must be between -7 and 22"),
        ({"columns": ["value", "when"]}, ValueError, "there is no column 'when'"),
        ({"columns": ["value", "value"]}, ValueError, "columns has 'value' twice"),
        ({"columns": ["topic"]}, ValueError, "columns must have at least one name other than topic and partition"),
        ({"columns": "value"}, TypeError, "columns must be a list of names"),
        ({"partition_by": "week"}, ValueError, "partition_by is 'week'; it must be 'day' or 'hour'"),
        ({"file_size": 1000}, ValueError, "file_size is 1000; it must be at least 1048576"),
        ({"file_size": "1g"}, TypeError, "file_size"),
        ({"partitions": 99}, kafkafmt.PartitionNotFoundError, "no topic has partition 99"),
        ({"replicas": "all"}, ValueError, "replicas is 'all'"),
        ({"partitions": [-1]}, ValueError, "partitions"),
    ],
)
def test_wrong_argument_is_an_error(
    tmp_path: Path, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        kafkafmt.export(GOLDEN.roots, tmp_path / "out", **arguments)
    assert list(tmp_path.iterdir()) == []


def test_export_is_found_without_loading_pyspark_or_pyarrow() -> None:
    code = (
        "import sys, kafkafmt; from kafkafmt import *; kafkafmt.export, kafkafmt.reports.ExportReport;"
        "print([name for name in ('pyspark', 'py4j', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr


def test_export_starts_at_the_committed_offsets_of_a_group(spark: SparkSession, tmp_path: Path) -> None:
    (log,) = case("internal").roots
    report = kafkafmt.export(log, tmp_path / "out", group="classic-static")
    rows = read_with_pyarrow(tmp_path / "out" / "data").to_pylist()
    assert {(row["partition"], row["offset"]) for row in rows} == {(p, o) for p in range(3) for o in range(20, 30)}
    assert [(p.topic, p.partition) for p in report.partitions] == [("source", 0), ("source", 1), ("source", 2)]
    assert report.options.group == "classic-static"


@pytest.mark.parametrize(
    ("paths", "arguments", "error"),
    [
        (GROUPS.roots, {"group": "nobody"}, kafkafmt.GroupNotFoundError),
        (GROUPS.roots, {"group": "group-a", "start": 1}, ValueError),
        (GOLDEN.roots, {"group": "group-a"}, NoLogError),
    ],
)
def test_export_from_a_group_that_cannot_be_used_is_an_error(
    tmp_path: Path, paths: list[Path], arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error, match="group"):
        kafkafmt.export(paths, tmp_path / "out", **arguments)
