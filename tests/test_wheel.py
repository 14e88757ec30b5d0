"""The wheel serves a machine without a compiler: built as `make wheel` builds it, installed into an environment of its own, run there.

Needs the package index, as `make setup` does.
"""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from golden_cases import BY_NAME

ROOT = Path(__file__).resolve().parent.parent
CASE = BY_NAME["kafka-4.3.1/log-append-time"]  # every codec is in it

# Run by the environment's Python: reads a log directory and prints how many records there are.
COUNT_RECORDS = """
import sys
import kafkafmt

log = kafkafmt.open(sys.argv[1])
print(sum(1 for partition in log.partitions for record in log[partition.topic, partition.partition]))
"""

WHAT_IS_LOADED = """
import sys
import kafkafmt

assert kafkafmt.backend == "native", kafkafmt.backend
print(*sorted({"pyarrow", "pyspark", "click", "rich"} & set(sys.modules)))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("wheelhouse")
    return Path(run([sys.executable, ROOT / "scripts" / "build_wheel.py", directory], os.environ))


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """Runs the Python of a clean environment that has the wheel, with no compiler, nor any other program, in reach."""
    home = tmp_path_factory.mktemp("clean")
    nothing = home / "bin"
    nothing.mkdir()
    ours = ("CC", "CXX", "CFLAGS", "LDFLAGS", "VIRTUAL_ENV", "JAVA_HOME")
    env = {k: v for k, v in os.environ.items() if k not in ours and not k.startswith(("KAFKAFMT", "PYTHON"))} | {"PATH": str(nothing)}
    run([sys.executable, "-m", "venv", home / "venv"], env)

    def python(*arguments: object) -> str:
        return run([home / "venv" / "bin" / "python", "-I", *arguments], env, cwd=home)

    python("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:", wheel)
    return python


def run(command: list[object], env: dict[str, str], cwd: Path = ROOT) -> str:
    done = subprocess.run([str(part) for part in command], env=env, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="manylinux is of Linux")
def test_wheel_serves_many_linuxes(wheel):
    assert re.search(r"-manylinux[\w.]+\.whl$", wheel.name)


def test_wheel_has_what_it_needs_and_no_more(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    ours = (r"kafkafmt/_core\..*\.(so|pyd)", r"kafkafmt/_core\.pyi", r"kafkafmt/py\.typed", r"kafkafmt/protocol/schemas/01_fetch\.txt")
    for needed in (*ours, r"pyspark_kafkafmt/__init__\.py"):
        assert any(re.fullmatch(needed, name) for name in names), needed
    assert not [name for name in names if re.search(r"\.(c|h|pyx|pxi|pxd)$|^tests/|^benchmarks/|^scripts/", name)]


def test_clean_environment_runs_the_native_core(python):
    assert python("-c", WHAT_IS_LOADED) == ""


def test_clean_environment_reads_a_log(python):
    assert python("-c", COUNT_RECORDS, *CASE.roots) == str(len(CASE.expected()))
