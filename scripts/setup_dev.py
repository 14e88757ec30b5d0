"""Set up an environment: `make setup`, `make setup-all`, or the one that `make wheel` needs.

    python scripts/setup_dev.py test|dev|build

The argument is a dependency group of pyproject.toml. The groups `test` and `dev` are installed in .venv, with
kafkafmt itself, the native core and a Java for Spark. The group `build` has an environment of its own. A step is
skipped if its result is up to date. The script needs only Python's standard library.
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
GROUP = sys.argv[1]
VENV = os.path.join(ROOT, ".venv-build" if GROUP == "build" else ".venv")
PYTHON = os.path.join(VENV, "bin", "python")
DEPENDENCY_GROUPS = "pip>=25.1"
"""The first version of pip that installs dependency groups."""


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
    say(f"creating {os.path.basename(VENV)} with Python {sys.version.split()[0]}")
    if succeeds(sys.executable, "-m", "venv", "--clear", VENV, stdout=subprocess.DEVNULL):
        return
    # Some systems lack ensurepip, which installs pip in a new environment. The pip of this Python can do the same.
    if succeeds(sys.executable, "-m", "venv", "--clear", "--without-pip", VENV) and succeeds(
        sys.executable, "-m", "pip", "--quiet", "--python", PYTHON, "install", "pip"
    ):
        return
    fail(
        "could not create the environment: this Python needs its modules venv and pip (Debian, Ubuntu: apt-get install python3-venv)"
    )


def packages() -> None:
    """Install the packages of the group and, except for building, kafkafmt in editable mode."""
    import tomllib

    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        config = tomllib.load(file)
    settings = (config["build-system"], config["project"], config["dependency-groups"], config["tool"]["setuptools"])
    wanted = hashlib.sha256(repr((settings, os.path.realpath(PYTHON), ROOT)).encode()).hexdigest()
    stamps = {name: os.path.join(VENV, f"packages-{name}.sha256") for name in {GROUP, "dev"}}  # `dev` includes `test`
    if any(os.path.exists(stamp) and open(stamp).read() == wanted for stamp in stamps.values()):
        return
    what = "" if GROUP == "build" else ", and compiling the native core, a few minutes the first time"
    say(f"downloading and installing packages{what}")
    start = time.monotonic()
    pip("--upgrade", DEPENDENCY_GROUPS)
    # Most modules of 2 GB of packages are never imported. Python compiles the others when they are.
    pip("--no-compile", "--group", GROUP, *(() if GROUP == "build" else ("--editable", ".")))
    say(f"installed the packages in {time.monotonic() - start:.0f} s")
    with open(stamps[GROUP], "w") as file:
        file.write(wanted)


def pip(*arguments: str) -> None:
    shown = () if sys.stderr.isatty() else ("--quiet",)  # on a terminal, pip shows its progress
    if not succeeds(PYTHON, "-m", "pip", "install", *shown, "--disable-pip-version-check", *arguments):
        fail("pip could not install the packages; the reason is above (often: the package index is out of reach)")


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
    if GROUP == "build":
        return
    core()
    import java  # import this module of the same directory only now, because it needs Python 3.11

    runtime = java.provide(VENV, say)
    version = subprocess.check_output(
        [PYTHON, "-c", "import platform; print(platform.python_version())"], text=True
    ).strip()
    kind = "native" if os.path.exists(core_file()) else "PURE (slow; see above)"
    say(f"ready in {time.monotonic() - start:.1f} s: Python {version}, core {kind}, {runtime}")


main()
