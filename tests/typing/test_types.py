"""Check the types of the public API in user code, with mypy and pyright."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

import kafkafmt
from kafkafmt.log.writing.settings import LogSettingsOptions
from kafkafmt.records.signatures import BatchOptions, BufferSelection, BuilderOptions, ValidatorOptions

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ENVIRONMENT = os.environ | {
    # pyright treats a package as installed only if it is on this path
    "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:], sysconfig.get_path("purelib")]),
    "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1",
}


def run(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    arguments = [sys.executable, "-m", *map(str, command)]
    return subprocess.run(arguments, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def pyright() -> list[str]:
    """Return the command-line arguments that run pyright in this environment."""
    pytest.importorskip("pyright")
    return ["pyright", "--pythonpath", sys.executable]


@pytest.mark.slow
def test_mypy_accepts_user_code() -> None:
    done = run(
        "mypy", "--strict", "--config-file", os.devnull, "--cache-dir", ROOT / ".mypy_cache", "sample.py", cwd=HERE
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_pyright_accepts_user_code(pyright: list[str]) -> None:
    done = run(*pyright, "--project", HERE, HERE / "sample.py", cwd=HERE)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_pyright_knows_the_type_of_every_public_symbol(pyright: list[str], tmp_path: Path) -> None:
    done = run(*pyright, "--verifytypes", "kafkafmt", "--ignoreexternal", cwd=tmp_path)
    counts = re.findall(r"With (?:ambiguous|unknown) type: (\d+)", done.stdout)
    assert counts[:2] == ["0", "0"], done.stdout + done.stderr


@pytest.mark.parametrize(
    ("options", "function", "other"),
    [
        (BuilderOptions, kafkafmt.records.BatchBuilder.__init__, set()),
        (BatchOptions, kafkafmt.records.BatchBuilder.__init__, {"max_bytes"}),
        (ValidatorOptions, kafkafmt.records.LogValidator.__init__, set()),
        (BufferSelection, kafkafmt.read_records, {"buffer", "views", "columns"}),
    ],
)
def test_options_have_the_names_of_the_parameters(options: Any, function: Any, other: set[str]) -> None:
    parameters = set(inspect.signature(function).parameters) - {"self"}
    assert set(options.__annotations__) == parameters - other


def test_log_settings_options_have_the_names_of_the_fields() -> None:
    assert list(LogSettingsOptions.__annotations__) == [f.name for f in dataclasses.fields(kafkafmt.LogSettings)]
