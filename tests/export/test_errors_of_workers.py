"""Test that an export reports the error of a Python worker in one line, with a remedy."""

from __future__ import annotations

import itertools
import socket
import sys
from pathlib import Path

import pytest
from command import process as kafkafmt
from golden_cases import case
from pyspark.errors import PySparkException

from kafkafmt.exporting import SparkError, TaskOSError
from kafkafmt.exporting.spark_jobs import _simplified
from kafkafmt.spark.worker_errors import in_one_line

pytestmark = pytest.mark.slow

FRAMES = '  File "/x/worker.py", line 4197, in invoke_udf\n    func = read_command()\n           ^^^^^^^^^^^^^^\n'
LOST = "Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times: Lost task 0.3 in stage 0.0 (TID 7) (10.0.0.7 executor 2): "
JAVA = "\n\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)\nCaused by: java.io.EOFException\n\t... 1 more\n"
WORKER_ERRORS = [
    (
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n" + FRAMES + "ValueError: two\nlines\n",
        "ValueError: two lines",
    ),
    (
        "An error occurred while calling o52.collect.\n: org.apache.spark.SparkException: " + LOST
        + "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n" + FRAMES + "KeyError: 3\n" + JAVA,
        "KeyError: 3 (on host 10.0.0.7)",
    ),
    (
        "Traceback (most recent call last):\n" + FRAMES + "OSError: first\n\nThe above exception was the direct cause of the following "
        "exception:\n\nTraceback (most recent call last):\n" + FRAMES + "RuntimeError: second\n" + JAVA,
        "RuntimeError: second; the cause is OSError: first",
    ),
    (
        "Traceback (most recent call last):\n" + FRAMES + "KeyError: 3\n\nDuring handling of the above exception, another exception "
        "occurred:\n\nTraceback (most recent call last):\n" + FRAMES + "TypeError: middle\n\nThe above exception was the direct cause "
        "of the following exception:\n\nTraceback (most recent call last):\n" + FRAMES + "ValueError: last\n" + JAVA,
        "ValueError: last; the cause is KeyError: 3",
    ),
    (
        "Traceback (most recent call last):\n" + FRAMES + "OSError: other\n" + JAVA + "Traceback (most recent call last):\n" + FRAMES
        + "ValueError: last\n" + JAVA,
        "ValueError: last",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "cause"), WORKER_ERRORS)
def test_error_of_a_worker_contains_its_exception(text: str, cause: str) -> None:
    error = _simplified(PySparkException(text))
    assert isinstance(error, SparkError)
    assert str(error) == f"Spark: a Python worker raised {cause}"


def test_error_about_a_missing_module_contains_a_remedy() -> None:
    text = (
        "An exception:\nTraceback (most recent call last):\n"
        + FRAMES
        + "ModuleNotFoundError: No module named 'pyarrow'\n"
    )
    assert "No module named 'pyarrow': the Python of the executors must also have this module; install" in str(
        _simplified(PySparkException(text))
    )


def test_error_of_java_contains_its_first_line() -> None:
    text = "An error occurred while calling o1.x.\n: java.lang.IllegalStateException: no more\n\tat x.Y.z(Y.java:1)\n"
    assert str(_simplified(PySparkException(text))) == "Spark: no more"


def test_error_of_java_shows_its_deepest_cause() -> None:
    text = (
        "An error occurred while calling o1.collect.\n: org.apache.spark.SparkException: "
        + LOST
        + "java.lang.RuntimeException: no\n"
        "\tat x.Y.z(Y.java:1)\nCaused by: java.lang.RuntimeException: no\n\t... 1 more\n"
        'Caused by: java.io.IOException: Cannot run program "/no/python"\n\t... 1 more\n'
    )
    shown = str(_simplified(PySparkException(text)))
    assert shown.startswith("Spark: Job aborted due to stage failure")
    assert shown.endswith('RuntimeException: no; the cause is java.io.IOException: Cannot run program "/no/python"')
    assert "\n" not in shown


def raised(*errors: OSError) -> OSError:
    """Return the last error, with each of the others as the cause of the next one."""
    for cause, error in itertools.pairwise(errors):
        error.__cause__ = cause
    return errors[-1]


HOST = socket.gethostname()


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(5, "Input/output error", "/a"), f"/a: Input/output error (on host {HOST})"),
        (OSError("first line\nsecond line"), f"first line (on host {HOST})"),
        (raised(OSError(5, "I/O error", "/a"), OSError(5, f"I/O error (on host {HOST})", "/a")), f"/a: I/O error (on host {HOST})"),
        (raised(OSError(2, "gone", "/b"), OSError("cannot read it")), f"cannot read it; the cause is /b: gone (on host {HOST})"),
    ],
)  # fmt: skip
def test_error_of_a_task_shows_path_cause_and_host(error: OSError, line: str) -> None:
    assert in_one_line(error) == line


def test_oserror_of_a_task_stays_an_oserror() -> None:
    text = 'Traceback (most recent call last):\nRuntimeError: kafkafmt-input-error:"/a: Permission denied"\n'
    assert str(_simplified(PySparkException(text))) == "/a: Permission denied"
    assert isinstance(_simplified(PySparkException(text)), TaskOSError)


def test_export_names_the_module_that_executors_lack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hiding = tmp_path / "hiding"
    hiding.mkdir()
    (hiding / "kafkafmt.py").write_text("raise ModuleNotFoundError(\"No module named 'kafkafmt'\", name='kafkafmt')")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{hiding}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    monkeypatch.chdir(tmp_path)  # in the working directory, the workers would find the package
    done = kafkafmt("export", case("epochs").roots[0], "--output", tmp_path / "out", "--master", "local[1]")
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert "No module named 'kafkafmt'" in line
    assert "kafkafmt[spark]" in line
    assert "PYSPARK_PYTHON" in line
    assert not (tmp_path / "out").exists()
