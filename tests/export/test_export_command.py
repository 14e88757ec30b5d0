"""Test the output and the exit codes of `kafkafmt export`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command import process as kafkafmt
from exporting import expected_rows, read_with_pyarrow, rows_of
from golden_cases import case, same_rows

pytestmark = pytest.mark.slow

TORN = case("torn").roots[0]


def one_line(done: subprocess.CompletedProcess[str], code: int) -> str:
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 or "Usage:" in done.stderr, done.stderr
    return done.stderr


def test_damage_is_printed_and_an_existing_output_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = kafkafmt("export", TORN, "--output", out)
    assert done.returncode == 1
    assert done.stderr == ""
    assert "torn-flip-old-0: offsets 144 to 146 may be lost" in done.stdout
    assert "in all" in done.stdout
    for place in ("data", "quarantine", "report.json"):
        assert str(out / place) in done.stdout
    assert "already exists" in one_line(kafkafmt("export", TORN, "--output", out), 2)
    assert (out / "_SUCCESS").exists()


def test_json_report_of_a_selection_with_a_codec(tmp_path: Path) -> None:
    golden, out = case("segments"), tmp_path / "out"
    arguments = [
        "-t",
        "segments-s*",
        "-p",
        "0",
        "-o",
        "5:20",
        "--compression-level",
        "3",
        "--master",
        "local[1]",
        "--format",
        "json",
    ]
    done = kafkafmt("export", *golden.roots, "--output", out, *arguments)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report == json.loads((out / "report.json").read_text())
    assert report["codec"] == {"name": "zstd", "level": 3}
    assert report["options"]["master"] == "local[1]"
    expected = {
        at: row for at, row in expected_rows(golden).items() if at[:2] == ("segments-size", 0) and 5 <= at[2] < 20
    }
    same_rows(rows_of(read_with_pyarrow(out / "data")), expected)


def test_damage_ends_the_export_in_fail_mode(tmp_path: Path) -> None:
    message = one_line(kafkafmt("export", TORN, "--output", tmp_path / "out", "--on-error", "fail"), 1)
    assert "torn-flip" in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["/no/such/path", "--output", "out"], 3),
        ([TORN, "--output", "out", "-t", "nothing"], 2),
        ([TORN], 2),
        ([TORN, "--output", "out", "--on-error", "skip"], 2),
        ([TORN, "--output", "out", "--compression", "snappy", "--compression-level", "3"], 2),
        ([TORN, "--output", TORN / "out"], 2),
        ([TORN, "--output", "out", "--conf", "what"], 2),
        ([TORN, "--output", "out", "--file-size", "big"], 2),
        ([TORN, "--output", "out", "--columns", "value,when"], 2),
        ([TORN, "--output", "out", "--columns", "topic"], 2),
        ([TORN, "--output", "out", "--partition-by", "week"], 2),
        ([TORN, "--output", "out", "--file-size", "1k"], 2),
    ],
)
def test_wrong_usage_is_reported_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str | Path], code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    one_line(kafkafmt("export", *arguments), code)
    assert list(tmp_path.iterdir()) == []


def export_without(package: str, tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run an export in which a package cannot be imported, because an empty module with its name hides it."""
    (tmp_path / "hiding").mkdir()
    (tmp_path / "hiding" / f"{package}.py").write_text(f"raise ModuleNotFoundError('no {package}', name='{package}')")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "hiding"), str(Path(__file__).parents[2])])
    }
    command = [sys.executable, "-m", "kafkafmt", "export", str(TORN), "--output", str(tmp_path / "out"), *options]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.parametrize(("package", "options"), [("pyspark", ["--engine", "spark"]), ("pyarrow", [])])
def test_missing_package_is_reported_with_the_remedy(tmp_path: Path, package: str, options: list[str]) -> None:
    done = export_without(package, tmp_path, *options)
    assert f"export needs {package}: pip install '" in one_line(done, 3)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("options", [[], ["--engine", "local"]])
def test_export_without_spark_advises_only_pyarrow(tmp_path: Path, options: list[str]) -> None:
    done = export_without("pyarrow", tmp_path, *options)
    assert "export needs pyarrow: pip install 'pyarrow>=14'" in one_line(done, 3)
    assert "pyspark" not in done.stderr


def test_export_runs_without_pyspark_and_says_so(tmp_path: Path) -> None:
    done = export_without("pyspark", tmp_path)
    assert done.returncode == 1  # the log is damaged
    assert "the export runs in threads of this process, without Spark: kafkafmt.spark needs pyspark: " in done.stderr
    assert json.loads((tmp_path / "out" / "report.json").read_text())["options"]["engine"] == "local"


def test_missing_java_is_reported_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if (Path(sys.prefix) / "jdk").exists():
        pytest.skip("Java is installed in this environment")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to(shutil.which("sh") or "/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert "Java" in one_line(kafkafmt("export", TORN, "--output", tmp_path / "out", "--engine", "spark"), 2)
