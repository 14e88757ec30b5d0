"""Test `Selection.resolve`, which converts a selection to a range of offsets."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from building import batch, record
from selecting import interval, selection

from kafkafmt.constants import NO_END
from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.reading import OffsetInterval
from kafkafmt.log.reading.record_selection import OffsetBound, Selection


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    """Return a log with offsets 10 to 29, timestamps 1000 to 2900, and log start offset 15."""
    path = tmp_path / "t-0"
    path.mkdir()
    batches = (batch([record(0, 0)], base_offset=o, base_timestamp=100 * o) for o in range(10, 30))
    (path / f"{10:020}.log").write_bytes(b"".join(batches))
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 15\n")
    return PartitionLog(discover([tmp_path]).partitions[0])


@pytest.mark.parametrize(
    ("bound", "offset"),
    [
        (OffsetBound("offset", 12), 12),
        (OffsetBound("offset", 10**30), NO_END),
        (OffsetBound("before_end", 0), 30),
        (OffsetBound("before_end", 4), 26),
        (OffsetBound("before_end", 99), 0),
        (OffsetBound("time", 2150), 22),
        (OffsetBound("time", 2901), None),
        (OffsetBound("group", committed={("t", 0): 17}), 17),
        (OffsetBound("group", committed={("t", 1): 17}), 0),
    ],
)
def test_bound_is_converted_to_an_offset(log: PartitionLog, bound: OffsetBound, offset: int | None) -> None:
    assert bound.find(log) == offset
    assert bound.resolve(log) == (30 if offset is None else offset)


def test_selection_without_bounds_starts_at_the_log_start_offset(log: PartitionLog) -> None:
    assert interval(log) == OffsetInterval(15, NO_END)
    assert interval(log, below_log_start=True) == OffsetInterval(0, NO_END)


def test_start_below_the_log_start_offset_is_raised(log: PartitionLog) -> None:
    assert interval(log, start=12, end=20) == OffsetInterval(15, 20, selected=(12, 20))
    assert interval(log, start=12, end=20, below_log_start=True) == OffsetInterval(12, 20, selected=(12, 20))


def test_time_is_searched_from_the_log_start_offset(log: PartitionLog) -> None:
    assert interval(log, end_time=1200).high == 15
    assert interval(log, end_time=1200, below_log_start=True).high == 12


def test_interval_keeps_the_isolation_level_and_control(log: PartitionLog) -> None:
    resolved = interval(log, isolation="read_committed", control=True)
    assert (resolved.isolation, resolved.committed, resolved.control) == ("read_committed", True, True)
    assert pickle.loads(pickle.dumps(resolved)) == resolved


def test_interval_ends_at_the_lower_of_two_offsets() -> None:
    assert OffsetInterval(3, 9).stable(7, False) == OffsetInterval(3, 7)
    assert OffsetInterval(3, 9).stable(7, True) == OffsetInterval(3, 7, to_log_end=True)
    assert OffsetInterval(3, 9).stable(9, True) == OffsetInterval(3, 9)
    assert OffsetInterval(3, 9).stable(12, True) == OffsetInterval(3, 9)


def test_wrong_isolation_level_is_an_error() -> None:
    with pytest.raises(ValueError, match="isolation is 'serializable'; it must be"):
        Selection(isolation="serializable")


def test_negative_offset_counts_back_from_the_end() -> None:
    assert selection(start=-3, end=5) == Selection(OffsetBound("before_end", 3), OffsetBound("offset", 5))
