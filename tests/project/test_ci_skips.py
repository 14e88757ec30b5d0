"""Test the plugin ci_skips in a separate pytest process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

SUITE = """
import pytest

pytestmark = pytest.mark.slow

def test_runs(): pass

@pytest.mark.skip(reason="no such thing here")
@pytest.mark.parametrize("core", ["native", "pure"])
def test_skipped(core): pass

@pytest.mark.xfail
def test_expected_failure(): assert False
"""
WHOLE_FILE = "import pytest; pytest.skip('not this file', allow_module_level=True)"


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., CompletedProcess[str]]:
    shutil.copy(Path(__file__).parents[1] / "ci_skips.py", tmp_path)
    (tmp_path / "test_suite.py").write_text(SUITE)

    def run(allowed: str, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "allowed_skips.txt").write_text(allowed)
        # Loading all installed plugins takes longer than the tests.
        env |= {k: v for k, v in os.environ.items() if k != "CI" and not k.startswith("PYTEST")}
        env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        command = [sys.executable, "-m", "pytest", "-p", "ci_skips", "-p", "no:cacheprovider", "-q"]
        return subprocess.run(
            # By default, a process with workers removes the temporary files of earlier runs.
            [*command, f"--basetemp={tmp_path / 'temporary'}", f"--rootdir={tmp_path}", *options, str(tmp_path)],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
        )

    return run


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")], ids=["one process", "workers"])
def test_skip_fails_in_ci(run: Callable[..., CompletedProcess[str]], workers: tuple[str, ...]) -> None:
    done = run("# none\n", *workers, CI="true")
    assert done.returncode == 1
    assert "test_suite.py::test_skipped[native]: no such thing here" in done.stdout
    assert "test_expected_failure:" not in done.stdout


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")], ids=["one process", "workers"])
def test_skip_of_a_file_fails_in_ci(
    run: Callable[..., CompletedProcess[str]], workers: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "test_other.py").write_text(WHOLE_FILE)
    done = run("test_suite.py::* | allowed", *workers, CI="true")
    assert done.returncode == 1
    assert "test_other.py: not this file" in done.stdout


def test_allowed_skip_passes(run: Callable[..., CompletedProcess[str]]) -> None:
    assert run("test_suite.py::test_skipped[*] | there is no such thing\n", CI="true").returncode == 0
    assert run("test_suite.py::test_skipped[native] | only one of two\n", CI="true").returncode == 1


def test_skip_passes_outside_ci(run: Callable[..., CompletedProcess[str]]) -> None:
    assert run("").returncode == 0


def test_line_without_a_reason_is_an_error(run: Callable[..., CompletedProcess[str]]) -> None:
    done = run("test_suite.py::test_skipped*\n", CI="true")
    assert done.returncode == 4
    assert "`test | reason`" in done.stderr
