"""Run some inputs of each fuzz target, and all saved inputs, on both cores."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from . import cores
from .case import load, saved_cases
from .execute import run_case
from .target import targets

SEED = "tests"


@pytest.mark.parametrize(
    "few", [pytest.param(False, marks=pytest.mark.slow, id="others"), pytest.param(True, id="few")]
)
@pytest.mark.parametrize("name", sorted(targets()))
def test_target_passes_for_its_first_inputs(native: ModuleType, pure: ModuleType, name: str, few: bool) -> None:
    target, failures = targets()[name], []
    for number in (n for n in range(target.quick) if (n % 10 == 0) == few):
        failure = run_case(target, target.case(SEED, number), cores.available()).failure
        if failure is not None and not failure.known:
            failures.append(f"seed {SEED}, input {number}: {failure.text}")
    assert not failures, "\n".join(failures[:3])


@pytest.mark.parametrize("path", saved_cases(), ids=lambda p: p.stem)
def test_saved_input_passes(native: ModuleType, pure: ModuleType, path: Path) -> None:
    name, case = load(path)
    failure = run_case(targets()[name], case, cores.available()).failure
    assert failure is None or failure.known, failure.text


@pytest.mark.parametrize("name", sorted(targets()))
def test_input_of_a_target_depends_only_on_seed_and_number(name: str) -> None:
    target = targets()[name]
    assert target.case(SEED, 3) == target.case(SEED, 3)
