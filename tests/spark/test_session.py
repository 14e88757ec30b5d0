"""Test which Java is chosen, and the error if no Java is suitable."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkafmt.spark.session import prepare_environment
from kafkafmt.support.java import SparkMissingError, find_java, java_version


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Hide all installed Javas, and return a directory in which tests can create fake ones."""
    java_version.cache_clear()
    for name in ("JAVA_HOME", "PYSPARK_PYTHON"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    yield tmp_path
    java_version.cache_clear()


def java(folder: Path, release: str) -> Path:
    """Return a fake `java` that reports this release."""
    (folder / "bin").mkdir(parents=True)
    file = folder / "bin" / "java"
    file.write_text(f"#!/bin/sh\necho 'openjdk version \"{release}\" 2026-01-20' >&2\n")
    file.chmod(0o755)
    return file


def test_missing_java_is_reported_in_one_line_with_the_remedy(no_java: Path) -> None:
    with pytest.raises(
        SparkMissingError, match=r"^Spark needs Java 17 or newer, but no Java was found; install a JDK .*$"
    ):
        find_java()


def test_old_java_is_named_in_the_error(no_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = java(no_java / "old", "1.8.0_392")
    monkeypatch.setenv("JAVA_HOME", str(no_java / "old"))
    with pytest.raises(SparkMissingError, match=f"but {old} is Java 8; install"):
        find_java()


def test_java_home_precedes_the_path_and_the_environments_java(no_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environments_java = java(no_java / "venv" / "jdk", "25.0.1")
    assert find_java() == environments_java
    on_path = java(no_java / "path", "21.0.2")
    monkeypatch.setenv("PATH", f"{on_path.parent}:/bin")
    assert find_java() == on_path
    at_home = java(no_java / "home", "17.0.9")
    monkeypatch.setenv("JAVA_HOME", str(no_java / "home"))
    assert find_java() == at_home


def test_environment_is_changed_only_if_spark_would_fail(no_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(no_java / "venv" / "jdk", "25.0.1")
    old = java(no_java / "old", "11.0.1")
    monkeypatch.setenv("PATH", f"{old.parent}:/bin")
    prepare_environment()
    assert os.environ["JAVA_HOME"] == str(no_java / "venv" / "jdk")
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    java(no_java / "new", "17.0.1")
    monkeypatch.setenv("PATH", f"{no_java / 'new' / 'bin'}:/bin")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    prepare_environment()
    assert "JAVA_HOME" not in os.environ
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python"


def test_missing_pyspark_is_reported_with_the_remedy() -> None:
    script = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import kafkafmt.spark\n"
        "for f in (lambda: kafkafmt.spark.make_session(), lambda: kafkafmt.spark.register):\n"
        "    try: f()\n"
        "    except ImportError as error: print(error)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120
    ).stdout.splitlines()
    assert printed == [
        "kafkafmt.spark needs pyspark: pip install 'pyspark>=4.0'",
        "kafkafmt.spark needs pyspark: pip install 'pyspark>=4.0'",
    ]


def test_missing_pyarrow_is_reported_with_the_remedy() -> None:
    script = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import kafkafmt.spark\n"
        "try: kafkafmt.spark.decode_batches\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("kafkafmt.spark needs pyarrow: pip install 'pyarrow>=")
