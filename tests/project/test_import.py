"""Check that `import kafkafmt` loads only NumPy and the native core. Other packages are loaded when needed."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from golden_cases import case

from kafkafmt.support.extras import EXTRAS as EXTRA_REQUIREMENTS

EXTRAS = [
    "pyarrow",
    "pyspark",
    "pandas",
    "polars",
    "click",
    "rich",
    "lz4",
    "zstandard",
    "snappy",
    "cramjam",
    "isal",
    "crc32c",
]


def run(program: str, *missing: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a Python process that cannot import some packages."""
    blocked = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r}); sys.modules.update(dict.fromkeys({list(missing)!r}))\n"
    return subprocess.run([sys.executable, "-c", blocked + program], capture_output=True, text=True, check=False)


def test_uncompressed_log_is_read_without_other_packages() -> None:
    path = case("segments").partition_dir("segments-time", 0)
    program = (
        f"import kafkafmt; print(kafkafmt.backend, sum(1 for _ in kafkafmt.open({str(path)!r})['segments-time', 0]))"
    )
    done = run(program, *EXTRAS)
    assert (done.stderr, done.stdout) == ("", "native 200\n")


def test_import_does_not_load_the_modules_of_lazy_names() -> None:
    lazy = "{f'kafkafmt.{name}' for name in (*kafkafmt._HOMES.values(), *kafkafmt._MODULES)}"
    # The doors of log/ are packages. They load their modules on first use.
    doors = "{'kafkafmt.log', 'kafkafmt.log.groups', 'kafkafmt.log.inspecting', 'kafkafmt.log.verifying'}"
    done = run(f"import sys, kafkafmt; print(sorted(({lazy} - {doors}) & set(sys.modules)))")
    assert (done.stderr, done.stdout) == ("", "[]\n")


@pytest.mark.parametrize(
    ("program", "missing", "message"),
    [
        ("import kafkafmt.arrow.builder", "pyarrow", "pip install 'pyarrow>=14'"),
        ("from kafkafmt.spark.session import make_session; make_session()", "pyspark", "pip install 'pyspark>=4.0'"),
        ("from kafkafmt.cli import main; main()", "click", "pip install 'click>=8.1'"),
    ],
)
def test_missing_package_is_named_in_one_line(program: str, missing: str, message: str) -> None:
    done = run(program, missing)
    assert done.returncode == (3 if "cli" in program else 1)
    assert "Traceback" not in done.stderr or "cli" not in program
    assert message in done.stderr.splitlines()[-1]


def test_command_without_an_extra_exits_3_with_one_line(tmp_path: Path) -> None:
    path = case("segments").partition_dir("segments-time", 0)
    output = str(tmp_path / "out")
    for missing, arguments, line in (
        (["click", "rich"], ["ls"], "the command needs click and rich: pip install 'click>=8.1' 'rich>=13'"),
        (["rich"], ["ls", str(path)], "rich"),
        (
            ["pyspark"],
            ["export", str(path), "--output", output, "--engine", "spark"],
            "pyspark: pip install 'pyspark>=4.0'",
        ),
        (
            ["pyspark", "pyarrow", "pandas"],
            ["export", str(path), "--output", output, "--engine", "spark"],
            "'pyspark>=4.0' 'pyarrow>=14' 'pandas>=2.2,<3'",
        ),
        (
            ["pyspark", "pyarrow", "pandas"],
            ["export", str(path), "--output", output],
            "export needs pyarrow: pip install 'pyarrow>=14'",
        ),
    ):
        done = run(
            f"import sys; sys.argv = ['kafkafmt', *{arguments!r}]; from kafkafmt.cli import main; main()", *missing
        )
        assert (done.returncode, len(done.stderr.splitlines())) == (3, 1), done.stderr
        assert line in done.stderr


def test_install_lines_are_those_of_pyproject() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    for extra, wanted in EXTRA_REQUIREMENTS.items():
        declared = (
            project["optional-dependencies"][extra]
            if extra
            else [d for d in project["dependencies"] if "numpy" not in d]
        )
        assert list(wanted.values()) == declared
