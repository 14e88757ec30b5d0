"""Describe this installation of kafkafmt: installed packages, missing packages, and Java."""

from __future__ import annotations

import platform
import re
from dataclasses import asdict, dataclass
from typing import Any

from .._backend import backend, backend_reason
from ..constants import CODEC_NAMES
from .extras import EXTRAS, LIBRARIES, REPLACED, kafkafmt_version, library_versions
from .java import SparkMissingError, find_java, java_version
from .notebook import html_table
from .report import Report

OTHER_PACKAGES = ("cramjam", "crc32c", "click", "rich", "obstore", "fsspec", "dpkt", "pandas", "polars")
"""Packages whose versions `doctor` lists, in addition to `extras.LIBRARIES`."""
REQUIRED, JAVA = "", "java"
USES: dict[str, tuple[str, ...]] = {
    "kafkafmt COMMAND": ("cli",),
    "kafkafmt COMMAND s3://… (URLs and archives)": ("cloud",),
    "gzip, about 1.3 times as fast": ("fast",),
    "kafkafmt decode CAPTURE": ("pcap",),
    "kafkafmt export --engine local": ("arrow",),
    "kafkafmt export --engine spark": ("spark", JAVA),
    "kafkafmt make": ("arrow",),
    "kafkafmt stats --deep, for topics with many keys": ("stats",),
    "kafkafmt stats --plot": ("plot",),
    "to_arrow, to_batches, scan": ("arrow",),
    "kafkafmt.scan_polars": ("polars",),
    'spark.read.format("kafkafmt")': ("spark", JAVA),
}
"""The extras that each command or function needs. JAVA stands for a Java installation, which is not an extra."""
_REQUIREMENT = re.compile(r"([\w-]+)>=([0-9.]+)(?:,<([0-9.]+))?\Z")


@dataclass(frozen=True)
class Extra:
    """The packages of an extra."""

    name: str  # "" stands for the packages that every installation needs
    ready: bool  # all packages are installed in suitable versions
    missing: tuple[str, ...]  # requirements that are not met, such as "pyarrow>=14"
    install: str | None  # the command that installs the missing packages


@dataclass(frozen=True)
class Java:
    """The Java installation that Spark would use."""

    ready: bool  # a Java that is new enough for Spark was found
    path: str | None  # of the executable
    release: int | None  # feature release, such as 17
    problem: str | None  # reason why no suitable Java was found, and what to install


@dataclass(frozen=True)
class Use:
    """A command or function that needs packages which a basic installation does not contain."""

    name: str  # the command or function
    ready: bool  # all packages of the needed extras, and the basic ones, are installed
    needs: tuple[str, ...]  # extras; "java" stands for a Java installation
    missing: tuple[str, ...]  # needed extras that are not completely installed


@dataclass(frozen=True)
class Installation(Report):
    """Installed and missing packages, as returned by `kafkafmt.doctor`.

    Attributes
    ----------
    version, python, platform : str
        Version of kafkafmt, version of Python, and operating system.
    core, core_reason : str
        The core in use ("native" or "pure"), and the reason why it is used.
    codecs : dict of str or None
        The library, with its version, that decompresses the batches of each codec without the GIL, many
        in one call. None if the codec's package is called for each batch.
    codec_packages : dict of str
        The package, or module of Python, that serves each codec. If lz4 or zstandard is not installed,
        another one does.
    packages : dict of str or None
        Versions of the packages that kafkafmt can use. The version of a missing package is None.
    extras : tuple of Extra
        One item for each extra. The item with the name "" describes the packages that every
        installation requires.
    java : Java
        The Java installation that Spark would use.
    uses : tuple of Use
        Commands and functions, with the extras that they need.
    """

    command = "doctor"

    version: str
    python: str
    platform: str
    core: str
    core_reason: str
    codecs: dict[str, str | None]
    codec_packages: dict[str, str]
    packages: dict[str, str | None]
    extras: tuple[Extra, ...]
    java: Java
    uses: tuple[Use, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the dict that ``kafkafmt doctor --format json`` prints."""
        row = asdict(self)
        row["extras"] = [asdict(e) | {"missing": list(e.missing)} for e in self.extras]
        row["uses"] = [asdict(u) | {"needs": list(u.needs), "missing": list(u.missing)} for u in self.uses]
        return row

    def _repr_html_(self) -> str:
        rows = [(u.name, ", ".join(u.needs), ", ".join(u.missing) or "nothing") for u in self.uses]
        return html_table(f"kafkafmt {self.version}, {self.core} core", ("use", "needs", "missing"), rows)


def doctor() -> Installation:
    """List installed packages, and packages that are missing for commands and functions.

    Returns
    -------
    Installation
        Versions of the installed packages, the core in use, the state of each extra, and the Java
        that was found.

    Notes
    -----
    Of the packages, the function imports only those for compression. It runs `java -version` to find a Java that is new
    enough for Spark.
    """
    from ..codecs.packages import SERVED_BY  # Import here, because it imports the packages.

    extras = tuple(_extra(name) for name in sorted(EXTRAS))
    java = _java()
    missing = {e.name for e in extras if not e.ready} | (set() if java.ready else {JAVA})
    uses = []
    for name, needs in USES.items():
        absent = tuple(need for need in needs if need in missing)
        uses.append(Use(name, not absent and REQUIRED not in missing, needs, absent))
    return Installation(
        version=kafkafmt_version(),
        python=platform.python_version(),
        platform=platform.platform(),
        core=backend,
        core_reason=backend_reason,
        codecs=_codecs(),
        codec_packages=dict(SERVED_BY),
        packages=library_versions((*LIBRARIES, *OTHER_PACKAGES)),
        extras=extras,
        java=java,
        uses=tuple(uses),
    )


def _codecs() -> dict[str, str | None]:
    from ..codecs.functions import codec_functions

    libraries = codec_functions().libraries if backend == "native" else {}
    return {name: libraries.get(name) for name in CODEC_NAMES[1:]}


def _extra(name: str) -> Extra:
    wanted = EXTRAS[name].values()
    missing = tuple(requirement for requirement in wanted if not _met(requirement))
    install = "pip install " + " ".join(f"'{requirement}'" for requirement in missing) if missing else None
    return Extra(name, not missing, missing, install)


def _met(requirement: str) -> bool:
    """Return whether an installed package, or what replaces it, meets a requirement of the form `name>=version,<version`."""
    parsed = _REQUIREMENT.match(requirement)
    assert parsed is not None, requirement
    version = library_versions([parsed[1]])[parsed[1]]
    if version is None:
        return parsed[1] in REPLACED
    return _numbers(version) >= _numbers(parsed[2]) and (parsed[3] is None or _numbers(version) < _numbers(parsed[3]))


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, such as (4, 1, 0) for "4.1.0.dev1"."""
    leading = re.match(r"[0-9]+(\.[0-9]+)*", version)
    return tuple(map(int, leading[0].split("."))) if leading else ()


def _java() -> Java:
    try:
        path = str(find_java())
    except SparkMissingError as error:
        return Java(False, None, None, str(error))
    return Java(True, path, java_version(path), None)
