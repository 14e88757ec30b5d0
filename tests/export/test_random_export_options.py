"""Compare exports with `kafkafmt cat`. The logs, topics, file sizes, layouts and numbers of runs are random."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from damaged_logs import append_to_directory, cat, damage, write_mixed_directory
from export_jobs import job_of
from exporting import RunExport, assert_no_leftovers
from pyspark.sql import SparkSession
from random_exports import VARIES, Row, check_export, in_order, options_of, rows_in, rows_of

from kafkafmt.exporting import options as export_options
from kafkafmt.exporting.local_engine import LocalEngine
from kafkafmt.exporting.spark_jobs import SparkEngine
from kafkafmt.log import DamagedLogError, discover
from kafkafmt.log.catalog.selection import select_partitions
from kafkafmt.log.transactions.transactions import TransactionInDoubtError

ENGINES = ("spark", "local")
QUICK = 4
SEEDS = [pytest.param(seed, marks=() if seed < QUICK else pytest.mark.full) for seed in range(100)]
GLOBS = (("*",), ("a",), ("b*",), ("[at]*",), ("a", "__*"), ("*.x", "b-c"), ("__internal",))


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow file sizes so small that the small logs of these tests are divided into several files."""
    monkeypatch.setattr(export_options, "SMALLEST_FILE_SIZE", 1)


def more_options(chance: Random, root: Path) -> tuple[dict[str, Any], list[str]]:
    """Return options of an export, and the options of `cat` that select the same records."""
    options, arguments = options_of(chance)
    if chance.random() < 0.7:
        options["file_size"] = chance.choice((400, 4_000, 20_000, 100_000))
    topics = chance.choice(GLOBS)
    if chance.random() < 0.7 and select_partitions(discover([root]).partitions, topics, (), False):
        options["topics"] = topics
        arguments += [f"--topic={topic}" for topic in topics]
    return options, arguments


@pytest.mark.parametrize("seed", SEEDS)
def test_export_of_random_topics_and_file_sizes_equals_cat(seed: int, run_export: RunExport, tmp_path: Path) -> None:
    chance, root = Random(seed), tmp_path / "log"
    write_mixed_directory(root, chance)
    options, arguments = more_options(chance, root)
    expected, code = cat([root, *arguments])
    reports = []
    for engine in ENGINES:
        report, out = run_export([root], engine=engine, output=tmp_path / engine, **options)
        reports.append(check_export(report, out, expected, code))
    assert reports[0] == reports[-1]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_export_fails_only_if_cat_reports_damage(seed: int, run_export: RunExport, tmp_path: Path) -> None:
    chance, root = Random(seed), tmp_path / "log"
    write_mixed_directory(root, chance)
    options, arguments = more_options(chance, root)
    expected, code = cat([root, *arguments])
    for engine in ENGINES:
        out = tmp_path / engine
        if code:
            with pytest.raises((DamagedLogError, TransactionInDoubtError)):
                run_export([root], engine=engine, output=out, on_error="fail", **options)
            assert not out.exists()
            assert_no_leftovers(out)
        else:
            check_export(run_export([root], engine=engine, output=out, on_error="fail", **options)[0], out, expected, 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_export_to_a_single_file_equals_cat(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    chance, root = Random(seed), tmp_path / "log"
    write_mixed_directory(root, chance)
    options, arguments = more_options(chance, root)
    for name in ("join_small", "partition_by"):
        options.pop(name, None)
    expected, code = cat([root, *arguments])
    reports = []
    for engine in ENGINES:
        out = tmp_path / engine / "out.parquet"
        job = job_of([root], output=out, engine=engine, **options)
        report = job.run(SparkEngine(spark) if engine == "spark" else LocalEngine(2)).to_dict()
        assert {p.name for p in out.parent.iterdir()} == {out.name, f"{out.name}.report.json"}
        rows = rows_in(out)
        names = sorted(rows[0]) if rows else []
        assert [[row[n] for n in names] for row in rows] == [[row[n] for n in names] for row in expected]
        assert (report["written"]["records"], report["ok"]) == (len(expected), code == 0)
        reports.append({key: value for key, value in report.items() if key not in VARIES})
    assert reports[0] == reports[-1]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_resumed_exports_equal_cat(seed: int, run_export: RunExport, tmp_path: Path) -> None:
    """Before the last run, the test can damage segments that no earlier run has exported."""
    chance, root = Random(seed), tmp_path / "log"
    write_mixed_directory(root, chance, damaged=False)
    options, _ = more_options(chance, root)
    options.pop("offsets", None)
    arguments = [f"--topic={topic}" for topic in options.get("topics", ())]
    arguments += ["--isolation", options.get("isolation", "read_uncommitted")]
    arguments += [f"--{n.replace('_', '-')}" for n in ("internal", "below_log_start") if n in options]
    written, runs = dict.fromkeys(ENGINES, 0), chance.choice((2, 3, 4))
    ends, expected = dict[tuple[str, int], int](), list[Row]()
    for run in range(runs):
        if run:
            append_to_directory(root, chance, run)
        if run == runs - 1:
            damage_new_segments(root, ends, chance)
        found, code = cat([root, *arguments])
        # Damage can hide the outcome of a transaction whose records an earlier run has exported.
        expected = [row for row in expected if row["offset"] < ends[row["topic"], row["partition"]]]
        expected += [row for row in found if row["offset"] >= ends.get((row["topic"], row["partition"]), 0)]
        reports = []
        for engine in ENGINES:
            report, out = run_export([root], engine=engine, output=tmp_path / engine, resume=True, **options)
            rows = rows_of(out / "data")
            names = sorted(rows[0]) if rows else []
            assert in_order(rows, names) == in_order(expected, names)
            written[engine] += report["written"]["records"]
            assert (written[engine], report["ok"], report["run"]) == (len(expected), code == 0, run)
            reports.append({key: value for key, value in report.items() if key not in VARIES})
        assert reports[0] == reports[-1]
        ends = {(p["topic"], p["partition"]): p["next_offset"] for p in report["partitions"]}


def damage_new_segments(root: Path, ends: dict[tuple[str, int], int], chance: Random) -> None:
    """Damage segments that begin at or after the offset at which the last run ended."""
    for (topic, partition), end in ends.items():
        new = [s for s in sorted((root / f"{topic}-{partition}").glob("*.log")) if int(s.stem) >= end]
        for _ in range(chance.choice((0, 0, 1, 2)) if new else 0):
            if (segment := chance.choice(new)).exists():
                damage(segment, chance)
