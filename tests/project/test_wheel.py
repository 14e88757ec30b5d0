"""Check that the wheels can be installed and used on a machine without a compiler.

The tests build the wheels as `make wheel` does, and install them into a new environment. They need
access to a package index.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from elf import BIND_NOW, EXECUTABLE, FLAGS, FLAGS_1, GNU_RELRO, GNU_STACK, NOW, RPATH, RUNPATH, Elf
from golden_cases import BY_NAME

import kafkafmt
from kafkafmt.support.java import find_java

pytestmark = pytest.mark.slow  # compiles the native core twice

ROOT = Path(__file__).resolve().parents[2]
CASE = BY_NAME["kafka-4.3.1/log-append-time"]  # this log contains every codec

# This program runs in the new environment, and prints the number of records in a log directory.
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


# This program starts Spark, and runs the function of examples/map_partitions.py in its workers.
MAP_PARTITIONS = """
import runpy
import shutil
import sys
from operator import add

from kafkafmt.spark import make_session

def environment(_):
    import kafkafmt
    yield kafkafmt.__file__, kafkafmt.backend, shutil.which("cc") or shutil.which("gcc")

example = runpy.run_path(sys.argv[1])
spark = make_session("local[2]", **{"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"})
paths = spark.sparkContext.parallelize(sys.argv[2:], 2)
counts = paths.mapPartitions(example["records_by_key"]).reduceByKey(add).collectAsMap()
print((paths.mapPartitions(environment).collect(), counts))
spark.stop()
"""
TOOLS = ("bash", "basename", "cat", "chmod", "dirname", "env", "nice", "ps", "readlink", "rm", "sed", "uname")
"""Programs that the scripts that start Spark may call."""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    directory = tmp_path_factory.mktemp("wheelhouse")
    return [
        Path(line)
        for line in run([sys.executable, ROOT / "scripts" / "build_wheel.py", directory], os.environ).splitlines()
    ]


@pytest.fixture(scope="module")
def wheel(wheels: list[Path]) -> Path:
    return wheels[0]


@pytest.fixture(scope="module")
def pure_wheel(wheels: list[Path]) -> Path:
    return wheels[1]


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Return a function that runs Python in a new environment with the wheel and an empty PATH."""
    return clean_python(tmp_path_factory.mktemp("clean"), wheel)


def clean_python(home: Path, wheel: Path) -> Callable[..., str]:
    nothing = home / "bin"
    nothing.mkdir()
    ours = ("CC", "CXX", "CFLAGS", "LDFLAGS", "VIRTUAL_ENV", "JAVA_HOME")
    env = {k: v for k, v in os.environ.items() if k not in ours and not k.startswith(("KAFKAFMT", "PYTHON"))} | {
        "PATH": str(nothing)
    }
    run([sys.executable, "-m", "venv", home / "venv"], env)

    def python(*arguments: object) -> str:
        return run([home / "venv" / "bin" / "python", "-I", *arguments], env, cwd=home)

    python("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:", wheel)
    return python


def run(command: Sequence[object], env: Mapping[str, str], cwd: Path = ROOT) -> str:
    done = subprocess.run([str(part) for part in command], env=env, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("which", "backend"),
    [
        pytest.param(0, "native", id="native"),
        pytest.param(1, "pure", id="pure", marks=pytest.mark.full),  # an environment and a JVM take long to start
    ],
)
def test_wheel_without_a_compiler_runs_map_partitions(
    wheels: list[Path], which: int, backend: str, tmp_path: Path
) -> None:
    python = clean_python(tmp_path, wheels[which])
    add_spark(tmp_path)
    example = tmp_path / "map_partitions.py"
    shutil.copy(ROOT / "examples" / example.name, example)
    log = kafkafmt.open(*CASE.roots)
    printed = python("-W", "ignore", "-c", MAP_PARTITIONS, example, *(p.path for p in log.partitions))
    workers, counts = ast.literal_eval(printed.splitlines()[-1])
    for file, core, compiler in workers:
        assert Path(file).is_relative_to(tmp_path / "venv")
        assert (core, compiler) == (backend, None)
    assert counts == Counter(record.key for partition in log for record in partition)
    assert sum(counts.values()) == len(CASE.expected())


