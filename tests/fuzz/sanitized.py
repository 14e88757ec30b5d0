"""Build the native core with AddressSanitizer and UndefinedBehaviorSanitizer, and fuzz it.

    python -m fuzz.sanitized --seconds 60       accepts the options of `fuzz.run`

The core is built in `build/fuzz/`, and does not replace the normal core. Memory leaks are not
detected, because Python frees some memory only at exit.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from .cores import ELSEWHERE

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "build" / "fuzz" / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
FLAGS = [
    "-O1",
    "-g",
    "-fno-omit-frame-pointer",
    "-fwrapv",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
]
PREPROCESSED = TARGET.with_name("_core.c")


def build(compiler: str = os.environ.get("CC", "gcc")) -> Path:
    """Build the core if a source file is newer than the last build, and return the path of the core."""
    sources = [ROOT / "kafkafmt" / "_core.pyx", *(ROOT / "kafkafmt" / "_corelib").iterdir(), Path(__file__)]
    if TARGET.exists() and TARGET.stat().st_mtime > max(s.stat().st_mtime for s in sources):
        return TARGET
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    include = ["-I", sysconfig.get_paths()["include"], "-I", str(ROOT / "kafkafmt")]
    command = [sys.executable, "-m", "cython", "-3", str(ROOT / "kafkafmt" / "_core.pyx"), "-o", str(PREPROCESSED)]
    subprocess.run(command, check=True, cwd=ROOT)
    built = TARGET.with_suffix(".new")
    subprocess.run([compiler, "-shared", "-fPIC", *FLAGS, *include, str(PREPROCESSED), "-o", str(built)], check=True)
    built.replace(TARGET)
    return TARGET


def environment(core: Path, compiler: str = os.environ.get("CC", "gcc")) -> dict[str, str]:
    """Return the environment variables with which Python can load the sanitized core."""
    asked = [compiler, "-print-file-name=libasan.so"]
    library = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    return os.environ | {
        ELSEWHERE: str(core),
        "LD_PRELOAD": str(Path(library).resolve()),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:abort_on_error=1:handle_segv=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def main() -> None:
    core = build()
    os.chdir(ROOT / "tests")
    os.execve(sys.executable, [sys.executable, "-m", "fuzz.run", "--core", "native", *sys.argv[1:]], environment(core))


if __name__ == "__main__":
    main()
