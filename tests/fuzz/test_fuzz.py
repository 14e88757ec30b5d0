"""Every fuzz target on some inputs, on both cores; every saved input again; the fuzzer's own tools."""

from __future__ import annotations

import pytest

from . import cores
from .case import load, saved_cases
from .execute import run_case
from .target import targets

SEED = "tests"


@pytest.mark.parametrize("name", sorted(targets()))
def test_target_holds_for_its_first_inputs(native, pure, name):
    target, failures = targets()[name], []
    for number in range(target.quick):
        failure = run_case(target, target.case(SEED, number), cores.available()).failure
        if failure is not None and not failure.known:
            failures.append(f"seed {SEED}, input {number}: {failure.text}")
    assert not failures, "\n".join(failures[:3])


@pytest.mark.parametrize("path", saved_cases(), ids=lambda p: p.stem)
def test_saved_input_passes(native, pure, path):
    name, case = load(path)
    failure = run_case(targets()[name], case, cores.available()).failure
    assert failure is None or failure.known, failure.text


@pytest.mark.parametrize("name", sorted(targets()))
def test_input_of_a_target_depends_on_seed_and_number_alone(name):
    target = targets()[name]
    assert target.case(SEED, 3) == target.case(SEED, 3)
