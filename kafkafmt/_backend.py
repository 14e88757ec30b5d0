"""The one place that chooses between the native and the pure core.

KAFKAFMT_BACKEND=native asks for the native one (an ImportError where it is missing), pure for the other, auto or
nothing for the native one where it is there; falling back is said once, by a warning.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

core: Any
"""The core in use: a module with the names of `_core.pyi`."""

backend: str
"""'native' or 'pure'."""

backend_reason: str
"""Why that one, in a few words."""


def _end_the_command(error: Exception) -> None:
    """Of the command wrong usage, in one line: it is loaded after this package, too late to catch the error. Elsewhere nothing."""
    program = os.path.basename((getattr(sys, "argv", None) or [""])[0])
    if program in ("kafkafmt", "-m"):  # while `python -m` looks for a module, that is what stands there
        sys.stderr.write(f"kafkafmt: {error}\n")
        raise SystemExit(2)


choice = os.environ.get("KAFKAFMT_BACKEND") or "auto"
if choice not in ("auto", "native", "pure"):
    wrong = ValueError(f"KAFKAFMT_BACKEND is {choice!r}; it can be auto, native or pure")
    _end_the_command(wrong)
    raise wrong

if choice != "pure":
    try:
        from . import _core

        core = _core
        backend, backend_reason = "native", "compiled for this Python" if choice == "auto" else "KAFKAFMT_BACKEND=native"
    except ImportError as error:
        if choice == "native":
            _end_the_command(error)
            raise
        from . import _pure

        core = _pure
        backend, backend_reason = "pure", f"the native core cannot be imported: {error}"
        warnings.warn(f"kafkafmt runs on its pure Python core, many times slower: {error}", RuntimeWarning, stacklevel=2)
else:
    from . import _pure

    core = _pure
    backend, backend_reason = "pure", "KAFKAFMT_BACKEND=pure"
