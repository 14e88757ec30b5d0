"""Test the steps in the report of an export, and what Spark's web UI shows about its jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from exporting import RunExport
from golden_cases import case
from pyspark.sql import SparkSession

from kafkafmt.log import discover

GOLDEN = case("segments")
TORN = case("torn")


def log_bytes(roots: list[Path]) -> int:
    return sum(segment.size for p in discover(roots).partitions for segment in p.segments)


def test_report_says_what_each_step_read_and_wrote(run_export: RunExport) -> None:
    report, _ = run_export(GOLDEN.roots)
    steps = report["steps"]
    assert [step["step"] for step in steps] == ["planning", "exporting", "committing"]
    assert all(set(step) == {"step", "tasks", "bytes_read", "records", "seconds"} for step in steps)
    size = log_bytes(GOLDEN.roots)
    assert size <= steps[1]["bytes_read"] <= 1.02 * size
    assert steps[1]["records"] == report["written"]["records"] == len(GOLDEN.expected())
    assert [step["tasks"] > 0 for step in steps] == [False, True, False]
    assert steps[0]["bytes_read"] == steps[2]["bytes_read"] == 0
    total = report["seconds"]["total"]
    assert sum(step["seconds"] for step in steps) == pytest.approx(total, abs=0.05 + total / 10)


def test_steps_of_a_damaged_log_include_the_planning_of_segments(run_export: RunExport) -> None:
    report, _ = run_export(TORN.roots)
    steps = {step["step"]: step for step in report["steps"]}
    names = [step["step"] for step in report["steps"]]
    assert names == ["planning", "exporting", "planning segments", "exporting", "committing"]
    assert steps["planning segments"]["bytes_read"] > 0
    assert sum(step["records"] for step in report["steps"]) == report["written"]["records"]
    assert steps["committing"]["bytes_read"] == report["quarantined"]["bytes"]


def descriptions(spark: SparkSession) -> list[tuple[str, str, set[str]]]:
    """Return group, description, and descriptions of the stages of each job, as the REST API of Spark's UI returns them."""

    def text_of(option: Any) -> str:
        return str(option.get()) if option.isDefined() else ""

    store: Any = spark.sparkContext._jsc.sc().statusStore()
    jobs, found = store.jobsList(None), []
    for i in range(jobs.size()):
        job = jobs.apply(i)
        stages = job.stageIds()
        texts = {text_of(store.lastStageAttempt(stages.apply(j)).description()) for j in range(stages.size())}
        found.append((text_of(job.jobGroup()), text_of(job.description()), texts))
    return found


def test_jobs_and_stages_have_readable_descriptions(run_export: RunExport, spark: SparkSession, tmp_path: Path) -> None:
    before = {group for group, _, _ in descriptions(spark)}
    report, out = run_export(TORN.roots)
    new = {text: (group, stages) for group, text, stages in descriptions(spark) if group not in before}
    partitions = report["read"]["partitions"]
    (whole,) = [text for text in new if f" of {partitions} partitions as Parquet to {out}" in text]
    (planning,) = [text for text in new if text.startswith("kafkafmt export: plan 8 segments (")]
    assert whole.startswith("kafkafmt export: write ")
    for text in (whole, planning):
        group, stages = new[text]
        assert group.startswith("kafkafmt export ")
        assert stages == {text}
    jobs = [spark.sparkContext.statusTracker().getJobIdsForGroup(group) for group, _ in new.values()]
    assert all(len(ids) == 1 for ids in jobs)


def test_jobs_of_the_user_keep_their_own_description(run_export: RunExport, spark: SparkSession) -> None:
    spark.sparkContext.setJobGroup("mine", "my own job")
    try:
        run_export(GOLDEN.roots)
        spark.sparkContext.parallelize([1]).count()
    finally:
        for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            spark.sparkContext.setLocalProperty(name, None)  # type: ignore[arg-type]
    (mine,) = [text for group, text, _ in descriptions(spark) if group == "mine"]
    assert mine == "my own job"
