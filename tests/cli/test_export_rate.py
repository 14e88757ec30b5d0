"""Check when the text output of `export` contains a rate."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command import inside

import kafkafmt
from kafkafmt.cli.export import FEWEST_FOR_A_RATE

pytest.importorskip("pyarrow")


@pytest.mark.filterwarnings("ignore::kafkafmt.StrayPartitionWarning")
@pytest.mark.parametrize(("missing", "shown"), [(1, False), (0, True)])
def test_export_prints_a_rate_only_for_many_records(tmp_path: Path, missing: int, shown: bool) -> None:
    with kafkafmt.LogDirectory(tmp_path / "log") as directory:
        directory.writer("t", 0).append([(None, b"v")] * (FEWEST_FOR_A_RATE - missing))
    done = inside("export", tmp_path / "log", "--engine", "local", "-O", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    (line,) = (text for text in done.stdout.splitlines() if " records in " in text)
    assert bool(re.search(r", [\d,]+ rows/s", line)) == shown
