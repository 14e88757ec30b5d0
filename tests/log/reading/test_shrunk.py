"""Test that the truncation of a file between planning and reading is reported."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from building import batch, record

import kafkafmt
from kafkafmt.log import DamagedLogError, PartitionLog, discover
from kafkafmt.log.reading import OffsetInterval

BATCHES = [batch([record(0, value=b"x" * 300)], base_offset=i) for i in range(100)]


@pytest.fixture
def planned(tmp_path: Path) -> PartitionLog:
    """Return a log with one segment, which has been planned."""
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"".join(BATCHES))
    log = PartitionLog(discover([tmp_path]).partitions[0])
    assert log.next_offset == 100
    return log


@pytest.mark.parametrize(
    "left", [0, 1, 11, 12, 16, 17, 61, len(BATCHES[0]), 50 * len(BATCHES[0]), 50 * len(BATCHES[0]) + 40]
)
@pytest.mark.parametrize("start", [0, 70])
def test_shrunk_file_is_reported_as_damage(planned: PartitionLog, left: int, start: int) -> None:
    path = planned.segments[0].path
    os.truncate(path, left)
    with pytest.raises(DamagedLogError, match=str(path.parent)) as caught:
        list(planned.records(OffsetInterval(start)))
    assert caught.value.damage.position >= 0
    damaged: list[kafkafmt.Damage] = []
    offsets = [r.offset for r in planned.records(OffsetInterval(start), on_damage=damaged.append)]
    assert offsets == list(range(start, left // len(BATCHES[0])))
    assert [d.code for d in damaged] == ["truncated"]
    assert damaged[0].last_offset == 99
