"""Select the core that the whole package uses, and load a core from another file."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

NAMES = {"native": "kafkafmt._core", "pure": "kafkafmt._pure"}
ELSEWHERE = "KAFKAFMT_FUZZ_CORE"
"""Name of the environment variable with the file of a native core, for example one with sanitizers."""


class _CoreFinder:
    """Import the module `kafkafmt._core` from a given file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        if name != NAMES["native"]:
            return None
        loader = importlib.machinery.ExtensionFileLoader(name, self.path)
        return importlib.util.spec_from_file_location(name, self.path, loader=loader)


def use_core_of_environment() -> None:
    """Load the native core from the file that an environment variable names, before kafkafmt is imported."""
    path = os.environ.get(ELSEWHERE)
    if not path:
        return
    if NAMES["native"] in sys.modules:
        raise RuntimeError("kafkafmt was already imported")
    sys.meta_path.insert(0, _CoreFinder(path))
    if getattr(importlib.import_module(NAMES["native"]), "__file__", None) != path:
        raise RuntimeError(f"the core was not loaded from {path}")


def available() -> list[str]:
    """Return the names of the cores that can be imported."""
    found = []
    for name, module in NAMES.items():
        try:
            importlib.import_module(module)
        except ImportError:
            continue
        found.append(name)
    return found


@contextmanager
def using(name: str) -> Iterator[Any]:
    """Make all loaded modules of the package use a core."""
    core = importlib.import_module(NAMES[name])
    modules = [
        m for n, m in list(sys.modules.items()) if n.startswith("kafkafmt.") and m is not None and "core" in vars(m)
    ]
    before = [vars(m)["core"] for m in modules]
    for module in modules:
        vars(module)["core"] = core
    try:
        yield core
    finally:
        for module, old in zip(modules, before, strict=True):
            vars(module)["core"] = old
