"""Test that reports do not depend on the number of threads, and that threads end early."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from building import batch, record
from damaged_logs import write_damaged_directory, write_mixed_directory
from golden_cases import CASES

import kafkafmt
from kafkafmt.log import SegmentFile
from kafkafmt.log.damage import segment_tables
from kafkafmt.log.reading.planned_log import PlannedLog
from kafkafmt.log.verifying import run, verify_pass


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Read small segments in threads, and let threads wait for their turn. Check that all threads end."""
    monkeypatch.setattr(run, "SMALL_SEGMENT", 1)
    monkeypatch.setattr(verify_pass, "MOST_WAITING", 2)
    before = set(threading.enumerate())  # other tests leave the threads of pools that the process keeps
    yield

    def left() -> list[str]:
        return [t.name for t in threading.enumerate() if t not in before and "kafkafmt" in t.name]

    deadline = time.monotonic() + 10
    while left() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left()


def verified(paths: Any, threads: int, **options: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the report, and its messages sorted by partition: those of different partitions have any order."""
    report = kafkafmt.verify(paths, threads=threads, **options)
    found = report.to_dict()
    messages = sorted(report.messages, key=lambda m: m.split(".log")[0])
    return {key: value for key, value in found.items() if key != "messages"}, messages


@pytest.mark.parametrize("golden", CASES, ids=str)
def test_verify_of_golden_logs_does_not_depend_on_threads(golden: Any) -> None:
    expected = verified(golden.roots, 1)
    assert verified(golden.roots, 2) == expected
    assert verified(golden.roots, 5) == expected
    assert verified(golden.roots, 5, shallow=True) == verified(golden.roots, 1, shallow=True)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("write", [write_damaged_directory, write_mixed_directory])
def test_verify_of_damaged_logs_does_not_depend_on_threads(
    write: Any, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_tables, "BUFFER_BYTES", 4096)
    root = tmp_path / "logs"
    write(root, Random(seed))
    expected = verified(root, 1)
    assert verified(root, 2) == expected
    assert verified(root, 5) == expected


def write_segments(root: Path, count: int) -> Path:
    folder = root / "t-0"
    folder.mkdir(parents=True)
    for i in range(count):
        data = b"".join(batch([record(0, value=b"v" * 50)], base_offset=10 * i + j) for j in range(10))
        (folder / f"{10 * i:020}.log").write_bytes(data)
    return folder


def test_segments_of_a_partition_are_read_in_several_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_segments(tmp_path, 4)
    met, plan = threading.Barrier(2, timeout=10), PlannedLog.plan

    def meeting(self: PlannedLog, segment: SegmentFile, *rest: Any) -> Any:
        if rest:  # a first reading, in a thread
            met.wait()  # only two threads at the same time pass
        return plan(self, segment, *rest)

    monkeypatch.setattr(verify_pass, "MOST_WAITING", 100)
    monkeypatch.setattr(PlannedLog, "plan", meeting)
    assert kafkafmt.verify(tmp_path, threads=2, shallow=True).partitions[0].records == 40


def test_messages_and_errors_have_the_order_of_the_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of a later segment does not report a message before the readers of earlier segments have ended."""
    folder = write_segments(tmp_path, 6)
    plan = PlannedLog.plan

    def telling(self: PlannedLog, segment: SegmentFile, *rest: Any) -> Any:
        if not rest:
            return plan(self, segment)
        number = self.segments.index(segment)
        time.sleep(0.02 * (6 - number))
        self.tell(f"segment {number}")
        if number == 3:
            raise OSError(5, "Input/output error", str(segment.path))
        return plan(self, segment, *rest)

    monkeypatch.setattr(PlannedLog, "plan", telling)
    for threads in (1, 2, 5):
        report = kafkafmt.verify(tmp_path, threads=threads)
        why = f"{folder / f'{30:020}.log'}: Input/output error"
        assert report.messages == (*(f"segment {i}" for i in range(4)), f"t-0 cannot be read: {why}")
        assert [u.error for u in report.unreadable] == [why]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_threads_end_after_an_error_of_the_caller(error: type[BaseException], tmp_path: Path) -> None:
    write_segments(tmp_path, 20)

    def fail(done: int, total: int) -> None:
        if done:
            raise error

    with pytest.raises(error):
        kafkafmt.verify(tmp_path, threads=3, progress=fail)
