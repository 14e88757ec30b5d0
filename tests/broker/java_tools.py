"""Java from Python: class paths by Maven, sources compiled on demand, classes run.

Everything fetched or compiled is kept under $KAFKAFMT_CACHE (by default `kafkafmt` in the user's cache directory), so that only the
first run asks Maven. Used by tests/broker and by the benchmarks; nothing here knows about brokers.
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


class JavaError(RuntimeError):
    """A Java program, the compiler or Maven failed; the message ends with what it said."""


def find_program(name: str) -> str | None:
    """Where `java`, `javac` or `mvn` is: below JAVA_HOME if that is set, else on PATH."""
    home = os.environ.get("JAVA_HOME")
    below_home = shutil.which(name, path=os.path.join(home, "bin")) if home else None
    return below_home or shutil.which(name)


def missing() -> str:
    """What this machine lacks, as a reason to skip; empty where nothing is missing."""
    absent = [name for name in NEEDED if find_program(name) is None]
    return (
        f"{', '.join(absent)} not found: install {' and '.join(sorted({NEEDED[n] for n in absent}))}" if absent else ""
    )


def program(name: str) -> str:
    """The path of a program, or JavaError with what to install."""
    found = find_program(name)
    if found is None:
        raise JavaError(f"{name} not found: install {NEEDED[name]}")
    return found


def cache() -> Path:
    """Where fetched class paths and compiled classes are kept."""
    chosen = os.environ.get("KAFKAFMT_CACHE")
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafkafmt"
    (base / "java").mkdir(parents=True, exist_ok=True)
    return base / "java"


@contextmanager
def _fill(target: Path) -> Iterator[Path]:
    """Give a scratch directory that becomes `target` when the block ends well; a rival that was quicker wins."""
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
    """The class path of Maven artifacts (`group:name:version`) with all they depend on, logging to stderr by slf4j-simple."""
    wanted = [*artifacts, "org.slf4j:slf4j-simple:1.7.36"]
    target = cache() / f"path-{_key(*(a.encode() for a in wanted))}"
    listing = target / "classpath.txt"
    if not listing.exists() or not all(map(os.path.exists, listing.read_text().split(os.pathsep))):
        shutil.rmtree(target, ignore_errors=True)
        with _fill(target) as scratch:
            (scratch / "pom.xml").write_text(_pom(wanted))
            goal = ["dependency:build-classpath", f"-Dmdep.outputFile={scratch / listing.name}"]
            _run([program("mvn"), "-q", "-B", "-f", scratch / "pom.xml", *goal])
    return listing.read_text()


def _pom(artifacts: Sequence[str]) -> str:
    """A project that depends on these and builds nothing. Other slf4j back ends would fight over the log, so they stay out."""
    others = "".join(
        f"<exclusion><groupId>{group}</groupId><artifactId>{name}</artifactId></exclusion>" for group, name in LOGGERS
    )
    dependencies = ""
    for artifact in artifacts:
        group, name, version = map(escape, artifact.split(":"))
        dependencies += (
            f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
            f"<exclusions>{others}</exclusions></dependency>\n"
        )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>kafkafmt</groupId><artifactId>tools</artifactId><version>1</version>"
        f"<packaging>pom</packaging>\n<dependencies>\n{dependencies}</dependencies></project>\n"
    )


def compile_java(sources: Sequence[Path], path: str) -> str:
    """Compile sources against a class path, once for each content; the class path to run them with."""
    target = cache() / f"classes-{_key(path.encode(), *(s.read_bytes() for s in sources))}"
    if not target.exists():
        with _fill(target) as scratch:
            _run([program("javac"), "-encoding", "UTF-8", "-nowarn", "-cp", path, "-d", scratch, *sources])
    return f"{target}{os.pathsep}{path}"


def command(main: str, *args: object, path: str, flags: Sequence[str] = ()) -> list[str]:
    """The command that runs a class."""
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
    """Run a class to its end and return what it printed; JavaError if it fails."""
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return _run(command(main, *args, path=path, flags=[quiet, *flags]), input=stdin)


def _run(argv: Sequence[Any], **options: Any) -> str:
    done: subprocess.CompletedProcess[str]
    done = subprocess.run([str(a) for a in argv], capture_output=True, encoding="utf-8", errors="replace", **options)
    if done.returncode:
        said = (done.stdout + done.stderr).strip()[-3000:]
        raise JavaError(f"{Path(str(argv[0])).name} ended with status {done.returncode}:\n{said}")
    return done.stdout
