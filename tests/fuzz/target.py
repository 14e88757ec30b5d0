"""Register the fuzz targets."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from .case import Case

MODULES = (
    "records",
    "changes",
    "builders",
    "columns",
    "protocol",
    "values",
    "avro",
    "json",
    "protobuf",
    "files",
    "codecs",
    "directories",
    "commands",
    "metadata",
    "schemas",
    "threads",
    "find",
    "server",
)
"""Names of the modules that define targets, without the prefix `targets_`."""


@dataclass(frozen=True)
class Target:
    """A function to fuzz.

    Attributes
    ----------
    make
        Makes an input from random numbers.
    check
        Runs an input on the current core. It raises an error if a check fails, and returns a value
        that both cores must agree on.
    quick
        Number of inputs that the test suite runs.
    compared
        Whether both cores must return equal values.
    """

    name: str
    make: Callable[[Random], Case]
    check: Callable[[Case], Any]
    quick: int
    compared: bool = True

    def case(self, seed: int | str, number: int) -> Case:
        """Return an input. It depends only on the seed and the number."""
        return self.make(Random(f"{self.name}/{seed}/{number}"))


_TARGETS: dict[str, Target] = {}


def target(
    name: str, make: Callable[[Random], Case], quick: int = 60, compared: bool = True
) -> Callable[[Callable[[Case], Any]], Callable[[Case], Any]]:
    """Return a decorator that registers a function as the check of a target."""

    def register(check: Callable[[Case], Any]) -> Callable[[Case], Any]:
        if name in _TARGETS:
            raise ValueError(f"there are two targets {name}")
        _TARGETS[name] = Target(name, make, check, quick, compared)
        return check

    return register


@cache
def targets() -> dict[str, Target]:
    """Return all targets by name."""
    for module in MODULES:
        importlib.import_module(f"{__package__}.targets_{module}")
    return dict(_TARGETS)
