"""Test that `stats` with `deep` does not depend on the number of threads."""

from __future__ import annotations

import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest
from building import GZIP, batch, record
from damaged_logs import write_damaged_directory, write_mixed_directory
from golden_cases import CASES

import kafkafmt
from kafkafmt.log.inspecting import key_counts, stats_api, stats_content
from kafkafmt.log.reading import single_pass


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decode even small parts of segments in threads."""
    monkeypatch.setattr(stats_api, "SMALL_BYTES", -1)
    monkeypatch.setattr(single_pass, "RANGE_BYTES", 700)


def counted(paths: Any, threads: int) -> tuple[dict[str, Any], list[str]]:
    """Return the report, and its messages sorted by partition: those of different partitions have any order."""
    report = kafkafmt.stats(paths, deep=True, threads=threads)
    messages = sorted(report.messages, key=lambda m: m.split(".log")[0])
    return {key: value for key, value in report.to_dict().items() if key != "messages"}, messages


def check(paths: Any) -> None:
    expected = counted(paths, 1)
    assert counted(paths, 2) == expected
    assert counted(paths, 5) == expected


@pytest.mark.parametrize("golden", CASES, ids=str)
def test_stats_of_golden_logs_do_not_depend_on_threads(golden: Any) -> None:
    check(golden.roots)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("write", [write_damaged_directory, write_mixed_directory])
def test_stats_of_damaged_logs_do_not_depend_on_threads(write: Any, seed: int, tmp_path: Path) -> None:
    root = tmp_path / "logs"
    write(root, Random(seed))
    check(root)


def write_records(root: Path) -> None:
    folder = root / "t-0"
    folder.mkdir(parents=True)
    chance = Random(3)
    for base in (0, 300, 600):
        data = b""
        for first in range(base, base + 300, 5):
            names = [b"h%d" % chance.randrange(30) for _ in range(2)]
            records = [
                record(i, key=b"k%d" % chance.randrange(200), headers=[(name, b"v") for name in names])
                for i in range(5)
            ]
            data += batch(records, base_offset=first, codec=GZIP)
        (folder / f"{base:020}.log").write_bytes(data)


@pytest.mark.parametrize("sketches", [False, True])
def test_limits_of_keys_and_header_keys_do_not_depend_on_threads(
    sketches: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first distinct keys are counted, in the order of the records."""
    if sketches:
        pytest.importorskip("datasketches")
        monkeypatch.setattr(key_counts, "MOST_KEYS", 50)
    monkeypatch.setattr(stats_content, "MOST_HEADER_NAMES", 20)
    write_records(tmp_path)
    check(tmp_path)
    keys = kafkafmt.stats(tmp_path, deep=True, threads=3).topics[0].content.keys
    assert keys is not None
    assert keys.exact is not sketches


def test_parts_of_a_partition_are_decoded_in_several_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_records(tmp_path)
    met, count = threading.Barrier(2, timeout=10), stats_api._PartitionReader._count

    def meeting(*arguments: Any) -> None:
        met.wait()  # only two threads at the same time pass
        count(*arguments)

    monkeypatch.setattr(single_pass, "RANGE_BYTES", 1 << 20)
    monkeypatch.setattr(stats_api._PartitionReader, "_count", meeting)
    (tmp_path / "t-0" / f"{600:020}.log").unlink()  # two parts are left
    assert kafkafmt.stats(tmp_path, deep=True, threads=2).topics[0].content.records == 600
