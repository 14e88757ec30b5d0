"""Compare exports of random damaged directories, by both engines, with `kafkafmt cat` and `kafkafmt verify`."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from damaged_logs import cat, write_damaged_directory
from exporting import RunExport
from random_exports import check_export, compare_with_verify, options_of

import kafkafmt


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(n, marks=pytest.mark.full) for n in range(6, 200))])
def test_random_export_equals_cat_and_verify(seed: int, run_export: RunExport, tmp_path: Path) -> None:
    chance = Random(seed)
    root = tmp_path / "log"
    write_damaged_directory(root, chance)
    options, arguments = options_of(chance)
    expected, code = cat([root, *arguments])
    reports = {}
    for engine in ("spark", "local"):
        report, out = run_export([root], engine=engine, output=tmp_path / engine, **options)
        reports[engine] = check_export(report, out, expected, code)
    assert reports["spark"] == reports["local"]
    if "offsets" not in options:
        compare_with_verify(reports["local"], kafkafmt.verify(root).to_dict(), options)