def add_spark(home: Path) -> None:
    """Let the environment import the Spark of this environment, and find Java and the tools that start it."""
    (packages := home / "packages").mkdir()
    for name in ("pyspark", "py4j"):
        (found,) = importlib.import_module(name).__path__
        (packages / name).symlink_to(found)
    (site,) = (home / "venv" / "lib").glob("python*/site-packages")
    (site / "spark.pth").write_text(f"{packages}\n")
    programs = {name: shutil.which(name) for name in TOOLS} | {"java": find_java()}
    for name, program in programs.items():
        if program:
            (home / "bin" / name).symlink_to(Path(program).resolve())


@pytest.mark.skipif(sys.platform != "linux", reason="manylinux exists only on Linux")
def test_wheel_has_the_manylinux_tag(wheel: Path) -> None:
    assert re.search(r"-manylinux[\w.]+\.whl$", wheel.name)


def test_wheel_contains_the_package_without_sources(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    ours = (
        r"kafkafmt/_core\..*\.(so|pyd)",
        r"kafkafmt/_core\.pyi",
        r"kafkafmt/py\.typed",
        r"kafkafmt/protocol/schemas/01_fetch\.txt",
    )
    for needed in (*ours, r"pyspark_kafkafmt/__init__\.py"):
        assert any(re.fullmatch(needed, name) for name in names), needed
    assert not [name for name in names if re.search(r"\.(c|h|pyx|pxi|pxd)$|^tests/|^benchmarks/|^scripts/", name)]


def test_clean_environment_runs_the_native_core(python: Callable[..., str]) -> None:
    assert python("-c", WHAT_IS_LOADED) == ""


def test_clean_environment_reads_a_log(python: Callable[..., str]) -> None:
    assert python("-c", COUNT_RECORDS, *CASE.roots) == str(len(CASE.expected()))


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="ELF files exist only on Linux")


@pytest.fixture(scope="module")
def core(wheel: Path) -> bytes:
    archive = zipfile.ZipFile(wheel)
    return archive.read(next(name for name in archive.namelist() if re.fullmatch(r"kafkafmt/_core\..*\.so", name)))


@linux_only
def test_native_core_contains_no_path_of_the_build_machine(core: bytes) -> None:
    assert not {RPATH, RUNPATH} & set(Elf(core).dynamic)
    for place in {sys.prefix, sys.base_prefix, str(ROOT), str(Path.home())} - {"/", "/usr"}:
        assert place.encode() not in core


@linux_only
def test_native_core_is_hardened(core: bytes) -> None:
    elf = Elf(core)
    assert GNU_RELRO in elf.segments
    assert elf.dynamic.get(FLAGS, 0) & BIND_NOW  # RELRO makes the table of functions read-only after loading
    assert elf.dynamic.get(FLAGS_1, 0) & NOW
    assert not elf.segments[GNU_STACK] & EXECUTABLE
    assert b"__stack_chk_fail" in elf.strings
    assert b"__memcpy_chk" in elf.strings  # _FORTIFY_SOURCE


def sbom_of(wheel: Path) -> dict[str, Any]:
    archive = zipfile.ZipFile(wheel)
    (name,) = (n for n in archive.namelist() if re.fullmatch(r"kafkafmt-[^/]*\.dist-info/sboms/[^/]*\.cdx\.json", n))
    content: dict[str, Any] = json.loads(archive.read(name))
    return content


