"""Run one input of a target on one or both cores, and return its failure."""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import cores
from .case import Case
from .known import known_item
from .outcome import Failed, shortened
from .target import Target

HERE = Path(__file__).parent
DIGITS = re.compile(r"[0-9]+|0x[0-9a-f]+|'[^']*'|\"[^\"]*\"|b'.*")


@dataclass
class Failure:
    """The failure of an input.

    Attributes
    ----------
    signature
        Equal for failures that probably have the same cause.
    text
        Traceback or difference.
    known
        The item of the list of known defects, or None.
    """

    signature: str
    text: str
    known: str | None = None


@dataclass
class Result:
    """The result of one input. `rejected` is True if the input caused one of kafkafmt's own errors."""

    failure: Failure | None
    rejected: bool = False


def run_case(target: Target, case: Case, names: Sequence[str]) -> Result:
    """Run an input on the given cores, and compare the results."""
    outcomes: list[Any] = []
    for name in names:
        with cores.using(name):
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)  # NumPy warns if numbers overflow
                try:
                    outcomes.append(target.check(case))
                except Exception as error:  # any other error is a failure
                    return Result(_failure(target, error, name))
    if len(outcomes) == 2 and target.compared and outcomes[0] != outcomes[1]:
        text = f"the cores differ:\n{names[0]}: {shortened(outcomes[0])}\n{names[1]}: {shortened(outcomes[1])}"
        text += f"\nfirst difference: {_difference(outcomes[0], outcomes[1])}"
        return Result(Failure("the cores differ", text, known_item(target.name, text)))
    return Result(None, _is_refusal(outcomes[0]))


def _failure(target: Target, error: Exception, core: str) -> Failure:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "/kafkafmt/" in f.filename and "/fuzz/" not in f.filename] or frames[-1:]
    place = f"{Path(ours[-1].filename).name}:{ours[-1].name}"
    signature = f"{type(error).__name__} {place} {DIGITS.sub('#', str(error))[:80]}"
    text = f"on the {core} core\n" + "".join(traceback.format_exception(error))[-6000:]
    return Failure(signature, text, known_item(target.name, text))


def _is_refusal(outcome: Any) -> bool:
    return isinstance(outcome, Failed) or (
        isinstance(outcome, list | tuple) and bool(outcome) and any(isinstance(part, Failed) for part in outcome[:2])
    )


def _difference(a: Any, b: Any) -> str:
    """Return the first difference between two nested values: its position and both values."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        if len(a) != len(b):
            return f"{len(a)} items and {len(b)} items"
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            if x != y:
                return f"[{i}] {_difference(x, y)}"
    return f"{shortened(a)} and {shortened(b)}"
