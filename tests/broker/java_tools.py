"""Run Java from Python: resolve class paths with Maven, compile sources and run classes.

Downloaded and compiled files are cached in $KAFKAFMT_CACHE, by default `kafkafmt` in the user's
cache directory. Therefore, only the first run uses Maven. Broker tests and benchmarks use this
module. It does not need a broker.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

NEEDED = {
    "java": "a Java development kit, 17 or newer",
    "javac": "a Java development kit, 17 or newer",
    "mvn": "Apache Maven",
}
LOGGERS = (
    ("org.slf4j", "slf4j-reload4j"),
    ("org.apache.logging.log4j", "log4j-slf4j-impl"),
    ("ch.qos.logback", "logback-classic"),
)

FAST_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Flags for the JVM of a program that ends after a short time."""


class JavaError(RuntimeError):
    """Raised if a Java program, the compiler or Maven fails. The message ends with the program's output."""


def find_program(name: str) -> str | None:
    """Return the path of `java`, `javac` or `mvn`, in JAVA_HOME if it is set, otherwise on the PATH."""
    home = os.environ.get("JAVA_HOME")
    below_home = shutil.which(name, path=os.path.join(home, "bin")) if home else None
    return below_home or shutil.which(name)


def missing() -> str:
    """Return the reason to skip a test because programs are missing, or ""."""
    absent = [name for name in NEEDED if find_program(name) is None]
    return (
        f"{', '.join(absent)} not found: install {' and '.join(sorted({NEEDED[n] for n in absent}))}" if absent else ""
    )


def program(name: str) -> str:
    """Return the path of a program, or raise JavaError with instructions to install it."""
    found = find_program(name)
    if found is None:
        raise JavaError(f"{name} not found: install {NEEDED[name]}")
    return found


def cache() -> Path:
    """Return the directory for downloaded JAR files and compiled classes."""
    configured = os.environ.get("KAFKAFMT_CACHE")
    base = (
        Path(configured)
        if configured
        else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafkafmt"
    )
    (base / "java").mkdir(parents=True, exist_ok=True)
    return base / "java"


@contextmanager
def _fill(target: Path) -> Iterator[Path]:
    """Yield a temporary directory that is renamed to `target` if the block succeeds.

    If another process creates `target` first, that directory is used instead.
    """
    scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
    try:
        yield scratch
        try:
            scratch.rename(target)
        except OSError:
            if not target.exists():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _key(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:20]


def classpath(*artifacts: str) -> str:
    """Return the class path of Maven artifacts (`group:name:version`) and their dependencies.

    The class path contains slf4j-simple, so the classes log to stderr.
    """
    all_artifacts = [*artifacts, "org.slf4j:slf4j-simple:1.7.36"]
    target = cache() / f"path-{_key(*(a.encode() for a in all_artifacts))}"
    listing = target / "classpath.txt"
    if not listing.exists() or not all(map(os.path.exists, listing.read_text().split(os.pathsep))):
        shutil.rmtree(target, ignore_errors=True)
        with _fill(target) as scratch:
            (scratch / "pom.xml").write_text(_pom(all_artifacts))
            goal = ["dependency:build-classpath", f"-Dmdep.outputFile={scratch / listing.name}"]
            _run([program("mvn"), "-q", "-B", "-f", scratch / "pom.xml", *goal])
    return listing.read_text()


def _pom(artifacts: Sequence[str]) -> str:
    """Return the text of a Maven project that only depends on the given artifacts.

    Other slf4j back ends are excluded, because slf4j can use only one.
    """
    exclusions = "".join(
        f"<exclusion><groupId>{group}</groupId><artifactId>{name}</artifactId></exclusion>" for group, name in LOGGERS
    )
    dependencies = ""
    for artifact in artifacts:
        group, name, version = map(escape, artifact.split(":"))
        dependencies += (
            f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
            f"<exclusions>{exclusions}</exclusions></dependency>\n"
        )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>kafkafmt</groupId><artifactId>tools</artifactId><version>1</version>"
        f"<packaging>pom</packaging>\n<dependencies>\n{dependencies}</dependencies></project>\n"
    )


def compile_java(sources: Sequence[Path], path: str) -> str:
    """Compile Java sources against a class path, and return the class path to run them with.

    Nothing is compiled if the cache contains the compiled classes.
    """
    target = cache() / f"classes-{_key(path.encode(), *(s.read_bytes() for s in sources))}"
    if not target.exists():
        with _fill(target) as scratch:
            _run([program("javac"), "-encoding", "UTF-8", "-nowarn", "-cp", path, "-d", scratch, *sources])
    return f"{target}{os.pathsep}{path}"


def command(main: str, *args: object, path: str, flags: Sequence[str] = ()) -> list[str]:
    """Return the command line that runs a Java class."""
    return [
        program("java"),
        "-Dfile.encoding=UTF-8",
        "-Djava.net.preferIPv4Stack=true",
        *flags,
        "-cp",
        path,
        main,
        *map(str, args),
    ]


def run(main: str, *args: object, path: str, flags: Sequence[str] = (), stdin: str | None = None) -> str:
    """Run a Java class until it ends, and return its output. Raise JavaError if it fails."""
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return _run(command(main, *args, path=path, flags=[quiet, *flags]), input=stdin)


def run_tool(main: str, address: str, *args: object, version: str) -> list[list[str]]:
    """Run a command-line tool of a Kafka version, and return the words of each line of its output."""
    path = classpath(f"org.apache.kafka:kafka-tools:{version}", f"org.apache.kafka:kafka_2.13:{version}")
    output = run(main, "--bootstrap-server", address, *args, path=path, flags=FAST_START)
    return [line.split() for line in output.splitlines() if line.strip()]


def _run(argv: Sequence[Any], **options: Any) -> str:
    done: subprocess.CompletedProcess[str]
    done = subprocess.run([str(a) for a in argv], capture_output=True, encoding="utf-8", errors="replace", **options)
    if done.returncode:
        output = (done.stdout + done.stderr).strip()[-3000:]
        raise JavaError(f"{Path(str(argv[0])).name} ended with status {done.returncode}:\n{output}")
    return done.stdout
