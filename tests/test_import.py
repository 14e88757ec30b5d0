"""`import kafkafmt` needs the standard library, NumPy and the native core; the rest is loaded where it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from golden_cases import case

EXTRAS = ["pyarrow", "pyspark", "pandas", "click", "rich", "lz4", "zstandard", "snappy", "cramjam", "isal", "crc32c"]


def run(program: str, *missing: str) -> subprocess.CompletedProcess[str]:
    """A program in a Python where some packages cannot be imported."""
    blocked = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r}); sys.modules.update(dict.fromkeys({list(missing)!r}))\n"
    return subprocess.run([sys.executable, "-c", blocked + program], capture_output=True, text=True, check=False)


def test_uncompressed_logs_need_nothing_else() -> None:
    path = case("segments").partition_dir("segments-time", 0)
    program = f"import kafkafmt; print(kafkafmt.backend, sum(1 for _ in kafkafmt.open({str(path)!r})['segments-time', 0]))"
    done = run(program, *EXTRAS)
    assert (done.stderr, done.stdout) == ("", "native 200\n")


@pytest.mark.parametrize(
    ("program", "missing", "message"),
    [
        ("import kafkafmt.arrow", "pyarrow", "pip install 'kafkafmt[arrow]'"),
        ("from kafkafmt.spark.session import make_session; make_session()", "pyspark", "pip install 'kafkafmt[spark]'"),
        ("from kafkafmt.cli import main; main()", "click", "pip install 'kafkafmt[cli]'"),
    ],
)
def test_what_is_missing_is_named_in_a_line(program: str, missing: str, message: str) -> None:
    done = run(program, missing)
    assert done.returncode == 1
    assert message in done.stderr.splitlines()[-1]
