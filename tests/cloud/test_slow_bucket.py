"""Scan and export with a latency of 50 ms, 1 % of failing requests, and a limit for requests at the same time."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from bucket_exports import export, is_complete, objects
from bucket_scenarios import assert_complete_in_bucket
from golden_cases import CASES
from object_server import BUCKET, Proxy, upload
from obstore.store import S3Store
from scenarios import run

import kafkafmt
from kafkafmt.log.storage import remote
from kafkafmt.support.paths import UrlPath

numbers = itertools.count()


@pytest.fixture
def slow(proxy: Proxy) -> Proxy:
    """Disturb the requests."""
    proxy.delay, proxy.failing, proxy.most = 0.05, 0.01, 6
    return proxy


@pytest.fixture(scope="module")
def large(bucket: S3Store, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the local path and the URL of a log with 4 segments of 4 MB."""
    folder = tmp_path_factory.mktemp("large")
    with kafkafmt.LogDirectory(folder, segment_bytes=4 << 20) as directory:
        writer = directory.writer("t", 0)
        for _ in range(150):
            writer.append([(b"k", bytes(1000))] * 100)
    upload(bucket, folder, "slow/large")
    return folder, f"s3://{BUCKET}/slow/large"


def test_scan_of_a_slow_and_failing_bucket_delivers_everything(
    large: tuple[Path, str], proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, url = large
    for name in ("REQUEST_BYTES", "WHOLE_BYTES"):
        monkeypatch.setattr(remote, name, 256 << 10)  # so that some of the requests fail
    expected = kafkafmt.open(folder)["t", 0].to_arrow()
    assert kafkafmt.open(url)["t", 0].to_arrow().equals(expected)
    undisturbed = len(proxy.requests)
    proxy.requests.clear()
    proxy.delay, proxy.failing, proxy.most = 0.05, 0.01, 6
    assert kafkafmt.open(url)["t", 0].to_arrow().equals(expected)
    assert proxy.failed > 3
    assert 40 <= undisturbed <= 100
    assert len(proxy.requests) - proxy.failed <= undisturbed + 2


def test_damage_in_a_slow_bucket_is_the_same(bucket: S3Store, slow: Proxy) -> None:
    case = next(c for c in CASES if c.name == "epochs")
    upload(bucket, case.folder / "log", "slow/epochs")
    found, local = kafkafmt.open(f"s3://{BUCKET}/slow/epochs"), kafkafmt.open(case.folder / "log")
    for partition in local:
        assert found[partition.topic, partition.partition].to_arrow().equals(partition.to_arrow())


def test_output_in_a_slow_bucket_is_complete(slow: Proxy) -> None:
    slow.failing = 0.05
    output = UrlPath(f"s3://{BUCKET}/slow/out/{next(numbers)}")
    export(output, b"one")
    export(output, b"two", overwrite=True)
    assert slow.failed > 2
    slow.failing = 0.0
    assert is_complete(objects(output), b"two")


@pytest.mark.full
def test_export_to_a_slow_and_failing_bucket_is_complete(tmp_path: Path, slow: Proxy) -> None:
    url = f"s3://{BUCKET}/slow/{next(numbers)}"
    slow.failing = 0.2
    report = run(tmp_path, output=url)
    print(f"{len(slow.requests)} requests, {slow.failed} failed")
    assert slow.failed > 3
    slow.failing = 0.0
    assert_complete_in_bucket(url, tmp_path, report["written"]["files"])
