"""Test exports to a bucket: executors and drivers are killed, and several exports run at the same time."""

from __future__ import annotations

import itertools
import random
import time
from pathlib import Path

import pytest
from bucket_exports import objects
from bucket_scenarios import assert_complete_in_bucket
from object_server import BUCKET
from scenarios import CLUSTER, GOLDEN, attempts, run, run_killed, start
from standalone import SPECULATION, standalone_cluster

from kafkafmt.support.paths import UrlPath

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("proxy")]
numbers = itertools.count()


@pytest.fixture
def url() -> str:
    """Return the URL of an output that does not exist."""
    return f"s3://{BUCKET}/faults/{next(numbers)}"


@pytest.mark.parametrize("fault", ["crash", "error", "kill executor"])
def test_export_to_a_bucket_survives_a_failed_attempt(tmp_path: Path, url: str, fault: str) -> None:
    report = run(tmp_path, master=CLUSTER, fault=fault, output=url)
    assert any(attempt for _, attempt, *_ in attempts(tmp_path))
    assert report["written"]["records"] == len(GOLDEN.expected())
    assert_complete_in_bucket(url, tmp_path, report["written"]["files"])


def test_slow_attempt_adds_no_object(tmp_path: Path, url: str) -> None:
    with standalone_cluster(tmp_path / "spark", ["127.0.0.1", "127.0.0.2"]) as master:
        report = run(tmp_path, master=master, fault="slow", conf=SPECULATION, output=url)
    assert {attempt for n, attempt, *_ in attempts(tmp_path) if n == 1} == {0, 1}
    assert_complete_in_bucket(url, tmp_path, report["written"]["files"])


def test_driver_killed_at_any_step_is_cleaned_up_by_the_next_export(tmp_path: Path, url: str) -> None:
    for fault in ("die at planning", "die at exporting", "die at keeping", "die at publishing"):
        run_killed(tmp_path, fault, output=url)
        assert "_SUCCESS" not in objects(UrlPath(url))
    run(tmp_path, output=url)
    assert_complete_in_bucket(url, tmp_path)
    run_killed(tmp_path, "die at keeping", overwrite=True, output=url)
    assert "_SUCCESS" not in objects(UrlPath(url))
    run(tmp_path, overwrite=True, output=url)
    assert_complete_in_bucket(url, tmp_path)


@pytest.mark.parametrize("seed", range(2))
def test_driver_killed_at_random_moments_leaves_no_partial_output(tmp_path: Path, url: str, seed: int) -> None:
    random_source = random.Random(seed)
    for _ in range(4):
        process = start(tmp_path, fault="drag", overwrite=True, output=url)
        time.sleep(random_source.uniform(2, 14))
        process.kill()
        process.communicate(timeout=300)
        if "_SUCCESS" in objects(UrlPath(url)):
            assert_complete_in_bucket(url, tmp_path)
    run(tmp_path, overwrite=True, output=url)
    assert_complete_in_bucket(url, tmp_path)


def test_one_of_two_exports_at_the_same_time_fails(tmp_path: Path, url: str) -> None:
    processes = [start(tmp_path, fault="drag", output=url) for _ in range(2)]
    errors = [process.communicate(timeout=300)[1] for process in processes]
    assert sorted(process.returncode for process in processes) == [0, 1]
    (error,) = (err for process, err in zip(processes, errors, strict=True) if process.returncode)
    assert "writes to this output" in error or "already exists" in error
    assert_complete_in_bucket(url, tmp_path)
