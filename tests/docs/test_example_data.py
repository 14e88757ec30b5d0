"""Test that a new user can create the example data of the documents with one command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from code_blocks import ROOT

import kafkafmt


def test_example_data_is_created_and_its_paths_are_printed(tmp_path: Path) -> None:
    script = ROOT / "tests" / "support" / "example_data.py"
    command = [sys.executable, str(script), str(tmp_path / "example")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    paths = dict(line.split() for line in done.stdout.splitlines())
    assert kafkafmt.open(paths["/var/lib/kafka/data"])["orders", 1].next_offset == 2016
    assert not kafkafmt.verify(paths["/mnt/broken-disk"]).ok


def test_documents_name_the_command_that_creates_the_example_data() -> None:
    for page in ("README.md", "docs/index.md"):
        assert "`python tests/support/example_data.py FOLDER`" in (ROOT / page).read_text(encoding="utf-8")
