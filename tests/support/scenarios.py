"""Run tests/export/scenario.py, an export with an injected fault in a separate process, and check its output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from exporting import assert_no_leftovers, expected_rows, read_with_pyarrow, rows_of
from golden_cases import case, same_rows

SCENARIO = Path(__file__).parents[1] / "export" / "scenario.py"
GOLDEN = case("segments")
SPLIT_BYTES = 20_000
CLUSTER = "local-cluster[2,1,1024]"


def start(tmp_path: Path, **request: Any) -> subprocess.Popen[str]:
    defaults = {"paths": [str(p) for p in GOLDEN.roots], "split_bytes": SPLIT_BYTES, "output": str(tmp_path / "out")}
    request = defaults | request | {"notes": str(tmp_path / "notes")}
    environment = os.environ | {"PYTHONPATH": str(SCENARIO.parents[2])}
    command = [sys.executable, str(SCENARIO), json.dumps(request)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment
    )


def run(tmp_path: Path, **request: Any) -> dict[str, Any]:
    process = start(tmp_path, **request)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err[-2000:]
    report: dict[str, Any] = json.loads(out.splitlines()[-1])
    return report


def attempts(tmp_path: Path) -> list[tuple[int, int, int, int]]:
    """Return split, attempt, process and parent process of every attempt."""
    found = []
    for note in (tmp_path / "notes").iterdir():
        split, attempt, process = map(int, note.name.split("-"))
        found.append((split, attempt, process, int(note.read_text() or 0)))
    return found


def assert_complete(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert (out / "_SUCCESS").exists()
    assert_no_leftovers(out)
    same_rows(rows_of(read_with_pyarrow(out / "data")), expected_rows(GOLDEN))


def run_killed(tmp_path: Path, fault: str, **request: Any) -> None:
    process = start(tmp_path, fault=fault, **request)
    process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL


def leftovers(tmp_path: Path) -> list[str]:
    return [p.name for p in tmp_path.iterdir() if p.name.startswith(".out.kafkafmt-")]
