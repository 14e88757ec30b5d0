"""Tasks that die are tried again and nothing doubles; a driver that dies leaves nothing half-made."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from exporting import assert_nothing_beside, read_with_pyarrow, rows_of, wanted
from golden_cases import case, same_rows
from standalone import standalone_cluster

SCENARIO = Path(__file__).with_name("scenario.py")
GOLDEN = case("segments")
SPLIT_BYTES = 20_000
CLUSTER = "local-cluster[2,1,1024]"


def start(tmp_path, **wish):
    wish |= {"paths": [str(p) for p in GOLDEN.roots], "split_bytes": SPLIT_BYTES}
    wish |= {"output": str(tmp_path / "out"), "notes": str(tmp_path / "notes")}
    environment = os.environ | {"PYTHONPATH": str(SCENARIO.parents[2])}
    command = [sys.executable, str(SCENARIO), json.dumps(wish)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment
    )


def run(tmp_path, **wish):
    process = start(tmp_path, **wish)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err[-2000:]
    return json.loads(out.splitlines()[-1])


def attempts(tmp_path):
    """(split, attempt, process, its parent) of every try."""
    return [(*map(int, note.name.split("-")), int(note.read_text() or 0)) for note in (tmp_path / "notes").iterdir()]


def assert_complete(tmp_path):
    out = tmp_path / "out"
    assert (out / "_SUCCESS").exists()
    assert_nothing_beside(out)
    same_rows(rows_of(read_with_pyarrow(out / "data")), wanted(GOLDEN))


@pytest.mark.parametrize(
    ("master", "accident", "conf"),
    [
        ("local[2,4]", "crash", {}),
        (CLUSTER, "crash", {}),
        pytest.param("local[2,4]", "error", {}, marks=pytest.mark.full),
        pytest.param(CLUSTER, "error", {}, marks=pytest.mark.full),
    ],
)
def test_a_task_that_dies_is_tried_again(tmp_path, master, accident, conf):
    report = run(tmp_path, master=master, accident=accident, conf=conf)
    tried = attempts(tmp_path)
    assert {n for n, attempt, _, _ in tried if attempt} >= {n for n, _, _, _ in tried if n % 3 == 1}
    assert len({parent for *_, parent in tried}) >= (2 if master == CLUSTER else 1)
    assert report["written"]["records"] == len(GOLDEN.expected())
    assert report["written"]["files"] == len({n for n, *_ in tried}) > 5
    assert_complete(tmp_path)


def test_speculation(tmp_path):
    """A second attempt of a slow task wins; the first one still writes when all is over.

    Spark gives a second attempt to another host only, so the two workers are started as two: on 127.0.0.1 and on 127.0.0.2.
    """
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "500ms",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
    }
    with standalone_cluster(tmp_path / "spark", ["127.0.0.1", "127.0.0.2"]) as master:
        report = run(tmp_path, master=master, accident="slow", conf=speculation)
    assert {attempt for n, attempt, *_ in attempts(tmp_path) if n == 1} == {0, 1}
    assert len({parent for *_, parent in attempts(tmp_path)}) == 2
    assert report["written"]["records"] == len(GOLDEN.expected())
    assert_complete(tmp_path)


def die(tmp_path, accident, **wish):
    process = start(tmp_path, accident=accident, **wish)
    process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL


def leftovers(tmp_path):
    return [p.name for p in tmp_path.iterdir() if p.name.startswith(".out.kafkafmt-")]


def test_kill_9_of_the_driver(tmp_path):
    for accident in ("die at exporting", "die at placing"):
        die(tmp_path, accident)
        assert not (tmp_path / "out").exists()
        assert len(leftovers(tmp_path)) == 1  # its own: that of the one before is gone
    run(tmp_path)
    assert_complete(tmp_path)
    before = {p: p.stat().st_mtime_ns for p in sorted((tmp_path / "out").rglob("*"))}
    die(tmp_path, "die at publishing", overwrite=True)
    assert {p: p.stat().st_mtime_ns for p in sorted((tmp_path / "out").rglob("*"))} == before


@pytest.mark.full
@pytest.mark.parametrize("accident", ["die at planning", "die at publishing"])
def test_kill_9_at_other_moments(tmp_path, accident):
    die(tmp_path, accident)
    assert not (tmp_path / "out").exists()
    assert len(leftovers(tmp_path)) == 1
    run(tmp_path)
    assert_complete(tmp_path)


def test_ctrl_c(tmp_path):
    """The run ends, with nothing left: neither files nor processes."""
    process = start(tmp_path, accident="hang")
    assert process.stderr is not None
    for line in process.stderr:
        if "hanging" in line:
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0, err
    assert not (tmp_path / "out").exists()
    assert [p.name for p in tmp_path.iterdir() if ".kafkafmt-" in p.name] == []
    deadline = time.monotonic() + 30
    while alive(str(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert alive(str(tmp_path)) == []


def alive(word):
    """Processes whose command line holds a word."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int(folder.name) != os.getpid() and word in (folder / "cmdline").read_text():
                found.append(folder.name)
        except OSError:
            pass
    return found
