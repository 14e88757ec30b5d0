"""Which Java is taken, and what is said where there is none."""

import subprocess
import sys

import pytest

from kafkafmt.spark import session
from kafkafmt.spark.session import SparkMissingError, find_java, prepare_environment


@pytest.fixture
def nothing(monkeypatch, tmp_path):
    """No Java anywhere, and an environment that may be changed."""
    session.java_version.cache_clear()
    for name in ("JAVA_HOME", "PYSPARK_PYTHON"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    yield tmp_path
    session.java_version.cache_clear()


def java(folder, release):
    """A `java` that says it is of this release."""
    (folder / "bin").mkdir(parents=True)
    file = folder / "bin" / "java"
    file.write_text(f"#!/bin/sh\necho 'openjdk version \"{release}\" 2026-01-20' >&2\n")
    file.chmod(0o755)
    return file


def test_none_is_one_line_with_the_remedy(nothing):
    with pytest.raises(
        SparkMissingError, match=r"^Spark needs Java 17 or newer, but no Java was found: install a JDK .*$"
    ):
        find_java()


def test_an_old_one_is_named(nothing, monkeypatch):
    old = java(nothing / "old", "1.8.0_392")
    monkeypatch.setenv("JAVA_HOME", str(nothing / "old"))
    with pytest.raises(SparkMissingError, match=f"but {old} is Java 8: install"):
        find_java()


def test_java_home_before_the_path_before_the_environments_own(nothing, monkeypatch):
    own = java(nothing / "venv" / "jdk", "25.0.1")
    assert find_java() == own
    on_path = java(nothing / "path", "21.0.2")
    monkeypatch.setenv("PATH", f"{on_path.parent}:/bin")
    assert find_java() == on_path
    at_home = java(nothing / "home", "17.0.9")
    monkeypatch.setenv("JAVA_HOME", str(nothing / "home"))
    assert find_java() == at_home


def test_only_what_spark_would_not_find_is_set(nothing, monkeypatch):
    java(nothing / "venv" / "jdk", "25.0.1")
    old = java(nothing / "old", "11.0.1")
    monkeypatch.setenv("PATH", f"{old.parent}:/bin")
    prepare_environment()
    assert session.os.environ["JAVA_HOME"] == str(nothing / "venv" / "jdk")
    assert session.os.environ["PYSPARK_PYTHON"] == sys.executable
    java(nothing / "new", "17.0.1")
    monkeypatch.setenv("PATH", f"{nothing / 'new' / 'bin'}:/bin")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    prepare_environment()
    assert "JAVA_HOME" not in session.os.environ
    assert session.os.environ["PYSPARK_PYTHON"] == "/opt/python"


def test_without_pyspark():
    script = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import kafkafmt.spark\n"
        "for f in (lambda: kafkafmt.spark.make_session(), lambda: kafkafmt.spark.register):\n"
        "    try: f()\n"
        "    except ImportError as error: print(error)"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120
    ).stdout.splitlines()
    assert said == [
        "kafkafmt.spark needs pyspark: pip install 'pyspark>=4.0'",
        "kafkafmt.spark needs pyspark: pip install 'pyspark>=4.0'",
    ]
