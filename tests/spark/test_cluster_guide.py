"""Run the guide for clusters on a standalone cluster whose workers have no kafkafmt, and on Spark Connect."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest
from code_blocks import blocks_of
from command import process as kafkafmt
from example_data import make_example_data
from golden_cases import case
from source_rows import plan
from standalone import standalone_cluster

from kafkafmt.exporting import SparkError, export

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guides" / "spark-cluster.md"
REMEDY = "Install 'kafkafmt[spark]' for the Python of every executor"
SHIPPED = ("crc32c", "lz4", "python-snappy", "cramjam", "zstandard")
OF_EXECUTORS = ("numpy", "pyarrow", "py4j", "pyspark")


def copy_distribution(name: str, target: Path, link: bool = False) -> None:
    """Copy the files of an installed distribution to `target`, or link its top-level files and folders."""
    files = [f for f in importlib.metadata.files(name) or () if f.parts[0] not in ("..", "__pycache__")]
    if link:
        site = Path(str(files[0].locate())).parents[len(files[0].parts) - 1]
        for top in {f.parts[0] for f in files}:
            (target / top).symlink_to(site / top)
        return
    for file in files:
        if "__pycache__" not in file.parts:
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(file.locate()), target / file)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the guide's `job.py`, its example data, and a `pip` that copies installed packages."""
    made = tmp_path_factory.mktemp("guide")
    make_example_data(made)
    job = next(b.content for b in blocks_of(GUIDE) if b.language == "python")
    (made / "job.py").write_text(job.replace("/var/lib/kafka/data", str(made / "kafka" / "data")))
    packed = made / "packages"
    packed.mkdir()
    for name in SHIPPED:
        copy_distribution(name, packed)
    for package in ("kafkafmt", "pyspark_kafkafmt"):
        shutil.copytree(
            ROOT / package, packed / package, ignore=shutil.ignore_patterns("__pycache__", "*.pyx", "*.pxi")
        )
    tools = made / "bin"
    tools.mkdir()
    (tools / "pip").write_text(f'#!/bin/sh\nwhile [ "$1" != --target ]; do shift; done\ncp -r "{packed}" "$2"\n')
    (tools / "kafkafmt").write_text('#!/bin/sh\nexec python3 -m kafkafmt "$@"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    return made


@pytest.fixture(scope="module")
def master(folder: Path) -> Iterator[str]:
    """Start a cluster of two workers, whose Python has pyspark, NumPy and pyarrow, but no kafkafmt."""
    bare = folder / "bare"
    venv.create(bare)
    (packages,) = bare.glob("lib/python3*/site-packages")
    for name in OF_EXECUTORS:
        copy_distribution(name, packages, link=True)
    environment = ["env", "-u", "PYTHONPATH", "-u", "PYSPARK_PYTHON", f"PATH={bare / 'bin'}:{os.environ['PATH']}"]
    with standalone_cluster(folder / "spark", ["127.0.0.1", "127.0.0.2"], [environment] * 2) as url:
        yield url


def commands(section: str) -> list[str]:
    """Return the `sh` blocks in a section of the guide."""
    lines = GUIDE.read_text().splitlines()
    first = lines.index(f"## {section}") + 1
    last = next((n for n, line in enumerate(lines[first:], first + 1) if line.startswith("## ")), len(lines))
    return [b.content for b in blocks_of(GUIDE) if b.language == "sh" and first < b.line < last]


def run(folder: Path, master: str, command: str) -> subprocess.CompletedProcess[str]:
    command = command.replace("spark://master:7077", master).replace("/srv/archive", str(folder / "archive"))
    command = command.replace("/var/lib/kafka/data", str(folder / "kafka" / "data"))
    local = "--conf spark.driver.host=127.0.0.1 --conf spark.ui.enabled=false --conf spark.executor.memory=512m"
    command = re.sub(r"(spark-submit|export \S+) ", rf"\1 {local} ", command)
    environment = os.environ | {"PYSPARK_PYTHON": "python3", "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    environment["PATH"] = f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euc", command], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def test_pickled_reader_names_the_remedy_if_kafkafmt_is_missing(tmp_path: Path) -> None:
    from pyspark import cloudpickle

    reader, _ = plan(case("segments").roots)
    (tmp_path / "reader").write_bytes(cloudpickle.dumps(reader))  # type: ignore[no-untyped-call]
    code = f"import pickle, sys\nsys.path[:] = [p for p in sys.path if p != {str(ROOT)!r}]\nsys.meta_path.insert(0, Blind)\n"
    blind = (
        "class Blind:\n    def find_spec(name, *_):\n        if name.startswith('kafkafmt'):\n"
        "            raise ModuleNotFoundError(f\"No module named '{name}'\", name=name)\n"
    )
    code = blind + code + "pickle.load(open('reader', 'rb'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("ModuleNotFoundError")]
    assert line.startswith(f"ModuleNotFoundError: No module named 'kafkafmt' in {sys.executable} on host ")
    assert REMEDY in line


@pytest.mark.full
def test_archive_of_the_guide_runs_on_executors_without_kafkafmt(folder: Path, master: str) -> None:
    (archive,) = commands("Make an archive")
    done = run(folder, master, archive)
    assert done.returncode == 0, done.stderr
    submit, export_ = commands("Standalone")
    done = run(folder, master, submit)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-2:] == ["native", "6048 records"]  # stdout of spark-submit includes warnings
    done = run(folder, master, export_)
    assert done.returncode == 0, done.stderr[-3000:]
    assert pq.read_table(folder / "archive" / "data").num_rows == 6048 + 500


