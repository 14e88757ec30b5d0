"""Find a Java that is new enough for Spark."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST_JAVA = 17
JAVA_REMEDY = f"install a JDK {OLDEST_JAVA} or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless), or set JAVA_HOME to an installed one"


class SparkMissingError(ImportError):
    """Raised if pyspark or a suitable Java is missing.

    The message is a single line, and names what to install.
    """


@functools.cache
def java_version(java: str) -> int:
    """Return the feature release of a `java` executable. If it does not run, return 0.

    For example, the feature release of Java "17.0.2" is 17.
    """
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr) if answer.returncode == 0 else None
    return int(found[1]) if found else 0


def find_java() -> Path:
    """Return the path of the first `java` executable that is new enough for Spark.

    The function searches JAVA_HOME, the PATH and the current Python environment, in this order.
    `make setup` installs Java in the Python environment. If no executable is new enough, a
    SparkMissingError is raised.
    """
    tried = []
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    for java in (home and str(Path(home, "bin", "java")), on_path, str(Path(sys.prefix, "jdk", "bin", "java"))):
        if not java or not os.path.exists(java):
            continue
        if (release := java_version(java)) >= OLDEST_JAVA:
            return Path(java)
        tried.append(f"{java} is Java {release}" if release else f"{java} does not run")
    found = "; ".join(tried) or "no Java was found"
    raise SparkMissingError(f"Spark needs Java {OLDEST_JAVA} or newer, but {found}; {JAVA_REMEDY}")
