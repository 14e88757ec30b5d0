"""Test that queries deliver each record once if tasks fail, are killed, or run twice because of speculation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scenarios import CLUSTER
from standalone import SPECULATION, standalone_cluster

SCRIPT = Path(__file__).with_name("flaky_queries.py")
KINDS = ("functions", "source", "export", "stream")


def run(**request: Any) -> int:
    """Run the queries of some seeds, and check all results. Return the number of injected faults."""
    conf = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
    request["conf"] = conf | request.get("conf", {})
    tests = SCRIPT.parents[1]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (tests.parent, tests, tests / "support")))}
    command = [sys.executable, str(SCRIPT), json.dumps(request)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [result for result in results if result["problem"]] == []
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(results) == len(range(*request["seeds"])) * len(request["kinds"])
    return sum(result["faults"] for result in results)


@pytest.mark.parametrize(
    ("master", "seeds"),
    [
        ("local[2,4]", (0, 2)),
        pytest.param("local[2,4]", (2, 60), marks=pytest.mark.full),
        pytest.param(CLUSTER, (60, 80), marks=pytest.mark.full),
    ],
)
def test_repeated_tasks_deliver_each_record_once(master: str, seeds: tuple[int, int]) -> None:
    assert run(master=master, seeds=seeds, kinds=KINDS, faults=("error", "error", "crash")) > 0


@pytest.mark.full
def test_speculated_tasks_deliver_each_record_once(tmp_path: Path) -> None:
    """Spark runs a speculative attempt only on another host. Therefore, the workers have two addresses."""
    with standalone_cluster(tmp_path / "spark", ["127.0.0.1", "127.0.0.2"]) as master:
        kinds = ("functions", "source", "export")
        assert run(master=master, seeds=(0, 10), kinds=kinds, faults=("slow",), conf=SPECULATION) > 0
