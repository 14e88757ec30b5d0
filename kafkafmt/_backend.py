"""Choose the implementation of decoding and encoding: the native core or the pure-Python core.

The environment variable KAFKAFMT_BACKEND selects the native core or the pure-Python core. Its
values are:

- native: use the native core. If it cannot be imported, raise an ImportError.
- pure: use the pure-Python core.
- auto, empty or not set: use the native core. If it cannot be imported, use the pure-Python core,
  and warn with a RuntimeWarning that gives the reason.
"""

from __future__ import annotations

import os
import sys
import warnings
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ._interrupt import is_command
from .support.text import plain

__all__ = ["backend", "backend_reason", "core"]

backend: str
"""Name of the core in use: "native" or "pure"."""

backend_reason: str
"""Reason why this core is used, as a short text."""


def _end_the_command(error: Exception) -> None:
    """If this process is the command `kafkafmt`, print `error` to stderr and exit with code 2."""
    # If the import of the package fails, the command's own error handling has not been loaded yet.
    if is_command():
        sys.stderr.write(f"kafkafmt: {plain(str(error))}\n")
        raise SystemExit(2)


def _why_not_native(error: ImportError, package: Path = Path(__file__).parent) -> str:
    """Return why the native core cannot be used, and advice. A build without it stored the reason in a file."""
    recorded = package / RECORD
    if recorded.exists():
        return recorded.read_text(encoding="utf-8").strip()
    built = [file.name for file in package.glob("_core.*") if file.suffix in (".so", ".pyd")]
    if any(name.removeprefix("_core") in EXTENSION_SUFFIXES for name in built):
        return f"the native core cannot be imported: {error}"
    if built:
        version = ".".join(map(str, sys.version_info[:2]))
        return f"the native core was compiled for another Python ({', '.join(sorted(built))}), but this is Python {version}; reinstall kafkafmt"
    return "the native core was not compiled; install a C compiler and the headers of Python, and reinstall kafkafmt"


RECORD = "native_core.txt"
"""Name of the file in which setup.py stores the reason why the native core was not built."""


choice = os.environ.get("KAFKAFMT_BACKEND") or "auto"
if choice not in ("auto", "native", "pure"):
    wrong = ValueError(f"KAFKAFMT_BACKEND is {choice!r}; it must be auto, native or pure")
    _end_the_command(wrong)
    raise wrong

_chosen: ModuleType
if choice != "pure":
    try:
        from . import _core

        _chosen = _core
        backend, backend_reason = (
            "native",
            "compiled for this Python" if choice == "auto" else "KAFKAFMT_BACKEND=native",
        )
    except ImportError as error:
        reason = plain(_why_not_native(error))
        if choice == "native":
            missing = ImportError(reason, name=f"{__package__}._core")
            _end_the_command(missing)
            raise missing from error
        from . import _pure

        _chosen = _pure
        backend, backend_reason = "pure", reason
        warnings.warn(
            f"kafkafmt uses its pure-Python core, which is many times slower: {reason}", RuntimeWarning, stacklevel=2
        )
else:
    from . import _pure

    _chosen = _pure
    backend, backend_reason = "pure", "KAFKAFMT_BACKEND=pure"

if TYPE_CHECKING:
    from . import _core as core
else:
    core = _chosen
"""The module that implements the core in use. `_core.pyi` declares its functions and classes."""