@pytest.mark.full
def test_executors_without_kafkafmt_are_reported_with_a_remedy(folder: Path, master: str) -> None:
    done = run(folder, master, "spark-submit --master spark://master:7077 job.py")
    printed = done.stdout + done.stderr
    assert done.returncode != 0
    assert re.search(
        r"kafkafmt: host \S+: \S+/bare/bin/python3 cannot import kafkafmt: No module named 'kafkafmt'", printed
    )
    assert REMEDY in printed
    done = run(folder, master, "kafkafmt export /var/lib/kafka/data --output /srv/none --master spark://master:7077")
    assert done.returncode == 3
    assert "No module named 'kafkafmt': the Python of the executors must also have this module" in done.stderr


def test_export_refuses_spark_connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    message = "an export needs a classic Spark session, but this process uses Spark Connect"
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    with pytest.raises(SparkError, match=message):
        export(case("segments").roots, tmp_path / "out")
    monkeypatch.delenv("SPARK_CONNECT_MODE_ENABLED")
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    done = kafkafmt("export", case("segments").roots[0], "--output", tmp_path / "out")
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


CONNECT = """
import sys
from pyspark.sql import SparkSession
import kafkafmt, kafkafmt.spark
spark = SparkSession.builder.remote("local[2]").getOrCreate()
source, target = sys.argv[1:]
assert [e["core"] for e in kafkafmt.spark.check_executors(spark)] == ["native"]
frame = kafkafmt.spark.read(spark, source, topics="segments-time", where=[("offset", ">=", 190)])
assert frame.count() == 10
frame.write.format("kafkafmt").mode("append").save(target)
assert spark.read.format("kafkafmt").load(target).count() == 10
try:
    kafkafmt.export(source, target + "-export")
except kafkafmt.exporting.SparkError as error:
    print(error)
spark.stop()
"""


@pytest.mark.full
def test_spark_connect_reads_and_writes_but_does_not_export(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    (tmp_path / "client.py").write_text(CONNECT)
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [sys.executable, "client.py", str(case("segments").roots[0]), str(tmp_path / "log")]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("an export needs a classic Spark session")
    assert not (tmp_path / "log-export").exists()
