"""Define the packages of each extra, and the commands that install them.

kafkafmt is not on PyPI, so `pip install kafkafmt[cli]` would fail. Therefore, error messages name
the missing packages.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.util import find_spec

EXTRAS = {
    "arrow": {"pyarrow": "pyarrow>=14"},
    "cli": {"click": "click>=8.1", "rich": "rich>=13"},
    "cloud": {"obstore": "obstore>=0.6", "fsspec": "fsspec>=2024.2"},
    "spark": {"pyspark": "pyspark>=4.0", "pyarrow": "pyarrow>=14", "pandas": "pandas>=2.2,<3"},
    "fast": {"isal": "isal>=1.6"},
    "polars": {"polars": "polars>=1.34", "pyarrow": "pyarrow>=14"},
    "schemas": {"grpc_tools": "grpcio-tools>=1.60"},
    "stats": {"datasketches": "datasketches>=5"},
    "pcap": {"dpkt": "dpkt>=1.9.8"},
    "plot": {"matplotlib": "matplotlib>=3.8", "plotly": "plotly>=6"},
    "": {
        "cramjam": "cramjam>=2.11",
        "crc32c": "crc32c>=2.3",
        "lz4": "lz4>=4.3",
        "snappy": "python-snappy>=0.7",
        "zstandard": "zstandard>=0.22",
    },
}
"""Required packages of each extra. Each inner dict maps the name of a module to the requirement of
its package. The key "" stands for the packages that every installation requires. pyproject.toml
contains the same requirements.
"""

REPLACED = {"lz4": "lz4", "zstandard": "zstd"}
"""Required packages without which kafkafmt works too, and the codec of each. `codecs.packages` says what replaces them."""
LIBRARIES = ("numpy", "pyarrow", "pyspark", "lz4", "zstandard", "python-snappy", "isal")
"""Packages whose versions are shown in reports and by `kafkafmt --version`."""


def library_versions(names: Iterable[str]) -> dict[str, str | None]:
    """Return the installed version of each package. The version of a missing package is None."""
    from importlib.metadata import PackageNotFoundError, version  # Import here, because the import is slow.

    versions: dict[str, str | None] = {}
    for name in names:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return versions


def kafkafmt_version() -> str:
    """Return the installed version of kafkafmt, or "0" if it was imported from a source tree without an installation."""
    return library_versions(["kafkafmt"])["kafkafmt"] or "0"


def install_line(extra: str) -> str:
    """Return a pip command that installs the missing packages of an extra, or all its packages if none is missing."""
    wanted = EXTRAS[extra]
    missing = [requirement for module, requirement in wanted.items() if not _installed(module)] or list(wanted.values())
    return "pip install " + " ".join(f"'{requirement}'" for requirement in missing)


def extra_of(module: str | None) -> str | None:
    """Return the extra that provides the module that a ModuleNotFoundError names, or None."""
    root = (module or "").partition(".")[0]
    return next(
        (e for e in ("cli", "arrow", "spark", "polars", "stats", "plot", "pcap", "") if root in EXTRAS[e]), None
    )


def _installed(module: str) -> bool:
    if module in sys.modules:
        return sys.modules[module] is not None
    return find_spec(module) is not None
