"""Run the examples for SQL and Scala users, in which no Python program starts Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from golden_cases import case

ROOT = Path(__file__).resolve().parents[2]
LOG = case("segments").roots[0]
SETTINGS = {
    "spark.sql.catalogImplementation": "in-memory",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.example.path": str(LOG),
}


def run(folder: Path, program: str, *arguments: str) -> list[str]:
    """Run a program of Spark's distribution, and return the lines that it prints."""
    from kafkafmt.spark.session import prepare_environment

    prepare_environment()
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    settings = [word for key, value in SETTINGS.items() for word in ("--conf", f"{key}={value}")]
    command = [str(Path(pyspark.__file__).parent / "bin" / program), "--master", "local[2]", *settings, *arguments]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.full
def test_sql_example_reads_a_log(tmp_path: Path) -> None:
    variables = ["-d", f"path={LOG}", "-d", "topic=segments-size"]
    lines = run(tmp_path, "spark-sql", *variables, "-f", str(ROOT / "examples" / "logs.sql"))
    counts = {n: sum(at[:2] == ("segments-size", n) for at in case("segments").expected()) for n in (0, 1)}
    assert [line.split("\t") for line in lines if line.strip()][-3:] == [
        ["segments-size", "0", str(counts[0]), "0", str(counts[0] - 1)],
        ["segments-size", "1", str(counts[1]), "0", str(counts[1] - 1)],
        ["20"],
    ]


@pytest.mark.full
def test_scala_example_reads_a_log(tmp_path: Path) -> None:
    lines = run(tmp_path, "spark-shell", "-i", str(ROOT / "examples" / "ReadLogs.scala"))
    expected = case("segments").expected()
    cells = [[cell.strip() for cell in line.split("|")[1:4]] for line in lines]
    assert ["segments-time", "0", "200"] in cells
    assert f"last offset: {max(at[2] for at in expected)}" in lines