@pytest.mark.parametrize("which", [0, 1], ids=["native", "pure"])
def test_wheel_has_a_software_bill_of_materials(wheels: list[Path], which: int) -> None:
    bill = sbom_of(wheels[which])
    assert (bill["bomFormat"], bill["specVersion"], bill["metadata"]["component"]["name"]) == (
        "CycloneDX",
        "1.6",
        "kafkafmt",
    )
    scopes = {c["name"]: c.get("scope") for c in bill["components"]}
    assert {name for name, scope in scopes.items() if scope == "required"} == {
        "numpy",
        "cramjam",
        "crc32c",
        "lz4",
        "python-snappy",
        "zstandard",
    }
    assert scopes["pyarrow"] == scopes["click"] == "optional"
    assert "pytest" not in scopes
    assert ("Cython" in scopes) == (which == 0)
    assert len({c["bom-ref"] for c in bill["components"]}) == len(bill["components"])
    archive = zipfile.ZipFile(wheels[which])
    for component in bill["components"]:
        for digest in component.get("hashes", ()):
            assert digest["content"] == hashlib.sha256(archive.read(component["name"])).hexdigest()


@pytest.mark.parametrize("which", [0, 1], ids=["native", "pure"])
def test_record_of_the_wheel_matches_its_files(wheels: list[Path], which: int) -> None:
    archive = zipfile.ZipFile(wheels[which])
    record = next(name for name in archive.namelist() if name.endswith("/RECORD"))
    listed = [line.rsplit(",", 2) for line in archive.read(record).decode().splitlines()]
    assert sorted(name for name, _, _ in listed) == sorted(n for n in archive.namelist() if not n.endswith("/"))
    for name, digest, size in listed:
        if name != record:
            data = archive.read(name)
            assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            assert int(size) == len(data)


def test_pure_wheel_is_for_any_platform_and_has_no_native_code(pure_wheel: Path) -> None:
    assert re.fullmatch(r"kafkafmt-[\d.]+-py3-none-any\.whl", pure_wheel.name)
    names = zipfile.ZipFile(pure_wheel).namelist()
    assert not [name for name in names if re.search(r"\.(so|pyd|c|h|pyx|pxi|pxd)$|^tests/|^scripts/", name)]
    assert "kafkafmt/protocol/schemas/01_fetch.txt" in names


def test_pure_wheel_reads_a_log_and_reports_why_it_is_pure(pure_wheel: Path, tmp_path: Path) -> None:
    python = clean_python(tmp_path, pure_wheel)
    assert python("-W", "error::DeprecationWarning", "-c", COUNT_RECORDS, *CASE.roots) == str(len(CASE.expected()))
    reason = python("-W", "ignore", "-c", "from kafkafmt import _backend as b; print(b.backend, b.backend_reason)")
    assert reason.startswith("pure this is the wheel for any platform, which has no native core")


def test_install_without_a_compiler_reports_why_the_core_is_pure(tmp_path: Path) -> None:
    """Without -v, pip hides the warning of the build.

    Therefore, the build stores the reason, which is shown at run time.
    """
    run([sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", tmp_path, ROOT], os.environ)
    (sdist,) = tmp_path.glob("*.tar.gz")
    env = {k: v for k, v in os.environ.items() if k != "KAFKAFMT_REQUIRE_NATIVE"} | {"CC": "no-such-compiler"}
    options = [
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--disable-pip-version-check",
        "--target",
        tmp_path / "site",
    ]
    run([sys.executable, "-m", "pip", "install", *options, sdist], env)
    env = os.environ | {"PYTHONPATH": str(tmp_path / "site"), "KAFKAFMT_BACKEND": "auto"}
    done = subprocess.run(
        [sys.executable, "-m", "kafkafmt", "--version"], env=env, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0
    for output in (done.stdout, done.stderr):
        assert "no-such-compiler" in output
        assert "Install a C compiler and Python's headers" in output
    assert "core: pure (the native core was not built: " in done.stdout


def test_portable_build_has_the_pure_wheel_and_the_sdist(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "scripts" / "build_wheel.py", "--portable", tmp_path]
    files = [Path(line) for line in run(command, os.environ).splitlines()]
    assert [file.parent for file in files] == [tmp_path, tmp_path]
    assert re.fullmatch(r"kafkafmt-[\d.]+-py3-none-any\.whl", files[0].name)
    assert re.fullmatch(r"kafkafmt-[\d.]+\.tar\.gz", files[1].name)
    assert sbom_of(files[0])["metadata"]["component"]["name"] == "kafkafmt"
