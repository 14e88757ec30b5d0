"""Set up .venv for development: install the packages and Java for Spark, and build the native core (`make setup`).

A step is skipped if its result is up to date. The script needs only Python's standard library.
"""

from __future__ import annotations  # old versions of Python must be able to start this script

import hashlib
import os
import shutil
import subprocess
import sys
import time
from typing import NoReturn

OLDEST_PYTHON = (3, 11)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(VENV, "bin", "python")


def say(text: str) -> None:
    print("setup: " + text, file=sys.stderr, flush=True)


def fail(text: str) -> NoReturn:
    sys.exit("setup: " + text)


def succeeds(*command: str, stdout: int | None = None, stderr: int | None = None) -> bool:
    return subprocess.run(command, cwd=ROOT, stdout=stdout, stderr=stderr).returncode == 0


def new_enough_python() -> None:
    """If this Python is too old, run this script again with a newer Python."""
    if sys.version_info >= OLDEST_PYTHON:
        return
    for name in ("python3.14", "python3.13", "python3.12", "python3.11"):
        if shutil.which(name) and succeeds(name, "-c", "", stderr=subprocess.DEVNULL):
            os.execvp(name, [name, *sys.argv])
    wanted, found = ".".join(map(str, OLDEST_PYTHON)), sys.version.split()[0]
    fail(
        f"kafkafmt needs Python {wanted} or newer, this is {found}: install one, or name it: make PYTHON=/path/to/python"
    )


def environment() -> None:
    if os.path.exists(PYTHON) and succeeds(
        PYTHON, "-m", "pip", "--version", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ):
        return
    say(f"creating .venv with Python {sys.version.split()[0]}")
    if succeeds(sys.executable, "-m", "venv", "--clear", VENV, stdout=subprocess.DEVNULL):
        return
    # Some systems lack ensurepip, which installs pip in a new environment. The pip of this Python can do the same.
    if succeeds(sys.executable, "-m", "venv", "--clear", "--without-pip", VENV) and succeeds(
        sys.executable, "-m", "pip", "--quiet", "--python", PYTHON, "install", "pip"
    ):
        return
    fail(
        "could not create .venv: this Python needs its modules venv and pip (Debian, Ubuntu: apt-get install python3-venv)"
    )


def packages() -> None:
    """Install kafkafmt in editable mode, with all packages for development."""
    import tomllib

    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        config = tomllib.load(file)
    wanted = repr(
        (config["build-system"], config["project"], config["tool"]["setuptools"], os.path.realpath(PYTHON), ROOT)
    )
    wanted = hashlib.sha256(wanted.encode()).hexdigest()
    stamp = os.path.join(VENV, "packages.sha256")
    if os.path.exists(stamp) and open(stamp).read() == wanted:
        return
    say("downloading the packages for development and compiling the native core, a few minutes the first time")
    start = time.monotonic()
    shown = () if sys.stderr.isatty() else ("--quiet",)  # on a terminal, pip shows its progress
    if not succeeds(PYTHON, "-m", "pip", "install", *shown, "--disable-pip-version-check", "--editable", ".[dev]"):
        fail("pip could not install the packages; the reason is above (often: the package index is out of reach)")
    say(f"installed the packages in {time.monotonic() - start:.0f} s")
    with open(stamp, "w") as file:
        file.write(wanted)


def core() -> None:
    """Build kafkafmt._core in place. If there is no compiler, setup.py prints a warning."""
    sources = [os.path.join(ROOT, "setup.py"), os.path.join(ROOT, "kafkafmt", "_core.pyx")]
    for folder, _, names in os.walk(os.path.join(ROOT, "kafkafmt", "_corelib")):
        sources += [folder, *(os.path.join(folder, name) for name in names)]
    if os.path.exists(core_file()) and os.path.getmtime(core_file()) >= max(map(os.path.getmtime, sources)):
        return
    say("compiling the native core, about a minute")
    start = time.monotonic()
    if not succeeds(PYTHON, "setup.py", "build_ext", "--inplace", stdout=subprocess.DEVNULL):
        fail("the native core was not built; the reason is above")
    say(f"compiled the native core in {time.monotonic() - start:.0f} s")
    if os.path.exists(core_file()):
        os.utime(core_file())


def core_file() -> str:
    suffix = subprocess.check_output(
        [PYTHON, "-c", "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"], text=True
    )
    return os.path.join(ROOT, "kafkafmt", "_core" + suffix.strip())


def main() -> None:
    new_enough_python()
    start = time.monotonic()
    environment()
    packages()
    core()
    import java  # import this module of the same directory only now, because it needs Python 3.11

    runtime = java.provide(VENV, say)
    version = subprocess.check_output(
        [PYTHON, "-c", "import platform; print(platform.python_version())"], text=True
    ).strip()
    kind = "native" if os.path.exists(core_file()) else "PURE (slow; see above)"
    say(f"ready in {time.monotonic() - start:.1f} s: Python {version}, core {kind}, {runtime}")


main()
