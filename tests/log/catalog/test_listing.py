"""Count the system calls and the memory that the listing of many partitions takes."""

from __future__ import annotations

import os
import pickle
import time
import tracemalloc
from collections import Counter
from pathlib import Path
from threading import get_ident

import pytest
from counting import count_system_calls

import kafkafmt
from kafkafmt.log import SegmentFile, discover
from kafkafmt.support.threads import THREADS, TRIED, map_waiting

PARTITIONS, SEGMENTS = 40, 50


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log directory with many sparse segments."""
    path: Path = tmp_path_factory.mktemp("many")
    for partition in range(PARTITIONS):
        folder = path / f"t-{partition}"
        folder.mkdir()
        for base in range(SEGMENTS):
            for suffix in (".log", ".index", ".timeindex"):
                name = folder / f"{base * 1000:020}{suffix}"
                name.touch()
                if suffix == ".log":
                    os.truncate(name, 1 << 20)
    return path


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the calls of functions in `os` that make a system call."""
    return count_system_calls(monkeypatch)


def test_listing_makes_two_system_calls_for_each_partition(root: Path, calls: Counter[str]) -> None:
    found = discover([root])
    assert [len(p.segments) for p in found.partitions] == [SEGMENTS] * PARTITIONS
    assert calls["scandir"] == PARTITIONS + 1
    assert calls["stat"] <= PARTITIONS + 5, calls
    assert sum(calls.values()) <= 2 * PARTITIONS + 30, calls


def test_sizes_are_read_once_when_they_are_used(root: Path, calls: Counter[str]) -> None:
    found = discover([root])
    before = calls["stat"]
    for _ in range(2):
        assert sum(s.size for p in found.partitions for s in p.segments) == PARTITIONS * SEGMENTS << 20
    assert calls["stat"] == before + PARTITIONS * SEGMENTS


def test_listed_segment_takes_less_than_200_bytes(root: Path) -> None:
    discover([root])  # the first call fills caches
    tracemalloc.start()
    try:
        found = discover([root])
        assert tracemalloc.get_traced_memory()[0] < 200 * PARTITIONS * SEGMENTS + 2000 * PARTITIONS
        assert len(found.partitions) == PARTITIONS
    finally:
        tracemalloc.stop()


def test_pickled_segment_has_the_size_that_was_seen(tmp_path: Path) -> None:
    for name in ("00000000000000000007.log", "odd.log"):
        (tmp_path / name).write_bytes(bytes(30))
        segment = SegmentFile(tmp_path, name, 9, last=False)
        copied = pickle.loads(pickle.dumps(segment))
        (tmp_path / name).unlink()
        assert copied == segment
        assert (copied.name, copied.path, copied.base_offset) == (name, tmp_path / name, segment.base_offset)
        assert (copied.next_base, copied.last, copied.size) == (9, False, 30)
        assert segment != SegmentFile(tmp_path, "00000000000000000008.log", 9)


def test_directory_given_by_a_link_too_is_read_once(root: Path, tmp_path: Path) -> None:
    link = tmp_path / "t-3"
    link.symlink_to(root / "t-3")
    log = kafkafmt.open(root, link, root / "t-4" / f"{0:020}.log")
    assert [p.partition for p in log] == list(range(PARTITIONS))
    assert len(log["t", 4].log.segments) == SEGMENTS


def test_slow_listing_uses_threads_and_keeps_the_order() -> None:
    threads = set()

    def wait(i: int) -> int:
        threads.add(get_ident())
        time.sleep(0.005)
        return i

    items = list(range(TRIED + 2 * THREADS))
    assert list(map_waiting(wait, items)) == items
    assert 1 < len(threads) <= THREADS + 1


def test_calls_that_do_not_wait_stay_in_their_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkafmt.support.threads.perf_counter", time.thread_time)  # as on an idle machine
    threads = list(map_waiting(lambda _: get_ident(), range(100)))
    assert threads == [get_ident()] * 100


def test_error_in_a_thread_ends_the_calls_that_follow() -> None:
    called = []

    def fail(i: int) -> int:
        called.append(i)
        time.sleep(0.002)
        if i == TRIED:
            raise OSError("refused")
        return i

    with pytest.raises(OSError, match="refused"):
        list(map_waiting(fail, range(10_000)))
    assert len(called) < 1000
